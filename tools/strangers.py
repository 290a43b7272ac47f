"""Compiled files that this user has not compiled: what commands do with the code in them."""

from __future__ import annotations

import sys
from copy import copy
from dataclasses import replace

from litert.options import Options

from .console import name_text, print_text
from .load_flags import LoadChoice


def guarded(path: str, choice: LoadChoice) -> LoadChoice:
    """How a file is loaded so that a stranger's kernels can do no harm; says so on the standard error.

    The NPU calls of a file that this user has not compiled run in a sandboxed process, and the file is verified.
    A file of this user's, one that is not compiled, and any with `--sandbox=off` are loaded as they were to be.

    Raises:
      LiteRtError: what is wrong with the file, or with the options.
    """
    why = _why_strange(path, choice.options)
    if not why:
        return choice
    _say(path, why, "a process of their own, in a sandbox; --sandbox=off runs them in this one")
    options = copy(choice.options)
    options.isolated = options.verify = True
    return replace(choice, options=options)


def tell_inline(path: str, options: Options) -> None:
    """Says on the standard error that kernels of a stranger's file run in this process, where they do.

    Raises:
      LiteRtError: what is wrong with the file, or with the options.
    """
    why = "" if options.isolated else _why_strange(path, options)
    if why:
        _say(path, why, "this process, with your privileges; --isolate runs them in a sandbox")


def _why_strange(path: str, options: Options) -> str:
    """Why nobody knows that this user has compiled a file; "" for one that is trusted, or not compiled."""
    from litert.host.file_seal import find_maker  # here: --help must not wait for them
    from litert.host.sandbox import SandboxMode
    from litert.model.dispatch_op import is_dispatch_op
    from litert.model.reader import read_model

    if options.device_limits().sandbox is SandboxMode.OFF:
        return ""
    with read_model(path) as model:
        if not any(map(is_dispatch_op, model.ops())):
            return ""
        assert model.source is not None
        return find_maker(model.source, path).why_not


def _say(path: str, why: str, place: str) -> None:
    text = f"{name_text(path)} was not compiled here by you: {why}. Its NPU calls run in {place}."
    print_text(text, sys.stderr)

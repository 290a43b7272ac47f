"""Compiled files that this user has not compiled: what `litert-npu run` does with the code in them."""

from __future__ import annotations

import sys
from copy import copy
from dataclasses import replace

from litert.host.file_seal import find_maker
from litert.host.sandbox import SandboxMode
from litert.model.dispatch_op import is_dispatch_op
from litert.model.reader import read_model

from .console import name_text, print_text
from .load_flags import LoadChoice


def guarded(path: str, choice: LoadChoice) -> LoadChoice:
    """How a file is loaded so that a stranger's kernels can do no harm; says so on the standard error.

    The NPU calls of a file that this user has not compiled run in a sandboxed process, and the file is verified.
    A file of this user's, one that is not compiled, and any with `--sandbox=off` are loaded as they were to be.

    Raises:
      LiteRtError: what is wrong with the file, or with the options.
    """
    options = choice.options
    if options.device_limits().sandbox is SandboxMode.OFF:
        return choice
    with read_model(path) as model:
        if not any(map(is_dispatch_op, model.ops())):
            return choice
        assert model.source is not None
        maker = find_maker(model.source, path)
    if maker.is_user:
        return choice
    text = (
        f"{name_text(path)} was not compiled here by you: {maker.why_not}. Its NPU calls run in a process of "
        "their own, in a sandbox; --sandbox=off runs them in this one."
    )
    print_text(text, sys.stderr)
    options = copy(options)
    options.isolated = options.verify = True
    return replace(choice, options=options)

"""Handles compiled files that this user has not compiled, since their graphs and kernels are not trusted."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from copy import copy
from dataclasses import replace
from typing import TYPE_CHECKING, NamedTuple

from litert.options import Options

from .console import name_text, print_text
from .load_flags import LoadChoice, choose_signature, told_of_loading
from .process_start import note_kernel_crashes

if TYPE_CHECKING:
    from litert.compiled_model import CompiledModel
    from litert.isolated_model import IsolatedModel
    from litert.model.blob import MappedFile


@contextmanager
def open_guarded(
    path: str, choice: LoadChoice, run_timeout_s: float
) -> Iterator[tuple[CompiledModel | IsolatedModel, str]]:
    """Loads a model so that an untrusted model cannot do harm; yields it with the key of the signature to run.

    If a compiled file was not compiled by this user, the file is opened and run in a sandboxed process, and a line
    on the standard error reports this. A file is loaded with the options of `choice` if this user has compiled it,
    if it is not compiled, or if `--sandbox=off` is given. The examined file is also the file that is loaded, even
    if the path leads to a different file by then.

    Raises:
      LiteRtError: The file or the options are wrong, or loading failed.
    """
    with told_of_loading(path, choice.options):
        loaded = _load_guarded(path, choice, run_timeout_s)
    with loaded as model:
        yield model, choose_signature(choice.signature, list(model.get_signature_list()), path)


def guarded(path: str, choice: LoadChoice) -> LoadChoice:
    """Chooses the options for loading a file so that untrusted kernels cannot do harm.

    If a compiled file was not compiled by this user, its NPU calls run in a sandboxed process, and its digests are
    checked; a line on the standard error reports this. A file is loaded with the options of `choice` if this user
    has compiled it, if it is not compiled, or if `--sandbox=off` is given.

    Raises:
      LiteRtError: The file or the options are wrong.
    """
    stranger = _look_at(path, choice.options)
    if stranger is None:
        return choice
    apart = f"in a separate process{_in_a_sandbox()}"
    where = f"Its NPU calls run {apart}; --sandbox=off runs them in this process"
    _say(path, stranger, where)
    options = copy(choice.options)
    options.isolated = options.verify = True
    return replace(choice, options=options)


def tell_inline(path: str, options: Options) -> None:
    """Prints a warning to standard error if kernels of an untrusted file run in this process.

    Raises:
      LiteRtError: The file or the options are wrong.
    """
    stranger = None if options.isolated else _look_at(path, options)
    if stranger is not None:
        apart = f"in a separate process{_in_a_sandbox()}"
        where = (
            f"Its NPU calls run in this process, with your privileges; --isolate runs them {apart}"
        )
        _say(path, stranger, where)


class _Stranger(NamedTuple):
    """A file that may not have been compiled by this user.

    Attributes:
      why: Reason why the maker of the file is unknown.
      manufacturer: Vendor of the NPU calls in the file; "" if the file has no NPU calls.
    """

    why: str
    manufacturer: str


def _load_guarded(
    path: str, choice: LoadChoice, run_timeout_s: float
) -> CompiledModel | IsolatedModel:
    from litert.model.blob import MappedFile  # here: --help must not wait for it

    with ExitStack() as files:
        file = files.enter_context(MappedFile(path))
        stranger = _find_stranger(file, choice.options)
        if stranger is not None:
            from litert.isolated_model import IsolatedModel

            _say(
                path,
                stranger,
                f"It runs in a separate process{_in_a_sandbox()}; --sandbox=off runs it in this "
                "process",
            )
            maker, options = stranger.manufacturer, choice.options
            return IsolatedModel(file, maker, choice.environment, options, run_timeout_s)
        from litert.compiled_model import CompiledModel
        from litert.environment import Environment

        if not choice.options.isolated:
            note_kernel_crashes()
        environment = Environment.create(options=choice.environment)
        model = CompiledModel.from_open_file(file, environment, choice.options)
        files.pop_all()
        return model


def _look_at(path: str, options: Options) -> _Stranger | None:
    from litert.model.blob import MappedFile  # here: --help must not wait for it

    with MappedFile(path) as file:
        return _find_stranger(file, options)


def _find_stranger(file: MappedFile, options: Options) -> _Stranger | None:
    """Examines a file. Returns None if this user compiled it, if it is not compiled, or if the sandbox is off."""
    from litert.host.file_seal import find_maker  # here: --help must not wait for them
    from litert.host.sandbox import SandboxMode
    from litert.model.dispatch_op import is_dispatch_op
    from litert.model.reader import read_model
    from litert.model.stamp import read_stamp

    if options.device_limits().sandbox is SandboxMode.OFF:
        return None
    model = read_model(file)
    try:
        stamp = read_stamp(model, file.path)
        has_calls = any(map(is_dispatch_op, model.ops()))
        if stamp is None and not has_calls:
            return None
        why = find_maker(file, file.path).why_not
        manufacturer = stamp.soc_manufacturer if stamp and has_calls else ""
        return _Stranger(why, manufacturer) if why else None
    finally:
        model.release()


def _in_a_sandbox() -> str:
    """Returns a text about the sandbox; "" if this system has no sandbox, which another warning reports."""
    from litert.host.sandbox import why_missing  # here: --help must not wait for it

    return "" if why_missing() else ", in a sandbox"


def _say(path: str, stranger: _Stranger, where: str) -> None:
    text = f"{name_text(path)} was not compiled by you on this machine: {stranger.why}. {where}."
    print_text(text, sys.stderr)

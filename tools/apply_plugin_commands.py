"""What a command of `apply_plugin` does: calls of `compiler_plugin`, and where model and report go."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from typing import TYPE_CHECKING, TextIO

from litert.core.errors import LiteRtError
from litert.core.status import Status

from .apply_plugin_flags import NOWHERE, STDERR, STDOUT, Command
from .console import ProgressBar, print_text

if TYPE_CHECKING:
    from compiler_plugin.report import Report


def execute(command: Command) -> None:
    """Does what a command says, and reports it.

    Raises:
      LiteRtError: with no output written.
    """
    # Here, since --help must not wait for them.
    from compiler_plugin import commands, pipeline

    if command.cmd == "info":
        _execute_info(command)
        return
    _check_messages(command)
    with _output_path(command.output) as path, ProgressBar() as progress:
        model, options = command.model, command.options
        if command.cmd == "apply":
            report = pipeline.apply_plugin(model, path, options, progress)
        elif command.cmd == "partition":
            report = commands.partition_model(model, path, options, progress)
        elif command.cmd == "compile":
            report = commands.compile_model(model, path, options)
        else:
            report = commands.copy_model(model, path, progress)
            report.warnings += _idle_flags(command)
    if report.output_path:
        report.output_path = command.output
    _print_report(report, command)


def _idle_flags(command: Command) -> list[str]:
    """What was asked of a compilation, where nothing is compiled; in sentences."""
    options = command.options
    given = {
        "npu_custom_op_info": options.compiler.custom_op_infos,
        "require_npu": options.require_npu,
    }
    return [
        f"--cmd={command.cmd} compiles nothing: --{flag} changes nothing"
        for flag, values in given.items()
        if values
    ]


def _execute_info(command: Command) -> None:
    import json
    from dataclasses import asdict

    from compiler_plugin.commands import list_plugins

    plugins = list_plugins(command.options.libs)
    if command.as_json:
        text = json.dumps([asdict(plugin) for plugin in plugins], indent=1)
    else:
        text = "\n".join(map(str, plugins)) or "no plugins"
    with _stream(command.output or STDOUT) as stream:
        if stream:
            print_text(text, stream)


def _print_report(report: Report, command: Command) -> None:
    default = STDERR if command.output == STDOUT else STDOUT
    with _stream(command.messages or default) as stream:
        if stream:
            print_text(report.to_json() if command.as_json else report.to_text(), stream)


def _check_messages(command: Command) -> None:
    """Refuses a place of the report that would make a command fail, or lose a file, when its work is done."""
    path = command.messages
    if path in ("", STDOUT, STDERR, NOWHERE):
        return
    assets = [info.asset_path for info in command.options.compiler.custom_op_infos]
    for other in (command.model, command.output, *assets):
        if other and os.path.realpath(other) == os.path.realpath(path):
            raise LiteRtError(
                Status.INVALID_ARGUMENT, f"the report would replace {other}", f"--err={path}"
            )
    folder = os.path.dirname(path) or os.curdir
    if not os.path.isdir(folder) or os.path.isdir(path):
        what = "no folder for it" if not os.path.isdir(folder) else "it is a folder"
    elif os.access(path if os.path.exists(path) else folder, os.W_OK):
        return
    else:
        what = "permission denied"
    raise LiteRtError(
        Status.FILE_IO, f"cannot write the report: {what}", path, "Name another file with --err."
    )


@contextmanager
def _stream(name: str) -> Iterator[TextIO | None]:
    standard = {STDOUT: sys.stdout, STDERR: sys.stderr, NOWHERE: None}
    if name in standard:
        yield standard[name]
        return
    try:
        stream = open(name, "w", encoding="utf-8")  # noqa: SIM115 (the with below closes it)
    except OSError as error:
        reason = (error.strerror or str(error)).lower()
        raise LiteRtError(Status.FILE_IO, f"cannot write: {reason}", name) from error
    with stream:
        yield stream


@contextmanager
def _output_path(output: str) -> Iterator[str]:
    """A path to write to; for the standard streams that of a file, which is copied there at the end."""
    if output not in (STDOUT, STDERR):
        yield "" if output == NOWHERE else output
        return
    import shutil
    from tempfile import TemporaryDirectory

    with ExitStack() as stack:
        path = os.path.join(stack.enter_context(TemporaryDirectory()), "model")
        yield path
        stream = sys.stdout if output == STDOUT else sys.stderr
        stream.flush()
        shutil.copyfileobj(stack.enter_context(open(path, "rb")), stream.buffer)
        stream.buffer.flush()

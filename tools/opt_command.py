"""`litert-npu opt`: runs passes of the reference compiler on IR text, such as a dump that was edited."""

from __future__ import annotations

import sys
from collections.abc import Sequence

from litert.core.errors import file_error
from litert.core.option import Flag

from .command import Command
from .command_line import FlagValues, usage_error
from .console import print_text
from .destinations import write_file

_STANDARD = "-"
_FLAGS = (
    Flag("passes", "", "Passes to run, in order: adjust-layouts,optimize-reorders."),
    Flag("list_passes", False, "Shows which passes there are."),
    Flag("o", _STANDARD, "Where the result goes; - is the standard output."),
    Flag("soc_model", "", "The NPU to compile for, in place of the one that the text names."),
)


def _run(flags: FlagValues, arguments: Sequence[str]) -> int:
    from vendor_reference.compiler.opt import list_passes, transform_text

    if flags.list_passes:
        passes = list_passes()
        width = max(len(name) for name, _ in passes)
        print_text("\n".join(f"{name:{width}}  {what}" for name, what in passes), sys.stdout)
        return 0
    if not arguments:
        raise usage_error("no file", "Give one with IR text; - is the standard input.")
    (path,) = arguments
    result = transform_text(_read(path), path, flags.passes, flags.soc_model)
    if flags.o == _STANDARD:
        print_text(result.rstrip("\n"), sys.stdout)
    else:
        sources = [] if path == _STANDARD else [path]
        write_file(flags.o, lambda file: file.write(result.encode()), sources)
    return 0


def _read(path: str) -> bytes:
    if path == _STANDARD:
        return sys.stdin.buffer.read()
    try:
        with open(path, "rb") as file:
            return file.read()
    except OSError as error:
        raise file_error(error, "cannot read", path) from error


COMMAND = Command(
    "FILE --passes=A,B,C\n"
    "Reads IR text of the reference compiler (a dump of apply_plugin --dump_ir_after=all, edited or not),\n"
    "verifies it, runs passes, and prints what they leave. Without passes, it verifies and prints.",
    _FLAGS,
    _run,
    num_arguments=1,
    num_optional=1,
)

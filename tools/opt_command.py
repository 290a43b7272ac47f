"""`litert-npu opt`: runs passes of the reference compiler on IR text, such as a dump that was edited.

They run in a child process with limits of time and memory: a text may be anybody's.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator, Sequence
from contextlib import suppress
from typing import Any

from litert.core.errors import LiteRtError
from litert.core.input_file import read_input
from litert.core.option import Flag
from litert.core.status import Status

from .command import Command
from .command_line import FlagValues, usage_error
from .console import print_text
from .destinations import open_stream, write_file

_STANDARD = "-"
_FLAGS = (
    Flag("passes", "", "Passes to run, in order: adjust-layouts,optimize-reorders."),
    Flag("list_passes", False, "Shows which passes there are."),
    Flag("o", _STANDARD, "Where the result goes; - is the standard output."),
    Flag("soc_model", "", "The NPU to compile for, in place of the one that the text names."),
    Flag("timeout", 600.0, "Seconds that reading and all passes may take.", least=0.1),
    Flag("memory", 4096, "MiB of memory that they may take.", least=64),
)


def _run(flags: FlagValues, arguments: Sequence[str]) -> int:
    if flags.list_passes:
        from vendor_reference.compiler.opt import list_passes

        passes = list_passes()
        width = max(len(name) for name, _ in passes)
        print_text("\n".join(f"{name:{width}}  {what}" for name, what in passes), sys.stdout)
        return 0
    if not arguments:
        raise usage_error("no file", "Give one with IR text; - is the standard input.")
    (path,) = arguments
    if flags.o == _STANDARD:
        open_stream(flags.o)
    result = _transform_in_child(_read(path), path, flags)
    if flags.o == _STANDARD:
        print_text(result.rstrip("\n"), sys.stdout)
    else:
        sources = [] if path == _STANDARD else [path]
        write_file(flags.o, lambda file: file.write(result.encode()), sources)
    return 0


def transform(asked: dict[str, Any]) -> Iterator[str]:
    """In the child: what the passes leave of a text."""
    from vendor_reference.compiler.opt import transform_text

    text = asked["text"].encode("utf-8", "surrogateescape")
    with suppress(MemoryError):  # whose traceback holds the memory
        yield transform_text(text, asked["name"], asked["passes"], asked["soc_model"])
        return
    raise LiteRtError(
        Status.MEMORY_ALLOCATION_FAILURE,
        f"the text and its passes need more than {asked['memory']} MiB",
        asked["name"],
        "Allow more with --memory.",
    )


def _transform_in_child(text: bytes, name: str, flags: FlagValues) -> str:
    from litert.host.child import call_in_child

    asked = {
        "text": text.decode("utf-8", "surrogateescape"),
        "name": name,
        "passes": flags.passes,
        "soc_model": flags.soc_model,
        "memory": flags.memory,
    }
    (result,) = call_in_child(
        f"{__name__}:transform",
        asked,
        timeout_s=flags.timeout,
        subject="the reference compiler",
        memory_bytes=flags.memory << 20,
    )
    return str(result)


def _read(path: str) -> bytes:
    """The text, or its beginning: one byte more than any text may have."""
    most = (64 << 20) + 1
    if path == _STANDARD:
        return sys.stdin.buffer.read(most)
    return read_input(path, most)


COMMAND = Command(
    "FILE --passes=A,B,C\n"
    "Reads IR text of the reference compiler (a dump of apply_plugin --dump_ir_after=all, edited or not),\n"
    "verifies it, runs passes, and prints what they leave. Without passes, it verifies and prints.",
    _FLAGS,
    _run,
    num_arguments=1,
    num_optional=1,
)

"""`litert-npu opt`: runs passes of the reference compiler on IR text, or compiles IR text.

The passes run in a child process with time and memory limits, since the text is not trusted.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING, Any

from litert.core.compiler_options import CompilerOptions
from litert.core.errors import LiteRtError
from litert.core.input_file import read_input
from litert.core.option import Flag, options_of, values_by_field
from litert.core.status import Status

from .command import Command
from .command_line import FlagValues, usage_error
from .console import print_text
from .destinations import open_stream, write_file
from .npy_files import bad_input, read_arrays

if TYPE_CHECKING:
    from vendor_reference.executable.executable import Constant

_STANDARD = "-"
_OF_COMPILER = [
    declared
    for declared in options_of(CompilerOptions)
    if declared.field in ("custom_op_infos", "asset_root", "check_kernels", "allow_native_assets")
]
"""Flags for kernels, the same as in `apply_plugin`."""

_FLAGS = (
    Flag(
        "passes",
        "",
        ("Passes to run, in order, separated by commas, such as adjust-layouts,optimize-reorders."),
    ),
    Flag("list_passes", False, "List the available passes, and exit."),
    Flag("o", _STANDARD, "Output file for the text. - means standard output."),
    Flag(
        "emit",
        "",
        "Compiled file to write. After the passes of --passes, the command runs all remaining "
        "passes of the compiler. "
        "With --emit alone, the command does not write the IR text; give -o to write the text too.",
    ),
    Flag(
        "constants",
        "",
        "File with the constants that the text refers to as dense_resource<key>: the "
        "constants.json of a dump, or a .npz file with one array for each key. By default, the "
        "constants are in constants.json in the folder of the text.",
    ),
    Flag(
        "function",
        "",
        "Name of the function to compile; the text may have several functions. The default is "
        "main, or the only function.",
    ),
    *(declared.flag for declared in _OF_COMPILER),
    Flag(
        "soc_model",
        "",
        ("SoC model to compile for, which overrides the SoC model in the text."),
    ),
    Flag(
        "timeout",
        600.0,
        "Time limit for reading the text and running all passes, in seconds.",
        least=0.1,
    ),
    Flag(
        "memory",
        4096,
        "Memory limit for reading the text and running all passes, in MiB.",
        least=64,
    ),
)


def _run(flags: FlagValues, arguments: Sequence[str]) -> int:
    if flags.list_passes:
        from vendor_reference.compiler.opt import list_passes

        passes = list_passes()
        width = max(len(name) for name, _ in passes)
        print_text("\n".join(f"{name:{width}}  {what}" for name, what in passes), sys.stdout)
        return 0
    if not arguments:
        raise usage_error(
            "the command line has no file", "Give a file with IR text, or - for standard input."
        )
    (path,) = arguments
    if flags.o == _STANDARD:
        open_stream(flags.o)
    _check_outputs(flags)
    result, report = _transform_in_child(_read(path), path, flags)
    if report:
        print_text(report, sys.stdout)
        if flags.o == _STANDARD:
            return 0
    if flags.o == _STANDARD:
        print_text(result.rstrip("\n"), sys.stdout)
    else:
        sources = [] if path == _STANDARD else [path]
        write_file(flags.o, lambda file: file.write(result.encode()), sources)
    return 0


def transform(asked: dict[str, Any]) -> Iterator[list[str]]:
    """Runs in the child process: yields the text after the passes, and the report of the compilation, if any."""
    text = asked["text"].encode("utf-8", "surrogateescape")
    with suppress(MemoryError):  # the traceback keeps the memory alive
        if asked["emit"]:
            yield _compile(text, asked)
            return
        from vendor_reference.compiler.opt import transform_text

        yield [transform_text(text, asked["name"], asked["passes"], asked["soc_model"]), ""]
        return
    raise LiteRtError(
        Status.MEMORY_ALLOCATION_FAILURE,
        f"reading the text and running the passes needs more than {asked['memory']} MiB",
        asked["name"],
        "Raise the limit with --memory.",
    )


def _compile(text: bytes, asked: dict[str, Any]) -> list[str]:
    from vendor_reference.compiler.compiled_text import compile_text

    options = CompilerOptions(**values_by_field(_OF_COMPILER, asked["options"]))
    with _open_constants(asked["constants"], asked["name"]) as constants:
        compiled = compile_text(
            text,
            asked["name"],
            asked["emit"],
            constants,
            options,
            passes=asked["passes"],
            soc_model=asked["soc_model"],
            function=asked["function"],
            inputs=[path for path in [asked["constants"]] if path],
        )
    return [compiled.text, compiled.report.to_text()]


@contextmanager
def _open_constants(path: str, name: str) -> Iterator[Mapping[str, Constant]]:
    """Returns the constants in a file or, if none is given, those of the dump that contains the text, if any."""
    from vendor_reference.compiler.constant_files import (
        FILE_NAME,
        constants_of_arrays,
        open_constants,
    )

    if not path:
        path = os.path.join(os.path.dirname(name), FILE_NAME)
        if name == _STANDARD or not os.path.exists(path):
            yield {}
            return
    if path.endswith(".json"):
        with open_constants(path) as constants:
            yield constants
        return
    arrays = read_arrays(path, lambda names: names)
    if not isinstance(arrays, dict):
        raise bad_input(
            path,
            "the file contains only one array, but must contain one array for each constant",
            "Write a .npz file with numpy.savez. Name each array by the key of its constant.",
        )
    yield constants_of_arrays(arrays, path)


def _check_outputs(flags: FlagValues) -> None:
    """Raises an error for flags without effect, and if two outputs have the same file."""
    if not flags.emit:
        idle = [name for name in ("constants", "function") if flags.flag_values_dict()[name]]
        if idle:
            raise usage_error(
                f"--{idle[0]} has no effect, since nothing is compiled", "Add --emit=FILE."
            )
        return
    if flags.o != _STANDARD and os.path.abspath(flags.o) == os.path.abspath(flags.emit):
        raise usage_error(
            f"-o and --emit name the same file: {flags.o}", "Name two different files."
        )


def _transform_in_child(text: bytes, name: str, flags: FlagValues) -> tuple[str, str]:
    from litert.host.child import call_in_child

    values = flags.flag_values_dict()
    asked = {
        **{name: values[name] for name in ("emit", "constants", "function")},
        "options": {declared.flag.name: values[declared.flag.name] for declared in _OF_COMPILER},
        "text": text.decode("utf-8", "surrogateescape"),
        "name": name,
        "passes": flags.passes,
        "soc_model": flags.soc_model,
        "memory": flags.memory,
    }
    (answer,) = call_in_child(
        f"{__name__}:transform",
        asked,
        timeout_s=flags.timeout,
        subject="the reference compiler",
        memory_bytes=flags.memory << 20,
    )
    assert isinstance(answer, list)
    result, report = answer
    return str(result), str(report)


def _read(path: str) -> bytes:
    """Returns the text; if it is too long, only its beginning, one byte longer than allowed."""
    most = (64 << 20) + 1
    if path == _STANDARD:
        return sys.stdin.buffer.read(most)
    return read_input(path, most)


COMMAND = Command(
    "FILE --passes=A,B,C\nReads and verifies IR text, which is the reference compiler's form of "
    "a model. The text is a dump of apply_plugin --dump_ir_after=all, edited or not. The command "
    "then runs passes, and prints the resulting text. Without --passes, the command only "
    "verifies and prints the text. With --emit=FILE, the command also writes a compiled file "
    "with one NPU call, which runs the function in the text.",
    _FLAGS,
    _run,
    num_arguments=1,
    num_optional=1,
)

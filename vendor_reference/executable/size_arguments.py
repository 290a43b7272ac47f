"""Creates one program for all shapes, in which kernels take sizes as arguments instead of defines.

    #define INPUT0_DIMS (int []){ LITERT_NPU_INPUT0_DIMS_0,LITERT_NPU_INPUT0_DIMS_1, }
    __kernel void Scale(__global float* x, const long LITERT_NPU_INPUT0_DIMS_0, ...)

A layer that is compiled ahead of time can thus run with dynamic shapes. Only sizes that the source code uses
become arguments; these arguments follow the kernel's own arguments.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace

from litert.core.errors import LiteRtError
from litert.core.sizes import Size
from litert.core.status import Status
from vendor_reference.executable.executable import HOLE, Program, Source
from vendor_reference.executable.kernel_signature import KernelSignature
from vendor_reference.executable.source_text import blank_comments, expand_sources

SIZE_DEFINES = (
    r"(?:(?:INPUT|OUTPUT)\d+_(?:DIMS|PITCHES|LOWER_PADDING|UPPER_PADDING|OFFSET)|"
    r"(?:GLOBAL|LOCAL)_WORKSIZE)"
)
"""Regular expression for the built-in defines that depend on shapes; each name may end with `_INIT`."""

PREFIX = "LITERT_NPU_"
"""Prefix of the names of size arguments."""

_NAMED = re.compile(rf"\b({SIZE_DEFINES})(?:_INIT)?\b")
_VALUE = rf"(?:-?\d+|{HOLE})"
_LINE = re.compile(
    rf"#define (?P<name>{SIZE_DEFINES})(?:_INIT)? "
    rf"(?P<before>(?:\(\w+ \[\]\))?\{{ )?(?P<values>(?:{_VALUE},?)*)(?P<behind>.*)\n?"
)
_KERNEL = re.compile(r"\b(?:__)?kernel\b")
_PARENTHESIS = re.compile(r"[()]")
_WORD_OR_GROUP = re.compile(r"\s*(?:__attribute(?:__)?\s*\(|(?P<word>[A-Za-z_]\w*)|(?P<open>\())")


@dataclass(frozen=True, slots=True)
class OpenProgram:
    """A program for all shapes: its source text, and the defines that became arguments, in order."""

    prelude: str
    sources: Sequence[str]
    sizes: tuple[str, ...]
    num_arguments: int


def without_sizes(program: Program) -> Program:
    """Returns a program without its size defines, so that programs that differ only in shapes become equal."""
    lines = program.prelude.splitlines(keepends=True)
    kept = "".join(line for line in lines if not _LINE.fullmatch(line))
    return replace(program, prelude=kept, holes=())


def open_program(program: Program, read: Callable[[Source], memoryview]) -> OpenProgram:
    """Creates the source text of a program that takes sizes as arguments.

    `read` returns the bytes of a source file.

    Raises:
      LiteRtError: INVALID_ARGUMENT, if a kernel's parameters cannot be found in the source text.
    """
    sources = expand_sources(program, read, has_line_marks=True)
    rest = without_sizes(program).prelude
    texts = [rest, program.build_options, *sources]
    named = {name for text in texts for name in _NAMED.findall(text)}
    can_be_any = any("##" in text for text in texts)
    prelude: list[str] = []
    arguments: dict[str, list[str]] = {}
    for line in program.prelude.splitlines(keepends=True):
        found = _LINE.fullmatch(line)
        if found is None:
            prelude.append(line)
        elif can_be_any or found["name"] in named:
            name = found["name"]
            count = len(re.findall(_VALUE, found["values"]))
            arguments[name] = [f"{PREFIX}{name}_{index}" for index in range(count)]
            prelude.append(_with_arguments(found, arguments[name]))
    parameters = [argument for names in arguments.values() for argument in names]
    shown = [_with_parameters(text, parameters) for text in sources]
    return OpenProgram("".join(prelude), shown, tuple(arguments), len(parameters))


def argument_sizes(program: Program, names: Sequence[str]) -> list[Size]:
    """Returns the sizes to pass as arguments to a program for all shapes, in the order of `names`.

    Raises:
      LiteRtError: INVALID_ARGUMENT, if `program` does not define one of the names.
    """
    holes = iter(program.holes)
    values: dict[str, list[Size]] = {}
    for line in program.prelude.splitlines(keepends=True):
        found = _LINE.fullmatch(line)
        if found is not None:
            texts = re.findall(_VALUE, found["values"])
            values[found["name"]] = [next(holes) if t == HOLE else int(t) for t in texts]
        else:
            for _ in range(line.count(HOLE)):
                next(holes)
    for name in names:
        if name not in values:
            what = f"the layer's machine code reads the define {name}, which the op in this model does not have"
            hint = "Build the layer again with litert-npu layer build, for a model with this op."
            raise LiteRtError(Status.INVALID_ARGUMENT, what, hint=hint)
    return [size for name in names for size in values[name]]


def own_arguments(
    kernels: Mapping[str, KernelSignature], num_sizes: int
) -> Mapping[str, KernelSignature]:
    """Returns the declarations of the kernels in a program for all shapes, without the size arguments.

    Raises:
      LiteRtError: UNSUPPORTED, if a kernel does not have the size arguments.
    """
    own = {}
    for name, kernel in kernels.items():
        num_own = len(kernel.arguments) - num_sizes
        names = [a.name for a in kernel.arguments[max(num_own, 0) :]]
        if num_own < 0 or any(n and not n.startswith(PREFIX) for n in names):
            raise _hidden_parameters(f"kernel '{name}'")
        own[name] = replace(kernel, arguments=kernel.arguments[:num_own])
    return own


def _with_arguments(line: re.Match[str], names: Sequence[str]) -> str:
    """Returns a define's line with argument names in place of numbers."""
    before = line["before"] or ""
    values = "".join(f"{name}," for name in names) if before else f"((int){names[0]})"
    return f"{line.string[: line.start('values')]}{values}{line['behind']}\n"


def _with_parameters(text: str, names: Sequence[str]) -> str:
    """Returns a source text in which the kernels have additional parameters."""
    if not names:
        return text
    more = "".join(f", const long {name}" for name in names)
    plain = blank_comments(text)
    parts, end = [], 0
    for found in _KERNEL.finditer(plain):
        close = _find_parameters_end(plain[: _end_of_directive(plain, found)], found.end())
        if close > end:
            parts += [text[end:close], more]
            end = close
    return "".join([*parts, text[end:]])


def _end_of_directive(text: str, kernel: re.Match[str]) -> int:
    """Returns the end of the directive that contains a keyword; the end of the text if there is no directive."""
    line = text[text.rfind("\n", 0, kernel.start()) + 1 : kernel.start()]
    end = text.find("\n", kernel.end()) if line.lstrip().startswith("#") else -1
    return end if end >= 0 else len(text)


def _find_parameters_end(text: str, start: int) -> int:
    """Returns the end of a kernel's parameters, whose keyword ends at `start`; -1 if no kernel follows."""
    at, has_name = start, False
    while found := _WORD_OR_GROUP.match(text, at):
        at = found.end()
        if found["word"]:
            has_name = True
            continue
        close = _find_closing(text, at)
        if found["open"] or close < 0:
            return close if has_name else -1
        at = close + 1
    return -1


def _find_closing(text: str, at: int) -> int:
    """Returns the position of the parenthesis that closes the one before `at`; -1 if there is none."""
    depth = 1
    for found in _PARENTHESIS.finditer(text, at):
        depth += 1 if found[0] == "(" else -1
        if depth == 0:
            return found.start()
    return -1


def _hidden_parameters(kernel: str) -> LiteRtError:
    return LiteRtError(
        Status.UNSUPPORTED,
        f"the compiler must add parameters for the sizes of tensors to {kernel}, but cannot find the kernel's "
        "parameters in the source text",
        hint="Write the kernel's name and parameters without macros.",
    )

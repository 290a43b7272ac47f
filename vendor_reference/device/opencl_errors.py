"""Converts OpenCL errors to `LiteRtError`."""

from __future__ import annotations

import re
from collections.abc import Sequence

import pyopencl as cl

from litert.core.counts import count_text
from litert.core.errors import LiteRtError
from litert.core.status import Status
from litert.core.suggestion import closest_name
from vendor_reference.programs.program_text import ProgramText, find_source_line, with_source_lines

_OUT_OF_MEMORY = (
    cl.status_code.MEM_OBJECT_ALLOCATION_FAILURE,
    cl.status_code.OUT_OF_RESOURCES,
    cl.status_code.OUT_OF_HOST_MEMORY,
    cl.status_code.INVALID_BUFFER_SIZE,
)
_BUILD_HINT = "Correct the kernel, and compile the model again."
_NO_LOG_HINT = "The OpenCL compiler gives no other reason. Check whether the disk is full."
_NO_LOAD_HINT = "The OpenCL driver gives no other reason. Check whether the disk is full."
_HALF_HINT = (
    "The device has no half arithmetic: read with vload_half(i, x), compute with float, and write with "
    "vstore_half(value, i, y)."
)
_NO_HALF = re.compile(
    r"cl_khr_fp16|\bhalf\d*'[^\n]*not allowed|undeclared identifier 'half|'convert_half"
)
_UNDECLARED = re.compile(r"undeclared identifier '(\w+)'")
_DEFINED = re.compile(r"^#define (\w+)", re.MULTILINE)
_JOINED = re.compile(
    r"^[^\n]*(?:invalid suffix '(?P<suffix>\w+)' on floating|use of undeclared identifier '(?P<name>\w+)')",
    re.MULTILINE,
)
_NAME = re.compile(r"[A-Za-z_]\w*")
_MACRO = re.compile(r"^[ \t]*#[ \t]*define[ \t]+(\w+)(.*)", re.MULTILINE)
_FLOAT = re.compile(r"[ (-]*[0-9.]+(?:[eE][-+]?[0-9]+)?([fFlL])[ )]*")
_QUANTIZATION = re.compile(r"((?:INPUT|OUTPUT)\d+)_(SCALE|ZERO_POINT)(?:_SIZE|_INIT)?\Z")
_OF_CHANNELS = re.compile(
    r"^#define ((?:INPUT|OUTPUT)\d+_(?:SCALE|ZERO_POINT)) \((?:float|int)\[\]\)", re.MULTILINE
)
_ARRAY_TYPE = re.compile(r"'(?:float|int) ?(?:\[\d+\]|\*)'")
_PARAM = "PARAM_"
_TENSOR = re.compile(r"(INPUT|OUTPUT)(\d+)_")
_NO_OPTION = (
    "none in this op. If the op's options are a C struct, describe the layer in a .json file: "
    "litert-npu layer new writes such a file."
)
_COMMAND_LINE = "<command line>"
"""File name that the compiler reports for errors in its options."""
_ASSEMBLY = "<inline asm>"
"""File name that the compiler reports for errors in inline assembly, which has line numbers of its own."""
_PLACE = re.compile(r"^(?:error: )?(?P<file>[^\n:]+):(?P<line>\d+):(?P<column>\d+): ", re.MULTILINE)


def opencl_error(error: cl.Error, where: str, hint: str = "") -> LiteRtError:
    """Returns the error to raise for a failed OpenCL call, such as a run or an allocation."""
    status = Status.RUNTIME_FAILURE
    if error.code in _OUT_OF_MEMORY:
        status = Status.MEMORY_ALLOCATION_FAILURE
    return LiteRtError(status, f"OpenCL reports an error: {error}", where, hint)


def build_error(text: ProgramText, log: str, error: cl.Error | None = None) -> LiteRtError:
    """Returns the error to raise for a failed build of an OpenCL program.

    `log` is the compiler's build log without irrelevant lines. `error` is None if the OpenCL call succeeded but
    the log reports an error.
    """
    place = _PLACE.search(log)
    is_of_options = error is not None and error.code == cl.status_code.INVALID_BUILD_OPTIONS
    if place and place["file"] == _COMMAND_LINE:
        is_of_options, place = True, None
    if text.options and is_of_options:
        hint = (
            f"Correct the layer's build_options (.json) or CompilerOptions (.xml): {text.options}"
        )
    elif _NO_HALF.search(log):
        hint = _HALF_HINT
    else:
        hint = _spelling_hint(log, text) or _pasting_hint(log, text) or _channels_hint(log, text)
        hint = hint or (_BUILD_HINT if log else _NO_LOG_HINT)
    where = f"{place['file']}, line {place['line']}" if place else text.name
    if place and place["file"] == _ASSEMBLY:
        where = f"{text.name}, line {place['line']} of inline assembly"
    shown = with_source_lines(log, text.text) if log else error
    what = f"the kernel does not build:\n{shown}\n"
    return LiteRtError(Status.COMPILATION, what, where, hint)


def load_error(text: ProgramText, error: cl.Error) -> LiteRtError:
    """Returns the error to raise if the driver does not accept the binary of an OpenCL program."""
    what = f"the OpenCL driver cannot load the kernel that it compiled before: {error}"
    return LiteRtError(Status.COMPILATION, what, text.name, _NO_LOAD_HINT)


def _spelling_hint(log: str, text: ProgramText) -> str:
    """Returns a hint with the define that an unknown name probably means; "" if there is no such define."""
    defined = _DEFINED.findall(text.text)
    for name in _UNDECLARED.findall(log):
        tensor = _QUANTIZATION.match(name)
        if tensor and f"{tensor[1]}_{tensor[2]}" not in defined and f"{tensor[1]}_TYPE" in defined:
            return (
                f"{tensor[1]} is not quantized in this op, so {name} is not defined. {_BUILD_HINT}"
            )
        if hint := _option_hint(name, defined) or _tensor_hint(name, defined):
            return hint
        if near := closest_name(name, defined, 0.8):
            return f"Did you mean {near}? Correct the kernel, and compile the model again."
    return ""


def _option_hint(name: str, defined: Sequence[str]) -> str:
    """Returns a hint about the define of an option that the op does not have; "" for other names."""
    options = [other.removeprefix(_PARAM) for other in defined if other.startswith(_PARAM)]
    if not name.startswith(_PARAM) or closest_name(name.removeprefix(_PARAM), options):
        return ""
    has = f"{', '.join(_PARAM + option for option in options)} in this op."
    return (
        f"A .cl layer has a PARAM_ define for each option of its op: {has if options else _NO_OPTION} "
        "If the layer has a description, only the defines of the description exist."
    )


def _tensor_hint(name: str, defined: Sequence[str]) -> str:
    """Returns a hint about a define of an input or output that the op does not have; "" for other names."""
    wanted = _TENSOR.match(name)
    kind = wanted[1] if wanted else ""
    numbers = {found[2] for found in map(_TENSOR.match, defined) if found and found[1] == kind}
    if wanted is None or not numbers or wanted[2] in numbers:
        return ""
    return f"The op has {count_text(len(numbers), kind.lower())}, so {name} is not defined. {_BUILD_HINT}"


def _pasting_hint(log: str, text: ProgramText) -> str:
    """Returns a hint about a define that `##` joins to another token by mistake; "" if there is none."""
    found = _JOINED.search(log)
    place = _PLACE.match(found[0]) if found else None
    if found is None or place is None or "##" not in text.text:
        return ""
    macros = dict(_MACRO.findall(text.text))
    row = find_source_line(text.text, place["file"], int(place["line"])) or ""
    names = _NAME.findall(row)
    for name in names:  # the loop appends to the list
        value = macros.pop(name, "").strip()
        number = _FLOAT.fullmatch(value)
        if number and found["suffix"] and found["suffix"].startswith(number[1]):
            more = found["suffix"].removeprefix(number[1])
            return f"Define {name} is {value}, and '##' appends '{more}': remove this suffix. {_BUILD_HINT}"
        if value and found["name"] and found["name"].startswith(name):
            return f"'##' joins the name {name}, not its value {value}, to the other token. {_BUILD_HINT}"
        names += _NAME.findall(value)
    return ""


def _channels_hint(log: str, text: ProgramText) -> str:
    """Returns a hint if the kernel uses per-channel scales or zero points as a single number; otherwise ""."""
    arrays = {*_OF_CHANNELS.findall(text.text)}
    if not arrays or not _ARRAY_TYPE.search(log):
        return ""
    macros = dict(_MACRO.findall(text.text))
    for place in _PLACE.finditer(log):
        parts = [find_source_line(text.text, place["file"], int(place["line"])) or ""]
        for part in parts:  # the loop appends to the list
            for found in _NAME.finditer(part):
                name = found[0]
                if name not in arrays:
                    parts.append(macros.pop(name, ""))
                elif not part[found.end() :].lstrip().startswith("["):
                    return (
                        f"{name} is an array of {name}_SIZE elements, one for each channel of the tensor. Use one "
                        f"element, such as {name}[channel]. {_BUILD_HINT}"
                    )
    return ""

"""Writes an `Executable` as a byte code module, and reads byte code modules, which have the following format.

| bytes | what |
|---|---|
| 0-7 | magic |
| 8-11 | version; all numbers are little-endian |
| 12-15 | 0 |
| 16-23 | size of the header in bytes |
| 24-31 | size of the whole module in bytes |
| 32- | header: one JSON object, UTF-8 |
| from the next multiple of 64 | data: constants, each aligned to 64 bytes; offsets in the header count from the
start of the data |

If constants have the same data and differ only in order, type or dequantization, they have the same offset.

The header is the JSON object `{soc_model, functions, programs, constants, instructions}`. Its parts have the
fields of the classes in `executable.py`; fields with default values may be omitted. Function names are unique,
with one exception: a function for fp16 arithmetic has the same name as the preceding function, which it replaces.
A size is written as a number, as `[s, d]` for dimension `d` of shape `s`, or as an operation `["+", lhs, rhs]`.
Other parts are written as follows: a dynamic output as `[output, shape output, shape]`, a command as
`[instruction, words]`, an instruction as `[name, fields]`, a field of an instruction as `uint size` or
`int step[4]`, a tensor type as `[element type's name, dimensions]`, and a scalar in hexadecimal.
"""

from __future__ import annotations

import errno
import json
import os
import struct
from collections.abc import Sequence
from dataclasses import dataclass

from litert.core.checked_json import JsonNode
from litert.core.codec import (
    BOOLEAN,
    NUMBER,
    SHA256,
    TEXT,
    Codec,
    Renamed,
    array,
    checked,
    enumeration,
    frozen_array,
    hexadecimal,
    integer,
    nullable,
    record,
    row,
)
from litert.core.errors import LiteRtError, file_error
from litert.core.sizes import ARITHMETIC, MOST, Dimension, Operation, Size
from litert.core.status import Status
from litert.core.tensor_type import RankedTensorType
from litert.model.blob import Blob, MappedFile
from vendor_reference.executable.build_options import find_option_mistake
from vendor_reference.executable.cpu_op import (
    CPU_CONFIG,
    CPU_OP,
    MAX_RANK,
    MOST_DIM,
    TENSOR_TYPE,
    check_config,
)
from vendor_reference.executable.executable import (
    ALIGNMENT,
    Argument,
    ArgumentKind,
    Constant,
    CpuPlace,
    CpuTask,
    Dequantization,
    DynamicOutput,
    Executable,
    Function,
    KernelTask,
    LayerCommand,
    LayerTask,
    Program,
    ShapeKind,
    ShapeValue,
    Source,
    Tap,
    Task,
    align,
)
from vendor_reference.executable.executable_checks import (
    SHAPE_FIELDS,
    check_argument,
    check_constant,
    check_functions,
    check_kernel_task,
    check_program,
    check_shape,
)
from vendor_reference.firmware.instructions import Field, Instruction, parse_field

MAGIC = b"LRT-REF\n"
VERSION = 4
PREFIX = struct.Struct("<8sIxxxxQQ")

_WHERE = "byte code"
_HINT = "Compile the model again with apply_plugin."
_SPOOLED_SIZE = 8 << 20
_OPERATORS = tuple(ARITHMETIC)
_DEPTH = 200
_MOST_PANEL = 1024


@dataclass(frozen=True, slots=True)
class _StoredConstant:
    """A `Constant` as the header describes it; the constant's bytes follow the header."""

    tensor_type: RankedTensorType
    offset: int
    dequantization: Dequantization | None = None
    order: Sequence[int] = ()
    panel: int = 0


@dataclass(frozen=True, slots=True)
class _Header:
    soc_model: str
    functions: Sequence[Function]
    programs: Sequence[Program]
    constants: Sequence[_StoredConstant]
    instructions: Sequence[Instruction] = ()


def read_executable(module: bytes | memoryview) -> Executable:
    """Reads a byte code module, and checks all of its indices, offsets, sizes and names.

    Constants are views of `module`.

    Raises:
      LiteRtError: SERIALIZATION, if the bytes were not written by `write_executable`;
        INCOMPATIBLE_BYTE_CODE_VERSION, if the module has another version.
    """
    try:
        return _read_executable(memoryview(module).cast("B"))
    except RecursionError:
        raise _error(
            "the byte code's header is nested too deeply for this thread's stack"
        ) from None


def _read_executable(view: memoryview) -> Executable:
    text = _header_text(view)
    data = view[min(align(PREFIX.size + text.nbytes), view.nbytes) :]
    root = JsonNode.parse(text, _WHERE, Status.SERIALIZATION)
    header = _HEADER.read(root)
    constants = []
    blobs: dict[tuple[int, int], Blob] = {}
    for index, stored in enumerate(header.constants):
        size = stored.tensor_type.size_bytes
        if stored.offset % ALIGNMENT:
            node = root.at("constants", index)
            raise node.error(f"offset {stored.offset} is not a multiple of {ALIGNMENT}")
        if stored.offset + size > data.nbytes:
            node = root.at("constants", index)
            raise node.error(
                f"{size} bytes at offset {stored.offset} do not fit into the {data.nbytes} bytes of data"
            )
        place = stored.offset, size
        blob = blobs.setdefault(place, Blob(data[stored.offset : stored.offset + size]))
        how = stored.dequantization, list(stored.order), stored.panel
        constants.append(Constant(stored.tensor_type, blob, *how))
    parts = header.functions, header.programs, constants, header.instructions
    executable = Executable(header.soc_model, *parts)
    check_functions(root.at("functions"), executable, _HINT)
    return executable


def write_executable(executable: Executable) -> Blob:
    """Writes an executable as a module to memory, or to a temporary file if large constants lie in files."""
    parts = executable_parts(executable)
    if sum(part.size for part in parts if part.file) >= _SPOOLED_SIZE:
        return _spool(parts)
    return Blob(b"".join(part.view for part in parts))


def executable_parts(executable: Executable) -> list[Blob]:
    """Returns the chunks of the executable's module in order.

    Constants are the executable's own blobs, not copies.

    Constants with the same blob share one chunk.
    """
    stored: list[_StoredConstant] = []
    offsets: dict[Blob, int] = {}
    data_size = 0
    for constant in executable.constants:
        if constant.data not in offsets:
            offsets[constant.data] = data_size
            data_size += align(constant.data.size)
        how = (offsets[constant.data], constant.dequantization, constant.order, constant.panel)
        stored.append(_StoredConstant(constant.tensor_type, *how))
    made = executable.functions, executable.programs, stored, executable.instructions
    fields = _HEADER.dump(_Header(executable.soc_model, *made))
    header = json.dumps(fields, separators=(",", ":"), allow_nan=False).encode("ascii")
    data_start = align(PREFIX.size + len(header))
    prefix = PREFIX.pack(MAGIC, VERSION, len(header), data_start + data_size)
    parts = [Blob((prefix + header).ljust(data_start, b"\0"))]
    for data in offsets:
        parts.append(data)
        gap = align(data.size) - data.size
        if gap:
            parts.append(Blob(bytes(gap)))
    return parts


def _header_text(view: memoryview) -> memoryview:
    if view.nbytes < PREFIX.size or bytes(view[: len(MAGIC)]) != MAGIC:
        raise _error("the byte code was not made by the compiler of vendor 'Reference'")
    _, version, header_size, module_size = PREFIX.unpack_from(view)
    if version != VERSION:
        status = Status.INCOMPATIBLE_BYTE_CODE_VERSION
        raise _error(
            f"the byte code has version {version}, but the installed vendor 'Reference' reads only version "
            f"{VERSION}",
            status,
        )
    if module_size != view.nbytes:
        raise _error(f"the byte code has {view.nbytes} bytes, but must have {module_size} bytes")
    if header_size > view.nbytes - PREFIX.size:
        raise _error(
            f"the byte code has {view.nbytes} bytes, which is too few for its header of {header_size} bytes"
        )
    return view[PREFIX.size : PREFIX.size + header_size]


def _error(what: str, status: Status = Status.SERIALIZATION) -> LiteRtError:
    return LiteRtError(status, what, hint=_HINT)


def _spool(parts: Sequence[Blob]) -> Blob:
    """Writes the chunks to one temporary file, which exists until its last view is deleted."""
    from tempfile import gettempdir  # here: few modules are so large

    from litert.model.atomic_file import temporary_file

    try:
        with temporary_file("byte_code") as stream:
            for part in parts:
                if part.file is None:
                    stream.write(part.view)
                    stream.flush()
                else:
                    _send(part.file.fd, part.offset, part.size, stream.fileno())
            return MappedFile(stream.name).blob()
    except OSError as error:
        hint = "Compile the model again. The variable TMPDIR sets the folder for temporary files."
        what = "cannot write the byte code to a temporary file"
        raise file_error(error, what, gettempdir(), hint) from error


def _send(source: int, offset: int, size: int, target: int) -> None:
    while size:
        sent = os.sendfile(target, source, offset, size)
        if not sent:
            raise OSError(errno.EIO, "another program shortened the model's file meanwhile")
        offset, size = offset + sent, size - sent


def _read_size(node: JsonNode, depth: int = 0) -> Size:
    if not isinstance(node.value, list):
        return node.integer(0, MOST)
    if depth > _DEPTH:
        raise node.error(f"the formula of the size has more than {_DEPTH} nested operations")
    parts = node.items(2, 3)
    if len(parts) == 2:
        return Dimension(parts[0].integer(0, MOST_DIM), parts[1].integer(0, MAX_RANK - 1))
    operator = parts[0].text(_OPERATORS)
    return Operation(operator, _read_size(parts[1], depth + 1), _read_size(parts[2], depth + 1))


def _read_words(node: JsonNode) -> Sequence[Size]:
    """Reads the words of a command, with a fast path for numbers, since a network has thousands of words."""
    words = node.value
    if isinstance(words, list) and all(type(w) is int and 0 <= w <= MOST for w in words):
        return words
    return [_read_size(item) for item in node.items()]


def _dump_size(size: Size) -> object:
    if isinstance(size, Dimension):
        return [size.shape, size.index]
    if isinstance(size, Operation):
        return [size.operator, _dump_size(size.lhs), _dump_size(size.rhs)]
    return size


def _read_task(node: JsonNode) -> Task:
    fields = node.value if isinstance(node.value, dict) else {}
    if "commands" in fields:
        return _LAYER_TASK.read(node)
    return _CPU_TASK.read(node) if "implementation" in fields else _KERNEL_TASK.read(node)


def _dump_task(task: Task) -> object:
    if isinstance(task, LayerTask):
        return _LAYER_TASK.dump(task)
    return _CPU_TASK.dump(task) if isinstance(task, CpuTask) else _KERNEL_TASK.dump(task)


def _read_field(node: JsonNode) -> Field:
    try:
        return parse_field(node.text())
    except ValueError as error:
        raise node.error(str(error)) from None


def _path_mistake(path: str) -> str:
    is_inside = not path.startswith("/") and ".." not in path.split("/") and path.isprintable()
    return "" if is_inside else f"{path!r} is not a path inside the asset's folder"


def _entry_mistake(entry: str) -> str:
    is_name = entry.isidentifier() and entry.isascii()
    return "" if is_name else f"{entry!r} is not a kernel name"


SIZE: Codec[Size] = Codec(_read_size, _dump_size)
"""Codec of a size; the dimensions in a size are checked later, with the whole module."""

_WORDS: Codec[Sequence[Size]] = Codec(_read_words, lambda words: [*map(_dump_size, words)])
_INDEX = integer(0, MOST)
_COUNT = integer(0, MOST_DIM)
_NAME = checked(TEXT, lambda name: "" if name else "the name is empty")

_SOURCE = record(Source, asset=_NAME, file_name=checked(_NAME, _path_mistake), sha256=SHA256)

_PROGRAM = record(
    Program,
    prelude=TEXT,
    sources=array(_SOURCE),
    build_options=checked(TEXT, find_option_mistake),
    headers=array(_SOURCE),
    holes=frozen_array(SIZE),
    check=check_program,
)

_ARGUMENT = record(
    Argument,
    kind=enumeration(ArgumentKind),
    index=_INDEX,
    offset=_INDEX,
    size_bytes=_INDEX,
    scalar=hexadecimal(1, 128),
    check=check_argument,
)

_KERNEL_TASK = record(
    KernelTask,
    op_name=TEXT,
    program=integer(-MOST, MOST),
    entry=checked(TEXT, _entry_mistake),
    arguments=array(_ARGUMENT),
    global_size=array(SIZE, 1, 3),
    local_size=array(SIZE),
    num_shaves=_COUNT,
    zeroed=array(_COUNT),
    tensor=TEXT,
    least_bytes=array(_INDEX),
    most_items=_INDEX,
    check=check_kernel_task,
)

_LAYER_TASK = record(
    LayerTask,
    op_name=TEXT,
    arguments=array(_ARGUMENT),
    commands=array(row(LayerCommand, instruction=_NAME, words=_WORDS), 1),
    tensor=TEXT,
    always=lambda _: ("commands",),
)

_PLACE = record(
    CpuPlace, argument=_ARGUMENT, strides=frozen_array(_INDEX), offset=_INDEX, shape=_INDEX
)

_CPU_TASK = record(
    CpuTask,
    op_name=TEXT,
    asset=_SOURCE,
    op=CPU_OP,
    implementation=_COUNT,
    config=CPU_CONFIG,
    inputs=frozen_array(nullable(_PLACE)),
    outputs=frozen_array(_PLACE),
    tensor=TEXT,
    check=lambda node, task: check_config(node.at("config"), task.config, task.op),
)

_SHAPE = record(
    ShapeValue,
    name=TEXT,
    kind=enumeration(ShapeKind),
    pattern=frozen_array(integer(-1, MOST_DIM), 1, MAX_RANK),
    bound=frozen_array(integer(0, MOST_DIM), 1, MAX_RANK),
    offset=_INDEX,
    sizes=frozen_array(SIZE),
    index=_COUNT,
    output=_COUNT,
    always=lambda shape: SHAPE_FIELDS[shape.kind],
    check=check_shape,
)

_TAP = record(
    Tap,
    name=_NAME,
    task=_COUNT,
    argument=_ARGUMENT,
    tensor_type=Renamed("type", TENSOR_TYPE),
    strides=frozen_array(_INDEX),
    offset=_INDEX,
)

_FUNCTION = record(
    Function,
    name=_NAME,
    inputs=array(TENSOR_TYPE),
    outputs=array(TENSOR_TYPE),
    ddr_size=_INDEX,
    cmx_size=_INDEX,
    tasks=array(Codec(_read_task, _dump_task)),
    shapes=array(_SHAPE),
    dynamic_outputs=array(row(DynamicOutput, output=_COUNT, shape_output=_COUNT, shape=_COUNT)),
    needs_fp16=BOOLEAN,
    taps=array(_TAP),
    always=lambda _: ("ddr_size", "cmx_size"),
)

DEQUANTIZATION = record(
    Dequantization,
    scale=array(NUMBER, 1),
    zero_point=array(integer(-(2**31), 2**31 - 1)),
    dimension=_COUNT,
    always=lambda dequantization: ("dimension",) if dequantization.scale else (),
)

_CONSTANT = record(
    _StoredConstant,
    tensor_type=Renamed("type", TENSOR_TYPE),
    offset=_INDEX,
    dequantization=DEQUANTIZATION,
    order=array(_INDEX),
    panel=integer(0, _MOST_PANEL),
    check=lambda node, c: check_constant(node, c.tensor_type, c.dequantization, c.order, c.panel),
)

_INSTRUCTION = row(Instruction, name=_NAME, fields=frozen_array(Codec(_read_field, str)))

_HEADER = record(
    _Header,
    soc_model=_NAME,
    functions=array(_FUNCTION),
    programs=array(_PROGRAM),
    constants=array(_CONSTANT),
    instructions=array(_INSTRUCTION),
)

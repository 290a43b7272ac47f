"""A byte code module becomes an `Executable`; every index, offset, size and name in it is checked."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import prod

from litert.core.element_type import ElementType
from litert.core.errors import LiteRtError
from litert.core.status import Status
from litert.core.tensor_type import RankedTensorType
from litert.model.blob import Blob
from vendor_reference.checked_json import JsonNode
from vendor_reference.executable.executable import (
    Argument,
    ArgumentKind,
    Constant,
    Dequantization,
    Executable,
    Function,
    KernelTask,
    Program,
    Source,
)
from vendor_reference.executable.format import ALIGNMENT, MAGIC, PREFIX, VERSION, align
from vendor_reference.executable.shape_reader import check_order, read_dynamic_outputs, read_shapes
from vendor_reference.executable.shape_value import DynamicOutput, ShapeValue
from vendor_reference.executable.sizes import HOLE, Size, parse_size
from vendor_reference.executable.work_size import work_size

_WHERE = "byte code"
_MOST = 2**62  # of any size or offset: sums of two stay below what a C size_t holds
_HINT = "Compile the model again with apply_plugin."


def read_executable(module: bytes | memoryview) -> Executable:
    """Reads a module; its constants are views of it.

    Raises:
      LiteRtError: SERIALIZATION, for bytes that `write_executable` does not write;
        INCOMPATIBLE_BYTE_CODE_VERSION, for a module of another version.
    """
    view = memoryview(module).cast("B")
    header = _header(view)
    data = view[min(align(PREFIX.size + header.nbytes), view.nbytes) :]
    root = JsonNode.parse(header, _WHERE, Status.SERIALIZATION)
    fields = root.fields(("soc_model", "functions", "programs", "constants"))
    programs = [_program(node) for node in fields["programs"].items()]
    constants = [_constant(node, data) for node in fields["constants"].items()]
    functions: list[Function] = []
    for node in fields["functions"].items():
        function = _function(node, programs, len(constants))
        if any(function.name == other.name for other in functions):
            raise node.error(f"a second function '{function.name}'", _HINT)
        functions.append(function)
    return Executable(_name(fields["soc_model"]), functions, programs, constants)


def _header(view: memoryview) -> memoryview:
    if view.nbytes < PREFIX.size or bytes(view[: len(MAGIC)]) != MAGIC:
        raise LiteRtError(
            Status.SERIALIZATION, "not an executable of the reference vendor", _WHERE, _HINT
        )
    _, version, header_size, module_size = PREFIX.unpack_from(view)
    if version != VERSION:
        raise LiteRtError(
            Status.INCOMPATIBLE_BYTE_CODE_VERSION,
            f"version {version}, this device reads {VERSION}",
            _WHERE,
            _HINT,
        )
    if module_size != view.nbytes or header_size > view.nbytes - PREFIX.size:
        raise LiteRtError(
            Status.SERIALIZATION,
            f"{view.nbytes} bytes, expected {module_size} with a header of {header_size}",
            _WHERE,
            _HINT,
        )
    return view[PREFIX.size : PREFIX.size + header_size]


def _program(node: JsonNode) -> Program:
    fields = node.fields(("prelude", "sources"), ("build_options", "headers", "holes"))
    prelude = fields["prelude"].text()
    holes = tuple(parse_size(n) for n in fields["holes"].items()) if "holes" in fields else ()
    if prelude.count(HOLE) != len(holes):
        raise node.error(f"{len(holes)} sizes for {prelude.count(HOLE)} holes in its text")
    return Program(
        prelude,
        [_source(n) for n in fields["sources"].items()],
        fields["build_options"].text() if "build_options" in fields else "",
        [_source(n) for n in fields["headers"].items()] if "headers" in fields else (),
        holes,
    )


def _source(node: JsonNode) -> Source:
    fields = node.fields(("asset", "file_name", "sha256"))
    digest = fields["sha256"].text()
    if len(digest) != 64 or set(digest) - set("0123456789abcdef"):
        raise fields["sha256"].error("not a SHA-256 in hex")
    file_name = _name(fields["file_name"])
    if file_name.startswith("/") or ".." in file_name.split("/") or not file_name.isprintable():
        raise fields["file_name"].error(f"{file_name!r} is not a path inside the asset's folder")
    return Source(_name(fields["asset"]), file_name, digest)


def _constant(node: JsonNode, data: memoryview) -> Constant:
    fields = node.fields(("type", "offset"), ("dequantization",))
    tensor_type = _type(fields["type"])
    offset = fields["offset"].integer(0, data.nbytes)
    size = tensor_type.size_bytes
    if offset % ALIGNMENT or size > data.nbytes - offset:
        raise node.error(f"{size} bytes at {offset} of {data.nbytes}")
    dequantization = None
    if "dequantization" in fields:
        dequantization = _dequantization(fields["dequantization"], tensor_type)
    return Constant(tensor_type, Blob(data[offset : offset + size]), dequantization)


def _dequantization(node: JsonNode, tensor_type: RankedTensorType) -> Dequantization:
    fields = node.fields((), ("scale", "zero_point", "dimension"))
    if not fields:
        if tensor_type.element_type is not ElementType.FLOAT16:
            raise node.error(f"no scale for {tensor_type}")
        return Dequantization()
    if len(fields) != 3 or tensor_type.element_type not in DEQUANTIZED_INTEGERS:
        raise node.error(f"not the dequantization of {tensor_type}")
    scale = [n.number() for n in fields["scale"].items(1)]
    zero_point = [n.integer(-(2**31), 2**31 - 1) for n in fields["zero_point"].items()]
    dimension = fields["dimension"].integer(0, max(len(tensor_type.shape) - 1, 0))
    channels = tensor_type.shape[dimension] if tensor_type.shape else 1
    if len(scale) not in (1, channels) or len(zero_point) != len(scale):
        raise node.error(f"{len(scale)} scales, {len(zero_point)} zero points of {tensor_type}")
    return Dequantization(scale, zero_point, dimension)


DEQUANTIZED_INTEGERS = (
    ElementType.INT8, ElementType.UINT8, ElementType.INT16, ElementType.INT32,
)  # fmt: skip
"""Stored types of constants that a scale turns into float32."""


def _function(node: JsonNode, programs: Sequence[Program], num_constants: int) -> Function:
    fields = node.fields(
        ("name", "inputs", "outputs", "tasks"),
        ("ddr_size", "cmx_size", "shapes", "dynamic_outputs"),
    )
    inputs = [_type(n) for n in fields["inputs"].items()]
    outputs = [_type(n) for n in fields["outputs"].items()]
    ddr_size = fields["ddr_size"].integer(0, _MOST) if "ddr_size" in fields else 0
    cmx_size = fields["cmx_size"].integer(0, _MOST) if "cmx_size" in fields else 0
    limits = _Limits(len(inputs), len(outputs), num_constants, len(programs), ddr_size, cmx_size)
    tasks = [_task(n, limits) for n in fields["tasks"].items()]
    shapes: Sequence[ShapeValue] = ()
    dynamic_outputs: Sequence[DynamicOutput] = ()
    if "shapes" in fields:
        shapes = read_shapes(fields["shapes"], inputs, len(tasks), ddr_size)
    if "dynamic_outputs" in fields:
        dynamic_outputs = read_dynamic_outputs(fields["dynamic_outputs"], outputs, shapes)
    name = _name(fields["name"])
    function = Function(name, inputs, outputs, tasks, ddr_size, cmx_size, shapes, dynamic_outputs)
    check_order(node, function, programs)
    return function


@dataclass(frozen=True, slots=True)
class _Limits:
    inputs: int
    outputs: int
    constants: int
    programs: int
    ddr_size: int
    cmx_size: int


def _task(node: JsonNode, limits: _Limits) -> KernelTask:
    fields = node.fields(
        ("op_name", "program", "entry", "arguments", "global_size"), ("local_size", "num_shaves")
    )
    global_size = [parse_size(n) for n in fields["global_size"].items(1, 3)]
    local_size: Sequence[Size] | None = None
    if "local_size" in fields:
        local_size = [parse_size(n) for n in fields["local_size"].items()]
        if len(local_size) != len(global_size):
            raise fields["local_size"].error(f"{local_size} for global size {global_size}")
    if all(isinstance(size, int) for size in (*global_size, *(local_size or ()))):
        try:
            work_size(global_size, local_size, lambda _: (), "")
        except LiteRtError as error:
            raise node.error(error.what) from None
    entry = fields["entry"].text()
    if not entry.isidentifier() or not entry.isascii():
        raise fields["entry"].error(f"{entry!r} is not the name of a kernel")
    return KernelTask(
        fields["op_name"].text(),
        fields["program"].integer(0, limits.programs - 1),
        entry,
        [_argument(n, limits) for n in fields["arguments"].items()],
        global_size,
        local_size,
        fields["num_shaves"].integer(0, 2**31 - 1) if "num_shaves" in fields else 0,
    )


def _argument(node: JsonNode, limits: _Limits) -> Argument:
    fields = node.fields(("kind",), ("index", "offset", "size_bytes", "scalar"))
    kind = _KINDS[fields["kind"].text(_KINDS)]
    index = fields["index"].integer(0, _MOST) if "index" in fields else 0
    offset = fields["offset"].integer(0, _MOST) if "offset" in fields else 0
    size = fields["size_bytes"].integer(0, _MOST) if "size_bytes" in fields else 0
    counts = {
        ArgumentKind.INPUT: limits.inputs,
        ArgumentKind.OUTPUT: limits.outputs,
        ArgumentKind.CONSTANT: limits.constants,
    }
    allowed = {"kind"} | _FIELDS[kind]
    if not fields.keys() <= allowed:
        raise node.error(f"{', '.join(sorted(fields.keys() - allowed))} of a {kind.value}")
    if kind in counts and index >= counts[kind]:
        raise node.error(f"{kind.value} {index} of {counts[kind]}")
    arenas = {ArgumentKind.DDR: limits.ddr_size, ArgumentKind.CMX: limits.cmx_size}
    if kind in arenas and (offset % ALIGNMENT or offset + size > arenas[kind]):
        raise node.error(f"{size} bytes at {offset} of {arenas[kind]} in {kind.name}")
    if kind is ArgumentKind.LOCAL and not size:
        raise node.error("no bytes of local memory")
    return Argument(kind, index, offset, size, _scalar(node, fields.get("scalar"), kind))


_KINDS = {kind.value: kind for kind in ArgumentKind}
_FIELDS = {
    ArgumentKind.INPUT: {"index"},
    ArgumentKind.OUTPUT: {"index"},
    ArgumentKind.CONSTANT: {"index"},
    ArgumentKind.DDR: {"offset", "size_bytes"},
    ArgumentKind.CMX: {"offset", "size_bytes"},
    ArgumentKind.LOCAL: {"size_bytes"},
    ArgumentKind.SCALAR: {"scalar"},
    ArgumentKind.SHAPE: {"index"},
}


def _scalar(node: JsonNode, field: JsonNode | None, kind: ArgumentKind) -> bytes:
    if (field is not None) != (kind is ArgumentKind.SCALAR):
        raise node.error(f"scalar bytes in a {kind.value}")
    if field is None:
        return b""
    digits = field.text()
    try:
        scalar = bytes.fromhex(digits)
    except ValueError:
        raise field.error(f"{digits[:40]!r} is not hex") from None
    if not 1 <= len(scalar) <= 128:
        raise field.error(f"a scalar of {len(scalar)} bytes, expected 1 to 128")
    return scalar


def _type(node: JsonNode) -> RankedTensorType:
    name, dimensions = node.items(2, 2)
    element_type = ElementType[name.text(list(ElementType.__members__))]
    shape = tuple(n.integer(0, 2**31 - 1) for n in dimensions.items(0, 16))
    if not element_type.bits or prod(shape) > _MOST // element_type.bits:
        raise node.error(f"{element_type.name} of shape {list(shape)}")
    return RankedTensorType.of(element_type, shape)


def _name(node: JsonNode) -> str:
    name = node.text()
    if not name:
        raise node.error("an empty name")
    return name

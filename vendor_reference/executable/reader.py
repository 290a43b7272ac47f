"""A byte code module becomes an `Executable`; every index, offset, size and name in it is checked."""

from __future__ import annotations

from collections.abc import Sequence

from litert.core.checked_json import JsonNode
from litert.core.element_type import ElementType
from litert.core.errors import LiteRtError
from litert.core.status import Status
from litert.core.tensor_type import RankedTensorType
from litert.model.blob import Blob
from vendor_reference.executable.cpu_op_json import MOST, parse_type
from vendor_reference.executable.executable import (
    HOLE,
    Constant,
    Dequantization,
    Executable,
    Function,
    Program,
)
from vendor_reference.executable.format import ALIGNMENT, MAGIC, PREFIX, VERSION, align
from vendor_reference.executable.shape_reader import check_order, read_dynamic_outputs, read_shapes
from vendor_reference.executable.shape_value import DynamicOutput, ShapeValue
from vendor_reference.executable.size_json import parse_size
from vendor_reference.executable.task_reader import Limits, read_name, read_source, read_task

_WHERE = "byte code"
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
        function = _function(node, programs, constants)
        _check_name(node, function, functions)
        functions.append(function)
    return Executable(read_name(fields["soc_model"]), functions, programs, constants)


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
        [read_source(n) for n in fields["sources"].items()],
        fields["build_options"].text() if "build_options" in fields else "",
        [read_source(n) for n in fields["headers"].items()] if "headers" in fields else (),
        holes,
    )


def _constant(node: JsonNode, data: memoryview) -> Constant:
    fields = node.fields(("type", "offset"), ("dequantization", "order"))
    tensor_type = parse_type(fields["type"])
    offset = fields["offset"].integer(0, data.nbytes)
    size = tensor_type.size_bytes
    if offset % ALIGNMENT or size > data.nbytes - offset:
        raise node.error(f"{size} bytes at {offset} of {data.nbytes}")
    dequantization = None
    if "dequantization" in fields:
        dequantization = _dequantization(fields["dequantization"], tensor_type)
    order: Sequence[int] = ()
    if "order" in fields:
        rank = len(tensor_type.shape)
        order = [dim.integer(0, rank - 1) for dim in fields["order"].items(rank, rank)]
        if len(set(order)) != rank or tensor_type.element_type.bits < 8:
            raise fields["order"].error(f"{order} is no order of the dimensions of {tensor_type}")
    return Constant(tensor_type, Blob(data[offset : offset + size]), dequantization, order)


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


def _function(
    node: JsonNode, programs: Sequence[Program], constants: Sequence[Constant]
) -> Function:
    fields = node.fields(
        ("name", "inputs", "outputs", "tasks"),
        ("ddr_size", "cmx_size", "shapes", "dynamic_outputs", "needs_fp16"),
    )
    inputs = [parse_type(n) for n in fields["inputs"].items()]
    outputs = [parse_type(n) for n in fields["outputs"].items()]
    ddr_size = fields["ddr_size"].integer(0, MOST) if "ddr_size" in fields else 0
    cmx_size = fields["cmx_size"].integer(0, MOST) if "cmx_size" in fields else 0
    limits = Limits(
        [t.size_bytes for t in inputs],
        [t.size_bytes for t in outputs],
        [_read_size(c) for c in constants],
        len(programs),
        ddr_size,
        cmx_size,
    )
    tasks = [read_task(n, limits) for n in fields["tasks"].items()]
    shapes: Sequence[ShapeValue] = ()
    dynamic_outputs: Sequence[DynamicOutput] = ()
    if "shapes" in fields:
        shapes = read_shapes(fields["shapes"], inputs, len(tasks), ddr_size)
    if "dynamic_outputs" in fields:
        dynamic_outputs = read_dynamic_outputs(fields["dynamic_outputs"], outputs, shapes)
    name = read_name(fields["name"])
    function = Function(
        name,
        inputs,
        outputs,
        tasks,
        ddr_size,
        cmx_size,
        shapes,
        dynamic_outputs,
        fields["needs_fp16"].boolean() if "needs_fp16" in fields else False,
    )
    check_order(node, function, programs)
    return function


def _check_name(node: JsonNode, function: Function, before: Sequence[Function]) -> None:
    """Names are unique, except that a function for fp16 arithmetic has that of the one whose place it takes."""
    same = [other for other in before if other.name == function.name]
    if not function.needs_fp16 and not same:
        return
    if not function.needs_fp16 or len(same) > 1:
        raise node.error(f"a second function '{function.name}'", _HINT)
    if not same:
        raise node.error(
            f"function '{function.name}' needs fp16, and takes no other's place", _HINT
        )
    taken = same[0]
    if [*function.inputs, *function.outputs] != [*taken.inputs, *taken.outputs]:
        raise node.error(f"'{function.name}' has other inputs or outputs with fp16", _HINT)


def _read_size(constant: Constant) -> int:
    """Bytes of a constant as kernels read it."""
    if constant.dequantization is None:
        return constant.tensor_type.size_bytes
    return constant.tensor_type.num_elements * ElementType.FLOAT32.bits // 8

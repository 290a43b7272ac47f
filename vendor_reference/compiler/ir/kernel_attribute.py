"""Stores a kernel as an attribute of the external function or op that represents the kernel.

    VPUIP.kernel = {title = "Softsign", arguments = [{input = 0 : i64}, {output = 0 : i64}], ...},
    VPUIP.max_num_shaves = 4 : i64

In memory, the attribute holds a `KernelSpec`; only the printed attribute is a dictionary. The dictionary omits
fields with default values. A scalar is written as `{scalar = 0.5 : f32}`, a constant as `{constant = dense<...> :
...}`, memory as `{local = "B*2", type = f32}`, an output that is filled with zeros as `{output = 0 : i64, zero}`,
a file as `["asset", "file name", "sha256"]`, a define as `["name", "text"]`, a flag as `unit`, and a firmware
command as `{instruction = "Pool", fields = {input = 0 : i64, ...}}`.
"""

from __future__ import annotations

import struct
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from typing import cast

from xdsl.dialects.builtin import (
    ArrayAttr,
    BytesAttr,
    DenseArrayBase,
    DenseIntOrFPElementsAttr,
    DictionaryAttr,
    FloatAttr,
    IntegerAttr,
    ModuleOp,
    UnitAttr,
    f32,
    i64,
)
from xdsl.ir import Attribute, BuiltinAttribute, Data
from xdsl.irdl import irdl_attr_definition
from xdsl.parser import AttrParser
from xdsl.printer import Printer

from litert.core.checked_json import JsonNode
from litert.core.codec import (
    ANY_TEXT,
    Codec,
    Renamed,
    checked,
    enumeration,
    frozen_array,
    integer,
    record,
    row,
    tagged,
)
from litert.core.element_type import ElementType
from litert.core.errors import LiteRtError
from litert.core.sizes import Size
from litert.core.status import Status
from vendor_reference.compiler.ir.assembly import number
from vendor_reference.compiler.ir.plain import plain_attribute, plain_value
from vendor_reference.compiler.ir.types import find_element_type, ir_element_type, tensor_type
from vendor_reference.custom_layers.cl_types import STRUCT_FORMATS
from vendor_reference.custom_layers.kernel_spec import (
    ConstantArgument,
    CpuKernel,
    Format,
    InternalArgument,
    KernelArgument,
    KernelSpec,
    LocalArgument,
    ScalarArgument,
    ShapeArgument,
    TensorArgument,
)
from vendor_reference.executable.build_options import find_option_mistake
from vendor_reference.executable.cpu_op import CPU_CONFIG, CPU_OP, MOST_DIM, check_config
from vendor_reference.executable.executable import Source
from vendor_reference.firmware.instructions import Command, FieldValue

KERNEL = "VPUIP.kernel"
MAX_NUM_SHAVES = "VPUIP.max_num_shaves"


@irdl_attr_definition
class KernelAttr(BuiltinAttribute, Data[KernelSpec]):
    """The attribute that holds a kernel.

    The maximum number of vector processors for the kernel is a separate attribute.
    """

    name = "VPUIP.kernel_spec"

    def print_builtin(self, printer: Printer) -> None:
        """Prints the kernel as a dictionary."""
        printer.print_attribute(plain_attribute(_KERNEL.dump(self.data)))

    def print_parameter(self, printer: Printer) -> None:
        """Prints the kernel as a dictionary; xDSL calls this method for attributes that are not builtin."""
        self.print_builtin(printer)

    @classmethod
    def parse_parameter(cls, parser: AttrParser) -> KernelSpec:
        """Parses a dictionary that `print_builtin` has printed."""
        return _read_dictionary(parser.parse_attribute())


def kernel_attributes(spec: KernelSpec) -> dict[str, Attribute]:
    """Returns the attributes of a function that represents a kernel."""
    attributes: dict[str, Attribute] = {KERNEL: KernelAttr(replace(spec, max_num_shaves=0))}
    if spec.max_num_shaves:
        attributes[MAX_NUM_SHAVES] = number(spec.max_num_shaves)
    return attributes


def read_kernel(attributes: Mapping[str, Attribute]) -> KernelSpec:
    """Reads the kernel from the attributes of a function.

    Raises:
      LiteRtError: INVALID_ARGUMENT, if an attribute does not have the format that `kernel_attributes` makes.
    """
    kernel = attributes.get(KERNEL)
    spec = kernel.data if isinstance(kernel, KernelAttr) else _read_dictionary(kernel)
    limit = read_max_num_shaves(attributes)
    return replace(spec, max_num_shaves=limit) if limit else spec


def count_outputs(attributes: Mapping[str, Attribute], spec: KernelSpec) -> int:
    """Returns the number of buffers that a layer writes, from the attributes of its function."""
    layouts = attributes.get("IE.output_layouts")
    if isinstance(layouts, ArrayAttr):
        return len(layouts.data)
    tensors = [a for a in spec.arguments if isinstance(a, TensorArgument)]
    if not tensors:
        return 0
    return max((a.index for a in tensors if a.is_output), default=0) + 1


def read_max_num_shaves(attributes: Mapping[str, Attribute]) -> int:
    """Returns the largest number of vector processors for a layer; 0 means no limit."""
    attribute = attributes.get(MAX_NUM_SHAVES)
    if attribute is None:
        return 0
    if not isinstance(attribute, IntegerAttr) or attribute.value.data < 0:
        raise _error(MAX_NUM_SHAVES, "a number of 0 or more", attribute)
    return int(attribute.value.data)


def hold_kernels(module: ModuleOp) -> None:
    """Converts kernel attributes from dictionaries to kernels.

    Invalid dictionaries stay unchanged, and a later check rejects them.
    """
    for op in module.walk():
        kernel = op.attributes.get(KERNEL)
        if isinstance(kernel, DictionaryAttr):
            with suppress(LiteRtError):
                op.attributes[KERNEL] = KernelAttr(_read_dictionary(kernel))


def _read_dictionary(kernel: Attribute | None) -> KernelSpec:
    if not isinstance(kernel, DictionaryAttr):
        raise _error(KERNEL, "a dictionary that describes the kernel", kernel)
    return _KERNEL.read(JsonNode(_plain(kernel), KERNEL, "", Status.INVALID_ARGUMENT))


def _plain(attribute: Attribute) -> object:
    """Converts an attribute to plain data.

    Leaves scalars, whose type matters, and other attributes unchanged.
    """
    if isinstance(attribute, DictionaryAttr):
        return {name: _plain_entry(name, value) for name, value in attribute.data.items()}
    if isinstance(attribute, ArrayAttr):
        return [_plain(item) for item in attribute.data]
    return plain_value(attribute)


def _plain_entry(name: str, value: Attribute) -> object:
    if name == "scalar":
        return value
    return True if isinstance(value, UnitAttr) else _plain(value)


def _read_scalar(node: JsonNode) -> ScalarArgument:
    field = node.fields(("scalar",))["scalar"]
    attribute = field.value
    if not isinstance(attribute, (IntegerAttr, FloatAttr)):
        raise field.error(f"the scalar is {str(attribute)[:60]}, but must be a number")
    element_type = _number_type(field, attribute.type)
    value = attribute.value.data
    try:
        data = struct.pack(f"<{STRUCT_FORMATS[element_type]}", value)
    except (struct.error, OverflowError) as error:
        raise field.error(f"type {element_type.mlir} cannot hold the value {value}") from error
    return ScalarArgument(element_type, data)


def _dump_scalar(argument: ScalarArgument) -> object:
    element = ir_element_type(argument.element_type)
    (value,) = struct.unpack(f"<{STRUCT_FORMATS[argument.element_type]}", argument.data)
    make = FloatAttr if isinstance(value, float) else IntegerAttr
    return {"scalar": make(value, element)}


def _read_constant(node: JsonNode) -> ConstantArgument:
    field = node.fields(("constant",))["constant"]
    if not isinstance(field.value, DenseIntOrFPElementsAttr):
        raise field.error(f"the constant is {str(field.value)[:60]}, but must be dense<...>")
    element_type = _number_type(field, field.value.get_element_type())
    return ConstantArgument(element_type, field.value.data.data)


def _dump_constant(argument: ConstantArgument) -> object:
    count = len(argument.data) * 8 // argument.element_type.bits
    vector = tensor_type(argument.element_type, (count,))
    dense = DenseIntOrFPElementsAttr(vector, BytesAttr(argument.data))  # type: ignore[type-var]
    return {"constant": dense}


def _number_type(node: JsonNode, attribute: object) -> ElementType:
    element_type = find_element_type(attribute) if isinstance(attribute, Attribute) else None
    if element_type is None or element_type not in STRUCT_FORMATS:
        raise node.error(f"the type '{str(attribute)[:60]}' is not a numeric type")
    return element_type


def _kind(argument: KernelArgument) -> str:
    """Returns the name of the field that says what an argument is."""
    if isinstance(argument, (TensorArgument, ShapeArgument)):
        port = "output" if argument.is_output else "input"
        return port if isinstance(argument, TensorArgument) else f"shape_of_{port}"
    return type(argument).__name__.removesuffix("Argument").lower()


def _dump_fields(fields: Sequence[tuple[str, FieldValue]]) -> object:
    return {name: _dump_field(value) for name, value in fields}


def _dump_field(value: FieldValue) -> Attribute:
    if isinstance(value, float):
        return FloatAttr(value, f32)
    if isinstance(value, tuple):
        if any(isinstance(number, str) for number in value):
            return plain_attribute(list(value))
        if any(isinstance(number, float) for number in value):
            return DenseArrayBase.from_list(f32, [float(cast("float", n)) for n in value])
        return DenseArrayBase.from_list(i64, [cast("int", n) for n in value])
    return plain_attribute(value)


def _read_fields(node: JsonNode) -> tuple[tuple[str, FieldValue], ...]:
    return tuple((name, _read_field(field)) for name, field in node.entries().items())


def _read_field(node: JsonNode) -> FieldValue:
    value = node.value
    if isinstance(value, DenseArrayBase):
        return tuple(value.get_values())
    if isinstance(value, list):
        return tuple(cast("Size | float | str", _read_field(item)) for item in node.items())
    if isinstance(value, int) and not isinstance(value, bool):
        return node.integer(-(2**63), 2**63 - 1)
    if isinstance(value, (float, str)):
        return value
    raise node.error(f"the value is {str(value)[:60]}, but must be a number or a formula")


def _check_cpu_kernel(node: JsonNode, kernel: CpuKernel) -> None:
    check_config(node.at("config"), kernel.config, kernel.op)
    if kernel.asked_shapes:
        outputs = kernel.op.outputs
        shapes = node.at("asked_shapes").items(len(outputs), len(outputs))
        for shape, operand in zip(shapes, outputs, strict=True):
            rank = len(operand.tensor_type.shape)
            shape.items(rank, rank)


def _error(where: str, expected: str, found: Attribute | None) -> LiteRtError:
    shown = "is missing; it" if found is None else f"is {str(found)[:60]}, but"
    return LiteRtError(Status.INVALID_ARGUMENT, f"attribute {where} {shown} must be {expected}")


_TEXTS = frozen_array(ANY_TEXT)
_PORT = integer(0, 2**63 - 1)
_FLAG: Codec[bool] = Codec(JsonNode.boolean, lambda _: UnitAttr())
_ELEMENT: Codec[ElementType] = Codec(lambda node: _number_type(node, node.value), ir_element_type)
_ANY_TENSOR = {"element_type": None, "is_strided": False}


def _tensor(kind: str) -> Codec[TensorArgument]:
    return record(
        TensorArgument,
        index=Renamed(kind, _PORT),
        format=enumeration(Format),
        is_zeroed=Renamed("zero", _FLAG),
        order=frozen_array(_PORT),
        panel=_PORT,
        fixed={"is_output": kind == "output", **_ANY_TENSOR},
    )


def _shape(kind: str) -> Codec[ShapeArgument]:
    name, fixed = f"shape_of_{kind}", {"is_output": kind == "output"}
    return record(ShapeArgument, index=Renamed(name, _PORT), fixed=fixed)


_TENSORS: Mapping[str, Codec[TensorArgument]] = {k: _tensor(k) for k in ("input", "output")}

_ARGUMENT: Codec[KernelArgument] = tagged(
    {
        **_TENSORS,
        **{f"shape_of_{kind}": _shape(kind) for kind in ("input", "output")},
        "scalar": Codec(_read_scalar, _dump_scalar),
        "constant": Codec(_read_constant, _dump_constant),
        "local": record(
            LocalArgument, size=Renamed("local", ANY_TEXT), element_type=Renamed("type", _ELEMENT)
        ),
        "internal": record(
            InternalArgument,
            size=Renamed("internal", ANY_TEXT),
            element_type=Renamed("type", _ELEMENT),
        ),
    },
    _kind,
)

_SOURCES = frozen_array(row(Source, asset=ANY_TEXT, file_name=ANY_TEXT, sha256=ANY_TEXT))

_CPU_KERNEL = record(
    CpuKernel,
    op=CPU_OP,
    implementation=integer(0, MOST_DIM),
    config=CPU_CONFIG,
    asked_shapes=frozen_array(frozen_array(integer(-1, MOST_DIM))),
    check=_check_cpu_kernel,
)

_KERNEL = record(
    KernelSpec,
    title=ANY_TEXT,
    arguments=frozen_array(_ARGUMENT),
    where=ANY_TEXT,
    entry=ANY_TEXT,
    build_options=checked(ANY_TEXT, find_option_mistake),
    op_name=ANY_TEXT,
    global_size=_TEXTS,
    local_size=_TEXTS,
    counts_from_end=_FLAG,
    uses_init=_FLAG,
    in_place=_FLAG,
    absent_inputs=frozen_array(_PORT),
    flat_inputs=frozen_array(_PORT),
    sources=_SOURCES,
    headers=_SOURCES,
    defines=frozen_array(frozen_array(ANY_TEXT, 2, 2)),
    mentions=_TEXTS,
    sizes_of=tagged(_TENSORS, _kind),
    commands=frozen_array(
        record(Command, instruction=ANY_TEXT, fields=Codec(_read_fields, _dump_fields))
    ),
    cpu_layer=_CPU_KERNEL,
    always=lambda _: ("title", "arguments"),
    required=("title", "arguments"),
    fixed={"max_num_shaves": 0},
)

"""A kernel as attributes of the external function that stands for it, and back.

    VPUIP.kernel = {title = "Softsign", arguments = [{input = 0 : i64}, {output = 0 : i64}], ...},
    VPUIP.max_num_shaves = 4 : i64

What has its default is left out. A scalar is `{scalar = 0.5 : f32}`, a constant `{constant = dense<...> : ...}`,
memory `{local = "B*2", type = f32}`, a file `["asset", "file name", "sha256"]`, a define `["name", "text"]`.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Mapping, Sequence
from functools import lru_cache
from typing import TypeVar

from xdsl.dialects.builtin import (
    ArrayAttr,
    BytesAttr,
    DenseIntOrFPElementsAttr,
    DictionaryAttr,
    FloatAttr,
    IntegerAttr,
    StringAttr,
    UnitAttr,
)
from xdsl.ir import Attribute

from litert.core.checked_json import JsonNode
from litert.core.element_type import ElementType
from litert.core.errors import LiteRtError
from litert.core.status import Status
from vendor_reference.compiler.ir.assembly import number
from vendor_reference.compiler.ir.cpu_kernel_attribute import CPU_KERNEL
from vendor_reference.compiler.ir.json_attribute import json_attribute, read_json
from vendor_reference.compiler.ir.types import find_element_type, ir_element_type, tensor_type
from vendor_reference.compiler.kernel_spec import (
    ConstantArgument,
    CpuKernel,
    InternalArgument,
    KernelArgument,
    KernelSpec,
    LocalArgument,
    ScalarArgument,
    ShapeArgument,
    TensorArgument,
)
from vendor_reference.custom_layers.cl_types import STRUCT_FORMATS
from vendor_reference.custom_layers.custom_layer import Format
from vendor_reference.executable.executable import Source

KERNEL = "VPUIP.kernel"
MAX_NUM_SHAVES = "VPUIP.max_num_shaves"

_TEXTS = ("where", "text", "entry", "build_options", "op_name")
_FORMULAS = ("global_size", "local_size")
_FLAGS = ("counts_from_end", "uses_init", "in_place")
_INPUT_LISTS = ("absent_inputs", "flat_inputs")
_CPU = "cpu_layer"
_FIELDS = (
    "title", "arguments", *_TEXTS, *_FORMULAS, *_FLAGS, "sources", "headers", "defines", "sizes_of",
    "absent_inputs", "flat_inputs", "mentions", _CPU,
)  # fmt: skip
_PORTS = ("input", "output", "shape_of_input", "shape_of_output")
_OUTPUT_0 = TensorArgument(is_output=True, index=0)


def kernel_attributes(spec: KernelSpec) -> dict[str, Attribute]:
    """What a function that stands for a kernel has as attributes."""
    fields: dict[str, Attribute] = {"title": StringAttr(spec.title)}
    fields["arguments"] = ArrayAttr([_argument_attribute(a) for a in spec.arguments])
    for name in _TEXTS:
        if text := getattr(spec, name):
            fields[name] = StringAttr(text)
    for name in _FORMULAS:
        if formulas := getattr(spec, name):
            fields[name] = _texts_attribute(formulas)
    for name in _FLAGS:
        if getattr(spec, name):
            fields[name] = UnitAttr()
    for name in _INPUT_LISTS:
        if inputs := getattr(spec, name):
            fields[name] = ArrayAttr([number(i) for i in inputs])
    for name, files in (("sources", spec.sources), ("headers", spec.headers)):
        if files:
            fields[name] = ArrayAttr([_file_attribute(file) for file in files])
    if spec.defines:
        fields["defines"] = ArrayAttr([_texts_attribute(define) for define in spec.defines])
    if spec.mentions is not None:
        fields["mentions"] = _texts_attribute(spec.mentions)
    if spec.sizes_of != _OUTPUT_0:
        fields["sizes_of"] = _argument_attribute(spec.sizes_of)
    if spec.cpu is not None:
        fields[_CPU] = json_attribute(CPU_KERNEL.dump(spec.cpu))
    attributes: dict[str, Attribute] = {KERNEL: DictionaryAttr(fields)}
    if spec.max_num_shaves:
        attributes[MAX_NUM_SHAVES] = number(spec.max_num_shaves)
    return attributes


def read_kernel(attributes: Mapping[str, Attribute]) -> KernelSpec:
    """The kernel that a function's attributes hold.

    Raises:
      LiteRtError: INVALID_ARGUMENT, with the attribute that is not as `kernel_attributes` makes it.
    """
    kernel = attributes.get(KERNEL)
    if not isinstance(kernel, DictionaryAttr):
        raise _error(KERNEL, "a dictionary that holds the kernel", kernel)
    return _read_kernel(_Held(kernel), read_max_num_shaves(attributes))


class _Held:
    """An attribute as itself: passes that come to it again need not look into it."""

    __slots__ = ("attribute",)

    def __init__(self, attribute: DictionaryAttr) -> None:
        self.attribute = attribute

    def __hash__(self) -> int:
        return id(self.attribute)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, _Held) and self.attribute is other.attribute


@lru_cache(maxsize=4096)
def _read_kernel(kernel: _Held, max_num_shaves: int) -> KernelSpec:
    fields = kernel.attribute.data
    for name in fields:
        if name not in _FIELDS:
            raise LiteRtError(
                Status.INVALID_ARGUMENT,
                f"{KERNEL} has no field '{name}'",
                hint=f"It has {', '.join(_FIELDS)}.",
            )
    if "title" not in fields or "arguments" not in fields:
        raise _error(KERNEL, "a dictionary with a title and arguments", kernel.attribute)
    sizes_of = _read_argument(fields["sizes_of"], 0) if "sizes_of" in fields else _OUTPUT_0
    if not isinstance(sizes_of, TensorArgument):
        raise _error("sizes_of", "an input or output", fields["sizes_of"])
    return KernelSpec(
        title=_text("title", fields["title"]),
        arguments=tuple(
            _read_argument(a, i) for i, a in enumerate(_items("arguments", fields["arguments"]))
        ),
        sources=_rows("sources", fields, _read_source),
        headers=_rows("headers", fields, _read_source),
        defines=_rows("defines", fields, _read_define),
        sizes_of=sizes_of,
        mentions=_rows("mentions", fields, _text) if "mentions" in fields else None,
        max_num_shaves=max_num_shaves,
        cpu=_read_cpu(fields[_CPU]) if _CPU in fields else None,
        **{name: True for name in _FLAGS if name in fields},  # type: ignore[arg-type]
        **{name: _text(name, fields[name]) for name in _TEXTS if name in fields},  # type: ignore[arg-type]
        **{name: _rows(name, fields, _text) for name in _FORMULAS},  # type: ignore[arg-type]
        **{name: _rows(name, fields, _number) for name in _INPUT_LISTS},  # type: ignore[arg-type]
    )


def read_max_num_shaves(attributes: Mapping[str, Attribute]) -> int:
    """The most vector processors that a layer may be spread over; 0 is no limit.

    Raises:
      LiteRtError: INVALID_ARGUMENT, if it is no such number.
    """
    attribute = attributes.get(MAX_NUM_SHAVES)
    if attribute is None:
        return 0
    if not isinstance(attribute, IntegerAttr) or attribute.value.data < 0:
        raise _error(MAX_NUM_SHAVES, "a number from 0 on", attribute)
    return int(attribute.value.data)


def _read_cpu(attribute: Attribute) -> CpuKernel:
    where = f"{KERNEL}.{_CPU}"
    return CPU_KERNEL.read(JsonNode(read_json(attribute), "$", where, Status.INVALID_ARGUMENT))


def _argument_attribute(argument: KernelArgument) -> DictionaryAttr:
    if isinstance(argument, (TensorArgument, ShapeArgument)):
        return _port_attribute(argument)
    element = ir_element_type(argument.element_type)
    if isinstance(argument, ScalarArgument):
        (number,) = struct.unpack(f"<{STRUCT_FORMATS[argument.element_type]}", argument.data)
        scalar = FloatAttr if isinstance(number, float) else IntegerAttr
        return DictionaryAttr({"scalar": scalar(number, element)})  # type: ignore[call-overload]
    if isinstance(argument, ConstantArgument):
        count = len(argument.data) * 8 // argument.element_type.bits
        data = BytesAttr(argument.data)
        vector = tensor_type(argument.element_type, (count,))
        return DictionaryAttr({"constant": DenseIntOrFPElementsAttr(vector, data)})  # type: ignore[type-var]
    name = "local" if isinstance(argument, LocalArgument) else "internal"
    return DictionaryAttr({name: StringAttr(argument.size), "type": element})


@lru_cache(maxsize=256)
def _port_attribute(argument: TensorArgument | ShapeArgument) -> DictionaryAttr:
    kind = "output" if argument.is_output else "input"
    name = kind if isinstance(argument, TensorArgument) else f"shape_of_{kind}"
    port: dict[str, Attribute] = {name: number(argument.index)}
    if isinstance(argument, TensorArgument) and argument.format is not Format.ANY:
        port["format"] = StringAttr(argument.format.value)
    return DictionaryAttr(port)


@lru_cache(maxsize=256)
def _file_attribute(file: Source) -> ArrayAttr[StringAttr]:
    return _texts_attribute((file.asset, file.file_name, file.sha256))


def _read_argument(attribute: Attribute, index: int) -> KernelArgument:
    where = f"arguments[{index}]"
    if not isinstance(attribute, DictionaryAttr) or len(attribute.data) not in (1, 2):
        raise _error(where, "a dictionary such as {input = 0 : i64}", attribute)
    fields = attribute.data
    kind = next((name for name in fields if name not in ("type", "format")), "")
    value = fields.get(kind)
    if kind in _PORTS and isinstance(value, IntegerAttr) and value.value.data >= 0:
        is_output, port = kind.endswith("output"), int(value.value.data)
        if kind.startswith("shape"):
            return ShapeArgument(is_output, port)
        return TensorArgument(is_output, port, _read_format(where, fields.get("format")))
    if kind == "scalar" and isinstance(value, (IntegerAttr, FloatAttr)):
        element_type = _number_type(where, value.type)
        number = value.value.data
        return ScalarArgument(element_type, _pack(where, element_type, number))
    if kind == "constant" and isinstance(value, DenseIntOrFPElementsAttr):
        return ConstantArgument(_number_type(where, value.get_element_type()), value.data.data)
    if kind in ("local", "internal") and value is not None and "type" in fields:
        memory = LocalArgument if kind == "local" else InternalArgument
        return memory(_number_type(where, fields["type"]), _text(where, value))
    known = (*_PORTS, "scalar", "constant", "local", "internal")
    raise _error(where, f"one of {', '.join(known)} with its value", attribute)


def _read_format(where: str, attribute: Attribute | None) -> Format:
    names = [wanted.value for wanted in Format]
    if attribute is None:
        return Format.ANY
    if not isinstance(attribute, StringAttr) or attribute.data not in names:
        raise _error(where, f"format {', '.join(names)}", attribute)
    return Format(attribute.data)


def _number(where: str, attribute: Attribute) -> int:
    if not isinstance(attribute, IntegerAttr) or attribute.value.data < 0:
        raise _error(where, "a number from 0 on", attribute)
    return int(attribute.value.data)


def _number_type(where: str, attribute: Attribute) -> ElementType:
    element_type = find_element_type(attribute)
    if element_type not in STRUCT_FORMATS:
        raise _error(where, "a type of numbers", attribute)
    assert element_type is not None
    return element_type


def _pack(where: str, element_type: ElementType, number: int | float) -> bytes:
    try:
        return struct.pack(f"<{STRUCT_FORMATS[element_type]}", number)
    except (struct.error, OverflowError) as error:
        raise LiteRtError(
            Status.INVALID_ARGUMENT, f"{where} is {number}, which is no {element_type.mlir}"
        ) from error


def _texts_attribute(texts: Sequence[str]) -> ArrayAttr[StringAttr]:
    return ArrayAttr([StringAttr(text) for text in texts])


_Item = TypeVar("_Item")


def _rows(
    name: str, fields: Mapping[str, Attribute], read: Callable[[str, Attribute], _Item]
) -> tuple[_Item, ...]:
    if name not in fields:
        return ()
    items = _items(name, fields[name])
    return tuple(read(f"{name}[{index}]", item) for index, item in enumerate(items))


def _read_source(where: str, attribute: Attribute) -> Source:
    asset, file_name, sha256 = _read_texts(where, attribute, 3)
    return Source(asset, file_name, sha256)


def _read_define(where: str, attribute: Attribute) -> tuple[str, str]:
    name, text = _read_texts(where, attribute, 2)
    return name, text


def _read_texts(where: str, attribute: Attribute, count: int) -> list[str]:
    texts = [_text(where, item) for item in _items(where, attribute)]
    if len(texts) != count:
        raise _error(where, f"{count} texts", attribute)
    return texts


def _items(where: str, attribute: Attribute) -> Sequence[Attribute]:
    if not isinstance(attribute, ArrayAttr):
        raise _error(where, "an array", attribute)
    return list(attribute.data)


def _text(where: str, attribute: Attribute) -> str:
    if isinstance(attribute, StringAttr):
        return attribute.data
    if isinstance(attribute, BytesAttr):  # what the parser makes of a text that is not ASCII
        try:
            return attribute.data.decode()
        except UnicodeDecodeError:
            pass
    raise _error(where, "a text", attribute)


def _error(where: str, expected: str, found: Attribute | None) -> LiteRtError:
    shown = "missing" if found is None else str(found)[:60]
    return LiteRtError(Status.INVALID_ARGUMENT, f"{where} is {shown}, expected {expected}")

"""Prints a model as text in the style of MLIR, for golden tests and for people to read.

The text depends only on the model's content: it contains no addresses and no file offsets. Values are numbered in
order, and the tensors' names appear as MLIR locations. Large constants are printed as digests, and strings as
printable ASCII. Subgraphs are printed as functions, and ops in the generic form of MLIR's dialect `tfl`.
"""

from __future__ import annotations

import re
import struct
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from litert.core.quantization import Quantization
from litert.model.custom_options import find_flexbuffer_options
from litert.model.graph import Model, Op, Signature, Subgraph, Tensor
from litert.model.raw_options import RAW_FORMATS
from litert.model.schema import ENUMS
from litert.model.schema_types import FieldKind, table_schema
from litert.model.table import Table

_SYMBOL = re.compile(r"[A-Za-z_][A-Za-z0-9_$.]*")
_ESCAPES = {
    byte: chr(byte) if 32 <= byte < 127 and byte not in b'"\\' else f"\\{byte:02X}"
    for byte in range(256)
} | {ord("\\"): "\\\\"}
_MAX_NUMBERS = 8
_MAX_HEX = 64
_MAX_TEXT = 128


def dump(model: Model) -> str:
    """Returns a model as text; the text ends with a newline.

    Raises:
      LiteRtError: INVALID_FLATBUFFER, if the model's file has a damaged table (tables are read only when they are
        needed).
    """
    attributes = [f"tfl.schema_version = {model.version}"]
    if model.description is not None:
        attributes.append(f"tfl.description = {quote(model.description)}")
    lines = [f"module attributes {_braces(attributes)} {{"]
    calls = {
        op: (index, name)
        for index, module in enumerate(model.byte_code)
        for op, name in module.users
    }
    signatures: dict[int, list[Signature]] = {}
    for signature in model.signatures:
        signatures.setdefault(id(signature.subgraph), []).append(signature)
    for index, subgraph in enumerate(model.subgraphs):
        function = _Function(subgraph, signatures.get(id(subgraph), ()), calls)
        lines += [f"  // subgraph {index}", *function.lines()]
    for index, module in enumerate(model.byte_code):
        value = data_text(module.blob.view)
        lines.append(f'  "tfl.byte_code"() {{index = {index}, value = {value}}}')
    for entry in model.metadata:
        blob = entry.buffer.blob
        value = text_or_data(blob.view) if blob else '""'
        lines.append(f'  "tfl.metadata"() {{name = {quote(entry.name)}, value = {value}}}')
    if model.trailing:
        lines.append(f'  "tfl.trailing"() {{value = {data_text(model.trailing.view)}}}')
    lines.append("}\n")
    return "\n".join(lines)


class _Function:
    """Prints one subgraph, and names its values."""

    def __init__(
        self,
        subgraph: Subgraph,
        signatures: Sequence[Signature],
        calls: dict[Op, tuple[int, str]],
    ) -> None:
        self._subgraph = subgraph
        self._signatures = signatures
        self._calls = calls
        self._names: dict[Tensor, str] = {}
        self._types: dict[Tensor, str] = {}

    def lines(self) -> list[str]:
        subgraph = self._subgraph
        for index, tensor in enumerate(subgraph.inputs):
            self._names.setdefault(tensor, f"%arg{index}")
        made = [tensor for op in subgraph.ops for tensor in op.outputs]
        values = self._value_lines(set(made))
        before = len(self._names)
        for tensor in made:
            self._names.setdefault(tensor, f"%{len(self._names) - before}")
        ops = [self._op_line(op) for op in subgraph.ops]
        returned = ", ".join(map(self._name, subgraph.outputs))
        types = ", ".join(map(self._type, subgraph.outputs))
        end = f"    return {returned} : {types}" if subgraph.outputs else "    return"
        return [self._header(), *values, *ops, end, "  }"]

    def _header(self) -> str:
        subgraph = self._subgraph
        arguments = ", ".join(
            f"{self._name(tensor)}: {self._type(tensor)}{_location([tensor])}"
            for tensor in subgraph.inputs
        )
        types = [self._type(tensor) for tensor in subgraph.outputs]
        result = types[0] if len(types) == 1 else f"({', '.join(types)})"
        attributes = [
            f"{key(s.key)} = {{inputs = {self._bindings(s.inputs)}, "
            f"outputs = {self._bindings(s.outputs)}}}"
            for s in self._signatures
        ]
        suffix = f" attributes {{signatures = {_braces(attributes)}}}" if attributes else ""
        return f"  func.func @{key(subgraph.name)}({arguments}) -> {result}{suffix} {{"

    def _bindings(self, arguments: Iterable[tuple[str, Tensor]]) -> str:
        return _braces(f"{key(name)} = {self._name(tensor)}" for name, tensor in arguments)

    def _value_lines(self, made: set[Tensor]) -> list[str]:
        """Prints the values before the first op: constants, variables, and tensors that no op writes."""
        lines = []
        counts: dict[str, int] = {}
        for tensor in self._subgraph.tensors:
            if tensor in self._names or (tensor in made and not tensor.is_constant):
                continue
            if tensor.is_constant:
                prefix, op, value = "cst", "pseudo_const", f"{{value = {constant_text(tensor)}}} "
            else:
                prefix, value = ("var", "") if tensor.is_variable else ("unset", "")
                op = "variable" if tensor.is_variable else "unset"
            number = counts[prefix] = counts.get(prefix, -1) + 1
            name = self._names[tensor] = f"%{prefix}{number}"
            lines.append(
                f'    {name} = "tfl.{op}"() {value}: () -> {self._type(tensor)}'
                f"{_location([tensor])}"
            )
        return lines

    def _op_line(self, op: Op) -> str:
        results = f"{', '.join(map(self._name, op.outputs))} = " if op.outputs else ""
        operands = ", ".join("none" if t is None else self._name(t) for t in op.inputs)
        types = ", ".join("none" if t is None else self._type(t) for t in op.inputs)
        made = [self._type(tensor) for tensor in op.outputs]
        result_types = made[0] if len(made) == 1 else f"({', '.join(made)})"
        attributes = self._attributes(op)
        name = "custom" if op.is_custom else op.name.lower()
        return (
            f'    {results}"tfl.{name}"({operands})'
            f"{f' {_braces(attributes)}' if attributes else ''}"
            f" : ({types}) -> {result_types}{_location(op.outputs)}"
        )

    def _attributes(self, op: Op) -> list[str]:
        attributes = []
        if op.is_custom:
            attributes.append(f"custom_code = {quote(op.code.custom_code or '')}")
        if op in self._calls:
            module, function = self._calls[op]
            attributes.append(f"byte_code = {module}, function = {quote(function)}")
        elif op.custom_options is not None:
            attributes.append(f"custom_option = {options_text(op.custom_options.view)}")
        for table in (op.options, op.options_2):
            if table is not None:
                attributes += table_attributes(table)
        if op.code.version != 1:
            attributes.append(f"version = {op.code.version}")
        if op.intermediates:
            names = ("none" if t is None else self._name(t) for t in op.intermediates)
            attributes.append(f"intermediates = [{', '.join(names)}]")
        if op.mutating_variable_inputs:
            values = attribute(op.mutating_variable_inputs)
            attributes.append(f"mutating_variable_inputs = {values}")
        return attributes

    def _name(self, tensor: Tensor) -> str:
        """Returns a value's name, even if the subgraph does not list the value while the graph is changed."""
        return self._names.setdefault(tensor, f"%stray{len(self._names)}")

    def _type(self, tensor: Tensor) -> str:
        text = self._types.get(tensor)
        if text is None:
            text = self._types[tensor] = tensor_type_text(tensor)
        return text


def _location(tensors: Sequence[Tensor]) -> str:
    names = [tensor.name for tensor in tensors]
    return f" loc({', '.join(map(quote, names))})" if any(names) else ""


def _braces(items: Iterable[str]) -> str:
    return f"{{{', '.join(items)}}}"


def quote(text: str) -> str:
    """Returns a string in quotes.

    Each character that is not printable ASCII is replaced by the hexadecimal digits of its UTF-8 bytes.
    """
    if text.isascii() and text.isprintable() and '"' not in text and "\\" not in text:
        return f'"{text}"'
    # The reader represents bytes that are not UTF-8 in this way
    data = text.encode("utf-8", "surrogateescape")
    return f'"{"".join(map(_ESCAPES.__getitem__, data))}"'


def key(name: str) -> str:
    """Returns an attribute's name, in quotes if MLIR requires quotes."""
    return name if _SYMBOL.fullmatch(name) else quote(name)


def real(value: float) -> str:
    """Returns a number as text, with the fewest digits that give the same float32, or else the same float64."""
    for digits in range(1, 10):
        text = f"{value:.{digits}g}"
        try:
            if struct.pack("<f", float(text)) == struct.pack("<f", value):
                break
        except OverflowError:
            return repr(value)
    else:
        return repr(value)  # not a number
    return text if re.search(r"[.ein]", text) else f"{text}.0"


def data_text(data: bytes | memoryview, max_hex: int = _MAX_HEX) -> str:
    """Returns up to `max_hex` bytes as hexadecimal digits, and more bytes as their count and digest."""
    if len(data) <= max_hex:
        return f'"0x{data.hex().upper()}"'
    return f"#tfl.bytes<{len(data)}, sha256:{_digest(data)}>"


def text_or_data(data: bytes | memoryview) -> str:
    """Returns bytes as a string in quotes if they are text; otherwise, the result of `data_text`."""
    content = bytes(data[: _MAX_TEXT + 1])
    if len(content) > _MAX_TEXT or not re.fullmatch(rb"[\x20-\x7e\n]+\x00*", content):
        return data_text(data)
    return quote(content.decode("ascii"))


def constant_text(tensor: Tensor) -> str:
    """Returns the elements of a constant as text if the constant is small; otherwise, a digest of its data."""
    data, layout = tensor.data, RAW_FORMATS.get(tensor.element_type)
    count, rest = divmod(len(data), struct.calcsize(f"<{layout}")) if layout else (0, 0)
    if rest or tensor.sparsity is not None or not 0 < count <= _MAX_NUMBERS:
        return data_text(data, 0)
    numbers = [attribute(value) for value in struct.unpack(f"<{count}{layout}", data)]
    return f"dense<{numbers[0]}>" if not tensor.shape else f"dense<[{', '.join(numbers)}]>"


def options_text(data: memoryview) -> str:
    """Returns a custom op's options as text: the values of a FlexBuffer, or the bytes of other options."""
    values = find_flexbuffer_options(data)
    if values is None:
        return data_text(data)
    return f"#tfl.flexbuffer<{attribute(values)}>"


def attribute(value: Any) -> str:
    """Returns the text of an option's value."""
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, int):
        return str(value)
    if isinstance(value, float):
        return real(value)
    if isinstance(value, str):
        return quote(value)
    if isinstance(value, bytes | memoryview):
        return data_text(value)
    if isinstance(value, Table):
        return _braces(table_attributes(value))
    if isinstance(value, Mapping):
        return _braces(f"{key(k)} = {attribute(v)}" for k, v in value.items())
    if isinstance(value, Sequence):
        return _sequence(value)
    assert value is None
    return "unit"


def table_attributes(table: Table) -> list[str]:
    """Returns a table's fields, with all scalars, because a file may omit scalars with default values.

    Fields that are not scalars are returned only if the table has them.
    """
    attributes = []
    for field in table_schema(table.type_name).fields.values():
        value = table.get(field.name)
        if value is None:
            continue
        if field.kind is FieldKind.SCALAR and field.type_name in ENUMS:
            name = ENUMS[field.type_name].get(value)
            value = value if name is None else name
        attributes.append(f"{field.name} = {attribute(value)}")
    return attributes


def tensor_type_text(tensor: Tensor) -> str:
    """Returns a text such as `tensor<1x?x4xf32>`, which describes the tensor except for its name and data."""
    dims = "".join(f"{'?' if d < 0 else d}x" for d in tensor.shape_signature or tensor.shape)
    element = tensor.element_type.mlir
    extra = ""
    if tensor.shape_signature and tensor.shape_signature != tensor.shape:
        extra += f", #tfl.shape<{'x'.join(map(str, tensor.shape))}>"
    quantization = tensor.quantization
    if quantization is not None:
        element = _quantized(element, quantization)
        if quantization.min or quantization.max:
            extra += f", #tfl.range<{_sequence(quantization.min)}:{_sequence(quantization.max)}>"
    if tensor.sparsity is not None:
        extra += f", #tfl.sparsity<{attribute(tensor.sparsity)}>"
    if tensor.variant_tensors:
        extra += f", #tfl.variant<{attribute(tensor.variant_tensors)}>"
    return f"tensor<{dims}{element}{extra}>"


def _quantized(element: str, quantization: Quantization) -> str:
    storage = element.replace("ui", "u")
    if quantization.custom is not None:
        return f"!quant.custom<{storage}, {data_text(quantization.custom)}>"
    blocks = quantization.blockwise
    if blocks is not None:
        parts = [f"{storage}:f32"]
        tensors = {"scales": blocks.scales, "zero_points": blocks.zero_points}
        parts += [f"{name} = {quote(t.name)}" for name, t in tensors.items() if t is not None]
        for name in ("block_size", "block_shape", "quantized_dimensions"):
            if value := getattr(blocks, name):
                parts.append(f"{name} = {attribute(value)}")
        return f"!quant.blockwise<{', '.join(parts)}>"
    if not quantization.scale:
        return element
    scales, zeros = quantization.scale, quantization.zero_point
    if len(scales) == 1:
        return f"!quant.uniform<{storage}:f32, {_scale(scales[0], zeros[0] if zeros else 0)}>"
    dimension = quantization.quantized_dimension
    if len(scales) > _MAX_NUMBERS:
        parameters = f"{_sequence(scales)}:{_sequence(zeros)}" if any(zeros) else _sequence(scales)
    else:
        padded = [*zeros, *[0] * (len(scales) - len(zeros))]
        parameters = f"{{{', '.join(map(_scale, scales, padded))}}}"
    return f"!quant.uniform<{storage}:f32:{dimension}, {parameters}>"


def _scale(scale: float, zero_point: int) -> str:
    return f"{real(scale)}:{zero_point}" if zero_point else real(scale)


def _sequence(values: Sequence[Any]) -> str:
    """Prints a list; many numbers appear as their digest."""
    if len(values) > _MAX_NUMBERS and isinstance(values[0], int | float):
        code = "d" if isinstance(values[0], float) else "q"
        digest = _digest(struct.pack(f"<{len(values)}{code}", *values))
        return f"#tfl.numbers<{len(values)}, sha256:{digest}>"
    return f"[{', '.join(map(attribute, values))}]"


def _digest(data: bytes | memoryview) -> str:
    import hashlib  # imported here, because it loads OpenSSL

    return hashlib.sha256(data).hexdigest()[:16]

"""How the dump spells names, numbers, bytes, attributes and types: MLIR's way, in printable ASCII."""

from __future__ import annotations

import re
import struct
from collections.abc import Mapping, Sequence
from typing import Any

from litert.core.quantization import Quantization
from litert.model.custom_options import find_flexbuffer_options
from litert.model.graph import Tensor
from litert.model.raw_options import RAW_FORMATS
from litert.model.schema import ENUMS
from litert.model.schema_types import Kind, table_schema
from litert.model.table import Table

_SYMBOL = re.compile(r"[A-Za-z_][A-Za-z0-9_$.]*")
_ESCAPES = {
    byte: chr(byte) if 32 <= byte < 127 and byte not in b'"\\' else f"\\{byte:02X}"
    for byte in range(256)
} | {ord("\\"): "\\\\"}
_MAX_NUMBERS = 8
_MAX_HEX = 64
_MAX_TEXT = 128


def quote(text: str) -> str:
    """A string in quotes; what is not printable ASCII, as the hex of its UTF-8."""
    if text.isascii() and text.isprintable() and '"' not in text and "\\" not in text:
        return f'"{text}"'
    data = text.encode("utf-8", "surrogateescape")  # the reader keeps bytes that are not UTF-8 so
    return f'"{"".join(map(_ESCAPES.__getitem__, data))}"'


def key(name: str) -> str:
    """An attribute's name: bare, or in quotes."""
    return name if _SYMBOL.fullmatch(name) else quote(name)


def symbol(name: str) -> str:
    """A function's name."""
    return f"@{key(name)}"


def real(value: float) -> str:
    """A number with as few digits as give the same float32, or else the same float64."""
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
    """Bytes: in hex where they are few, else their number and digest."""
    if len(data) <= max_hex:
        return f'"0x{data.hex().upper()}"'
    return f"#tfl.bytes<{len(data)}, sha256:{_digest(data)}>"


def text_or_data(data: bytes | memoryview) -> str:
    """Bytes that may be text: a string where they are one, else as `data_text`."""
    content = bytes(data[: _MAX_TEXT + 1])
    if len(content) > _MAX_TEXT or not re.fullmatch(rb"[\x20-\x7e\n]+\x00*", content):
        return data_text(data)
    return quote(content.decode("ascii"))


def constant_text(tensor: Tensor) -> str:
    """A constant's value: numbers where they are few."""
    data, layout = tensor.data, RAW_FORMATS.get(tensor.element_type)
    count, rest = divmod(len(data), struct.calcsize(f"<{layout}")) if layout else (0, 0)
    if rest or tensor.sparsity is not None or not 0 < count <= _MAX_NUMBERS:
        return data_text(data, 0)
    numbers = [attribute(value) for value in struct.unpack(f"<{count}{layout}", data)]
    return f"dense<{numbers[0]}>" if not tensor.shape else f"dense<[{', '.join(numbers)}]>"


def options_text(data: memoryview) -> str:
    """A custom op's options: a FlexBuffer's values, or bytes."""
    values = find_flexbuffer_options(data)
    if values is None:
        return data_text(data)
    return f"#tfl.flexbuffer<{attribute(values)}>"


def attribute(value: Any) -> str:
    """The value of an option."""
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
        return f"{{{', '.join(table_attributes(value))}}}"
    if isinstance(value, Mapping):
        return f"{{{', '.join(f'{key(k)} = {attribute(v)}' for k, v in value.items())}}}"
    if isinstance(value, Sequence):
        return _sequence(value)
    assert value is None
    return "unit"


def table_attributes(table: Table) -> list[str]:
    """A table's fields: each scalar, since a file may leave out defaults; others where they are there."""
    attributes = []
    for field in table_schema(table.type_name).fields.values():
        value = table.get(field.name)
        if value is None:
            continue
        if field.kind is Kind.SCALAR and field.type_name in ENUMS:
            name = ENUMS[field.type_name].get(value)
            value = value if name is None else name
        attributes.append(f"{field.name} = {attribute(value)}")
    return attributes


def tensor_type_text(tensor: Tensor) -> str:
    """`tensor<1x?x4xf32>`, with all that is said of the tensor beside its name and data."""
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
        for name in ("scales", "zero_points"):
            parameters = getattr(blocks, name)
            if parameters is not None:
                parts.append(f"{name} = {quote(parameters.name)}")
        for name in ("block_size", "block_shape", "quantized_dimensions"):
            value = getattr(blocks, name)
            if value:
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
    """A list; numbers as their digest, where there are many."""
    if len(values) > _MAX_NUMBERS and isinstance(values[0], int | float):
        code = "d" if isinstance(values[0], float) else "q"
        digest = _digest(struct.pack(f"<{len(values)}{code}", *values))
        return f"#tfl.numbers<{len(values)}, sha256:{digest}>"
    return f"[{', '.join(map(attribute, values))}]"


def _digest(data: bytes | memoryview) -> str:
    import hashlib  # here, since it loads OpenSSL

    return hashlib.sha256(data).hexdigest()[:16]

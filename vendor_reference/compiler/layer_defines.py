"""A layer's own defines for one op: options and quantization of the op become text.

They stand behind the built-in ones, in the order: quantization, options, what the description lists.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from litert.core.errors import LiteRtError
from litert.model.graph import Op
from vendor_reference.compiler.define_text import define_text
from vendor_reference.custom_layers.custom_layer import CustomLayer, Define
from vendor_reference.custom_layers.value_sources import (
    FlexOption,
    OpValues,
    QuantizationOf,
    as_value,
)


def layer_defines(
    layer: CustomLayer, op: Op, values: OpValues, notes: list[str]
) -> Sequence[tuple[str, str]]:
    """Names and texts, in order.

    Args:
      layer: for the op.
      op: that it is for.
      values: of the op.
      notes: get a sentence for each option that cannot be a define, and for each define without a value.

    Raises:
      LiteRtError: INVALID_ARGUMENT, if a define has no value, or one of another type.
    """
    own = {define.name for define in layer.defines}
    defines = [d for d in _quantization(layer, op) if d.name not in own]
    texts = [(define.name, _text(define, values)) for define in defines]
    if layer.defines_options:
        texts += _options(op, values, notes)
    for define in layer.defines:
        note = _missing_option(define, values)
        if note:
            notes.append(f"{layer.file_name}, op '{op.name}': define '{define.name}' {note}.")
        is_empty = note and isinstance(define.source, FlexOption) and define.source.default is None
        texts.append((define.name, "" if is_empty else _text(define, values)))
    return texts


def _text(define: Define, values: OpValues) -> str:
    try:
        return define_text(values.resolve(define.source), define.type, define.is_plain)
    except LiteRtError as error:
        raise LiteRtError(
            error.status, f"define '{define.name}': {error.what}", error.where, error.hint
        ) from error


def _missing_option(define: Define, values: OpValues) -> str:
    """What a define that stands without its option is; "" where it has it, and where it cannot stand."""
    source = define.source
    if not isinstance(source, FlexOption) or source.key in values.options():
        return ""
    size = values.num_other_bytes()
    why = f"the op's options are {size} bytes that are no FlexBuffer map" if size else ""
    if source.default is not None:
        return f"has its default: {why}" if why else ""
    if not define.is_plain:
        return ""
    return f"is empty: it has no default, and {why or f'the op has no option {source.key!r}'}"


def _quantization(layer: CustomLayer, op: Op) -> Iterator[Define]:
    """`INPUT0_SCALE` and `INPUT0_ZERO_POINT` of each quantized tensor; arrays where it is per channel."""
    if not layer.defines_quantization:
        return
    for kind, tensors in (("INPUT", op.inputs), ("OUTPUT", op.outputs)):
        for index, tensor in enumerate(tensors):
            quantization = tensor.quantization if tensor is not None else None
            if quantization is None or not quantization.scale:
                continue
            array = "[]" if len(quantization.scale) > 1 else ""
            for parameter, c_type in (("scale", "float"), ("zero_point", "int")):
                source = QuantizationOf(parameter, kind == "OUTPUT", index)
                yield Define(f"{kind}{index}_{parameter.upper()}", source, f"{c_type}{array}")


def _options(op: Op, values: OpValues, notes: list[str]) -> list[tuple[str, str]]:
    """Each option as `PARAM_<key>`."""
    defines = []
    if size := values.num_other_bytes():
        notes.append(
            f"op '{op.name}': its {size} bytes of options are no FlexBuffer map, so no define has them; a "
            "description (.json) reads a C struct by 'field'."
        )
    for key, entry in values.options().items():
        value = as_value(entry)
        reason = ""
        if not f"_{key}".isidentifier() or not key.isascii():
            reason = "its name cannot be part of a C name"
        elif value is None:
            reason = "it is neither numbers nor text"
        else:
            try:
                defines.append((f"PARAM_{key}", define_text(value)))
            except LiteRtError as error:
                reason = f"it is {error.what}"
        if reason:
            notes.append(f"op '{op.name}': option {key!r} is no define: {reason}.")
    return defines

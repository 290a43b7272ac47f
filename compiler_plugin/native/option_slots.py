"""Maps the options of builtin ops to getters of the compiler context, and finds options without a getter.

The slot of a getter has the name `get_<op>_<option>_option`. In the TFLite schema, an option is a field of the
op's options table, usually with the same name as in the slot.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache

from litert.abi.definitions import ffi
from litert.model.builtin_options import BUILTIN_NUMBERS, find_options_type
from litert.model.schema_types import table_schema

_SCHEMA_NAMES = {
    "fused_activation": "fused_activation_function",
    "dilation_d": "dilation_d_factor",
    "dilation_w": "dilation_w_factor",
    "dilation_h": "dilation_h_factor",
    "asymmetric_quantize_input": "asymmetric_quantize_inputs",
    "half_pixel_center": "half_pixel_centers",
    "dims": "squeeze_dims",
}
"""Maps option names in slots to the names in the TFLite schema, for options whose two names differ."""

_TOLD_BY_TENSORS = frozenset({
    ("ARG_MAX", "output_type"), ("ARG_MIN", "output_type"), ("CAST", "in_data_type"), ("CAST", "out_data_type"),
    ("REDUCE_PROD", "keep_dims"), ("SHAPE", "out_type"), ("SPLIT_V", "num_splits"), ("UNIQUE", "idx_out_type"),
    # Results of kernels depend on these options only through the types of tensors.
    ("ADD", "pot_scale_int16"), ("SUB", "pot_scale_int16"),
    ("CONV_2D", "quantized_bias_type"), ("TRANSPOSE_CONV", "quantized_bias_type"),
    ("FULLY_CONNECTED", "quant_spec"),
})  # fmt: skip
"""Pairs of an operator and an option that needs no getter, because the op's tensors determine its value."""


@dataclass(frozen=True, slots=True)
class OptionSlot:
    """A slot of the compiler context that returns an option of a builtin op.

    Attributes:
      slot: Name of the slot.
      field: Field of the op's options table in the TFLite schema.
      is_vector: Whether the slot returns a pointer and a number of elements, instead of one value.
    """

    slot: str
    field: str
    is_vector: bool


def schema_name(option: str) -> str:
    """Returns the name of an option in the TFLite schema."""
    return _SCHEMA_NAMES.get(option, option)


@cache
def option_slots() -> Mapping[str, tuple[OptionSlot, ...]]:
    """Returns the option slots of each operator, by operator name, such as `CONV_2D`."""
    operators = sorted(BUILTIN_NUMBERS, key=len, reverse=True)  # SPLIT_V before SPLIT
    found: dict[str, list[OptionSlot]] = {}
    for slot, field in ffi.typeof("LiteRtCompilerContext").fields:
        if not (slot.startswith("get_") and slot.endswith("_option")):
            continue
        words = slot.removeprefix("get_").removesuffix("_option")
        operator = next(o for o in operators if words.startswith(f"{o.lower()}_"))
        name = words[len(operator) + 1 :]
        is_vector = len(field.type.args) == 3
        found.setdefault(operator, []).append(OptionSlot(slot, schema_name(name), is_vector))
    return {operator: tuple(slots) for operator, slots in found.items()}


@cache
def hidden_options(operator: str) -> tuple[str, ...]:
    """Returns the options of a builtin operator that a plugin cannot read through the compiler context."""
    options_type = find_options_type(operator)
    if options_type is None or operator == "STABLEHLO_COMPOSITE":  # composites have their own slots
        return ()
    told = {slot.field for slot in option_slots().get(operator, ())}
    return tuple(
        name
        for name in table_schema(options_type[1]).fields
        if name not in told and (operator, name) not in _TOLD_BY_TENSORS
    )

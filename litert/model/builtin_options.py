"""Which options table a builtin operator has, which the schema does not say; and its fields by name."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache
from typing import Any

from litert.core.errors import LiteRtError
from litert.core.status import Status
from litert.model.flexbuffer import FlexValue
from litert.model.graph import Op
from litert.model.schema import BUILTIN_OPERATORS, ENUMS, UNIONS
from litert.model.schema_types import Field, FieldKind, enum_name, table_schema
from litert.model.table import Table

_SHARED = {
    op_name: table
    for table, op_names in {
        "Conv3DOptions": "CONV_3D_TRANSPOSE",
        "L2NormOptions": "L2_NORMALIZATION",
        "MaximumMinimumOptions": "MAXIMUM MINIMUM",
        "Pool2DOptions": "AVERAGE_POOL_2D L2_POOL_2D MAX_POOL_2D",
        "RandomOptions": "MULTINOMIAL RANDOM_STANDARD_NORMAL RANDOM_UNIFORM",
        "ReducerOptions": "MEAN SUM REDUCE_ALL REDUCE_ANY REDUCE_MAX REDUCE_MIN REDUCE_PROD",
        "SequenceRNNOptions": "UNIDIRECTIONAL_SEQUENCE_RNN",
    }.items()
    for op_name in op_names.split()
}
"""The table of each operator whose table is not named like it."""

BUILTIN_NUMBERS: Mapping[str, int] = {name: number for number, name in BUILTIN_OPERATORS.items()}
"""The schema's number of each builtin operator, by name."""

_OUTPUTS: Mapping[str, int | str] = {
    "NON_MAX_SUPPRESSION_V4": 2,
    "NON_MAX_SUPPRESSION_V5": 3,
    "SPLIT": "num_splits",
    "SPLIT_V": "num_splits",
    "TOPK_V2": 2,
    "UNIQUE": 2,
    "UNPACK": "num",
}
"""How many outputs an operator has, or the option that says it; others have one."""

_STRIDES = {"stride_w": 1, "stride_h": 1}
_USUAL: Mapping[str, Mapping[str, Any]] = {
    "ARG_MAX": {"output_type": "INT32"},
    "ARG_MIN": {"output_type": "INT32"},
    "AVERAGE_POOL_2D": _STRIDES,
    "CONV_2D": _STRIDES,
    "CONV_3D": {"stride_d": 1, **_STRIDES},
    "CONV_3D_TRANSPOSE": {"stride_d": 1, **_STRIDES},
    "DEPTHWISE_CONV_2D": _STRIDES,
    "L2_POOL_2D": _STRIDES,
    "MAX_POOL_2D": _STRIDES,
    "SHAPE": {"out_type": "INT32"},
    "TRANSPOSE_CONV": _STRIDES,
}
"""Options whose default in the schema no kernel takes, as new ops have them."""


@cache
def find_options_type(op_name: str) -> tuple[str, str] | None:
    """The union and the table of an operator's options; None for an operator without options."""
    wanted = _SHARED.get(op_name, f"{op_name}Options").replace("_", "").lower()
    for union in ("BuiltinOptions", "BuiltinOptions2"):
        for table in UNIONS[union].values():
            if table.lower() == wanted:
                return union, table
    return None


def make_builtin_options(
    op_name: str, fields: Mapping[str, Any]
) -> tuple[Table | None, Table | None]:
    """An operator's `builtin_options` and `builtin_options_2`, of which one at most is there.

    The fields are of its table; an enum's value is its number or its name.

    Raises:
      LiteRtError: INVALID_ARGUMENT, for a field or name that the schema does not have.
    """
    found = find_options_type(op_name)
    if found is None:
        if fields:
            raise LiteRtError(
                Status.INVALID_ARGUMENT, f"{op_name} has no options, and not {', '.join(fields)}"
            )
        return None, None
    union, type_name = found
    values = {name: _enum_value(type_name, name, value) for name, value in fields.items()}
    table = Table.make(type_name, **values)
    return (table, None) if union == "BuiltinOptions" else (None, table)


def read_builtin_options(op: Op) -> Mapping[str, FlexValue]:
    """A builtin op's options by their names in the schema: numbers, and vectors of them as tuples.

    Enums are numbers. What the file leaves out has the schema's default.
    """
    options = _own_options(op)
    values: dict[str, FlexValue] = {}
    for name, field in option_names(op).items():
        value: Any = field.default if options is None else options.get(name)
        if field.kind is FieldKind.SCALAR:
            values[name] = value
        elif field.kind is FieldKind.VECTOR and value is not None:
            values[name] = tuple(value)
    return values


def option_names(op: Op) -> Mapping[str, Field]:
    """The fields that a builtin op's options have, by name; none where it has no options."""
    options, found = _own_options(op), find_options_type(op.name)
    type_name = options.type_name if options else found[1] if found else None
    return table_schema(type_name).fields if type_name else {}


def get_builtin_option(op: Op, name: str) -> Any:
    """One of a builtin op's options, with the schema's default where the file leaves it out.

    Returns:
      A number; a tuple of them; an enum's value by its name in the schema; None for an absent vector.
    """
    options, field = _own_options(op), option_names(op)[name]
    return _readable(field, field.default if options is None else options.get(name))


def _readable(field: Field, value: Any) -> Any:
    """A field's value, with an enum's number replaced by its name."""
    if field.type_name in ENUMS and isinstance(value, int):
        return enum_name(field.type_name, value)
    return tuple(value) if field.kind is FieldKind.VECTOR and value is not None else value


def _own_options(op: Op) -> Table | None:
    """An op's options; None where it has none, or those of another operator, which stock takes for none."""
    options, found = op.options or op.options_2, find_options_type(op.name)
    is_other = options is not None and found is not None and options.type_name != found[1]
    return None if is_other else options


def set_builtin_option(op: Op, name: str, value: Any) -> None:
    """Sets one of a builtin op's options, as `get_builtin_option` gives it, or an enum's number; others stay.

    Raises:
      LiteRtError: INVALID_ARGUMENT, for a value that the field cannot have.
    """
    options = _own_options(op)
    if options is None:
        op.options, op.options_2 = make_builtin_options(op.name, {name: value})
        return
    changed = options.with_fields(**{name: _enum_value(options.type_name, name, value)})
    if op.options is not None:
        op.options = changed
    else:
        op.options_2 = changed


def count_outputs(op_name: str, fields: Mapping[str, Any]) -> int:
    """How many outputs a builtin operator has that has these options."""
    found = _OUTPUTS.get(op_name, 1)
    return found if isinstance(found, int) else int(fields.get(found, 0))


def usual_builtin_options(op_name: str) -> Mapping[str, Any]:
    """What a new op's options are where nothing is said and no kernel takes the schema's default: strides of 0."""
    return _USUAL.get(op_name, {})


@cache
def default_builtin_options(op_name: str) -> Mapping[str, Any]:
    """A new op's options where nothing is said, by name, as `get_builtin_option` gives them."""
    found = find_options_type(op_name)
    fields = table_schema(found[1]).fields if found else {}
    defaults = {name: _readable(field, field.default) for name, field in fields.items()}
    return {**defaults, **usual_builtin_options(op_name)}


def _enum_value(type_name: str, name: str, value: Any) -> Any:
    """A field's value, with an enum's name replaced by its number."""
    enum = ENUMS.get(table_schema(type_name).field(name).type_name)
    if enum is None or not isinstance(value, str):
        return value
    for number, known in enum.items():
        if known == value:
            return number
    raise LiteRtError(
        Status.INVALID_ARGUMENT,
        f"{type_name}.{name} has no value {value!r}",
        hint=f"Use one of {', '.join(enum.values())}.",
    )

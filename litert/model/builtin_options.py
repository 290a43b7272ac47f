"""Maps each builtin operator to its options table in the schema, and reads and sets the options by field name."""

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
"""Options tables of those operators whose tables have names that differ from the operators' names."""

BUILTIN_NUMBERS: Mapping[str, int] = {name: number for number, name in BUILTIN_OPERATORS.items()}
"""Maps the name of each builtin operator to the operator's number in the schema."""

_OUTPUTS: Mapping[str, int | str] = {
    "NON_MAX_SUPPRESSION_V4": 2,
    "NON_MAX_SUPPRESSION_V5": 3,
    "SPLIT": "num_splits",
    "SPLIT_V": "num_splits",
    "TOPK_V2": 2,
    "UNIQUE": 2,
    "UNPACK": "num",
}
"""Number of an operator's outputs, or the option that gives it; operators not in this table have one output."""

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
"""Values for those options of new ops whose default value in the schema no kernel accepts."""


@cache
def find_options_type(op_name: str) -> tuple[str, str] | None:
    """Returns the names of the union and the table with an operator's options; None if there are no options."""
    wanted = _SHARED.get(op_name, f"{op_name}Options").replace("_", "").lower()
    for union in ("BuiltinOptions", "BuiltinOptions2"):
        for table in UNIONS[union].values():
            if table.lower() == wanted:
                return union, table
    return None


def make_builtin_options(
    op_name: str, fields: Mapping[str, Any]
) -> tuple[Table | None, Table | None]:
    """Returns values for an operator's fields `builtin_options` and `builtin_options_2`; at least one is None.

    `fields` maps the names of fields in the operator's options table to values; an enum's value is a number or a
    name.

    Raises:
      LiteRtError: INVALID_ARGUMENT, if the schema lacks a field, or the name of an enum's value.
    """
    found = find_options_type(op_name)
    if found is None:
        if fields:
            raise LiteRtError(
                Status.INVALID_ARGUMENT,
                f"op {op_name} has no options, but was given values for the options {', '.join(fields)}",
            )
        return None, None
    union, type_name = found
    values = {name: _enum_value(type_name, name, value) for name, value in fields.items()}
    table = Table.make(type_name, **values)
    return (table, None) if union == "BuiltinOptions" else (None, table)


def read_builtin_options(op: Op) -> Mapping[str, FlexValue]:
    """Returns a builtin op's options by their names in the schema; a vector is a tuple of numbers.

    The value of an enum is returned as a number. If the file omits an option, the option has the schema's default
    value.
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
    """Returns the names of a builtin op's options; the result is empty if the op has no options."""
    options, found = _own_options(op), find_options_type(op.name)
    type_name = options.type_name if options else found[1] if found else None
    return table_schema(type_name).fields if type_name else {}


def get_builtin_option(op: Op, name: str) -> Any:
    """Returns the value of an option of a builtin op, or the schema's default value if the file omits the option.

    Returns:
      A number, or a tuple of numbers; for an enum, the name of the value in the schema; None for an absent vector.
    """
    options, field = _own_options(op), option_names(op)[name]
    return _readable(field, field.default if options is None else options.get(name))


def _readable(field: Field, value: Any) -> Any:
    """Returns a field's value, with an enum's number replaced by its name."""
    if field.type_name in ENUMS and isinstance(value, int):
        return enum_name(field.type_name, value)
    return tuple(value) if field.kind is FieldKind.VECTOR and value is not None else value


def _own_options(op: Op) -> Table | None:
    """Returns an op's options.

    The result is None if the op has no options, or has the options table of another operator, which stock LiteRT
    ignores.
    """
    options, found = op.options or op.options_2, find_options_type(op.name)
    is_other = options is not None and found is not None and options.type_name != found[1]
    return None if is_other else options


def set_builtin_option(op: Op, name: str, value: Any) -> None:
    """Sets an option of a builtin op to a value as `get_builtin_option` returns it, or to an enum value's number.

    All other options of the op stay unchanged.

    Raises:
      LiteRtError: INVALID_ARGUMENT, if the option does not allow the value.
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
    """Returns the number of outputs that a builtin operator has with these options."""
    found = _OUTPUTS.get(op_name, 1)
    return found if isinstance(found, int) else int(fields.get(found, 0))


def usual_builtin_options(op_name: str) -> Mapping[str, Any]:
    """Returns usual values for the options whose schema default no kernel accepts, such as strides of 0."""
    return _USUAL.get(op_name, {})


@cache
def default_builtin_options(op_name: str) -> Mapping[str, Any]:
    """Returns a new op's default options by name; the values are like results of `get_builtin_option`."""
    found = find_options_type(op_name)
    fields = table_schema(found[1]).fields if found else {}
    defaults = {name: _readable(field, field.default) for name, field in fields.items()}
    return {**defaults, **usual_builtin_options(op_name)}


def _enum_value(type_name: str, name: str, value: Any) -> Any:
    """Returns a field's value, with an enum's name replaced by its number."""
    enum = ENUMS.get(table_schema(type_name).field(name).type_name)
    if enum is None or not isinstance(value, str):
        return value
    for number, known in enum.items():
        if known == value:
            return number
    raise LiteRtError(
        Status.INVALID_ARGUMENT,
        f"{type_name}.{name} cannot be {value!r}",
        hint=f"Use one of {', '.join(enum.values())}.",
    )

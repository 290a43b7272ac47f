"""Functions of the compiler context through which a plugin reads the options of builtin ops.

As in stock LiteRT, a getter returns InvalidArgument for an op of another type, or for an op without options.
"""

from __future__ import annotations

from collections.abc import Callable
from math import prod
from typing import Any

from compiler_plugin.native.graph_handles import GraphHandles, present_inputs
from compiler_plugin.native.graph_slots import Slots
from compiler_plugin.native.option_slots import option_slots
from litert.abi.definitions import ffi
from litert.core.element_type import ElementType
from litert.core.status import Status
from litert.model.builtin_options import BUILTIN_NUMBERS
from litert.model.composite import COMPOSITE_OP
from litert.model.graph import Op

_REFUSED = Status.INVALID_ARGUMENT  # an answer: plugins ask any op


def option_getters(handles: GraphHandles) -> Slots:
    """Returns the option getters of all ops, by slot."""

    def new_array(values: list[int]) -> Any:
        return ffi.new("int32_t[]", values)

    def view(data: bytes) -> Any:
        return ffi.from_buffer("uint8_t[]", data)

    def get_name(op: int, name: Any) -> Status | None:
        found = handles.get(op, Op)
        if found.name != COMPOSITE_OP or found.options_2 is None:
            return _REFUSED
        name[0] = handles.text(found, "composite", found.options_2.get("name") or "")
        return None

    composite = "get_shlo_composite_op_"
    subgraph = "decomposition_subgraph_index"
    return {
        **{
            slot.slot: _getter(handles, operator, slot.field)
            for operator, slots in option_slots().items()
            for slot in slots
            if not slot.is_vector
        },
        "get_reshape_new_shape_option": _array_getter(handles, "RESHAPE", _new_shape, new_array),
        "get_squeeze_dims_option": _array_getter(handles, "SQUEEZE", _squeeze_dims, new_array),
        f"{composite}name": get_name,
        f"{composite}version": _getter(handles, COMPOSITE_OP, "version", "options_2"),
        f"{composite}{subgraph}": _getter(handles, COMPOSITE_OP, subgraph, "options_2"),
        f"{composite}attributes": _array_getter(handles, COMPOSITE_OP, _attributes, view),
    }


def _getter(
    handles: GraphHandles, operator: str, field: str, union: str = "options"
) -> Callable[..., Status | None]:
    get, code = handles.get, BUILTIN_NUMBERS[operator]

    def get_option(op: int, value: Any) -> Status | None:
        found = get(op, Op)
        options = getattr(found, union)
        if found.code.builtin_code != code or options is None:
            return _REFUSED
        value[0] = options.get(field)
        return None

    return get_option


def _array_getter(
    handles: GraphHandles,
    operator: str,
    read: Callable[[Op], Any],
    make: Callable[[Any], Any],
) -> Callable[..., Status | None]:
    def get_array(op: int, address: Any, size: Any) -> Status | None:
        found = handles.get(op, Op)
        values = read(found) if found.name == operator else None
        if values is None:
            return _REFUSED
        address[0] = handles.memory(found, operator, lambda: make(values))
        size[0] = len(values)
        return None

    return get_array


def _new_shape(op: Op) -> list[int] | None:
    """Returns a RESHAPE's new shape from its options or its second input; None if the input is not a constant."""
    if op.options is not None:
        return list(op.options.get("new_shape") or ())
    inputs = present_inputs(op)
    if len(inputs) < 2 or inputs[1].element_type is not ElementType.INT32:
        return None
    count = prod(inputs[1].shape)
    data = inputs[1].data[: 4 * count]
    return list(data.cast("i")) if len(data) == 4 * count else None


def _squeeze_dims(op: Op) -> list[int] | None:
    return None if op.options is None else list(op.options.get("squeeze_dims") or ())


def _attributes(op: Op) -> Any:
    return None if op.options_2 is None else op.options_2.get("composite_attributes") or b""

"""The context's functions by which a plugin reads the options of builtin ops.

An op of another kind, or one without options, is InvalidArgument, as in stock.
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
from litert.model.graph import Op
from litert.model.table import Table

_REFUSED = Status.INVALID_ARGUMENT  # an answer: plugins ask any op


def option_getters(handles: GraphHandles) -> Slots:
    """Getters of all ops that have some."""
    getters: dict[str, Callable[..., Any]] = {
        slot.slot: _getter(handles, BUILTIN_NUMBERS[operator], slot.field)
        for operator, slots in option_slots().items()
        for slot in slots
        if not slot.is_vector
    }
    return {**getters, **_list_getters(handles), **_composite_getters(handles)}


def _getter(handles: GraphHandles, code: int, field: str) -> Callable[..., Status | None]:
    get = handles.get

    def get_option(op: int, value: Any) -> Status | None:
        found = get(op, Op)
        if found.code.builtin_code != code or found.options is None:
            return _REFUSED
        value[0] = found.options.get(field)
        return None

    return get_option


def _list_getters(handles: GraphHandles) -> Slots:
    get = handles.get

    def get_reshape_new_shape_option(op: int, new_shape: Any, new_shape_size: Any) -> Status | None:
        found = get(op, Op)
        values = _new_shape(found) if found.name == "RESHAPE" else None
        if values is None:
            return _REFUSED
        new_shape[0] = handles.memory(found, "shape", lambda: ffi.new("int32_t[]", values))
        new_shape_size[0] = len(values)
        return None

    def get_squeeze_dims_option(op: int, dims: Any, num_dims: Any) -> Status | None:
        found = get(op, Op)
        if found.name != "SQUEEZE" or found.options is None:
            return _REFUSED
        values = list(found.options.get("squeeze_dims") or ())
        dims[0] = handles.memory(found, "dims", lambda: ffi.new("int32_t[]", values))
        num_dims[0] = len(values)
        return None

    return {
        "get_reshape_new_shape_option": get_reshape_new_shape_option,
        "get_squeeze_dims_option": get_squeeze_dims_option,
    }


def _new_shape(op: Op) -> list[int] | None:
    """What a RESHAPE's options say, or without options its second input; None where that is no constant."""
    if op.options is not None:
        return list(op.options.get("new_shape") or ())
    inputs = present_inputs(op)
    if len(inputs) < 2 or inputs[1].element_type is not ElementType.INT32:
        return None
    count = prod(inputs[1].shape)
    data = inputs[1].data[: 4 * count]
    return list(data.cast("i")) if len(data) == 4 * count else None


def _composite_getters(handles: GraphHandles) -> Slots:
    get = handles.get

    def options_of(op: int) -> tuple[Op, Table | None]:
        found = get(op, Op)
        return found, found.options_2 if found.name == "STABLEHLO_COMPOSITE" else None

    def get_shlo_composite_op_name(op: int, name: Any) -> Status | None:
        found, options = options_of(op)
        if options is None:
            return _REFUSED
        name[0] = handles.text(found, "composite", options.get("name") or "")
        return None

    def get_shlo_composite_op_decomposition_subgraph_index(op: int, index: Any) -> Status | None:
        _, options = options_of(op)
        if options is None:
            return _REFUSED
        index[0] = options.get("decomposition_subgraph_index")
        return None

    def get_shlo_composite_op_attributes(op: int, attributes: Any, size: Any) -> Status | None:
        found, options = options_of(op)
        if options is None:
            return _REFUSED
        data = options.get("composite_attributes") or b""
        attributes[0] = handles.memory(
            found, "attributes", lambda: ffi.from_buffer("uint8_t[]", data)
        )
        size[0] = len(data)
        return None

    def get_shlo_composite_op_version(op: int, version: Any) -> Status | None:
        _, options = options_of(op)
        if options is None:
            return _REFUSED
        version[0] = options.get("version")
        return None

    return {name: slot for name, slot in locals().items() if name.startswith("get_")}

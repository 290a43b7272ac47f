"""Reads a model through a host's compiler context, and builds the graph that Python plugins work with.

The compiler context does not return the names of subgraphs, the versions of ops, sparsity, and some options
(`option_slots.hidden_options`). It also skips optional inputs that are absent; later inputs therefore have lower
indices than in the model. `why_unclear` finds the ops that cannot be understood without the missing information.
Constants are views of the host's memory; the views and the host's handles are valid only during the host's call.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, TypeAlias

from compiler_plugin.native.exported.host_context import HostContext
from compiler_plugin.native.option_slots import hidden_options, option_slots
from litert.abi.definitions import ffi
from litert.abi.tensor_types import from_c, quantization_from_c
from litert.core.element_type import ElementType
from litert.core.errors import LiteRtError
from litert.core.quantization import Quantization, QuantizationKind
from litert.core.status import Status
from litert.model.blob import Blob
from litert.model.builtin_options import make_builtin_options
from litert.model.composite import COMPOSITE_OP
from litert.model.graph import CUSTOM, Buffer, Op, OperatorCode, Subgraph, Tensor
from litert.model.table import Table

_UNRANKED = 1
_QUANTIZATION = {
    QuantizationKind.PER_TENSOR: ("get_per_tensor_quantization", "LiteRtQuantizationPerTensor"),
    QuantizationKind.PER_CHANNEL: ("get_per_channel_quantization", "LiteRtQuantizationPerChannel"),
    QuantizationKind.BLOCK_WISE: ("get_block_wise_quantization", "LiteRtQuantizationBlockWise"),
}
"""For each kind of quantization, the getter, and the C type of the quantization that the getter returns."""


_Buffers: TypeAlias = dict[tuple[int, int], Buffer]
"""Maps the address and size of data in the host's memory to the buffer with these data."""


@dataclass(frozen=True, slots=True, eq=False)
class StockSubgraph:
    """A subgraph for Python plugins, with the host's handle of each op."""

    subgraph: Subgraph
    handles: Mapping[Op, Any]


def read_model(context: HostContext, model: Any) -> list[StockSubgraph]:
    """Reads all subgraphs of a `LiteRtModel`; the subgraphs get the names `Partition_<index>`.

    Raises:
      LiteRtError: The error status that the host returns; UNSUPPORTED, for a kind of quantization that the graph
        cannot represent. All functions of this module raise the same errors.
    """
    subgraphs = context.items(
        "LiteRtSubgraph", "get_num_model_subgraphs", "get_model_subgraph", model
    )
    buffers: _Buffers = {}
    return [
        _Reader(context, buffers).read(subgraph, f"Partition_{index}")
        for index, subgraph in enumerate(subgraphs)
    ]


def read_subgraph(context: HostContext, subgraph: Any) -> StockSubgraph:
    """Reads a `LiteRtSubgraph`; the name of the returned subgraph is empty."""
    return _Reader(context, {}).read(subgraph, "")


def read_op(context: HostContext, op: Any) -> Op:
    """Reads one `LiteRtOp` and its tensors."""
    return _Reader(context, {}).read_op(op)


def read_reader_names(context: HostContext, tensor: Any) -> set[str]:
    """Returns the custom codes of the custom ops that read a `LiteRtTensor`."""
    names: set[str] = set()
    op, argument = ffi.new("LiteRtOp*"), ffi.new("size_t*")
    for index in range(context.answer("get_num_tensor_uses", tensor)):
        context.call("get_tensor_use", tensor, index, op, argument)
        if context.answer("get_op_code", op[0], "int32_t") == CUSTOM:
            names.add(context.text("get_custom_code", op[0]))
    return names


def why_unclear(op: Op) -> str:
    """Returns a reason why an op cannot be read completely from the host; "" if nothing important is missing."""
    hidden = () if op.is_custom else hidden_options(op.name)
    if hidden:
        return f"this host does not pass these options of the op to plugins: {', '.join(hidden)}"
    for tensor in op.inputs:
        if tensor is not None and tensor.is_constant and not _has_all_bytes(tensor):
            return (
                "the op has a sparse constant, and this host does not pass the sparsity to plugins"
            )
    return ""


def _has_all_bytes(tensor: Tensor) -> bool:
    if not tensor.element_type.bits or not tensor.type.layout.is_static:
        return True
    return len(tensor.data) >= tensor.type.size_bytes


class _Reader:
    """Reads one subgraph: makes one object for each tensor, operator code and buffer.

    Subgraphs of one model share the objects of their buffers.
    """

    def __init__(self, context: HostContext, buffers: _Buffers) -> None:
        """Stores the arguments; `buffers` contains the model's known buffers, and gets new buffers."""
        self._context = context
        self._known: dict[Any, Tensor] = {}
        self._buffers = buffers
        self._codes: dict[tuple[int, str | None], OperatorCode] = {}
        self._subgraph = Subgraph()

    def read(self, handle: Any, name: str) -> StockSubgraph:
        self._subgraph.name = name
        self._subgraph.inputs = self._tensors("subgraph_input", handle)
        ops = self._context.items("LiteRtOp", "get_num_subgraph_ops", "get_subgraph_op", handle)
        handles = {self.read_op(op): op for op in ops}
        self._subgraph.ops = list(handles)
        self._subgraph.outputs = self._tensors("subgraph_output", handle)
        return StockSubgraph(self._subgraph, handles)

    def read_op(self, handle: Any) -> Op:
        inputs, outputs = self._tensors("op_input", handle), self._tensors("op_output", handle)
        op = Op(self._code(handle), inputs, outputs)
        if op.is_custom:
            op.custom_options = self._custom_options(handle)
        elif op.name == COMPOSITE_OP:
            op.options_2 = self._composite(handle)
        else:
            fields = {**self._told_options(op.name, handle), **_options_of_tensors(op)}
            op.options, op.options_2 = make_builtin_options(op.name, fields)
        return op

    def _tensors(self, what: str, owner: Any) -> list[Tensor]:
        found = self._context.items("LiteRtTensor", f"get_num_{what}s", f"get_{what}", owner)
        return [self._tensor(handle) for handle in found]

    def _code(self, handle: Any) -> OperatorCode:
        number = int(self._context.answer("get_op_code", handle, "int32_t"))
        custom = self._context.text("get_custom_code", handle) if number == CUSTOM else None
        if (number, custom) not in self._codes:
            self._codes[number, custom] = OperatorCode(number, custom)
        return self._codes[number, custom]

    def _custom_options(self, handle: Any) -> Blob | None:
        data, size = ffi.new("uint8_t**"), ffi.new("int32_t*")
        if not self._context.tells("get_custom_options", handle, data, size) or not data[0]:
            return None  # as in LiteRT, for an op without options
        return Blob(bytes(ffi.buffer(data[0], size[0])))

    def _composite(self, handle: Any) -> Table:
        context = self._context
        data, size = ffi.new("uint8_t**"), ffi.new("int32_t*")
        context.call("get_shlo_composite_op_attributes", handle, data, size)
        slot = "get_shlo_composite_op_decomposition_subgraph_index"
        return Table.make(
            "StableHLOCompositeOptions",
            name=context.text("get_shlo_composite_op_name", handle),
            decomposition_subgraph_index=context.answer(slot, handle, "int32_t"),
            composite_attributes=bytes(ffi.buffer(data[0], size[0])) if data[0] else b"",
            version=context.answer("get_shlo_composite_op_version", handle, "int32_t"),
        )

    def _told_options(self, operator: str, handle: Any) -> dict[str, Any]:
        """Returns the options that have getters; empty if the op has no options table."""
        told: dict[str, Any] = {}
        for slot in option_slots().get(operator, ()):
            function = self._context.find(slot.slot)
            if function is None:
                continue
            answer = ffi.new(ffi.typeof(function).args[1])
            size = ffi.new("int32_t*")
            if function(handle, answer, *((size,) if slot.is_vector else ())):
                continue
            told[slot.field] = list(answer[0][0 : size[0]]) if slot.is_vector else answer[0]
        return told

    def _tensor(self, handle: Any) -> Tensor:
        if handle not in self._known:
            if not handle:
                raise LiteRtError(
                    Status.INVALID_GRAPH_INVARIANT,
                    "the host returned NULL instead of a tensor of the model",
                )
            tensor = self._known[handle] = self._read_tensor(handle)
            self._subgraph.tensors.append(tensor)
            tensor.quantization = self._quantization(handle)
        return self._known[handle]

    def _read_tensor(self, handle: Any) -> Tensor:
        context = self._context
        name = context.text("get_tensor_name", handle)
        buffer = self._buffer(handle)
        if context.answer("get_tensor_type_id", handle, "LiteRtTensorTypeId") == _UNRANKED:
            unranked = context.answer(
                "get_unranked_tensor_type", handle, "LiteRtUnrankedTensorType"
            )
            return Tensor(name, ElementType(unranked.element_type), (), buffer)
        tensor_type = from_c(
            context.answer("get_ranked_tensor_type", handle, "LiteRtRankedTensorType")
        )
        shape = tuple(1 if d < 0 else d for d in tensor_type.shape)
        tensor = Tensor(name, tensor_type.element_type, shape, buffer)
        tensor.has_rank = True
        if not tensor_type.layout.is_static:
            tensor.shape_signature = tensor_type.shape
        return tensor

    def _buffer(self, handle: Any) -> Buffer:
        context = self._context
        weights = context.answer("get_tensor_weights", handle, "LiteRtWeights")
        address, size = ffi.new("void**"), ffi.new("size_t*")
        context.call("get_weights_bytes", weights, address, size)
        if not address[0] or not size[0]:
            return Buffer()
        place = (int(ffi.cast("uintptr_t", address[0])), int(size[0]))
        if place not in self._buffers:
            view = memoryview(ffi.buffer(address[0], size[0])).toreadonly()
            self._buffers[place] = Buffer(Blob(view))
        return self._buffers[place]

    def _quantization(self, handle: Any) -> Quantization | None:
        context = self._context
        number = context.answer("get_quantization_type_id", handle, "LiteRtQuantizationTypeId")
        if number == QuantizationKind.NONE:
            return None
        if number not in _QUANTIZATION:
            name = context.text("get_tensor_name", handle)
            what = f"tensor '{name}' has the unknown quantization type id {number}"
            raise LiteRtError(Status.UNSUPPORTED, what)
        kind = QuantizationKind(number)
        slot, struct = _QUANTIZATION[kind]
        return quantization_from_c(
            kind,
            context.answer(slot, handle, struct),
            lambda tensor: self._tensor(tensor) if tensor else None,
        )


def _options_of_tensors(op: Op) -> dict[str, Any]:
    """Returns the options that have no getter, but that the op's tensors determine."""
    if not op.inputs or not op.outputs:
        return {}
    source, result = op.inputs[0], op.outputs[0]
    assert source is not None
    if op.name in ("ARG_MAX", "ARG_MIN"):
        return {"output_type": result.element_type.name}
    if op.name == "SHAPE":
        return {"out_type": result.element_type.name}
    if op.name == "CAST":
        return {
            "in_data_type": source.element_type.name,
            "out_data_type": result.element_type.name,
        }
    if op.name == "UNIQUE" and len(op.outputs) > 1:
        return {"idx_out_type": op.outputs[1].element_type.name}
    if op.name == "REDUCE_PROD":
        return {"keep_dims": len(result.shape) == len(source.shape)}
    if op.name == "SPLIT_V":
        return {"num_splits": len(op.outputs)}
    return {}

"""Functions of the compiler context that describe graph objects to a plugin, and record the ops that it chooses.

Handles are passed as numbers (see `litert.abi.tables`). As in stock LiteRT, optional inputs that are absent are
not counted, and the quantization getters return InvalidIrType for a tensor without quantization.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from operator import attrgetter
from typing import Any, TypeAlias

from compiler_plugin.native.graph_handles import GraphHandles, present_inputs
from litert.abi.definitions import ffi
from litert.abi.tensor_types import new_type
from litert.core.counts import out_of_range
from litert.core.errors import LiteRtError
from litert.core.quantization import QuantizationKind
from litert.core.status import Status
from litert.model.blob import Blob
from litert.model.graph import Buffer, Model, Op, Subgraph, Tensor

Slots: TypeAlias = Mapping[str, Callable[..., Any]]
Answers: TypeAlias = Mapping[str, tuple[type[Any], Callable[[Any], Any]]]
"""For each getter, the type of object that it takes, and the function that computes its return value."""


@dataclass(slots=True, eq=False)
class PushedOps:
    """The ops that a plugin takes, with their partition indices; the plugin sees a `LiteRtOpList`."""

    ops: list[tuple[Op, int]] = field(default_factory=list)


def plain_answers(handles: GraphHandles) -> Answers:
    """Returns the getters that take one object and return one value."""

    def type_of(tensor: Tensor) -> Any:
        # There are few types, and they are requested often.
        key = tensor.element_type, tensor.shape_signature or tensor.shape
        return handles.memory(key, "type", lambda: new_type(tensor.type))[0]

    def quantization_kind(tensor: Tensor) -> int:
        quantization = tensor.quantization
        return 0 if quantization is None else int(quantization.kind)

    return {
        "get_op_code": (Op, lambda op: op.code.builtin_code),
        "get_num_op_inputs": (Op, lambda op: len(present_inputs(op))),
        "get_num_op_outputs": (Op, lambda op: len(op.outputs)),
        "get_tensor_name": (Tensor, lambda tensor: handles.text(tensor, "name", tensor.name)),
        "get_tensor_weights": (Tensor, lambda tensor: handles.of(tensor.buffer)),
        "get_quantization_type_id": (Tensor, quantization_kind),
        "get_ranked_tensor_type": (Tensor, type_of),
    }


class GraphSlots:
    """Getters for models, subgraphs, ops and tensors; each method implements the slot of the same name."""

    def __init__(self, handles: GraphHandles) -> None:
        self._handles = handles
        self._get = handles.get
        self._of = handles.of
        self.get_num_model_subgraphs = _count_slot(handles, Model, "subgraphs")
        self.get_model_subgraph = _item_slot(handles, Model, attrgetter("subgraphs"), "subgraph")
        self.get_num_subgraph_ops = _count_slot(handles, Subgraph, "ops")
        self.get_num_subgraph_inputs = _count_slot(handles, Subgraph, "inputs")
        self.get_subgraph_input = _item_slot(handles, Subgraph, attrgetter("inputs"), "input")
        self.get_num_subgraph_outputs = _count_slot(handles, Subgraph, "outputs")
        self.get_subgraph_output = _item_slot(handles, Subgraph, attrgetter("outputs"), "output")
        self.get_op_input = _item_slot(handles, Op, present_inputs, "input")
        self.get_op_output = _item_slot(handles, Op, attrgetter("outputs"), "output")

    def push_op(self, op_list: int, op: int, partition_index: int) -> None:
        self._get(op_list, PushedOps).ops.append((self._get(op, Op), partition_index))

    def get_custom_code(self, op: int, code: Any) -> Status | None:
        found = self._get(op, Op)
        if not found.is_custom:
            return Status.INVALID_ARGUMENT  # an answer: plugins ask any op
        code[0] = self._handles.text(found, "custom code", found.code.custom_code or "")
        return None

    def get_custom_options(self, op: int, options: Any, size: Any) -> None:
        self._answer_blob(self._get(op, Op).custom_options, options, size)

    def get_tensor_index(self, tensor: int, index: Any) -> None:
        index[0] = self._handles.place(self._get(tensor, Tensor))

    def get_tensor_type_id(self, tensor: int, type_id: Any) -> None:
        self._get(tensor, Tensor)
        type_id[0] = 0  # ranked: as in stock, a tensor without shape is a scalar

    def get_unranked_tensor_type(self, tensor: int, tensor_type: Any) -> Status:
        self._get(tensor, Tensor)
        return Status.INVALID_IR_TYPE

    def get_per_tensor_quantization(self, tensor: int, parameters: Any) -> Status | None:
        quantization = self._get(tensor, Tensor).quantization
        if quantization is None or quantization.kind is not QuantizationKind.PER_TENSOR:
            return Status.INVALID_IR_TYPE
        parameters.scale = quantization.scale[0]
        parameters.zero_point = quantization.zero_point[0] if quantization.zero_point else 0
        return None

    def get_per_channel_quantization(self, tensor: int, parameters: Any) -> Status | None:
        found = self._get(tensor, Tensor)
        quantization = found.quantization
        if quantization is None or quantization.kind is not QuantizationKind.PER_CHANNEL:
            return Status.INVALID_IR_TYPE
        scales = quantization.scale
        zero_points = [*quantization.zero_point, *[0] * len(scales)][: len(scales)]
        parameters.quantized_dimension = quantization.quantized_dimension
        parameters.num_channels = len(scales)
        parameters.scales = self._handles.memory(
            found, "scales", lambda: ffi.new("float[]", list(scales))
        )
        parameters.zero_points = self._handles.memory(
            found, "zero points", lambda: ffi.new("int64_t[]", zero_points)
        )
        return None

    def get_block_wise_quantization(self, tensor: int, parameters: Any) -> Status | None:
        quantization = self._get(tensor, Tensor).quantization
        if quantization is None or quantization.blockwise is None:
            return Status.INVALID_IR_TYPE
        for name in ("scales", "zero_points"):
            constant = getattr(quantization.blockwise, name)
            handle = self._of(constant) if isinstance(constant, Tensor) else 0
            setattr(parameters, name, ffi.cast("LiteRtTensor", handle))
        parameters.block_size = quantization.blockwise.block_size
        return None

    def get_num_tensor_uses(self, tensor: int, number: Any) -> None:
        number[0] = len(self._uses_of(tensor))

    def get_tensor_use(self, tensor: int, index: int, user: Any, argument: Any) -> None:
        op, place = item(self._uses_of(tensor), index, "tensor use")
        user[0], argument[0] = self._of(op), place

    def get_tensor_defining_op(self, tensor: int, has_defining_op: Any, defining_op: Any) -> None:
        found = self._get(tensor, Tensor)
        producer = found.producer
        has_defining_op[0] = producer is not None
        if producer is not None:
            defining_op.op = ffi.cast("LiteRtOp", self._of(producer))
            defining_op.op_output_index = list(producer.outputs).index(found)

    def get_weights_buffer_id(self, weights: int, buffer_id: Any) -> None:
        buffer_id[0] = self._handles.buffer_id(self._get(weights, Buffer))

    def get_weights_bytes(self, weights: int, address: Any, size: Any) -> None:
        blob = self._get(weights, Buffer).blob
        self._answer_blob(blob if blob is not None and blob.size else None, address, size)

    def _uses_of(self, tensor: int) -> Sequence[tuple[Op, int]]:
        found = self._get(tensor, Tensor)
        uses: Sequence[tuple[Op, int]] = self._handles.memory(
            found, "uses", lambda: _find_uses(found)
        )
        return uses

    def _answer_blob(self, blob: Blob | None, address: Any, size: Any) -> None:
        if blob is None:
            address[0], size[0] = ffi.NULL, 0
            return
        address[0] = self._handles.memory(
            blob, "view", lambda: ffi.from_buffer("uint8_t[]", blob.view)
        )
        size[0] = blob.size


def _count_slot(handles: GraphHandles, kind: type[Any], name: str) -> Callable[..., None]:
    def get_count(owner: int, number: Any) -> None:
        number[0] = len(getattr(handles.get(owner, kind), name))

    return get_count


def _item_slot(
    handles: GraphHandles, kind: type[Any], read: Callable[[Any], Sequence[Any]], what: str
) -> Callable[..., None]:
    get, of = handles.get, handles.of

    def get_item(owner: int, index: int, handle: Any) -> None:
        handle[0] = of(item(read(get(owner, kind)), index, what))

    return get_item


def item(values: Sequence[Any], index: int, what: str) -> Any:
    """Returns the element at an index that a plugin passes; raises INDEX_OOB if the index is too large."""
    if index >= len(values):
        raise LiteRtError(Status.INDEX_OOB, out_of_range(what, index, len(values)))
    return values[index]


def _find_uses(tensor: Tensor) -> Sequence[tuple[Op, int]]:
    """Returns the ops that read a tensor, each with the index of the input; an op can appear several times."""
    return [
        (op, place)
        for op in tensor.readers
        for place, value in enumerate(present_inputs(op))
        if value is tensor
    ]

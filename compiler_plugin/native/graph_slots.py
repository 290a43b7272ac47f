"""The context's functions by which a plugin looks at models, subgraphs, ops and tensors, and takes ops.

Arguments come as `litert.abi.tables` has them: handles are numbers. What stock does not do is not done either:
inputs that are left out do not count, and a tensor without quantization has no parameters to read (InvalidIrType).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, TypeAlias

from compiler_plugin.native.graph_handles import GraphHandles, present_inputs
from litert.abi.definitions import ffi
from litert.abi.tensor_types import new_type
from litert.core.errors import LiteRtError
from litert.core.quantization import Quantization, QuantizationKind
from litert.core.status import Status
from litert.model.graph import Buffer, Model, Op, Subgraph, Tensor

Slots: TypeAlias = Mapping[str, Callable[..., Any]]
Answers: TypeAlias = Mapping[str, tuple[type[Any], Callable[[Any], Any]]]
"""By slot, what kind of object a getter is asked about, and its answer."""


@dataclass(slots=True, eq=False)
class PushedOps:
    """Behind a `LiteRtOpList`: what the plugin takes, each op with its partition index."""

    ops: list[tuple[Op, int]] = field(default_factory=list)


def plain_answers(handles: GraphHandles) -> Answers:
    """The getters that take an object and give one answer."""

    def type_of(tensor: Tensor) -> Any:
        key = (
            tensor.element_type,
            tensor.shape_signature or tensor.shape,
        )  # few, and asked for often
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


def model_slots(handles: GraphHandles) -> Slots:
    """Models, their subgraphs, and their ops."""
    get = handles.get

    def push_op(op_list: int, op: int, partition_index: int) -> None:
        get(op_list, PushedOps).ops.append((get(op, Op), partition_index))

    return {
        "get_num_model_subgraphs": _count_slot(handles, Model, "subgraphs"),
        "get_model_subgraph": _item_slot(handles, Model, "subgraphs"),
        "get_num_subgraph_ops": _count_slot(handles, Subgraph, "ops"),
        "get_num_subgraph_inputs": _count_slot(handles, Subgraph, "inputs"),
        "get_subgraph_input": _item_slot(handles, Subgraph, "inputs"),
        "get_num_subgraph_outputs": _count_slot(handles, Subgraph, "outputs"),
        "get_subgraph_output": _item_slot(handles, Subgraph, "outputs"),
        "push_op": push_op,
    }


def _count_slot(handles: GraphHandles, kind: type[Any], name: str) -> Callable[..., None]:
    def get_count(owner: int, number: Any) -> None:
        number[0] = len(getattr(handles.get(owner, kind), name))

    return get_count


def _item_slot(handles: GraphHandles, kind: type[Any], name: str) -> Callable[..., None]:
    def get_item(owner: int, index: int, handle: Any) -> None:
        values = getattr(handles.get(owner, kind), name)
        handle[0] = handles.of(item(values, index, name.removesuffix("s")))

    return get_item


def op_slots(handles: GraphHandles) -> Slots:
    """Ops: what they are, what they read and write; without the plain answers."""
    get, of = handles.get, handles.of

    def get_custom_code(op: int, code: Any) -> Status | None:
        found = get(op, Op)
        if not found.is_custom:
            return Status.INVALID_ARGUMENT  # an answer: plugins ask any op
        code[0] = handles.text(found, "custom code", found.code.custom_code or "")
        return None

    def get_op_input(op: int, index: int, tensor: Any) -> None:
        tensor[0] = of(item(present_inputs(get(op, Op)), index, "input"))

    def get_custom_options(op: int, options: Any, size: Any) -> None:
        blob = get(op, Op).custom_options
        if blob is None:
            options[0], size[0] = ffi.NULL, 0
            return
        options[0] = handles.memory(blob, "view", lambda: ffi.from_buffer("uint8_t[]", blob.view))
        size[0] = blob.size

    return {**_named(locals()), "get_op_output": _item_slot(handles, Op, "outputs")}


def tensor_slots(handles: GraphHandles) -> Slots:
    """Tensors: their types, quantization, neighbours and data; without the plain answers."""
    return {
        **_type_slots(handles),
        **_quantization_slots(handles),
        **_neighbour_slots(handles),
        **_weights_slots(handles),
    }


def _type_slots(handles: GraphHandles) -> Slots:
    get = handles.get

    def get_tensor_index(tensor: int, index: Any) -> None:
        index[0] = handles.place(get(tensor, Tensor))

    def get_tensor_type_id(tensor: int, type_id: Any) -> None:
        get(tensor, Tensor)
        type_id[0] = 0  # ranked: as in stock, a tensor without shape is a scalar

    def get_unranked_tensor_type(tensor: int, tensor_type: Any) -> Status:
        get(tensor, Tensor)
        return Status.INVALID_IR_TYPE

    return _named(locals())


def _quantization_slots(handles: GraphHandles) -> Slots:
    get, of = handles.get, handles.of

    def get_per_tensor_quantization(tensor: int, parameters: Any) -> Status | None:
        quantization = _of_kind(get(tensor, Tensor), QuantizationKind.PER_TENSOR)
        if quantization is None:
            return Status.INVALID_IR_TYPE
        parameters.scale = quantization.scale[0]
        parameters.zero_point = quantization.zero_point[0] if quantization.zero_point else 0
        return None

    def get_per_channel_quantization(tensor: int, parameters: Any) -> Status | None:
        found = get(tensor, Tensor)
        quantization = _of_kind(found, QuantizationKind.PER_CHANNEL)
        if quantization is None:
            return Status.INVALID_IR_TYPE
        scales = quantization.scale
        zero_points = [*quantization.zero_point, *[0] * len(scales)][: len(scales)]
        parameters.quantized_dimension = quantization.quantized_dimension
        parameters.num_channels = len(scales)
        parameters.scales = handles.memory(
            found, "scales", lambda: ffi.new("float[]", list(scales))
        )
        parameters.zero_points = handles.memory(
            found, "zero points", lambda: ffi.new("int64_t[]", zero_points)
        )
        return None

    def get_block_wise_quantization(tensor: int, parameters: Any) -> Status | None:
        quantization = _of_kind(get(tensor, Tensor), QuantizationKind.BLOCK_WISE)
        if quantization is None or quantization.blockwise is None:
            return Status.INVALID_IR_TYPE
        blockwise = quantization.blockwise
        for name, constant in (
            ("scales", blockwise.scales),
            ("zero_points", blockwise.zero_points),
        ):
            handle = of(constant) if isinstance(constant, Tensor) else 0
            setattr(parameters, name, ffi.cast("LiteRtTensor", handle))
        parameters.block_size = blockwise.block_size
        return None

    return _named(locals())


def _neighbour_slots(handles: GraphHandles) -> Slots:
    get, of = handles.get, handles.of

    def uses_of(tensor: int) -> Sequence[tuple[Op, int]]:
        found = get(tensor, Tensor)
        uses: Sequence[tuple[Op, int]] = handles.memory(found, "uses", lambda: _find_uses(found))
        return uses

    def get_num_tensor_uses(tensor: int, number: Any) -> None:
        number[0] = len(uses_of(tensor))

    def get_tensor_use(tensor: int, index: int, user: Any, argument: Any) -> None:
        op, place = item(uses_of(tensor), index, "use")
        user[0], argument[0] = of(op), place

    def get_tensor_defining_op(tensor: int, has_defining_op: Any, defining_op: Any) -> None:
        found = get(tensor, Tensor)
        producer = found.producer
        has_defining_op[0] = producer is not None
        if producer is not None:
            defining_op.op = ffi.cast("LiteRtOp", of(producer))
            defining_op.op_output_index = list(producer.outputs).index(found)

    return _named(locals())


def _weights_slots(handles: GraphHandles) -> Slots:
    get = handles.get

    def get_weights_buffer_id(weights: int, buffer_id: Any) -> None:
        buffer_id[0] = handles.buffer_id(get(weights, Buffer))

    def get_weights_bytes(weights: int, address: Any, size: Any) -> None:
        blob = get(weights, Buffer).blob
        if blob is None or not blob.size:
            address[0], size[0] = ffi.NULL, 0
            return
        address[0] = handles.memory(blob, "view", lambda: ffi.from_buffer("uint8_t[]", blob.view))
        size[0] = blob.size

    return _named(locals())


def item(values: Sequence[Any], index: int, what: str) -> Any:
    """An element by the index that a plugin gives; INDEX_OOB beyond the last."""
    if index >= len(values):
        raise LiteRtError(Status.INDEX_OOB, f"{what} {index} of {len(values)}")
    return values[index]


def _find_uses(tensor: Tensor) -> Sequence[tuple[Op, int]]:
    """Ops that read a tensor, each with the input that it is; an op comes once for each."""
    return [
        (op, place)
        for op in tensor.readers
        for place, value in enumerate(present_inputs(op))
        if value is tensor
    ]


def _of_kind(tensor: Tensor, kind: QuantizationKind) -> Quantization | None:
    quantization = tensor.quantization
    return quantization if quantization is not None and quantization.kind is kind else None


def _named(functions: Mapping[str, Any]) -> Slots:
    """The slots among a function's names."""
    return {name: slot for name, slot in functions.items() if name.startswith("get_")}

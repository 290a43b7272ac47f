"""The context's functions by which a pattern records its changes."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from compiler_plugin.native.graph_builder import BuiltOp, GraphBuilder
from compiler_plugin.native.graph_handles import GraphHandles
from compiler_plugin.native.graph_slots import Slots
from compiler_plugin.native.option_slots import schema_name
from litert.abi.definitions import ffi
from litert.abi.tensor_types import from_c
from litert.core.errors import LiteRtError
from litert.core.quantization import BlockwiseQuantization, Quantization, QuantizationKind
from litert.core.status import Status
from litert.core.tensor_type import RankedTensorType
from litert.model.builtin_options import BUILTIN_NUMBERS, make_builtin_options
from litert.model.graph import Buffer, Op, Tensor

_ACT = "fused_activation"
_STRIDES = ("stride_w", "stride_h")
_POOL = ("padding", *_STRIDES, "filter_width", "filter_height", _ACT)
_REDUCE = ("keep_dims",)
_CORNERS = ("align_corners", "half_pixel_centers")

OPTIONS: Mapping[str, tuple[str, ...]] = {
    "add": (_ACT,),
    "average_pool_2d": _POOL,
    "batch_matmul": ("adj_x", "adj_y", "asymmetric_quantize_input"),
    "concatenation": (_ACT, "axis"),
    "conv_2d": ("padding", *_STRIDES, "dilation_w", "dilation_h", _ACT),
    "conv_3d": (
        "padding", *_STRIDES, "stride_d", "dilation_w", "dilation_h", "dilation_d", _ACT,
    ),
    "cumsum": ("exclusive", "reverse"),
    "depth_to_space": ("block_size",),
    "depthwise_conv_2d": (
        "padding", *_STRIDES, "depth_multiplier", _ACT, "dilation_w", "dilation_h",
    ),
    "div": (_ACT,),
    "fully_connected": (
        _ACT, "weights_format", "keep_num_dims", "quantized_bias_type", "asymmetric_quantize_input",
    ),
    "gather": ("axis", "batch_dims"),
    "gelu": ("approximate",),
    "l2_pool_2d": _POOL,
    "leaky_relu": ("alpha",),
    "max_pool_2d": _POOL,
    "mean": _REDUCE,
    "mirror_pad": ("mode",),
    "mul": (_ACT,),
    "one_hot": ("axis",),
    "pack": ("axis", "values_count"),
    "reduce_all": _REDUCE,
    "reduce_any": _REDUCE,
    "reduce_max": _REDUCE,
    "reduce_min": _REDUCE,
    "resize_bilinear": _CORNERS,
    "resize_nearest_neighbor": _CORNERS,
    "softmax": ("beta",),
    "space_to_depth": ("block_size",),
    "split": ("num_splits",),
    "split_v": ("num_splits",),
    "strided_slice": (
        "begin_mask", "end_mask", "ellipsis_mask", "new_axis_mask", "shrink_axis_mask", "offset",
    ),
    "sub": (_ACT,),
    "sum": _REDUCE,
    "transpose_conv": ("padding", *_STRIDES, _ACT),
    "unpack": ("axis", "num"),
}  # fmt: skip
"""By the op's name in the slots; RESHAPE, SQUEEZE and composites, which have lists, are not here."""

_RANKED = 0


def builder_slots(handles: GraphHandles) -> Slots:
    """All that a `LiteRtBuilder` can do."""
    return {
        **_graph_slots(handles),
        **{
            f"build_{op_name}_op_option": _option_slot(handles, op_name, fields)
            for op_name, fields in OPTIONS.items()
        },
        "build_reshape_op_option": _list_slot(handles, "RESHAPE", "new_shape"),
        "build_squeeze_op_option": _list_slot(handles, "SQUEEZE", "squeeze_dims"),
        "build_shlo_composite_op_option": _composite_slot(handles),
    }


def _graph_slots(handles: GraphHandles) -> Slots:
    get, of = handles.get, handles.of

    def build_weights(builder: int, data: Any, size: int, tensor: int, new_weights: Any) -> None:
        if size and not data:
            raise LiteRtError(Status.INVALID_ARGUMENT, f"{size} bytes of weights at NULL")
        copy = bytes(ffi.buffer(data, size)) if size else b""
        buffer = get(builder, GraphBuilder).set_data(get(tensor, Tensor), copy)
        new_weights[0] = of(buffer)

    def build_op(
        builder: int,
        code: int,
        num_inputs: int,
        inputs: Any,
        num_outputs: int,
        outputs: Any,
        new_op: Any,
    ) -> None:
        build = get(builder, GraphBuilder)
        op = build.add_op(
            code,
            [get(inputs[i], Tensor) for i in range(num_inputs)],
            [get(outputs[i], Tensor) for i in range(num_outputs)],
        )
        new_op[0] = of(op)

    def erase_op(builder: int, op: int) -> None:
        get(builder, GraphBuilder).erase(get(op, Op))

    return {
        "build_tensor": _tensor_slot(handles),
        "build_weights": build_weights,
        "build_op": build_op,
        "erase_op": erase_op,
    }


def _tensor_slot(handles: GraphHandles) -> Callable[..., None]:
    get, of = handles.get, handles.of

    def build_tensor(
        builder: int,
        type_id: int,
        ranked: Any,
        _unranked: Any,
        weights: int,
        quantization_id: int,
        per_tensor: Any,
        per_channel: Any,
        block_wise: Any,
        name: Any,
        new_tensor: Any,
    ) -> None:
        build = get(builder, GraphBuilder)
        if type_id != _RANKED:
            raise LiteRtError(
                Status.UNSUPPORTED, "a new tensor without a rank", hint="Give its dimensions."
            )
        tensor_type = from_c(ffi.cast("LiteRtRankedTensorType*", ffi.addressof(ranked)))
        buffer = get(weights, Buffer) if weights else build.empty_buffer
        if weights and buffer.blob is None:
            raise LiteRtError(Status.INVALID_ARGUMENT, "a new tensor with weights without data")
        quantization = _quantization(handles, quantization_id, per_tensor, per_channel, block_wise)
        tensor = _tensor(tensor_type, buffer, quantization, name)
        build.add_tensor(tensor)
        new_tensor[0] = of(tensor)

    return build_tensor


def _tensor(
    tensor_type: RankedTensorType, buffer: Buffer, quantization: Quantization | None, name: Any
) -> Tensor:
    dimensions = tensor_type.shape
    text = ffi.string(name).decode("utf-8", "surrogateescape") if name else ""
    shape = tuple(1 if d < 0 else d for d in dimensions)  # as the converter writes it
    tensor = Tensor(text, tensor_type.element_type, shape, buffer, quantization)
    if shape != dimensions:
        tensor.shape_signature = dimensions
    return tensor


def _quantization(
    handles: GraphHandles, kind: int, per_tensor: Any, per_channel: Any, block_wise: Any
) -> Quantization | None:
    if kind == QuantizationKind.NONE:
        return None
    if kind == QuantizationKind.PER_TENSOR:
        return Quantization((per_tensor.scale,), (per_tensor.zero_point,))
    if kind == QuantizationKind.PER_CHANNEL:
        count = per_channel.num_channels
        scales, zero_points = per_channel.scales[0:count], per_channel.zero_points[0:count]
        return Quantization(tuple(scales), tuple(zero_points), per_channel.quantized_dimension)
    if kind == QuantizationKind.BLOCK_WISE:
        named = (handles.get(block_wise.scales, Tensor), block_wise.zero_points)
        zero_points = handles.get(named[1], Tensor) if named[1] else None
        return Quantization(
            blockwise=BlockwiseQuantization(named[0], zero_points, block_wise.block_size)
        )
    raise LiteRtError(Status.INVALID_ARGUMENT, f"quantization of kind {kind}, which there is not")


def _built(handles: GraphHandles, builder: int, op: int, op_name: str) -> BuiltOp:
    found = handles.get(op, Op)
    if not isinstance(found, BuiltOp) or found not in handles.get(builder, GraphBuilder).ops:
        raise LiteRtError(
            Status.INVALID_ARGUMENT, f"options for {found.name}, which the pattern has not built"
        )
    if found.code.builtin_code != BUILTIN_NUMBERS[op_name]:
        raise LiteRtError(Status.INVALID_ARGUMENT, f"options of {op_name} for {found.name}")
    return found


def _option_slot(
    handles: GraphHandles, op_name: str, fields: tuple[str, ...]
) -> Callable[..., None]:
    schema_op = op_name.upper()
    names = [schema_name(field) for field in fields]

    def build_options(builder: int, op: int, *pointers: Any) -> None:
        built = _built(handles, builder, op, schema_op)
        values = {name: pointer[0] for name, pointer in zip(names, pointers, strict=True)}
        built.options, built.options_2 = make_builtin_options(schema_op, values)

    return build_options


def _list_slot(handles: GraphHandles, op_name: str, field: str) -> Callable[..., None]:
    def build_list(builder: int, op: int, values: Any, count: int) -> None:
        built = _built(handles, builder, op, op_name)
        if count < 0 or (count and not values):
            raise LiteRtError(Status.INVALID_ARGUMENT, f"{count} values for {field}")
        numbers = list(values[0:count]) if count else None
        built.options, built.options_2 = make_builtin_options(op_name, {field: numbers})

    return build_list


def _composite_slot(handles: GraphHandles) -> Callable[..., None]:
    op_name = "STABLEHLO_COMPOSITE"

    def build_composite(
        builder: int, op: int, name: Any, subgraph: Any, version: Any, attributes: Any, size: int
    ) -> None:
        built = _built(handles, builder, op, op_name)
        fields = {
            "name": ffi.string(name).decode("utf-8", "surrogateescape"),
            "decomposition_subgraph_index": subgraph[0],
            "version": version[0],
            "composite_attributes": bytes(ffi.buffer(attributes, size)) if size else None,
        }
        built.options, built.options_2 = make_builtin_options(op_name, fields)

    return build_composite

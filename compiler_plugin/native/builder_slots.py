"""The functions of the compiler context with which a plugin's pattern records changes of the graph."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from compiler_plugin.native.graph_builder import BuiltOp, GraphBuilder
from compiler_plugin.native.graph_handles import GraphHandles
from compiler_plugin.native.graph_slots import Slots
from compiler_plugin.native.option_slots import schema_name
from litert.abi.definitions import ffi
from litert.abi.tables import slots_of
from litert.abi.tensor_types import from_c, quantization_from_c
from litert.core.counts import count_text
from litert.core.errors import VENDOR_REPAIRS, LiteRtError
from litert.core.quantization import QuantizationKind
from litert.core.status import Status
from litert.model.builtin_options import BUILTIN_NUMBERS, make_builtin_options
from litert.model.composite import COMPOSITE_OP
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
"""Option fields of ops, by op name in lower case; RESHAPE, SQUEEZE and composites are not in this table."""

_RANKED = 0


def builder_slots(handles: GraphHandles) -> Slots:
    """Returns the C functions that take a `LiteRtBuilder`, by the name of their slot in the compiler context."""
    slots = _BuilderSlots(handles)
    return {
        **slots_of(slots, "LiteRtCompilerContext"),
        **{
            f"build_{op_name}_op_option": slots.option_slot(op_name.upper(), fields)
            for op_name, fields in OPTIONS.items()
        },
    }


class _BuilderSlots:
    """Graph edits except the plain options of ops; each method implements the slot of the same name."""

    def __init__(self, handles: GraphHandles) -> None:
        self._get = handles.get
        self._of = handles.of
        self.build_reshape_op_option = self._list_slot("RESHAPE", "new_shape")
        self.build_squeeze_op_option = self._list_slot("SQUEEZE", "squeeze_dims")

    def build_tensor(
        self,
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
        build = self._get(builder, GraphBuilder)
        if type_id != _RANKED:
            raise LiteRtError(
                Status.UNSUPPORTED,
                "the plugin's transformation builds a tensor of unknown rank",
                hint="Pass a ranked tensor type, with the dimensions of the tensor, to build_tensor.",
            )
        tensor_type = from_c(ffi.cast("LiteRtRankedTensorType*", ffi.addressof(ranked)))
        buffer = self._get(weights, Buffer) if weights else build.empty_buffer
        if weights and buffer.blob is None:
            raise _misuse("builds a tensor with weights that have no data")
        structs = dict(
            zip(QuantizationKind, (None, per_tensor, per_channel, block_wise), strict=True)
        )
        if quantization_id not in structs:
            raise _misuse(
                f"builds a tensor with the unknown quantization type id {quantization_id}"
            )
        quantization = quantization_from_c(
            QuantizationKind(quantization_id),
            structs[quantization_id],
            lambda handle: self._get(handle, Tensor),
        )
        shape = tuple(1 if d < 0 else d for d in tensor_type.shape)  # as the converter writes it
        text = _text(name) if name else ""
        tensor = Tensor(text, tensor_type.element_type, shape, buffer, quantization)
        if shape != tensor_type.shape:
            tensor.shape_signature = tensor_type.shape
        build.add_tensor(tensor)
        new_tensor[0] = self._of(tensor)

    def build_weights(
        self, builder: int, data: Any, size: int, tensor: int, new_weights: Any
    ) -> None:
        if size and not data:
            raise _misuse(f"builds weights of {size} bytes, but passes NULL as their data")
        copy = bytes(ffi.buffer(data, size)) if size else b""
        buffer = self._get(builder, GraphBuilder).set_data(self._get(tensor, Tensor), copy)
        new_weights[0] = self._of(buffer)

    def build_op(
        self,
        builder: int,
        code: int,
        num_inputs: int,
        inputs: Any,
        num_outputs: int,
        outputs: Any,
        new_op: Any,
    ) -> None:
        op = self._get(builder, GraphBuilder).add_op(
            code,
            [self._get(inputs[i], Tensor) for i in range(num_inputs)],
            [self._get(outputs[i], Tensor) for i in range(num_outputs)],
        )
        new_op[0] = self._of(op)

    def erase_op(self, builder: int, op: int) -> None:
        self._get(builder, GraphBuilder).erase(self._get(op, Op))

    def build_shlo_composite_op_option(
        self,
        builder: int,
        op: int,
        name: Any,
        subgraph: Any,
        version: Any,
        attributes: Any,
        size: int,
    ) -> None:
        values = {
            "name": _text(name),
            "decomposition_subgraph_index": subgraph[0],
            "version": version[0],
            "composite_attributes": bytes(ffi.buffer(attributes, size)) if size else None,
        }
        self._set_options(builder, op, COMPOSITE_OP, values)

    def option_slot(self, op_name: str, fields: tuple[str, ...]) -> Callable[..., None]:
        """Returns the function that sets an op's plain options."""
        names = [schema_name(field) for field in fields]

        def build_options(builder: int, op: int, *pointers: Any) -> None:
            values = {name: pointer[0] for name, pointer in zip(names, pointers, strict=True)}
            self._set_options(builder, op, op_name, values)

        return build_options

    def _list_slot(self, op_name: str, field: str) -> Callable[..., None]:
        def build_list(builder: int, op: int, values: Any, count: int) -> None:
            if count < 0 or (count and not values):
                problem = (
                    "passes NULL as the values" if count > 0 else "the number must be at least 0"
                )
                raise _misuse(
                    f"sets {count_text(count, 'value')} of option {field} of op {op_name}, but {problem}"
                )
            numbers = list(values[0:count]) if count else None
            self._set_options(builder, op, op_name, {field: numbers})

        return build_list

    def _set_options(self, builder: int, op: int, op_name: str, values: Mapping[str, Any]) -> None:
        built = self._get(op, Op)
        if not isinstance(built, BuiltOp) or built not in self._get(builder, GraphBuilder).ops:
            raise _misuse(
                f"sets options of op {built.name}, which is not an op that the transformation built"
            )
        if built.code.builtin_code != BUILTIN_NUMBERS[op_name]:
            raise _misuse(f"sets options of {op_name} for a new op of another kind, {built.name}")
        built.options, built.options_2 = make_builtin_options(op_name, values)


def _misuse(what: str) -> LiteRtError:
    """Returns the error for a wrong call; `what` is the end of a sentence about the plugin's transformation."""
    what = f"the plugin's transformation {what}"
    return LiteRtError(Status.INVALID_ARGUMENT, what, hint=VENDOR_REPAIRS)


def _text(pointer: Any) -> str:
    return str(ffi.string(pointer).decode("utf-8", "surrogateescape"))

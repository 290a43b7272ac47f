"""CONV_2D, TRANSPOSE_CONV, FULLY_CONNECTED, BATCH_MATMUL: products of operand rows with weight columns."""

from __future__ import annotations

from collections.abc import Sequence
from math import inf, prod

from litert.core.element_type import ElementType
from litert.model.graph import Op, Tensor
from litert.model.schema_types import enum_name
from vendor_reference.compiler.library.convolutions import (
    CONVOLUTION_ACTIVATIONS,
    HAS_BIAS,
    ConvolutionOp,
    further_fields,
    further_mismatch,
)
from vendor_reference.compiler.library.library_op import (
    FLOATS,
    Attributes,
    Fusion,
    LibraryOp,
    PlacedOp,
    Shape,
    broadcast_shape,
    option,
    result_mismatch,
)
from vendor_reference.compiler.library.products import (
    MOST_BATCHES,
    ProductSpec,
    constant_attribute,
    matrix_strides,
    panels_mismatch,
    three,
)
from vendor_reference.compiler.library.shape_chain import (
    Sizes,
    find_sizes,
    own_sizes,
    read_sizes,
    size_attributes,
    sizes_of,
)
from vendor_reference.compiler.library.traced_size import same_size
from vendor_reference.compiler.library.views import View
from vendor_reference.compiler.library.windows import (
    ACTIVATION,
    ACTIVATIONS,
    DILATIONS,
    PADS_BEGIN,
    PADS_END,
    STRIDES,
    activation_fields,
    padding_before,
    window_activation,
    window_attributes,
    window_fields,
    window_mismatch,
    windows_result,
)
from vendor_reference.custom_layers.kernel_spec import KernelSpec
from vendor_reference.firmware.instructions import FieldValue

_SHAPE = "shape"
_KEEPS_DIMS = "keep_num_dims"
_ADJOINT_LEFT, _ADJOINT_RIGHT = "adj_x", "adj_y"


class _Convolution(ConvolutionOp):
    """A convolution with weights `[channels of the result, height, width, channels of a group]`."""

    def weights_attributes(self, op: Op) -> Attributes:
        """Returns whether weights and bias are constants."""
        _, weights, *bias = self.operands(op)
        return {**constant_attribute(weights), HAS_BIAS: bool(bias)}

    def channel_mismatch(self, call: PlacedOp) -> str:
        """Returns why operands and result do not fit together, apart from their heights and widths."""
        x, weights, y = call.inputs[0].shape, call.inputs[1].shape, call.result.shape
        if {len(x), len(weights), len(y)} != {4} or x[0] != y[0] or weights[0] != y[3]:
            return call.shape_mismatch()
        if not call.inputs[1].is_compact:
            return "the weights are not contiguous in memory"
        return further_mismatch(call) or panels_mismatch(call, 0) or self.type_mismatch(call)

    def command(self, call: PlacedOp, **fields: FieldValue) -> KernelSpec:
        """Returns the kernel of one convolution; packs computed weights first."""
        made = ProductSpec(call)
        columns, height, width, depth = call.inputs[1].shape
        groups = call.inputs[0].shape[3] // depth
        weights, _, _ = made.panels(1, (1, 2, 3), 0)
        made.add(
            "Convolution",
            input=0,
            weights=weights,
            result=made.result,
            groups=groups,
            depth=depth,
            columns=columns // groups,
            kernel_height=height,
            kernel_width=width,
            **further_fields(call),
            **fields,
        )
        return made.spec(self.name)


class _Conv2D(_Convolution):
    name = "CONV_2D"
    ie_name = "Convolution"
    fuses = (Fusion.ACTIVATION, Fusion.BIAS, Fusion.RESIDUAL, Fusion.PADDING)
    num_inputs = (2, 3)

    def attributes(self, op: Op) -> Attributes:
        return {**window_attributes(op), **self.weights_attributes(op)}

    def result_shapes(
        self, shapes: Sequence[Shape], attributes: Attributes
    ) -> Sequence[Shape] | None:
        image, weights = shapes[:2]
        return windows_result(image, weights[1:3], weights[0], attributes)

    def mismatch(self, call: PlacedOp) -> str:
        if reason := self.channel_mismatch(call):
            return reason
        channels, (columns, *size, depth) = call.inputs[0].shape[3], call.inputs[1].shape
        if not depth or channels % depth or not channels or columns % (channels // depth):
            return call.shape_mismatch()
        return window_mismatch(call, size, CONVOLUTION_ACTIVATIONS)

    def kernel(self, call: PlacedOp) -> KernelSpec:
        size = call.inputs[1].shape[1:3]
        fields = dict(window_fields(call, padding_before(call, size)))
        del fields["channels"]
        height, width = call.integers(DILATIONS)
        dilations = {"dilation_height": height, "dilation_width": width}
        return self.command(call, **fields, **dilations, transposed=0)


class _TransposeConv(_Convolution):
    """A transposed convolution; the first input of the op is the result's shape."""

    name = "TRANSPOSE_CONV"
    ie_name = "ConvolutionBackpropData"
    num_inputs = (3, 4)
    num_parameters = 1
    fuses = (Fusion.ACTIVATION, Fusion.BIAS, Fusion.RESIDUAL)
    constraints = (
        "the shape of the result must be a constant, or be computed from the SHAPE of the operand",
    )

    def operands(self, op: Op) -> Sequence[Tensor]:
        _, weights, x, *bias = op.inputs
        return [tensor for tensor in (x, weights, *bias) if tensor is not None]

    def parameter_refusal(self, op: Op) -> str:
        if reason := super().parameter_refusal(op):
            return reason
        sizes, pattern = self._sizes(op), op.outputs[0].type.shape
        if len(sizes) != 4 or None in sizes:
            return "the result's shape must be a constant, or be computed in the NPU call from the operand's shape"
        told = [size.added if size and not size.times else -1 for size in sizes]
        if any(min(pair) >= 0 and pair[0] != pair[1] for pair in zip(told, pattern, strict=True)):
            return f"the result has shape {told}, but the model declares {op.outputs[0].type}"
        sides = zip(told[:3], self.operands(op)[0].type.shape, strict=False)
        is_fixed_alone = any(made >= 0 > size for made, size in sides)
        return (
            "a size of the operand is known only at run time, but the result's size in this dimension is fixed"
            if is_fixed_alone
            else ""
        )

    def attributes(self, op: Op) -> Attributes:
        _, weights, *_ = tensors = self.operands(op)
        strides, sizes = (int(option(op, "stride_h")), int(option(op, "stride_w"))), self._sizes(op)
        is_same = enum_name("Padding", int(option(op, "padding"))) == "SAME"
        pads = [  # if a size is `stride` times the operand's plus `added`, the numbers of `added`
            max((-(-size.added // max(stride, 1)) - 1) * stride + tap - size.added, 0)
            if is_same
            else 0
            for size, tap, stride in zip(sizes[1:3], weights.shape[1:3], strides, strict=True)
            if size is not None
        ]
        is_fixed = all(tensor.type.layout.is_static for tensor in (*tensors, *op.outputs))
        return {
            STRIDES: strides,
            PADS_BEGIN: tuple(total // 2 for total in pads),
            PADS_END: tuple(total - total // 2 for total in pads),
            ACTIVATION: window_activation(op),
            **({} if is_fixed else size_attributes(_SHAPE, sizes)),
            **self.weights_attributes(op),
        }

    def result_shapes(
        self, shapes: Sequence[Shape], attributes: Attributes
    ) -> Sequence[Shape] | None:
        sizes = sizes_of(attributes, _SHAPE, shapes[0])
        if sizes is None or None in sizes:
            return None
        return [tuple(size for size in sizes if size is not None)]

    def mismatch(self, call: PlacedOp) -> str:
        reason = result_mismatch(self, call) if _SHAPE in call.attributes else ""
        if reason or (reason := self.channel_mismatch(call)):
            return reason
        numbers = [call.integers(name) for name in (STRIDES, PADS_BEGIN, PADS_END)]
        strides, size = numbers[0], call.inputs[1].shape
        if any(len(pair) != 2 for pair in numbers) or min(*strides, *size) < 1:
            return f"windows of size {list(size[1:3])} with strides {strides} are not possible"
        for dim, stride, begin, end in zip((1, 2), *numbers, strict=True):
            left = self._left_over(call, dim, stride)
            if left is None:
                return (
                    "the result's height and width must be those of the operand, multiplied by the "
                    "strides, plus constants"
                )
            if not 0 <= begin <= end < size[dim] or not 0 <= left + begin + end < stride:
                return call.shape_mismatch()
        activation = call.attributes.get(ACTIVATION)
        if activation not in CONVOLUTION_ACTIVATIONS:
            return f"fused activation {activation} is not supported"
        return "" if size[3] == call.inputs[0].shape[3] else call.shape_mismatch()

    def kernel(self, call: PlacedOp) -> KernelSpec:
        fields = dict(window_fields(call, call.integers(PADS_BEGIN)))
        del fields["channels"]
        return self.command(call, **fields, dilation_height=1, dilation_width=1, transposed=1)

    def _left_over(self, call: PlacedOp, dim: int, stride: int) -> int | None:
        """Returns by how much the result is larger than its windows; None if this is known only at run time."""
        sizes, taps = find_sizes(call.attributes, _SHAPE), call.inputs[1].shape[dim]
        size = sizes[dim] if sizes else None
        if size is None or not size.times:
            return call.result.shape[dim] - (call.inputs[0].shape[dim] - 1) * stride - taps
        return size.added + stride - taps if (size.dim, size.times) == (dim, stride) else None

    def _sizes(self, op: Op) -> Sizes:
        """Returns the sizes of the result.

        The batch size is the operand's, even if the model computes it from another tensor.
        """
        x, *_ = self.operands(op)
        sizes = list(read_sizes(op.inputs[0], x) or ())
        if sizes and sizes[0] is None:
            sizes[0] = own_sizes(x)[0]
        return sizes


class _FullyConnected(LibraryOp):
    """A product with weights `[columns, depth]`.

    The operand can have any shape; its elements are rows of `depth` elements.
    """

    name = "FULLY_CONNECTED"
    ie_name = "FullyConnected"
    types = FLOATS
    precision = ElementType.FLOAT32
    num_inputs = (2, 3)
    fuses = (Fusion.ACTIVATION, Fusion.BIAS)
    constraints = ("the option weights_format must be DEFAULT",)

    def parameter_refusal(self, op: Op) -> str:
        form = enum_name("FullyConnectedOptionsWeightsFormat", int(option(op, "weights_format")))
        return "" if form == "DEFAULT" else f"the weights have format {form}, expected DEFAULT"

    def attributes(self, op: Op) -> Attributes:
        return {
            ACTIVATION: window_activation(op),
            _KEEPS_DIMS: bool(option(op, _KEEPS_DIMS)),
            **constant_attribute(self.operands(op)[1]),
        }

    def result_shapes(
        self, shapes: Sequence[Shape], attributes: Attributes
    ) -> Sequence[Shape] | None:
        x, weights = shapes[:2]
        if len(weights) != 2 or not all(weights):
            return None
        rows = x[:-1] if attributes.get(_KEEPS_DIMS) else [prod(x) // weights[1]]
        return [(*rows, weights[0])]

    def mismatch(self, call: PlacedOp) -> str:
        x, weights, y = call.inputs[0].shape, call.inputs[1].shape, call.result.shape
        if len(weights) != 2 or not weights[1] or not y or y[-1] != weights[0]:
            return call.shape_mismatch()
        if prod(x) * weights[0] != prod(y) * weights[1]:
            return call.shape_mismatch()
        if any(prod(view.shape) != weights[0] for view in call.inputs[2:]):
            return call.shape_mismatch()
        if not (call.inputs[0].is_compact and call.result.is_compact):
            return "the operand or the result is not contiguous in memory"
        if not all(view.is_row_order for view in call.inputs[2:]):
            return "the bias is a part of a larger tensor"
        activation = call.attributes.get(ACTIVATION)
        if activation not in ACTIVATIONS:
            return f"fused activation {activation} is not supported"
        return panels_mismatch(call, 0) or self.type_mismatch(call)

    def kernel(self, call: PlacedOp) -> KernelSpec:
        made = ProductSpec(call)
        columns, depth = call.inputs[1].shape
        weights, panel_depth, _ = made.panels(1, (1,), 0)
        bias = {"bias": 2} if len(call.inputs) == 3 else {}
        made.add(
            "Product",
            left=0,
            right=weights,
            **bias,
            result=made.result,
            rows=prod(call.inputs[0].shape) // depth,
            columns=columns,
            depth=depth,
            panel_depth=panel_depth,
            batches=three([], 1),
            **{f"{name}_batch": three([], 0) for name in ("left", "right", "result")},
            left_first=call.inputs[0].offset,
            left_row=depth,
            result_first=call.result.offset,
            result_row=columns,
            **activation_fields(str(call.attributes[ACTIVATION])),
        )
        return made.spec(self.name)


class _BatchMatMul(LibraryOp):
    """A product of matrices; batch dimensions are broadcast, and either operand can be transposed."""

    name = "BATCH_MATMUL"
    ie_name = "MatMul"
    types = FLOATS
    precision = ElementType.FLOAT32
    num_inputs = (2, 2)
    constraints = (f"at most {MOST_BATCHES} batch dimensions before the matrix dimensions",)

    def attributes(self, op: Op) -> Attributes:
        return {
            _ADJOINT_LEFT: bool(option(op, _ADJOINT_LEFT)),
            _ADJOINT_RIGHT: bool(option(op, _ADJOINT_RIGHT)),
            **constant_attribute(self.operands(op)[1]),
        }

    def result_shapes(
        self, shapes: Sequence[Shape], attributes: Attributes
    ) -> Sequence[Shape] | None:
        if min(map(len, shapes)) < 2:
            return None
        (rows, _), (_, columns) = _turned(shapes, attributes)
        batches = broadcast_shape([shape[:-2] for shape in shapes])
        return None if batches is None else [(*batches, rows, columns)]

    def mismatch(self, call: PlacedOp) -> str:
        shapes, result = [view.shape for view in call.inputs], call.result.shape
        made = self.result_shapes(shapes, call.attributes)
        if len(result) > 2 + MOST_BATCHES:
            return (
                f"the result has {len(result) - 2} batch dimensions, more than the kernel supports"
            )
        if made is None or [result] != made:
            return call.shape_mismatch()
        (_, depth), (inner, _) = _turned(shapes, call.attributes)
        if same_size(depth, inner) is None:
            return call.shape_mismatch()
        return panels_mismatch(call, _right_dims(call)[1]) or self.type_mismatch(call)

    def kernel(self, call: PlacedOp) -> KernelSpec:
        made, (left, right) = ProductSpec(call), call.inputs
        shapes = [view.shape for view in call.inputs]
        (rows, of_left), (inner, columns) = _turned(shapes, call.attributes)
        depth = same_size(of_left, inner)
        assert depth is not None
        row, column = _right_dims(call)
        panels, panel_depth, apart = made.panels(1, (row,), column)
        place = 0
        if call.attributes.get(_ADJOINT_LEFT):
            last = len(left.shape) - 1
            place = made.rows(0, tuple(range(last - 1)), last, last - 1)
            left = View.dense(left.element_type, (*left.shape[:-2], rows, of_left))
        outer = call.result.shape[:-2]
        of_right = View.dense(right.element_type, (*right.shape[:-2], apart, 1))
        result_row, result_batch = matrix_strides(call.result, outer)
        left_row, left_batch = matrix_strides(left, outer)
        made.add(
            "Product",
            left=place,
            right=panels,
            result=made.result,
            rows=rows,
            columns=columns,
            depth=depth,
            panel_depth=panel_depth,
            batches=three(list(outer), 1),
            left_batch=left_batch,
            right_batch=matrix_strides(of_right, outer)[1],
            result_batch=result_batch,
            left_first=left.offset,
            left_row=left_row,
            result_first=call.result.offset,
            result_row=result_row,
            activation=0,
            low=-inf,
            high=inf,
        )
        return made.spec(self.name)


def _right_dims(call: PlacedOp) -> tuple[int, int]:
    """Returns the dimensions of the right operand that are rows and columns of the product."""
    last = len(call.inputs[1].shape) - 1
    return (last, last - 1) if call.attributes.get(_ADJOINT_RIGHT) else (last - 1, last)


def _turned(shapes: Sequence[Shape], attributes: Attributes) -> Sequence[Shape]:
    """Returns both operands' shapes with rows and columns as the product uses them."""
    return [
        shape[:-3:-1] if attributes.get(name) else shape[-2:]
        for shape, name in zip(shapes, (_ADJOINT_LEFT, _ADJOINT_RIGHT), strict=True)
    ]


OPS = (_Conv2D(), _TransposeConv(), _FullyConnected(), _BatchMatMul())

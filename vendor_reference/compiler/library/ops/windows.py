"""Image ops that process each channel separately: DEPTHWISE_CONV_2D, pooling and resizing."""

from __future__ import annotations

from collections.abc import Sequence

from litert.core.element_type import ElementType
from litert.model.graph import Op, Tensor
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
    integers_of,
    is_shape,
    option,
)
from vendor_reference.compiler.library.shape_chain import (
    Sizes,
    find_source,
    read_sizes,
    size_attributes,
    sizes_of,
)
from vendor_reference.compiler.library.traced_size import at_least
from vendor_reference.compiler.library.windows import (
    DILATIONS,
    image_fields,
    image_mismatch,
    padding_before,
    window_attributes,
    window_fields,
    window_mismatch,
    windows_result,
)
from vendor_reference.custom_layers.kernel_spec import KernelSpec, tensor_arguments
from vendor_reference.firmware.instructions import Command, FieldValue

_KERNEL_SIZE = "kernel_size"
_SIZE, _ALIGN, _HALF = "size", "align_corners", "half_pixel_centers"


class _DepthwiseConvolution(ConvolutionOp):
    """A convolution of separate channels; the weights are `[1, kernel height, kernel width, channels]`."""

    name = "DEPTHWISE_CONV_2D"
    ie_name = "DepthwiseConvolution"
    fuses = (Fusion.ACTIVATION, Fusion.BIAS, Fusion.RESIDUAL, Fusion.PADDING)
    num_inputs = (2, 3)

    def attributes(self, op: Op) -> Attributes:
        return {**window_attributes(op), HAS_BIAS: len(self.operands(op)) > 2}

    def result_shapes(
        self, shapes: Sequence[Shape], attributes: Attributes
    ) -> Sequence[Shape] | None:
        image, weights = shapes[:2]
        return windows_result(image, weights[1:3], weights[-1], attributes)

    def mismatch(self, call: PlacedOp) -> str:
        x, weights, y = call.inputs[0].shape, call.inputs[1].shape, call.result.shape
        if len(weights) != 4 or len(x) != 4 or len(y) != 4 or weights[0] != 1 or weights[3] != y[3]:
            return call.shape_mismatch()
        if not x[3] or y[3] % x[3]:
            return call.shape_mismatch()
        if reason := further_mismatch(call) or self.type_mismatch(call):
            return reason
        if not call.inputs[1].is_row_order:
            return "the weights are a part of a larger tensor"
        return window_mismatch(call, weights[1:3], CONVOLUTION_ACTIVATIONS)

    def kernel(self, call: PlacedOp) -> KernelSpec:
        weights = call.inputs[1].shape
        dilation_height, dilation_width = call.integers(DILATIONS)
        return _spec(
            self,
            call,
            "Depthwise",
            ("input", "weights"),
            **window_fields(call, padding_before(call, weights[1:3])),
            **further_fields(call),
            multiplier=call.result.shape[3] // call.inputs[0].shape[3],
            kernel_height=weights[1],
            kernel_width=weights[2],
            dilation_height=dilation_height,
            dilation_width=dilation_width,
        )


class _Pool(LibraryOp):
    """A pooling op; the mean and the maximum ignore padding."""

    types = FLOATS
    precision = ElementType.FLOAT32

    def __init__(self, name: str, ie_name: str, is_mean: bool) -> None:
        self.name = name
        self.ie_name = ie_name
        self._is_mean = is_mean

    def parameter_refusal(self, op: Op) -> str:
        ranks = [len(tensor.shape) for tensor in [*self.operands(op), *op.outputs]]
        return "" if ranks == [4, 4] else "the operand or the result is not an image of rank 4"

    def attributes(self, op: Op) -> Attributes:
        size = int(option(op, "filter_height")), int(option(op, "filter_width"))
        return {**window_attributes(op), _KERNEL_SIZE: size}

    def result_shapes(
        self, shapes: Sequence[Shape], attributes: Attributes
    ) -> Sequence[Shape] | None:
        (image,) = shapes
        return windows_result(image, integers_of(attributes, _KERNEL_SIZE), image[-1], attributes)

    def mismatch(self, call: PlacedOp) -> str:
        size = call.integers(_KERNEL_SIZE)
        if len(size) != 2 or call.inputs[0].shape[3:] != call.result.shape[3:]:
            return call.shape_mismatch()
        return self.type_mismatch(call) or window_mismatch(call, size)

    def kernel(self, call: PlacedOp) -> KernelSpec:
        height, width = size = call.integers(_KERNEL_SIZE)
        return _spec(
            self,
            call,
            "Pool",
            ("input",),
            **window_fields(call, padding_before(call, size)),
            window_height=height,
            window_width=width,
            is_mean=int(self._is_mean),
        )


class _Resize(LibraryOp):
    """Resizes an image; the optional last operand is a tensor from whose shape the size is computed."""

    types = FLOATS
    precision = ElementType.FLOAT32
    constraints = ("the size must be a constant, or be computed from the SHAPE of one tensor",)
    num_inputs = (2, 2)
    num_parameters = 1

    def __init__(self, name: str, ie_name: str, is_nearest: bool) -> None:
        self.name = name
        self.ie_name = ie_name
        self._is_nearest = is_nearest

    def parameter_refusal(self, op: Op) -> str:
        sizes = self._sizes(op)
        is_known = sizes is not None and None not in sizes
        return (
            ""
            if is_known
            else "the size must be a constant, or be computed in the NPU call from the SHAPE of one tensor"
        )

    def port_mismatch(self, num_inputs: int, num_outputs: int) -> str:
        num_parameters = 0 if num_inputs == 2 else self.num_parameters
        return self._count_mismatch(num_inputs, num_outputs, num_parameters)

    def operands(self, op: Op) -> Sequence[Tensor]:
        image, source = op.inputs[0], find_source(op.inputs[1])
        assert image is not None
        if source is None or source is image or source.type.layout.is_static:
            return [image]
        return [image, source]

    def attributes(self, op: Op) -> Attributes:
        choices = {name: bool(option(op, name)) for name in (_ALIGN, _HALF)}
        return {**size_attributes(_SIZE, self._sizes(op) or ()), **choices}

    def _sizes(self, op: Op) -> Sizes | None:
        return read_sizes(op.inputs[1], self.operands(op)[-1])

    def result_shapes(
        self, shapes: Sequence[Shape], attributes: Attributes
    ) -> Sequence[Shape] | None:
        image, source = shapes[0], shapes[-1]
        sizes = sizes_of(attributes, _SIZE, source) if len(image) == 4 else None
        if sizes is None or None in sizes:
            return None
        return [(image[0], *(at_least(n, 1) or n for n in sizes if n is not None), image[3])]

    def mismatch(self, call: PlacedOp) -> str:
        if reason := image_mismatch(call):
            return reason
        x, y = call.inputs[0].shape, call.result.shape
        (made,) = self.result_shapes([v.shape for v in call.inputs], call.attributes) or [()]
        if not is_shape(made[1:3], y[1:3]):
            return "the requested size is not the size of the result"
        if x[3] != y[3] or 0 in x[1:3] or 0 in y[1:3]:
            return call.shape_mismatch()
        if call.attributes.get(_ALIGN) and call.attributes.get(_HALF):
            return f"the op sets both {_ALIGN} and {_HALF}"
        return self.type_mismatch(call)

    def kernel(self, call: PlacedOp) -> KernelSpec:
        choices = {name: int(bool(call.attributes.get(name))) for name in (_ALIGN, _HALF)}
        fields = {**image_fields(call.inputs[0], call.result), **choices}
        height, width = (at_least(size, 1) or size for size in call.inputs[0].shape[1:3])
        fields |= {"input_height": height, "input_width": width}  # of an image that has pixels
        return _spec(self, call, "Resize", ("input",), **fields, is_nearest=int(self._is_nearest))


def _spec(
    op: LibraryOp,
    call: PlacedOp,
    instruction: str,
    operands: tuple[str, ...],
    **fields: FieldValue,
) -> KernelSpec:
    """Returns a kernel of one command, with these operand names, and a result named `result`."""
    count = len(call.inputs)
    places = {name: index for index, name in enumerate(operands[:count])}
    command = Command.of(instruction, **places, result=count, **fields)
    return KernelSpec(op.name, tensor_arguments(count), commands=(command,))


OPS = (
    _DepthwiseConvolution(),
    _Pool("AVERAGE_POOL_2D", "AvgPool", True),
    _Pool("MAX_POOL_2D", "MaxPool", False),
    _Resize("RESIZE_BILINEAR", "InterpolateLinear", False),
    _Resize("RESIZE_NEAREST_NEIGHBOR", "InterpolateNearest", True),
)

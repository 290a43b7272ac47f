"""The common parts of all convolutions of images: operands after input and weights, and activations."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from math import prod

from litert.core.element_type import ElementType
from litert.model.graph import Op
from vendor_reference.compiler.library.library_op import FLOATS, Attributes, LibraryOp, PlacedOp
from vendor_reference.compiler.library.windows import ACTIVATION, ACTIVATIONS, PRELU
from vendor_reference.firmware.instructions import FieldValue

CONVOLUTION_ACTIVATIONS = (*ACTIVATIONS, PRELU)

HAS_BIAS, RESIDUAL = "has_bias", "residual"
_RESIDUAL_MODES = {"": 0, "before": 1, "behind": 2}
"""The firmware's number for the place of the residual addition: before or after the activation."""
_RESIDUAL_PARTS = ("first", "batch", "row", "pixel")
_MOST_OPERANDS = 5


class ConvolutionOp(LibraryOp):
    """Base class of convolutions.

    Their operands are the input, the weights, an optional bias, an optional residual to add, and the optional
    slopes of a PRELU.
    """

    types = FLOATS
    precision = ElementType.FLOAT32

    def port_mismatch(self, num_inputs: int, num_outputs: int) -> str:
        if 2 <= num_inputs <= _MOST_OPERANDS and num_outputs == 1:
            return ""
        return super().port_mismatch(num_inputs, num_outputs)

    def shaped_like_result(self, attributes: Attributes) -> Sequence[int]:
        further = _further_operands(attributes, 0)
        return [further[RESIDUAL]] if RESIDUAL in further else ()

    def parameter_refusal(self, op: Op) -> str:
        ranks = [len(tensor.shape) for tensor in [*self.operands(op)[:2], *op.outputs]]
        return "" if ranks == [4, 4, 4] else "an operand or the result is not a tensor of rank 4"


def _further_operands(attributes: Attributes, count: int) -> Mapping[str, int]:
    """Returns the indices of the operands after input and weights, by name; IR text may omit some operands.

    `count` is the number of all operands, for a text that does not say whether there is a bias.
    """
    names = {
        "bias": attributes.get(HAS_BIAS, count == 3),
        RESIDUAL: attributes.get(RESIDUAL),
        "slopes": attributes.get(ACTIVATION) == PRELU,
    }
    return {name: index for index, name in enumerate((n for n, has in names.items() if has), 2)}


def further_mismatch(call: PlacedOp) -> str:
    """Returns why the operands after input and weights do not fit the result; "" if they fit."""
    if call.attributes.get(RESIDUAL, "") not in _RESIDUAL_MODES:
        return f"the residual is {call.attributes[RESIDUAL]}, expected 'before' or 'behind'"
    further, y = _further_operands(call.attributes, len(call.inputs)), call.result.shape
    if len(further) != len(call.inputs) - 2:
        return f"the convolution has {len(call.inputs)} operands, expected {2 + len(further)}"
    for name, index in further.items():
        shape = call.inputs[index].shape
        if shape != y if name == RESIDUAL else (prod(shape), *shape[-1:]) != (y[3], y[3]):
            return call.shape_mismatch()
        if name != RESIDUAL and not call.inputs[index].is_row_order:
            return f"operand '{name}' is a part of a larger tensor"
    return ""


def further_fields(call: PlacedOp) -> Mapping[str, FieldValue]:
    """Returns the instruction's fields for the operands after the input and the weights, such as the bias."""
    further = _further_operands(call.attributes, len(call.inputs))
    residual = call.inputs[further[RESIDUAL]] if RESIDUAL in further else None
    numbers = (residual.offset, *residual.strides[:3]) if residual else (0, 0, 0, 0)
    parts = zip(_RESIDUAL_PARTS, numbers, strict=True)
    return {
        **further,
        "residual_mode": _RESIDUAL_MODES[str(call.attributes.get(RESIDUAL, ""))],
        **{f"residual_{part}": number for part, number in parts},
    }

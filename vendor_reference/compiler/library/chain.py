"""`IE.Chain`: several element-wise layers that are joined into one layer, without tensors between them.

    %r = IE.Chain(%a, %b) {expression = "x = a + b; x * logistic(x)", layers = "ADD+LOGISTIC+MUL"}
        : tensor<1x8xf32>, tensor<8xf32> -> tensor<1x8xf32>

The expression calls the operands `a`, `b`, ...; `steps.py` describes its syntax.
"""

from __future__ import annotations

from vendor_reference.compiler.library.elementwise import Formula, KernelOperand
from vendor_reference.compiler.library.library_op import (
    ElementwiseOp,
    PlacedOp,
    broadcast_mismatch,
)
from vendor_reference.custom_layers.kernel_spec import KernelSpec
from vendor_reference.firmware.operations import NUM_OPERANDS

EXPRESSION = "expression"
LAYERS = "layers"


class _Chain(ElementwiseOp):
    """A layer that only a pass makes: the schema has no such op."""

    name = "CHAIN"
    ie_name = "Chain"
    num_inputs = (1, NUM_OPERANDS)

    def mismatch(self, call: PlacedOp) -> str:
        if not isinstance(call.attributes.get(EXPRESSION), str):
            return "the layer has no expression"
        for view in call.tensors:
            if view.element_type not in self.types:
                return f"the library does not support elements of type {view.element_type.name}"
        if reason := broadcast_mismatch(call):
            return reason
        try:
            self.formula(call).program()
        except ValueError as error:
            return str(error)
        return ""

    def formula(self, call: PlacedOp) -> Formula:
        operands = [
            KernelOperand(view.broadcast(call.result.shape), call.scale(index))
            for index, view in enumerate(call.inputs)
        ]
        result = KernelOperand(call.result, call.scale(-1))
        return Formula(str(call.attributes[EXPRESSION]), operands, result)

    def kernel(self, call: PlacedOp) -> KernelSpec:
        return self.formula(call).kernel(str(call.attributes.get(LAYERS, self.name)))


CHAIN = _Chain()

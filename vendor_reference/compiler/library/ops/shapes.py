"""RESHAPE, SQUEEZE, EXPAND_DIMS, TRANSPOSE: the same elements in another shape."""

from __future__ import annotations

from litert.model.graph import Op
from vendor_reference.compiler.library.library_op import (
    Attributes,
    LibraryOp,
    PlacedOp,
    find_integers,
)
from vendor_reference.compiler.library.moves import MovedPart, move_kernel, move_mismatch
from vendor_reference.compiler.library.views import View
from vendor_reference.custom_layers.kernel_spec import KernelSpec

_ORDER = "order"


class _Reshape(LibraryOp):
    """Elements stay where they are. What says the new shape besides the model is not looked at."""

    is_view = True
    constraints = ("one scale for all tensors",)
    num_parameters = 1

    def __init__(self, name: str, ie_name: str, num_inputs: tuple[int, int]) -> None:
        self.name = name
        self.ie_name = ie_name
        self.num_inputs = num_inputs

    def mismatch(self, call: PlacedOp) -> str:
        if call.inputs[0].num_elements != call.result.num_elements:
            return call.shape_mismatch()
        return move_mismatch(call)

    def kernel(self, call: PlacedOp) -> KernelSpec:
        return move_kernel(self.name, 1, [MovedPart(_row(call.result), _row(call.inputs[0]))])


class _Transpose(LibraryOp):
    """Dimension `i` of the result is dimension `order[i]` of the operand."""

    name = "TRANSPOSE"
    ie_name = "Transpose"
    constraints = ("one scale for all tensors", "the permutation is a constant")
    num_inputs = (2, 2)
    num_parameters = 1

    def parameter_refusal(self, op: Op) -> str:
        return "its permutation is computed" if find_integers(op.inputs[1]) is None else ""

    def attributes(self, op: Op) -> Attributes:
        order, rank = find_integers(op.inputs[1]) or (), len(op.outputs[0].shape)
        return {
            **super().attributes(op),
            _ORDER: tuple(dim + rank if dim < 0 else dim for dim in order),
        }

    def mismatch(self, call: PlacedOp) -> str:
        shape, order = call.inputs[0].shape, call.integers(_ORDER)
        if sorted(order) != list(range(len(shape))):
            return f"{order} is no permutation of {len(shape)} dimensions"
        if tuple(shape[dim] for dim in order) != call.result.shape:
            return call.shape_mismatch()
        return move_mismatch(call)

    def kernel(self, call: PlacedOp) -> KernelSpec:
        source = call.inputs[0].permuted(call.integers(_ORDER))
        return move_kernel(self.name, 1, [MovedPart(call.result, source)])


def _row(view: View) -> View:
    """A tensor's elements in row order, as one dimension."""
    assert view.is_row_order
    return View.dense(view.element_type, (view.num_elements,))


OPS = (
    _Reshape("RESHAPE", "Reshape", (1, 2)),
    _Reshape("SQUEEZE", "Squeeze", (1, 1)),
    _Reshape("EXPAND_DIMS", "Unsqueeze", (2, 2)),
    _Transpose(),
)

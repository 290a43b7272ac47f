"""RESHAPE, SQUEEZE, EXPAND_DIMS, TRANSPOSE: the same elements in another shape."""

from __future__ import annotations

from collections.abc import Sequence

from litert.model.graph import Op, Tensor
from vendor_reference.compiler.kernel_spec import KernelSpec
from vendor_reference.compiler.library.builtin_op import Attributes, BuiltinOp, Call, find_integers
from vendor_reference.compiler.library.moves import Part, move_kernel, move_refusal
from vendor_reference.compiler.library.view import View


class _Reshape(BuiltinOp):
    """Elements stay where they are. What says the new shape besides the model is not looked at."""

    is_view = True

    def __init__(self, name: str, ie_name: str, num_inputs: tuple[int, int]) -> None:
        self.name = name
        self.ie_name = ie_name
        self.num_inputs = num_inputs

    def _refusal(self, op: Op) -> str:
        (source,), result = self.operands(op), op.outputs[0]
        if source.type.num_elements != result.type.num_elements:
            return f"it makes {result.type} of {source.type}"
        return move_refusal(source, result)

    def operands(self, op: Op) -> Sequence[Tensor]:
        return [tensor for tensor in op.inputs[:1] if tensor is not None]

    def kernel(self, call: Call) -> KernelSpec:
        return move_kernel(self.name, 1, [Part(_row(call.outputs[0]), _row(call.inputs[0]))])


class _Transpose(BuiltinOp):
    """Dimension `i` of the result is dimension `order[i]` of the operand."""

    name = "TRANSPOSE"
    ie_name = "Transpose"
    num_inputs = (2, 2)

    def _refusal(self, op: Op) -> str:
        (source,), result = self.operands(op), op.outputs[0]
        order = find_integers(op.inputs[1])
        if order is None:
            return "its permutation is computed"
        rank = len(source.shape)
        order = tuple(dim + rank if dim < 0 else dim for dim in order)
        if sorted(order) != list(range(rank)):
            return f"{order} is no permutation of {rank} dimensions"
        if tuple(source.shape[dim] for dim in order) != result.shape:
            return f"it makes {result.type} of {source.type}"
        return move_refusal(source, result)

    def operands(self, op: Op) -> Sequence[Tensor]:
        return [tensor for tensor in op.inputs[:1] if tensor is not None]

    def attributes(self, op: Op) -> Attributes:
        order = find_integers(op.inputs[1])
        assert order is not None
        return {"order": tuple(dim % len(order) for dim in order)}

    def kernel(self, call: Call) -> KernelSpec:
        order = call.attributes["order"]
        assert isinstance(order, tuple)
        source = call.inputs[0].permuted([int(dim) for dim in order])
        return move_kernel(self.name, 1, [Part(call.outputs[0], source)])


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

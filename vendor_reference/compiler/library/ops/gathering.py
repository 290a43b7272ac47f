"""GATHER: copies those elements of an operand whose indices are in another operand."""

from __future__ import annotations

from collections.abc import Sequence

from litert.core.element_type import ElementType
from litert.model.graph import Op
from vendor_reference.compiler.library.library_op import (
    Attributes,
    LibraryOp,
    PlacedOp,
    Shape,
    common_shape,
    count_from_front,
    find_integers,
    integer_of,
    option,
    result_mismatch,
)
from vendor_reference.compiler.library.moves import command_loops
from vendor_reference.compiler.library.steps import INTEGER_LIMITS
from vendor_reference.compiler.library.traced_size import is_same
from vendor_reference.compiler.library.views import View, plan_loops
from vendor_reference.custom_layers.kernel_spec import KernelSpec, tensor_arguments
from vendor_reference.firmware.instructions import Command

_AXIS, _BATCH_DIMS = "axis", "batch_dims"
_INDICES = (ElementType.INT16, ElementType.INT32, ElementType.INT64)


class _Gather(LibraryOp):
    """Copies elements of operand 0 along dimension `axis`, at the indices in operand 1.

    The first `batch_dims` dimensions of both operands are batch dimensions.
    """

    name = "GATHER"
    ie_name = "Gather"
    num_inputs = (2, 2)
    constraints = (
        "operand and result must have the same scale and zero point",
        "the indices must be int16, int32 or int64",
    )

    def parameter_refusal(self, op: Op) -> str:
        operand, indices = op.inputs
        axis, found = int(option(op, _AXIS)), find_integers(indices)
        assert operand is not None
        if found is None or not -len(operand.shape) <= axis < len(operand.shape):
            return ""
        size = operand.type.shape[axis]
        wrong = [index for index in found if index < 0 or 0 <= size <= index]
        return f"the constant index {wrong[0]} is out of bounds" if wrong else ""

    def attributes(self, op: Op) -> Attributes:
        axis, batch_dims = int(option(op, _AXIS)), int(option(op, _BATCH_DIMS))
        operand, indices = self.operands(op)
        return {
            **super().attributes(op),
            _AXIS: count_from_front(axis, len(operand.shape)),
            _BATCH_DIMS: count_from_front(batch_dims, len(indices.shape)),
        }

    def result_shapes(
        self, shapes: Sequence[Shape], attributes: Attributes
    ) -> Sequence[Shape] | None:
        (shape, picked), axis = shapes, integer_of(attributes, _AXIS)
        batch_dims = integer_of(attributes, _BATCH_DIMS)
        if axis is None or batch_dims is None:
            return None
        batch = common_shape([shape[:batch_dims], picked[:batch_dims]])
        if batch is None:
            return None
        return [(*batch, *shape[batch_dims:axis], *picked[batch_dims:], *shape[axis + 1 :])]

    def mismatch(self, call: PlacedOp) -> str:
        axis, batch_dims = call.integer(_AXIS), call.integer(_BATCH_DIMS)
        (operand, indices), result = call.inputs, call.result
        shape, picked = operand.shape, indices.shape
        if axis is None or not 0 <= axis < len(shape):
            return f"the op gathers along dimension {axis}, but the operand has shape {list(shape)}"
        if batch_dims is None or not 0 <= batch_dims <= min(axis, len(picked)):
            return f"the number of batch dimensions is {batch_dims}, which does not fit the axis and the indices"
        if indices.element_type not in _INDICES:
            return (
                f"the indices have type {indices.element_type.name}, expected INT16, INT32 or INT64"
            )
        if result.element_type is not operand.element_type:
            return (
                f"the result has type {result.element_type.name}, but the operand has type "
                f"{operand.element_type.name}"
            )
        if reason := result_mismatch(self, call):
            return reason
        if operand.element_type in INTEGER_LIMITS and call.scale(0) != call.scale(2):
            return "operand 0 and the result have different scales or zero points"
        is_empty = is_same(shape[axis], 0) and not is_same(result.num_elements, 0)
        return "the operand has no elements along the gathered dimension" if is_empty else ""

    def kernel(self, call: PlacedOp) -> KernelSpec:
        axis, batch_dims = call.integer(_AXIS), call.integer(_BATCH_DIMS)
        assert axis is not None and batch_dims is not None
        (operand, indices), result = call.inputs, call.result
        num_picked = len(indices.shape) - batch_dims
        from_strides = (*operand.strides[:axis], *(0,) * num_picked, *operand.strides[axis + 1 :])
        picked_strides = (
            *indices.strides[:batch_dims],
            *(0,) * (axis - batch_dims),
            *indices.strides[batch_dims:],
            *(0,) * (len(operand.shape) - axis - 1),
        )
        loops = plan_loops(
            [
                View(operand.element_type, result.shape, from_strides, operand.offset),
                View(indices.element_type, result.shape, picked_strides, indices.offset),
                result,
            ]
        )
        commands = [
            Command.of(
                "Gather",
                input=0,
                indices=1,
                result=2,
                bytes=operand.element_type.bits // 8,
                index_bytes=indices.element_type.bits // 8,
                axis_size=operand.shape[axis],
                axis_stride=operand.strides[axis],
                **nest,
            )
            for nest in command_loops(loops)
        ]
        return KernelSpec(self.name, tensor_arguments(2), commands=tuple(commands))


OPS = (_Gather(),)

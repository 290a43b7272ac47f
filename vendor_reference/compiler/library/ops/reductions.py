"""MEAN, SUM, REDUCE_MAX, ... combine the values along dimensions into one; ARG_MAX and ARG_MIN find an index."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from math import prod

from litert.core.element_type import ElementType
from litert.model.graph import Op
from vendor_reference.compiler.library.library_op import (
    FLOATS,
    INTEGERS,
    WITH_SHORTS,
    Attributes,
    LibraryOp,
    PlacedOp,
    Shape,
    count_from_front,
    find_integers,
    integer_of,
    integers_of,
    option,
    result_mismatch,
    scale_mismatch,
)
from vendor_reference.compiler.library.moves import MAX_LOOPS, command_loops
from vendor_reference.compiler.library.traced_size import at_least, is_same, range_of
from vendor_reference.compiler.library.views import View, plan_loops
from vendor_reference.custom_layers.kernel_spec import (
    InternalArgument,
    KernelSpec,
    tensor_arguments,
)
from vendor_reference.firmware.instructions import Command, FieldValue

_E = ElementType
_AXES, _AXIS, _KEEPS_DIMS = "axes", "axis", "keep_dims"
_TENSORS = tensor_arguments(1)

ELEMENT_TYPES = {
    _E.FLOAT32: 0, _E.FLOAT16: 1, _E.INT8: 2, _E.UINT8: 3, _E.INT16: 4, _E.INT32: 5, _E.INT64: 6,
}  # fmt: skip
"""The firmware's number for each element type."""

_SUM, _PRODUCT, _GREATEST, _LEAST = range(4)

_MOST_PARTS = 8
_PART_ELEMENTS = 8192
_SHARED_RESULTS = 128
"""A reduction with fewer results than this is split among the workers, if it has enough elements."""


class _Reduction(LibraryOp):
    """Reduces elements along `axes` to one; these dimensions stay with a size of 1, or disappear."""

    num_inputs = (2, 2)
    num_parameters = 1

    types = (*FLOATS, *INTEGERS)

    def __init__(self, name: str, ie_name: str, kind: int, is_mean: bool = False) -> None:
        self.name = name
        self.ie_name = ie_name
        self._kind = kind
        self._is_mean = is_mean
        self.quantized = WITH_SHORTS if kind in (_GREATEST, _LEAST) else ()
        one_scale = (
            ("operand and result must have the same scale and zero point",)
            if self.quantized
            else ()
        )
        self.constraints = (*one_scale, "the axes must be constants")

    def parameter_refusal(self, op: Op) -> str:
        return "the axes are not constants" if find_integers(op.inputs[1]) is None else ""

    def attributes(self, op: Op) -> Attributes:
        rank = len(self.operands(op)[0].shape)
        axes = {count_from_front(axis, rank) for axis in find_integers(op.inputs[1]) or ()}
        keeps_dims = bool(option(op, _KEEPS_DIMS))
        return {**super().attributes(op), _AXES: tuple(sorted(axes)), _KEEPS_DIMS: keeps_dims}

    def result_shapes(
        self, shapes: Sequence[Shape], attributes: Attributes
    ) -> Sequence[Shape] | None:
        (shape,), axes = shapes, integers_of(attributes, _AXES)
        if attributes.get(_KEEPS_DIMS):
            return [tuple(1 if d in axes else size for d, size in enumerate(shape))]
        return [tuple(size for d, size in enumerate(shape) if d not in axes)]

    def mismatch(self, call: PlacedOp) -> str:
        axes, shape = call.integers(_AXES), call.inputs[0].shape
        if any(not 0 <= axis < len(shape) for axis in axes):
            return f"the op reduces dimensions {axes}, but the operand has shape {list(shape)}"
        if [call.result.shape] != self.result_shapes([shape], call.attributes):
            return call.shape_mismatch()
        if len(shape) > MAX_LOOPS or not all(shape):
            return f"the kernel cannot reduce an operand of shape {list(shape)}"
        return self.type_mismatch(call) or scale_mismatch(call)

    def kernel(self, call: PlacedOp) -> KernelSpec:
        axes, operand, result = call.integers(_AXES), call.inputs[0], call.result
        repeated = _repeated(result, operand.shape, axes)
        count = prod(operand.shape[axis] for axis in axes)
        fields: dict[str, FieldValue] = {
            "kind": self._kind,
            "type": ELEMENT_TYPES[result.element_type],
        }
        last = {"count": count if self._is_mean else 1, "parts": 1, "part_stride": 0}
        whole = _nest(operand, repeated)
        parts = self._count_parts(call)
        if parts == 1:
            command = Command.of("Reduce", input=0, result=1, **fields, **last, **whole)
            return KernelSpec(self.name, _TENSORS, commands=(command,))
        size = result.num_elements
        dense = View.dense(result.element_type, result.shape)
        stacked = View.dense(result.element_type, (parts, *result.shape))
        above = View(result.element_type, stacked.shape, (0, *result.strides), result.offset)
        first = _nest(operand, _repeated(dense, operand.shape, axes))
        commands = (
            Command.of(
                "Reduce",
                input=0,
                result=2,
                **fields,
                count=1,
                parts=parts,
                part_stride=size,
                **first,
            ),
            Command.of("Reduce", input=2, result=1, **fields, **last, **_nest(stacked, above)),
        )
        scratch = InternalArgument(result.element_type, str(parts * size))
        return KernelSpec(self.name, (*_TENSORS, scratch), commands=commands)

    def _count_parts(self, call: PlacedOp) -> int:
        """Returns into how many parts a reduction with few results is split for the workers.

        Sums of half elements are not split, because the sum is kept as a float. Extremes are not split, because
        they depend on the order of elements if one element is NaN.
        """
        operand, result = call.inputs[0], call.result
        is_parted = self._kind in (_SUM, _PRODUCT) and operand.element_type is not _E.FLOAT16
        if range_of(result.num_elements)[1] > _SHARED_RESULTS or not is_parted:
            return 1
        return max(1, min(_MOST_PARTS, range_of(operand.num_elements)[1] // _PART_ELEMENTS))


def _repeated(result: View, shape: tuple[int, ...], axes: tuple[int, ...]) -> View:
    """Returns a view of the result in the operand's shape.

    Each result is repeated for all elements that are reduced to it.
    """
    dims = range(len(result.shape))
    is_kept = len(result.shape) == len(shape)
    kept = iter([result.strides[dim] for dim in dims if not is_kept or dim not in axes])
    strides = tuple(0 if dim in axes else next(kept) for dim in range(len(shape)))
    return View(result.element_type, shape, strides, result.offset)


def _nest(operand: View, result: View) -> Mapping[str, FieldValue]:
    """Returns the loop fields.

    Reduced loops come last, and the last loop runs over contiguous elements if possible.
    """
    order = sorted(range(len(operand.shape)), key=lambda dim: -range_of(operand.strides[dim])[1])
    loops = plan_loops([operand.permuted(order), result.permuted(order)])
    reads, writes = loops.strides
    last = next((i for i, stride in enumerate(reads) if is_same(stride, 1)), len(reads) - 1)
    kept = [i for i, stride in enumerate(writes) if stride and i != last]
    reduced = [i for i, stride in enumerate(writes) if not stride and i != last]
    (nest,) = command_loops(loops.ordered([*kept, *reduced, last]))
    return {**nest, "num_kept": MAX_LOOPS - 1 - len(reduced)}


class _Extreme(LibraryOp):
    """Finds the index of the greatest or least element along `axis`; the first one, if several are equal."""

    num_inputs = (2, 2)
    num_parameters = 1
    types = tuple(ELEMENT_TYPES)
    constraints = ("the axis must be a constant", "the result must be int32 or int64")

    def __init__(self, name: str, ie_name: str, kind: int) -> None:
        self.name = name
        self.ie_name = ie_name
        self._kind = kind

    def parameter_refusal(self, op: Op) -> str:
        axis = find_integers(op.inputs[1])
        return "the axis is not one constant number" if axis is None or len(axis) != 1 else ""

    def attributes(self, op: Op) -> Attributes:
        (axis,) = find_integers(op.inputs[1]) or (0,)
        return {_AXIS: count_from_front(axis, len(self.operands(op)[0].shape))}

    def result_shapes(
        self, shapes: Sequence[Shape], attributes: Attributes
    ) -> Sequence[Shape] | None:
        shape, axis = shapes[0], integer_of(attributes, _AXIS)
        if axis is None or not 0 <= axis < len(shape):
            return None
        return [(*shape[:axis], *shape[axis + 1 :])]

    def mismatch(self, call: PlacedOp) -> str:
        axis, operand, result = call.integer(_AXIS), call.inputs[0], call.result
        shape = operand.shape
        if axis is None or not 0 <= axis < len(shape) or is_same(shape[axis], 0):
            return (
                f"the op searches along dimension {axis}, but the operand has shape {list(shape)}"
            )
        if reason := result_mismatch(self, call):
            return reason
        if operand.element_type not in self.types or result.element_type not in INTEGERS:
            return (
                f"the library cannot make an index of type {result.element_type.name} from "
                f"{operand.element_type.name}"
            )
        return ""

    def kernel(self, call: PlacedOp) -> KernelSpec:
        axis, operand, result = call.integer(_AXIS), call.inputs[0], call.result
        assert axis is not None
        size = at_least(operand.shape[axis], 1)
        assert size is not None
        rows = plan_loops([operand.without([axis]), result])
        fields = {
            "kind": self._kind,
            "type": ELEMENT_TYPES[operand.element_type],
            "index_bytes": result.element_type.bits // 8,
        }
        loops = rows.around(size, (operand.strides[axis], 0))
        commands = [
            Command.of("FindExtreme", input=0, result=1, **fields, **nest)
            for nest in command_loops(loops)
        ]
        return KernelSpec(self.name, _TENSORS, commands=tuple(commands))


OPS = (
    _Reduction("MEAN", "ReduceMean", _SUM, is_mean=True),
    _Reduction("SUM", "ReduceSum", _SUM),
    _Reduction("REDUCE_PROD", "ReduceProd", _PRODUCT),
    _Reduction("REDUCE_MAX", "ReduceMax", _GREATEST),
    _Reduction("REDUCE_MIN", "ReduceMin", _LEAST),
    _Extreme("ARG_MAX", "ArgMax", _GREATEST),
    _Extreme("ARG_MIN", "ArgMin", _LEAST),
)

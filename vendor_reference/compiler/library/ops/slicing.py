"""SLICE, STRIDED_SLICE, SPLIT, SPLIT_V, UNPACK: parts of an operand become results."""

from __future__ import annotations

from collections.abc import Sequence

from litert.model.graph import Op, Tensor
from vendor_reference.compiler.library.library_op import (
    Attributes,
    LibraryOp,
    PlacedOp,
    count_from_front,
    find_integers,
    option,
)
from vendor_reference.compiler.library.moves import MovedPart, move_kernel, move_mismatch
from vendor_reference.custom_layers.kernel_spec import KernelSpec

_BEGIN, _SIZES, _STEPS, _AXIS = "begin", "sizes", "steps", "axis"


class _Slice(LibraryOp):
    """`sizes[i]` elements of dimension `i`, from `begin[i]` on and `steps[i]` apart."""

    name = "SLICE"
    ie_name = "Slice"
    num_inputs = (3, 3)
    num_parameters = 2
    constraints = ("one scale for all tensors", "begin and sizes are constants")

    def parameter_refusal(self, op: Op) -> str:
        names = ("begin", "size or end", "stride")
        for name, tensor in zip(names, op.inputs[1:], strict=False):
            if find_integers(tensor) is None:
                return f"its {name} is computed"
        return ""

    def attributes(self, op: Op) -> Attributes:
        begin, sizes = (find_integers(tensor) or () for tensor in op.inputs[1:])
        assert op.inputs[0] is not None
        rest = [size - first for size, first in zip(op.inputs[0].shape, begin, strict=False)]
        return {
            **super().attributes(op),
            _BEGIN: begin,
            _SIZES: tuple(r if s == -1 else s for s, r in zip(sizes, rest, strict=False)),
            _STEPS: (1,) * len(begin),
        }

    def mismatch(self, call: PlacedOp) -> str:
        shape = call.inputs[0].shape
        begin, sizes, steps = (call.integers(name) for name in (_BEGIN, _SIZES, _STEPS))
        if {len(begin), len(sizes), len(steps)} != {len(shape)}:
            return f"it begins at {begin} of {list(shape)}"
        for size, first, count, step in zip(shape, begin, sizes, steps, strict=True):
            last = first + (count - 1) * step
            if count < 0 or (count and not (0 <= first < size and 0 <= last < size)):
                return f"it takes {sizes} elements from {begin} on of {list(shape)}"
        if [n for n in sizes if n != 1] != [n for n in call.result.shape if n != 1]:
            return call.shape_mismatch()
        return move_mismatch(call)

    def kernel(self, call: PlacedOp) -> KernelSpec:
        begin, sizes, steps = (call.integers(name) for name in (_BEGIN, _SIZES, _STEPS))
        source = call.inputs[0].part(begin, sizes, steps)
        return move_kernel(self.name, 1, [MovedPart(call.result.squeezed(), source.squeezed())])


class _StridedSlice(_Slice):
    """With masks, which the attributes have no more."""

    name = "STRIDED_SLICE"
    ie_name = "StridedSlice"
    num_inputs = (4, 4)
    num_parameters = 3
    constraints = ("one scale for all tensors", "begin, end and strides are constants")

    def attributes(self, op: Op) -> Attributes:
        assert op.inputs[0] is not None
        slices = _plan_slices(op, op.inputs[0].shape)
        begin, sizes, steps = zip(*slices, strict=True) if slices else ((), (), ())
        scales = LibraryOp.attributes(self, op)
        return {**scales, _BEGIN: begin, _SIZES: sizes, _STEPS: steps}


def _plan_slices(op: Op, shape: Sequence[int]) -> list[tuple[int, int, int]]:
    """For each dimension the first index, the number of indices, and the step; none where they do not fit."""
    bounds = [find_integers(tensor) or () for tensor in op.inputs[1:]]
    masks = {
        name: int(option(op, f"{name}_mask"))
        for name in ("begin", "end", "ellipsis", "new_axis", "shrink_axis")
    }
    count = min(map(len, bounds))
    new_axes = [bool(masks["new_axis"] >> i & 1) for i in range(count)]
    slices: list[tuple[int, int, int]] = []
    for index, (begin, end, step) in enumerate(zip(*bounds, strict=False)):
        bit = 1 << index
        if masks["ellipsis"] & bit:
            left = new_axes[index + 1 :].count(False)
            slices += [(0, size, 1) for size in shape[len(slices) : len(shape) - left]]
        elif masks["new_axis"] & bit:
            continue
        elif len(slices) == len(shape) or not step:
            return []
        else:
            size = shape[len(slices)]
            end += begin if option(op, "offset") else 0
            if masks["shrink_axis"] & bit:
                slices.append((begin + size if begin < 0 else begin, 1, 1))
            else:
                first = None if masks["begin"] & bit else begin
                chosen = range(size)[slice(first, None if masks["end"] & bit else end, step)]
                slices.append((chosen.start, len(chosen), step))
    return [*slices, *((0, size, 1) for size in shape[len(slices) :])]


class _Split(LibraryOp):
    """Results are one behind the other along `axis`."""

    num_outputs = (1, 4096)
    is_layout_agnostic = True
    constraints = ("one scale for all tensors", "the axis is a constant")

    def __init__(self, name: str, ie_name: str, num_inputs: int, operand: int, axis: int) -> None:
        """`operand` and `axis` are inputs."""
        self.name = name
        self.ie_name = ie_name
        self.num_inputs = (num_inputs, num_inputs)
        self.num_parameters = num_inputs - 1
        self._operand = operand
        self._axis = axis

    def operands(self, op: Op) -> Sequence[Tensor]:
        operand = op.inputs[self._operand]
        assert operand is not None
        return [operand]

    def parameter_refusal(self, op: Op) -> str:
        axis = find_integers(op.inputs[self._axis])
        return "its axis is computed" if axis is None or len(axis) != 1 else ""

    def attributes(self, op: Op) -> Attributes:
        (axis,) = find_integers(op.inputs[self._axis]) or (0,)
        rank = len(self.operands(op)[0].shape)
        return {**super().attributes(op), _AXIS: count_from_front(axis, rank)}

    def mismatch(self, call: PlacedOp) -> str:
        axis, shape = call.integer(_AXIS), call.inputs[0].shape
        if axis is None or not 0 <= axis < len(shape):
            return f"it splits dimension {axis} of {list(shape)}"
        if any(len(view.shape) != len(shape) for view in call.results):
            return call.shape_mismatch()
        whole = sum(view.shape[axis] for view in call.results)
        shapes = {(*v.shape[:axis], whole, *v.shape[axis + 1 :]) for v in call.results}
        is_even = len({view.shape for view in call.results}) == 1
        if shapes != {shape} or (self.name == "SPLIT" and not is_even):
            return call.shape_mismatch()
        return move_mismatch(call)

    def kernel(self, call: PlacedOp) -> KernelSpec:
        axis, begin, parts = call.integer(_AXIS), 0, []
        assert axis is not None
        for index, view in enumerate(call.results):
            source = call.inputs[0].between(axis, begin, begin + view.shape[axis])
            parts.append(MovedPart(view, source, output=index))
            begin += view.shape[axis]
        return move_kernel(self.name, 1, parts, num_outputs=len(call.results))


class _Unpack(LibraryOp):
    """Each index of `axis` is a result without that dimension."""

    name = "UNPACK"
    ie_name = "Unstack"
    num_outputs = (1, 4096)
    constraints = ("one scale for all tensors",)

    def attributes(self, op: Op) -> Attributes:
        axis, rank = int(option(op, _AXIS)), len(self.operands(op)[0].shape)
        return {**super().attributes(op), _AXIS: count_from_front(axis, rank)}

    def mismatch(self, call: PlacedOp) -> str:
        axis, shape = call.integer(_AXIS), call.inputs[0].shape
        if axis is None or not 0 <= axis < len(shape):
            return f"it splits dimension {axis} of {list(shape)}"
        joined = {(*v.shape[:axis], len(call.results), *v.shape[axis:]) for v in call.results}
        return move_mismatch(call) if joined == {shape} else call.shape_mismatch()

    def kernel(self, call: PlacedOp) -> KernelSpec:
        axis = call.integer(_AXIS)
        assert axis is not None
        parts = [
            MovedPart(view, call.inputs[0].between(axis, i, i + 1).without([axis]), output=i)
            for i, view in enumerate(call.results)
        ]
        return move_kernel(self.name, 1, parts, num_outputs=len(parts))


OPS = (
    _Slice(),
    _StridedSlice(),
    _Split("SPLIT", "Split", 2, operand=1, axis=0),
    _Split("SPLIT_V", "VariadicSplit", 3, operand=0, axis=2),
    _Unpack(),
)

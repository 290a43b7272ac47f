"""SLICE, STRIDED_SLICE, SPLIT, SPLIT_V, UNPACK: ops whose results are parts of an operand."""

from __future__ import annotations

from collections.abc import Sequence

from litert.model.graph import Op, Tensor
from vendor_reference.compiler.library.library_op import (
    Attributes,
    LibraryOp,
    PlacedOp,
    Shape,
    count_from_front,
    find_integers,
    integer_of,
    integers_of,
    is_shape,
    option,
    result_mismatch,
)
from vendor_reference.compiler.library.moves import MovedPart, move_kernel, move_mismatch
from vendor_reference.compiler.library.traced_size import (
    TracedSize,
    at_least,
    exact_quotient,
    index_below,
    is_same,
    range_of,
    unless_negative,
)
from vendor_reference.custom_layers.kernel_spec import KernelSpec

_BEGIN, _SIZES, _STEPS, _AXIS = "begin", "sizes", "steps", "axis"
_KEPT = "kept"
_TO_THE_END = 2**31 - 1
"""End index that converters write for a slice of a whole dimension."""


class _Slice(LibraryOp):
    """Takes `sizes[i]` elements of dimension `i`, from `begin[i]` on, every `steps[i]` elements.

    If the size of dimension `i` is known only at run time, a negative `begin[i]` counts from the end, as in
    Python. A negative `sizes[i]` then gives the end of the slice: -1 takes all remaining elements, -2 all except
    the last. If the result has other dimensions than the operand, `kept` lists them, -1 for a new one.
    """

    name = "SLICE"
    ie_name = "Slice"
    num_inputs = (3, 3)
    num_parameters = 2
    constraints = (
        "all tensors must have the same scale and zero point",
        "begin and sizes must be constants",
    )

    def parameter_refusal(self, op: Op) -> str:
        names = ("begin", "size or end", "stride")
        for name, tensor in zip(names, op.inputs[1:], strict=False):
            if find_integers(tensor) is None:
                return f"the {name} is not a constant"
        return self.number_refusal(op)

    def number_refusal(self, op: Op) -> str:
        """Returns why the op's constants are invalid; "" if they are valid."""
        begin, sizes = (find_integers(tensor) or () for tensor in op.inputs[1:])
        is_there = min(begin, default=0) >= 0 and min(sizes, default=0) >= -1
        return (
            ""
            if is_there
            else (
                f"the slice begins at {begin} and has sizes {sizes}, but begin must be at least 0, "
                "and each size at least -1"
            )
        )

    def attributes(self, op: Op) -> Attributes:
        begin, sizes = (find_integers(tensor) or () for tensor in op.inputs[1:])
        assert op.inputs[0] is not None
        given = zip(op.inputs[0].type.shape, begin, sizes, strict=False)
        return {
            **super().attributes(op),
            _BEGIN: begin,
            _SIZES: tuple(size - b if count == -1 < size else count for size, b, count in given),
            _STEPS: (1,) * len(begin),
        }

    def result_shapes(
        self, shapes: Sequence[Shape], attributes: Attributes
    ) -> Sequence[Shape] | None:
        slices = _slices(shapes[0], attributes)
        kept = integers_of(attributes, _KEPT) or range(len(shapes[0]))
        if slices is None or not set(kept) <= {-1, *range(len(slices))}:
            return None
        return [tuple(1 if dim < 0 else slices[dim][1] for dim in kept)]

    def mismatch(self, call: PlacedOp) -> str:
        shape, slices = call.inputs[0].shape, _slices(call.inputs[0].shape, call.attributes)
        begin = call.integers(_BEGIN)
        if {len(call.integers(name)) for name in (_BEGIN, _SIZES, _STEPS)} != {len(shape)}:
            return f"the slice begins at {begin}, but the operand has shape {list(shape)}"
        if slices is None:
            sizes = call.integers(_SIZES)
            return f"the slice takes {sizes} elements from {begin} on, but the operand has shape {list(shape)}"
        taken = tuple(count for _, count, _ in slices if not is_same(count, 1))
        found = tuple(size for size in call.result.shape if not is_same(size, 1))
        return move_mismatch(call) if is_shape(taken, found) else call.shape_mismatch()

    def kernel(self, call: PlacedOp) -> KernelSpec:
        slices = _slices(call.inputs[0].shape, call.attributes)
        assert slices is not None
        begin, sizes, steps = zip(*slices, strict=True) if slices else ((), (), ())
        source = call.inputs[0].part(begin, sizes, steps)
        return move_kernel(self.name, 1, [MovedPart(call.result.squeezed(), source.squeezed())])


def _slices(shape: Shape, attributes: Attributes) -> Sequence[tuple[int, int, int]] | None:
    """Returns the first index, the number of indices, and the step for each dimension.

    Returns None if they do not fit the shape.
    """
    given = [integers_of(attributes, name) for name in (_BEGIN, _SIZES, _STEPS)]
    if {*map(len, given)} != {len(shape)}:
        return None
    slices = []
    for size, first, count, step in zip(shape, *given, strict=True):
        if isinstance(size, TracedSize) or first < 0 or count < 0:
            found = _open_slice(size, first, count, step)
        else:
            last = first + (count - 1) * step
            is_there = not count or (0 <= first < size and 0 <= last < size)
            found = (first, count) if is_there else None
        if found is None or range_of(found[1])[1] < 0:
            return None
        slices.append((*found, step))
    return slices


def _open_slice(size: int, first: int, count: int, step: int) -> tuple[int, int] | None:
    """Returns the first index and the number of indices of a run-time dimension; None if they do not fit."""
    if step < 0:
        return (size - 1, (size - step - 1) // -step) if first == -1 == count else None
    reach = (max(count, 1) - 1) * step
    if first < 0:
        whole = at_least(size, -first)
        left = 1 + count - first if count < 0 else -first - reach
        if whole is None or left < 0:
            return None
        return whole + first, count if count >= 0 else -(-left // step)
    if count >= 0:
        last = index_below(first + reach, size)
        return None if last is None else (last - reach, count)
    whole = at_least(size, first - count - 1)
    if whole is None:
        return None
    left = unless_negative(whole + 1 + count - first)
    return first, (left + step - 1) // step


class _StridedSlice(_Slice):
    """A slice whose masks are already part of the attributes."""

    name = "STRIDED_SLICE"
    ie_name = "StridedSlice"
    num_inputs = (4, 4)
    num_parameters = 3
    constraints = (
        "all tensors must have the same scale and zero point",
        "begin, end and strides must be constants",
    )

    def number_refusal(self, op: Op) -> str:
        is_known = None not in _plan_slices(op)[0]
        return (
            ""
            if is_known
            else "the slice depends on the size of a dimension, which is known only at run time"
        )

    def attributes(self, op: Op) -> Attributes:
        slices, kept = _plan_slices(op)
        taken = [part for part in slices if part is not None]
        begin, sizes, steps = zip(*taken, strict=True) if taken else ((), (), ())
        scales = LibraryOp.attributes(self, op)
        is_whole = kept == [*range(len(slices))]
        found = {**scales, _BEGIN: begin, _SIZES: sizes, _STEPS: steps}
        return found if is_whole else {**found, _KEPT: tuple(kept)}


_Part = tuple[int, int, int]
"""A part of a dimension: the first index, the number of indices, and the step."""


def _plan_slices(op: Op) -> tuple[list[_Part | None], list[int]]:
    """Returns the part of each dimension, and the result's dimensions.

    A part is None if it is known only at run time. Both lists are empty if the slice does not fit.
    """
    assert op.inputs[0] is not None
    shape = op.inputs[0].type.shape
    bounds = [find_integers(tensor) or () for tensor in op.inputs[1:]]
    masks = {
        name: int(option(op, f"{name}_mask"))
        for name in ("begin", "end", "ellipsis", "new_axis", "shrink_axis")
    }
    count = min(map(len, bounds))
    new_axes = [bool(masks["new_axis"] >> i & 1) for i in range(count)]
    slices: list[_Part | None] = []
    kept: list[int] = []

    def take_whole(end: int) -> None:
        for dim in range(len(slices), end):
            kept.append(dim)
            slices.append((0, shape[dim], 1))

    for index, (begin, end, step) in enumerate(zip(*bounds, strict=False)):
        bit = 1 << index
        if masks["ellipsis"] & bit:
            take_whole(len(shape) - new_axes[index + 1 :].count(False))
        elif masks["new_axis"] & bit:
            kept.append(-1)
        elif len(slices) == len(shape) or not step:
            return [], []
        else:
            size = shape[len(slices)]
            end += begin if option(op, "offset") else 0
            if masks["shrink_axis"] & bit:
                slices.append((begin + size if begin < 0 <= size else begin, 1, 1))
                continue
            first = None if masks["begin"] & bit else begin
            taken = slice(first, None if masks["end"] & bit else end, step)
            kept.append(len(slices))
            slices.append(_part(size, taken))
    take_whole(len(shape))
    return slices, kept


def _part(size: int, taken: slice) -> _Part | None:
    """Returns a part of a dimension, whose size is negative if it is unknown.

    None if the part depends on the size.
    """
    if size >= 0:
        chosen = range(size)[taken]
        return chosen.start if chosen else 0, len(chosen), taken.step
    end = -1 if taken.stop is None or taken.stop == _TO_THE_END else taken.stop - 1
    if taken.step < 0:
        is_whole = taken.start in (None, -1) and taken.stop is None
        return (-1, -1, taken.step) if is_whole else None
    return (taken.start or 0, end, taken.step) if end < 0 else None


class _Split(LibraryOp):
    """Splits an operand along `axis`; results with a size of -1 share the remaining elements evenly."""

    num_outputs = (1, 4096)
    is_layout_agnostic = True
    constraints = (
        "all tensors must have the same scale and zero point",
        "the axis must be a constant",
    )

    def __init__(self, name: str, ie_name: str, num_inputs: int, operand: int, axis: int) -> None:
        """`operand` and `axis` are indices of inputs."""
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
        return "the axis is not one constant number" if axis is None or len(axis) != 1 else ""

    def attributes(self, op: Op) -> Attributes:
        (axis,) = find_integers(op.inputs[self._axis]) or (0,)
        rank = len(self.operands(op)[0].shape)
        axis = count_from_front(axis, rank)
        return {**super().attributes(op), _AXIS: axis, _SIZES: self._sizes(op, axis)}

    def _sizes(self, op: Op, axis: int) -> tuple[int, ...]:
        if self.name == "SPLIT":
            return (-1,) * len(op.outputs)
        found = find_integers(op.inputs[1])
        return found or tuple(dict(enumerate(t.type.shape)).get(axis, 0) for t in op.outputs)

    def result_shapes(
        self, shapes: Sequence[Shape], attributes: Attributes
    ) -> Sequence[Shape] | None:
        shape, axis, sizes = (
            shapes[0],
            integer_of(attributes, _AXIS),
            integers_of(attributes, _SIZES),
        )
        if axis is None or not 0 <= axis < len(shape) or not sizes:
            return None
        given, shared = sum(n for n in sizes if n >= 0), sizes.count(-1)
        whole = at_least(shape[axis], given)
        if whole is None or min(sizes) < -1 or not (shared or is_same(whole, given)):
            return None
        rest = exact_quotient(unless_negative(whole - given), max(shared, 1))
        if rest is None:
            return None
        return [(*shape[:axis], rest if n < 0 else n, *shape[axis + 1 :]) for n in sizes]

    def mismatch(self, call: PlacedOp) -> str:
        axis, shape = call.integer(_AXIS), call.inputs[0].shape
        if axis is None or not 0 <= axis < len(shape):
            return f"the op splits dimension {axis}, but the operand has shape {list(shape)}"
        return result_mismatch(self, call) or move_mismatch(call)

    def kernel(self, call: PlacedOp) -> KernelSpec:
        axis, begin, parts = call.integer(_AXIS), 0, []
        assert axis is not None
        for index, view in enumerate(call.results):
            source = call.inputs[0].between(axis, begin, begin + view.shape[axis])
            parts.append(MovedPart(view, source.sized_as(view), output=index))
            begin += view.shape[axis]
        return move_kernel(self.name, 1, parts, num_outputs=len(call.results))


class _Unpack(LibraryOp):
    """Makes a result without dimension `axis` from each of its indices."""

    name = "UNPACK"
    ie_name = "Unstack"
    num_outputs = (1, 4096)
    constraints = ("all tensors must have the same scale and zero point",)

    def attributes(self, op: Op) -> Attributes:
        axis, rank = int(option(op, _AXIS)), len(self.operands(op)[0].shape)
        return {**super().attributes(op), _AXIS: count_from_front(axis, rank)}

    def result_shapes(
        self, shapes: Sequence[Shape], attributes: Attributes
    ) -> Sequence[Shape] | None:
        shape, axis = shapes[0], integer_of(attributes, _AXIS)
        if axis is None or not 0 <= axis < len(shape) or isinstance(shape[axis], TracedSize):
            return None
        return [(*shape[:axis], *shape[axis + 1 :])] * shape[axis]

    def mismatch(self, call: PlacedOp) -> str:
        axis, shape = call.integer(_AXIS), call.inputs[0].shape
        if axis is None or not 0 <= axis < len(shape):
            return f"the op splits dimension {axis}, but the operand has shape {list(shape)}"
        return result_mismatch(self, call) or move_mismatch(call)

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

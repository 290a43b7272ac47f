"""RESHAPE, TRANSPOSE, DEPTH_TO_SPACE, TILE, ...: ops that arrange elements in another shape, or repeat them."""

from __future__ import annotations

from collections.abc import Sequence
from math import prod

from litert.model.builtin_options import read_builtin_options
from litert.model.graph import Op, Tensor
from vendor_reference.compiler.library.library_op import (
    INTEGERS,
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
from vendor_reference.compiler.library.moves import (
    MovedPart,
    command_loops,
    move_kernel,
    move_mismatch,
)
from vendor_reference.compiler.library.shape_chain import (
    ChainSize,
    Sizes,
    own_sizes,
    read_sizes,
    size_attributes,
    sizes_of,
)
from vendor_reference.compiler.library.traced_size import (
    broadcast_size,
    exact_quotient,
    is_same,
    range_of,
    same_size,
)
from vendor_reference.compiler.library.views import View, plan_loops
from vendor_reference.compiler.unpacked_constants import is_known_ahead
from vendor_reference.custom_layers.kernel_spec import KernelSpec, tensor_arguments
from vendor_reference.firmware.instructions import Command

_ORDER = "order"
_BLOCK_SIZE = "block_size"
_REPEATS = "repeats"
_SHAPE = "shape"


class _Reshape(LibraryOp):
    """Gives a tensor another shape without copying elements.

    For run-time shapes, `shape` has the sizes in the form of `size_attributes`; -1 is the remaining
    size. For fixed shapes, the model's shape counts.
    """

    is_view = True
    constraints = ("all tensors must have the same scale and zero point",)
    num_parameters = 1

    def __init__(self, name: str, ie_name: str, num_inputs: tuple[int, int]) -> None:
        self.name = name
        self.ie_name = ie_name
        self.num_inputs = num_inputs

    def parameter_refusal(self, op: Op) -> str:
        if is_known_ahead(self.operands(op)[0]):
            return "the operand is a constant"
        if not _is_open(op) or self._sizes(op) is not None:
            return ""
        return (
            "all sizes of the result except one must be constants, or be computed in the NPU call "
            "from the operand's shape"
        )

    def attributes(self, op: Op) -> Attributes:
        sizes = self._sizes(op) if _is_open(op) else None
        own = {} if sizes is None else size_attributes(_SHAPE, sizes)
        return {**super().attributes(op), **own}

    def result_shapes(
        self, shapes: Sequence[Shape], attributes: Attributes
    ) -> Sequence[Shape] | None:
        sizes = sizes_of(attributes, _SHAPE, shapes[0])
        if sizes is None:
            return None
        total, known = prod(shapes[0]), prod(size for size in sizes if size is not None)
        left: int | None = 1
        if None in sizes:
            left = exact_quotient(total, known) if range_of(known)[0] > 0 else None
        elif not is_same(total, known):
            return None
        return None if left is None else [tuple(left if n is None else n for n in sizes)]

    def mismatch(self, call: PlacedOp) -> str:
        if _SHAPE in call.attributes:
            return result_mismatch(self, call) or move_mismatch(call)
        if call.inputs[0].num_elements != call.result.num_elements:
            return call.shape_mismatch()
        return move_mismatch(call)

    def kernel(self, call: PlacedOp) -> KernelSpec:
        return move_kernel(self.name, 1, [MovedPart(_row(call.result), _row(call.inputs[0]))])

    def _sizes(self, op: Op) -> Sizes | None:
        """Returns the sizes in `shape`; None if they are unknown."""
        operand, pattern = op.inputs[0], op.outputs[0].type.shape
        assert operand is not None
        sizes = _find_sizes(op, operand)
        if sizes is None or len(sizes) != len(pattern):
            sizes = [None] * len(pattern)
        sizes = [
            ChainSize(fixed) if fixed >= 0 else size
            for size, fixed in zip(sizes, pattern, strict=True)
        ]
        return sizes if sizes.count(None) < 2 else None


def _is_open(op: Op) -> bool:
    return not all(t.type.layout.is_static for t in (*op.inputs[:1], *op.outputs) if t is not None)


def _find_sizes(op: Op, operand: Tensor) -> Sizes | None:
    """Returns the result's sizes from the op's other inputs and options."""
    rank, own = len(operand.shape), own_sizes(operand)
    if op.name == "RESHAPE":
        found = read_sizes(op.inputs[1], operand) if len(op.inputs) > 1 else None
        return found and [None if size == ChainSize(-1) else size for size in found]
    if op.name == "EXPAND_DIMS":
        axis = find_integers(op.inputs[1])
        if axis is None or len(axis) != 1:
            return None
        at = count_from_front(axis[0], rank + 1)
        return [*own[:at], ChainSize(1), *own[at:]]
    given = read_builtin_options(op)["squeeze_dims"]
    dims = given if isinstance(given, Sequence) else ()
    squeezed = [count_from_front(dim, rank) for dim in dims if isinstance(dim, int)]
    is_kept = (
        (lambda dim: dim not in squeezed) if squeezed else lambda dim: own[dim] != ChainSize(1)
    )
    return [own[dim] for dim in range(rank) if is_kept(dim)]


class _Shape(LibraryOp):
    """Returns the sizes of an operand as numbers."""

    name = "SHAPE"
    ie_name = "ShapeOf"
    is_layout_agnostic = True
    constraints = ("the result must be int32 or int64",)

    def attributes(self, op: Op) -> Attributes:
        return {}

    def result_shapes(
        self, shapes: Sequence[Shape], attributes: Attributes
    ) -> Sequence[Shape] | None:
        return [(len(shapes[0]),)]

    def mismatch(self, call: PlacedOp) -> str:
        if call.result.element_type not in INTEGERS:
            return f"the result has type {call.result.element_type.name}, expected INT32 or INT64"
        return result_mismatch(self, call)

    def kernel(self, call: PlacedOp) -> KernelSpec:
        result, sizes = call.result, call.inputs[0].shape or (0,)
        commands = []
        for dim, size in enumerate(sizes):
            place = result.between(0, dim, dim + 1) if call.inputs[0].shape else result
            value = View(place.element_type, place.shape, (0,) * len(place.shape))
            (nest,) = command_loops(plan_loops([value, place]))
            element_bytes = result.element_type.bits // 8
            command = Command.of("Move", result=1, value=(size, 0), bytes=element_bytes, **nest)
            commands.append(command)
        return KernelSpec(self.name, tensor_arguments(1), commands=tuple(commands))


class _Transpose(LibraryOp):
    """Makes dimension `i` of the result from dimension `order[i]` of the operand."""

    name = "TRANSPOSE"
    ie_name = "Transpose"
    constraints = (
        "all tensors must have the same scale and zero point",
        "the permutation must be a constant",
    )
    num_inputs = (2, 2)
    num_parameters = 1

    def parameter_refusal(self, op: Op) -> str:
        return "the permutation is not a constant" if find_integers(op.inputs[1]) is None else ""

    def attributes(self, op: Op) -> Attributes:
        order, rank = find_integers(op.inputs[1]) or (), len(op.outputs[0].shape)
        return {
            **super().attributes(op),
            _ORDER: tuple(count_from_front(dim, rank) for dim in order),
        }

    def result_shapes(
        self, shapes: Sequence[Shape], attributes: Attributes
    ) -> Sequence[Shape] | None:
        shape, order = shapes[0], integers_of(attributes, _ORDER)
        is_permutation = sorted(order) == list(range(len(shape)))
        return [tuple(shape[dim] for dim in order)] if is_permutation else None

    def mismatch(self, call: PlacedOp) -> str:
        rank, order = len(call.inputs[0].shape), call.integers(_ORDER)
        if sorted(order) != list(range(rank)):
            return f"{order} is not a permutation of {rank} dimensions"
        return result_mismatch(self, call) or move_mismatch(call)

    def kernel(self, call: PlacedOp) -> KernelSpec:
        source = call.inputs[0].permuted(call.integers(_ORDER))
        return move_kernel(self.name, 1, [MovedPart(call.result, source)])


class _Blocks(LibraryOp):
    """Moves blocks of height and width to channels, or back: `block_size` squared channels for each."""

    num_inputs = (1, 1)
    constraints = ("all tensors must have the same scale and zero point",)
    is_layout_agnostic = True

    def __init__(self, name: str, ie_name: str, is_to_depth: bool) -> None:
        self.name = name
        self.ie_name = ie_name
        self._is_to_depth = is_to_depth

    def attributes(self, op: Op) -> Attributes:
        return {**super().attributes(op), _BLOCK_SIZE: int(option(op, _BLOCK_SIZE))}

    def result_shapes(
        self, shapes: Sequence[Shape], attributes: Attributes
    ) -> Sequence[Shape] | None:
        size, shape = integer_of(attributes, _BLOCK_SIZE), shapes[0]
        if size is None or size < 1 or len(shape) != 4:
            return None
        batch, *sides, channels = shape
        if self._is_to_depth:
            made = [exact_quotient(side, size) for side in sides]
            made.append(channels * size**2)
        else:
            made = [*(side * size for side in sides), exact_quotient(channels, size**2)]
        return None if None in made else [(batch, *(n for n in made if n is not None))]

    def mismatch(self, call: PlacedOp) -> str:
        size = call.integer(_BLOCK_SIZE)
        if size is None or size < 1:
            return f"the block size is {size}, expected 1 or more"
        return result_mismatch(self, call) or move_mismatch(call)

    def kernel(self, call: PlacedOp) -> KernelSpec:
        size, (deep, wide) = call.integer(_BLOCK_SIZE), self._deep_and_wide(call)
        assert size is not None
        wide = wide.split(2, size).split(1, size)
        deep = deep.split(3, deep.shape[3] // size).split(4, wide.shape[-1])
        deep = deep.permuted((0, 1, 3, 2, 4, 5))
        source, result = (wide, deep) if self._is_to_depth else (deep, wide)
        return move_kernel(self.name, 1, [MovedPart(result, source.sized_as(result))])

    def _deep_and_wide(self, call: PlacedOp) -> Sequence[View]:
        return call.tensors[::-1] if self._is_to_depth else call.tensors


class _Tile(LibraryOp):
    """Repeats dimension `i` `repeats[i]` times."""

    name = "TILE"
    ie_name = "Tile"
    num_inputs = (2, 2)
    num_parameters = 1
    constraints = ("all tensors must have the same scale and zero point",)

    def attributes(self, op: Op) -> Attributes:
        repeats = find_integers(op.inputs[1])
        if repeats is None and op.inputs[0] is not None:
            sizes = zip(op.outputs[0].type.shape, op.inputs[0].type.shape, strict=False)
            repeats = tuple(made // max(size, 1) for made, size in sizes)
        return {**super().attributes(op), _REPEATS: repeats or ()}

    def parameter_refusal(self, op: Op) -> str:
        tensors = (op.inputs[0], op.outputs[0])
        is_fixed = all(t is not None and t.type.layout.is_static for t in tensors)
        is_known = is_fixed or find_integers(op.inputs[1]) is not None
        return (
            ""
            if is_known
            else "the multiples are not constants, and a tensor's size is known only at run time"
        )

    def result_shapes(
        self, shapes: Sequence[Shape], attributes: Attributes
    ) -> Sequence[Shape] | None:
        shape, repeats = shapes[0], integers_of(attributes, _REPEATS)
        if len(shape) != len(repeats) or min(repeats, default=0) < 0:
            return None
        return [tuple(size * times for size, times in zip(shape, repeats, strict=True))]

    def mismatch(self, call: PlacedOp) -> str:
        return result_mismatch(self, call) or move_mismatch(call)

    def kernel(self, call: PlacedOp) -> KernelSpec:
        source, result = call.inputs[0], call.result
        for dim, size in reversed(list(enumerate(source.shape))):
            result = result.split(dim, size)
        strides = tuple(n for stride in source.strides for n in (0, stride))
        source = View(source.element_type, result.shape, strides, source.offset)
        return move_kernel(self.name, 1, [MovedPart(result, source)])


class _Broadcast(LibraryOp):
    """Broadcasts dimensions of size 1 to the sizes in `shape`, and adds missing dimensions in front."""

    name = "BROADCAST_TO"
    ie_name = "Broadcast"
    num_inputs = (2, 2)
    num_parameters = 1
    constraints = ("all tensors must have the same scale and zero point",)

    def attributes(self, op: Op) -> Attributes:
        found = find_integers(op.inputs[1]) or op.outputs[0].type.shape
        return {**super().attributes(op), _SHAPE: tuple(found)}

    def parameter_refusal(self, op: Op) -> str:
        is_known = op.outputs[0].type.layout.is_static or find_integers(op.inputs[1]) is not None
        return (
            ""
            if is_known
            else "the shape of the result is not a constant, and is known only at run time"
        )

    def result_shapes(
        self, shapes: Sequence[Shape], attributes: Attributes
    ) -> Sequence[Shape] | None:
        shape, wanted = shapes[0], integers_of(attributes, _SHAPE)
        missing = len(wanted) - len(shape)
        if missing < 0:
            return None
        made = [
            same_size(size, 1) if to == 1 else broadcast_size(size, to)
            for size, to in zip(shape, wanted[missing:], strict=True)
        ]
        found = (*wanted[:missing], *(size for size in made if size is not None))
        return [found] if is_shape(found, wanted) else None

    def mismatch(self, call: PlacedOp) -> str:
        return result_mismatch(self, call) or move_mismatch(call)

    def kernel(self, call: PlacedOp) -> KernelSpec:
        source, result = call.inputs[0].broadcast(call.result.shape), call.result
        return move_kernel(self.name, 1, [MovedPart(result, source)])


def _row(view: View) -> View:
    """Returns a tensor's elements in row order as one dimension."""
    assert view.is_row_order
    return View.dense(view.element_type, (view.num_elements,))


OPS = (
    _Reshape("RESHAPE", "Reshape", (1, 2)),
    _Reshape("SQUEEZE", "Squeeze", (1, 1)),
    _Reshape("EXPAND_DIMS", "Unsqueeze", (2, 2)),
    _Transpose(),
    _Blocks("DEPTH_TO_SPACE", "DepthToSpace", is_to_depth=False),
    _Blocks("SPACE_TO_DEPTH", "SpaceToDepth", is_to_depth=True),
    _Broadcast(),
    _Tile(),
    _Shape(),
)

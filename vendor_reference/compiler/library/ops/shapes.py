"""RESHAPE, TRANSPOSE, DEPTH_TO_SPACE, TILE, ...: the same elements in another shape, perhaps more than once."""

from __future__ import annotations

from collections.abc import Sequence

from litert.model.graph import Op
from vendor_reference.compiler.library.library_op import (
    Attributes,
    LibraryOp,
    PlacedOp,
    count_from_front,
    find_integers,
    option,
)
from vendor_reference.compiler.library.moves import MovedPart, move_kernel, move_mismatch
from vendor_reference.compiler.library.views import View
from vendor_reference.custom_layers.kernel_spec import KernelSpec

_ORDER = "order"
_BLOCK_SIZE = "block_size"


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
            _ORDER: tuple(count_from_front(dim, rank) for dim in order),
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


class _Blocks(LibraryOp):
    """A block of height and width becomes channels, or channels that: `block_size` squared of them."""

    num_inputs = (1, 1)
    constraints = ("one scale for all tensors",)
    is_layout_agnostic = True

    def __init__(self, name: str, ie_name: str, is_to_depth: bool) -> None:
        self.name = name
        self.ie_name = ie_name
        self._is_to_depth = is_to_depth

    def attributes(self, op: Op) -> Attributes:
        return {**super().attributes(op), _BLOCK_SIZE: int(option(op, _BLOCK_SIZE))}

    def mismatch(self, call: PlacedOp) -> str:
        size, (deep, wide) = call.integer(_BLOCK_SIZE), self._deep_and_wide(call)
        if size is None or size < 1:
            return f"its block size is {size}"
        if len(deep.shape) != 4 or len(wide.shape) != 4:
            return call.shape_mismatch()
        batch, height, width, channels = deep.shape
        if channels % size**2:
            return call.shape_mismatch()
        fits = wide.shape == (batch, height * size, width * size, channels // size**2)
        return move_mismatch(call) if fits else call.shape_mismatch()

    def kernel(self, call: PlacedOp) -> KernelSpec:
        size, (deep, wide) = call.integer(_BLOCK_SIZE), self._deep_and_wide(call)
        assert size is not None
        wide = wide.split(2, size).split(1, size)
        deep = deep.split(3, deep.shape[3] // size).split(4, wide.shape[-1])
        deep = deep.permuted((0, 1, 3, 2, 4, 5))
        source, result = (wide, deep) if self._is_to_depth else (deep, wide)
        return move_kernel(self.name, 1, [MovedPart(result, source)])

    def _deep_and_wide(self, call: PlacedOp) -> Sequence[View]:
        return call.tensors[::-1] if self._is_to_depth else call.tensors


class _Repeat(LibraryOp):
    """Each dimension as often as the result is larger; BROADCAST_TO repeats those of size 1, and adds others."""

    num_inputs = (2, 2)
    num_parameters = 1
    constraints = ("one scale for all tensors",)

    def __init__(self, name: str, ie_name: str) -> None:
        self.name = name
        self.ie_name = ie_name

    def mismatch(self, call: PlacedOp) -> str:
        shape, result = call.inputs[0].shape, call.result.shape
        missing = len(result) - len(shape)
        if missing < 0 or (missing and self.name == "TILE"):
            return call.shape_mismatch()
        for size, wanted in zip(shape, result[missing:], strict=True):
            is_multiple = size and wanted % size == 0 if self.name == "TILE" else size == 1
            if size != wanted and not is_multiple:
                return call.shape_mismatch()
        return move_mismatch(call)

    def kernel(self, call: PlacedOp) -> KernelSpec:
        source, result = call.inputs[0], call.result
        dim = len(result.shape) - len(source.shape)
        strides = (0,) * dim
        for size, stride in zip(source.shape, source.strides, strict=True):
            result, strides, dim = result.split(dim, size), (*strides, 0, stride), dim + 2
        source = View(source.element_type, result.shape, strides, source.offset)
        return move_kernel(self.name, 1, [MovedPart(result, source)])


def _row(view: View) -> View:
    """A tensor's elements in row order, as one dimension."""
    assert view.is_row_order
    return View.dense(view.element_type, (view.num_elements,))


OPS = (
    _Reshape("RESHAPE", "Reshape", (1, 2)),
    _Reshape("SQUEEZE", "Squeeze", (1, 1)),
    _Reshape("EXPAND_DIMS", "Unsqueeze", (2, 2)),
    _Transpose(),
    _Blocks("DEPTH_TO_SPACE", "DepthToSpace", is_to_depth=False),
    _Blocks("SPACE_TO_DEPTH", "SpaceToDepth", is_to_depth=True),
    _Repeat("BROADCAST_TO", "Broadcast"),
    _Repeat("TILE", "Tile"),
)

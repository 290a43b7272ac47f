"""Finds unknown dimensions by trial: infers shapes and small values for several sizes of the unknown dimensions.

The interpreter of stock LiteRT computes shapes only for known sizes. A probe is one inference with trial sizes. A
dimension of a result counts as unknown if it differs between probes. The first probe has the interpreter's initial
sizes.

Some shapes depend on values, for example on the result of SHAPE. To get these values, stock LiteRT runs only the
ops that compute them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence

from compiler_plugin.effects import has_side_effects
from compiler_plugin.plugin import DataLayout
from compiler_plugin.transformations.graph_ops import sort_ops
from compiler_plugin.transformations.stock_inference import (
    SHAPE_TYPES,
    VALUE_TYPES,
    is_small,
    prepare,
    run,
    value_of_shape,
)
from compiler_plugin.transformations.stock_region import Shape
from litert.core.errors import LiteRtError
from litert.model.graph import Op, Tensor
from litert.model.tensor_data import Array

Sizes = Callable[[int, int], int]
"""Function that returns a trial size for an unknown dimension, given the dimension's index and initial size."""

_VALUE_LIMIT = 16 << 20  # largest size of a computed value, in bytes
_SHAPE_LIMIT = 1 << 16  # largest size of values that shapes depend on, in bytes
_FIRST_STEP = 32

_SHAPE_BYTES = 512  # shapes may depend on integers up to this size, in bytes
_WANTED = 2


class ShapeProbe:
    """The shapes and values in a graph for one choice of trial sizes.

    Attributes:
      shapes: Shape of each inferred tensor; None if the shape is not known.
      refused: Error text of stock LiteRT for each refused op.
    """

    def __init__(
        self,
        sizes: Sizes | None,
        foreign_value: Callable[[Tensor], Array | None],
        has_rank: Callable[[Tensor], bool],
        layout: DataLayout,
    ) -> None:
        """Creates a probe that has no results yet.

        Args:
          sizes: Function that chooses sizes for unknown dimensions; None keeps the sizes of the tensors.
          foreign_value: Function that returns the value of a tensor that a user-defined op writes; None if the
            value is not known.
          has_rank: Function that returns whether a tensor's shape has been set.
          layout: Layout of the graph, NHWC or NCHW.
        """
        self.shapes: dict[Tensor, Shape | None] = {}
        self.refused: dict[Op, str] = {}
        self._sizes = sizes
        self._has_rank = has_rank
        self._layout = layout
        self._foreign_value = foreign_value
        self._values: dict[Tensor, Array | None] = {}

    def find_shape(self, tensor: Tensor) -> Shape | None:
        """Returns a tensor's shape; None if the shape is not known."""
        if tensor in self.shapes:
            return self.shapes[tensor]
        if not self._has_rank(tensor):
            return None
        signature = tensor.shape_signature
        if self._sizes is None or signature is None or len(signature) != len(tensor.shape):
            return tensor.shape
        return tuple(
            self._sizes(index, size) if known < 0 else size
            for index, (known, size) in enumerate(zip(signature, tensor.shape, strict=True))
        )

    def forget(self, tensors: Iterable[Tensor]) -> None:
        """Discards the inferred shapes of the given tensors, and all values, so that they are computed again."""
        for tensor in tensors:
            self.shapes.pop(tensor, None)
        self._values.clear()

    def infer(self, ops: Sequence[Op]) -> None:
        """Infers the output shapes of builtin ops. The ops must be in execution order."""
        for op in ops:
            self.refused.pop(op, None)
        self._values.clear()
        start, step = 0, len(ops)
        while start < len(ops):
            chunk = self._knowable(ops[start : start + step])
            stopped = self._prepare([ops[i + start] for i in chunk]) if chunk else None
            if stopped is None:
                start += step
                continue
            # Values that the op needs can be computed now; the first op cannot be inferred at all.
            done = chunk[stopped] + (1 if stopped == 0 else 0)
            start += done
            step = max(_FIRST_STEP, 2 * done)

    def find_values(self, tensors: Iterable[Tensor]) -> None:
        """Computes those of the tensors that depend only on constants, in one run of stock LiteRT."""
        wanted = [tensor for tensor in tensors if tensor not in self._values]
        needed: dict[Op, None] = {}
        for tensor in wanted:
            ops = self._closure(tensor)
            if ops is not None:
                needed.update(dict.fromkeys(ops))
        if not needed:
            return
        try:
            self._run(list(needed))
        except LiteRtError:
            for op in needed:  # other ops can still have values
                try:
                    self._run([op])
                except LiteRtError:
                    self._values.update(dict.fromkeys(op.outputs))

    def find_value(self, tensor: Tensor) -> Array | None:
        """Returns a tensor's value if the value depends only on constants and known shapes; otherwise None."""
        self.find_values([tensor])
        return self._values.get(tensor)

    def _knowable(self, ops: Sequence[Op]) -> list[int]:
        """Returns the positions of ops with known input shapes; outputs of all other ops are unknown."""
        found: list[int] = []
        written: set[Tensor] = set()
        for index, op in enumerate(ops):
            if all(
                tensor is None or tensor in written or self.find_shape(tensor) is not None
                for tensor in op.inputs
            ):
                found.append(index)
                written.update(op.outputs)
            else:
                self.shapes.update(dict.fromkeys(op.outputs))
        return found

    def _prepare(self, ops: Sequence[Op]) -> int | None:
        """Infers ops with stock LiteRT; returns the position of the first op that was not inferred."""
        written = {tensor for op in ops for tensor in op.outputs}
        outside = {
            tensor: None
            for op in ops
            for tensor in op.inputs
            if tensor is not None and tensor not in written and self._may_shape(tensor)
        }
        self.find_values(outside)
        prepared = prepare(ops, self._known_shape, self._values.get, self._layout)
        stopped = prepared.stopped
        for op in ops[: None if stopped is None else stopped + 1]:
            for tensor in op.outputs:
                self.shapes[tensor] = prepared.shapes.get(tensor)
        if stopped == 0:
            op = ops[0]
            if prepared.reason:
                self.refused[op] = prepared.reason
            else:
                self._shape_by_value(op)
            if op not in self.refused:
                self._fall_back(op)
        return stopped

    def _fall_back(self, op: Op) -> None:
        """Sets shapes that are known only at run time to the shapes in the file, with unknown dimensions."""
        for tensor in op.outputs:
            if self.shapes[tensor] is None:
                del self.shapes[tensor]

    def _may_shape(self, tensor: Tensor) -> bool:
        """Whether output shapes may depend on the value of a tensor: a few whole numbers."""
        return (
            not tensor.is_constant
            and tensor.element_type in SHAPE_TYPES
            and is_small(self._known_shape(tensor), tensor.element_type, _SHAPE_LIMIT)
        )

    def _known_shape(self, tensor: Tensor) -> Shape:
        shape = self.find_shape(tensor)
        assert shape is not None
        return shape

    def _shape_by_value(self, op: Op) -> None:
        """Runs an op whose output shapes depend on its values, if the values depend only on constants."""
        inputs = [tensor for tensor in op.inputs if tensor is not None]
        self.find_values(tensor for tensor in inputs if not tensor.is_constant)
        if has_side_effects(op) or not all(map(self._has_value, inputs)):
            return
        try:
            self._run([op])
        except LiteRtError as error:
            self.refused[op] = error.what
            return
        for tensor in op.outputs:
            value = self._values.get(tensor)
            self.shapes[tensor] = None if value is None else value.shape

    def _closure(self, tensor: Tensor) -> list[Op] | None:
        """Returns the ops that compute a tensor's value, in execution order; None if that is not possible."""
        if self._is_settled(tensor):
            return [] if self._has_value(tensor) else None
        order: dict[Op, None] = {}
        path = {tensor: None}
        while path:
            last = next(reversed(path))
            op = last.producer
            assert op is not None
            left = [
                t
                for t in op.inputs
                if t is not None and t.producer not in order and not self._has_value(t)
            ]
            if any(self._is_settled(t) for t in left):  # one of the inputs has no value
                self._values.update(dict.fromkeys(path))
                return None
            if not left:
                order[op] = None
                del path[last]
                continue
            if left[0] in path:
                sort_ops([t.producer for t in path if t.producer is not None])  # raises an error
            path[left[0]] = None
        return list(order)

    def _has_value(self, tensor: Tensor) -> bool:
        """Whether a tensor's value is known without a run."""
        return tensor.is_constant or (self._is_settled(tensor) and self._values[tensor] is not None)

    def _is_settled(self, tensor: Tensor) -> bool:
        """Returns whether it is clear without a run if a tensor has a value; records the result."""
        if tensor in self._values or tensor.is_constant:
            return True
        op = tensor.producer
        value: Array | None = None
        if op is not None and op.is_custom:
            value = self._foreign_value(tensor)
        elif op is not None and op.name in ("SHAPE", "RANK"):
            source = op.inputs[0] if op.inputs else None
            shape = None if source is None else self.find_shape(source)
            value = None if shape is None else value_of_shape(op, shape)
        elif op is not None and not has_side_effects(op):
            shapes = [self.find_shape(output) for output in op.outputs]
            if all(
                shape is not None
                and output.element_type in VALUE_TYPES
                and is_small(shape, output.element_type, _VALUE_LIMIT)
                for shape, output in zip(shapes, op.outputs, strict=True)
            ):
                return False
        self._values[tensor] = value
        return True

    def _run(self, ops: Sequence[Op]) -> None:
        wanted = [tensor for op in ops for tensor in op.outputs]
        values = run(ops, self._values.get, wanted, self._layout)
        self._values.update(zip(wanted, values, strict=True))


def _by_index(index: int, size: int) -> int:
    """A different size for each dimension, so that swapped dimensions are detected; dimension 0 stays small."""
    tried = 32 * (index + 1) if index else 3
    return tried if tried != size else 2 * tried


def _all(tried: int) -> Sizes:
    return lambda index, size: tried if tried != size else 2 * tried


_TRIED: Sequence[Sizes] = (_by_index, _all(32), _all(2), _all(96), _all(256), _all(224), _all(299))
"""Trial sizes, which are tried in this order until two cause no errors; many networks need multiples of 32."""


def make_probes(make: Callable[[Sizes], ShapeProbe], ops: Sequence[Op]) -> list[ShapeProbe]:
    """Infers ops with several trial sizes; returns the two probes with the fewest refused ops."""
    tried: list[ShapeProbe] = []
    for sizes in _TRIED:
        probe = make(sizes)
        probe.infer(ops)
        tried.append(probe)
        if sum(not probe.refused for probe in tried) == _WANTED:
            break
    return sorted(tried, key=lambda probe: len(probe.refused))[:_WANTED]


def has_unknown(tensor: Tensor) -> bool:
    """Returns whether a tensor's shape has unknown dimensions."""
    return tensor.shape_signature is not None and -1 in tensor.shape_signature


def may_shape(tensor: Tensor) -> bool:
    """Returns whether the shape of an op's output may depend on the value of this tensor."""
    return tensor.element_type in SHAPE_TYPES and is_small(
        tensor.shape, tensor.element_type, _SHAPE_BYTES
    )


def combine(tensor: Tensor, found: Sequence[Shape | None]) -> tuple[Shape, Shape] | None:
    """Combines a tensor's shapes in all probes into its shape, and its signature with -1 for unknown dimensions.

    The first probe has the interpreter's initial sizes. None means that the shape is not known.
    """
    shapes = [shape for shape in found if shape is not None]
    if not shapes or len({len(shape) for shape in shapes}) > 1:
        return None
    signature = tuple(
        sizes[0] if len(set(sizes)) == 1 else -1 for sizes in zip(*shapes, strict=True)
    )
    if len(shapes) == 1 and len(found) > 1 and _depends_on_unknown(tensor):
        signature = (-1,) * len(signature)
    first = found[0]
    return tuple(
        1 if size < 0 else size for size in signature
    ) if first is None else first, signature


def _depends_on_unknown(tensor: Tensor) -> bool:
    op = tensor.producer
    return op is not None and any(
        t is not None and (has_unknown(t) or (t.producer is not None and may_shape(t)))
        for t in op.inputs
    )

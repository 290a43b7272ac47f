"""Describes the shapes of an IE function's tensors; a size that is known only at run time is a formula."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from xdsl.dialects.builtin import TensorType
from xdsl.dialects.func import CallOp, FuncOp
from xdsl.ir import Block, BlockArgument, Operation, OpResult, SSAValue

from litert.core.output_shape import SameShape
from vendor_reference.compiler.ir.shape_attributes import BOUNDS, read_output_shapes, read_shapes
from vendor_reference.compiler.ir.types import element_type_of, is_open, shape_of, view_of
from vendor_reference.compiler.levels.layer import LayerOp, SameShapes
from vendor_reference.compiler.library.library_op import Shape
from vendor_reference.compiler.library.traced_size import NotTraceableError, traced_size
from vendor_reference.compiler.library.views import View
from vendor_reference.compiler.library_layers import LibraryLayer, read_attributes

_MOST = 2**31


class OpenShapes:
    """The shape of each tensor of a function; run-time sizes are traced sizes (`library/traced_size.py`).

    The shapes are computed from the shapes of the function's arguments, so that equal sizes have equal formulas. A
    size without a rule gets a new name as its formula.
    """

    def __init__(self, function: FuncOp, functions: Mapping[str, FuncOp]) -> None:
        """Computes the shapes in a function that has a body; `functions` contains all functions of the module."""
        self._function = function
        self._functions = functions
        self._shapes: dict[SSAValue, Shape] = {}
        for (
            op
        ) in function.body.block.ops:  # in order, so that the recursion does not become too deep
            for result in op.results:
                if is_open(result.type):
                    self[result]

    def __getitem__(self, value: SSAValue) -> Shape:
        """Returns the shape of a tensor; the tensor may belong to a layer that was added later."""
        if not is_open(value.type):
            return shape_of(value.type)
        if value not in self._shapes:
            self._shapes[value] = self._find(value)
        return self._shapes[value]

    def view(self, value: SSAValue) -> View:
        """Returns a view of a tensor in row order."""
        if not is_open(value.type):
            return view_of(value.type)
        return View.dense(element_type_of(value.type), self[value])

    def _find(self, value: SSAValue) -> Shape:
        pattern, found = shape_of(value.type), None
        if isinstance(value, OpResult):
            found = self._made(value.op)[value.index]
        if found is None or len(found) != len(pattern):
            found = self._new(value)
        return tuple(s if p < 0 else p for p, s in zip(pattern, found, strict=True))

    def _made(self, op: Operation) -> Sequence[Shape | None]:
        """Returns the known shapes of an op's results."""
        if isinstance(op, LibraryLayer):
            inputs, attributes = (
                [self[value] for value in op.inputs],
                read_attributes(op.attributes),
            )
            try:
                made = op.rule().result_shapes(inputs, attributes)
            except NotTraceableError:
                made = None
            return made or [None] * len(op.results)
        sources: Sequence[object] = [None] * len(op.results)
        if isinstance(op, CallOp):
            function = self._functions.get(op.callee.root_reference.data)
            if function is not None and function.is_declaration:
                tensors = [t for t in op.result_types if isinstance(t, TensorType)]  # then shapes
                sources = read_output_shapes(function.attributes, len(tensors))
        elif isinstance(op, LayerOp) and op.has_trait(SameShapes):
            sources = [SameShape(0)]
        return [
            self[op.operands[source.input]] if isinstance(source, SameShape) else None
            for source in sources
        ]

    def _new(self, value: SSAValue) -> Shape:
        """Returns a shape of new sizes, up to the bounds if there are any."""
        owner = value.owner
        holder, count = (
            (self._function, len(owner.args))
            if isinstance(owner, Block)
            else (owner, len(owner.results))
        )
        rank = len(shape_of(value.type))
        bound = read_shapes(holder.attributes, BOUNDS, count)[_index(value)] or (_MOST,) * rank
        name = f"SHAPE{len(self._shapes)}"
        return tuple(traced_size(f"{name}[{dim}]", most, most) for dim, most in enumerate(bound))


def _index(value: SSAValue) -> int:
    assert isinstance(value, OpResult | BlockArgument)
    return value.index

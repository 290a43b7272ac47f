"""`bound-shapes`: replaces run-time shapes in types by the largest shapes, to allocate memory statically.

    func.func @f(%0: tensor<?x3xf32>) attributes {IE.bounds = [array<i64: 100, 3>]}
    %s = shape.shape_of %0 : tensor<?x3xf32> -> !shape.shape

    func.func @f(%0: tensor<100x3xf32>) attributes {IE.input_patterns = [array<i64: -1, 3>]}
    %s = IE.ActualShapeOf %0 : tensor<100x3xf32> -> !shape.shape

The attribute `IE.bounds` of a function holds the bounds of its arguments. From these bounds, the pass computes all
other bounds with formulas. If a kernel computes a shape, the bound comes from the layer's formulas, or from the
attribute `IE.bounds` of the call or of the called function.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import singledispatchmethod

from xdsl.context import Context
from xdsl.dialects.builtin import FunctionType, ModuleOp, TensorType
from xdsl.dialects.func import CallOp, FuncOp, ReturnOp
from xdsl.ir import Attribute, Block, Operation, SSAValue

from litert.core.errors import LiteRtError
from litert.core.sizes import Dimension, find_largest
from litert.core.status import Status
from vendor_reference.compiler.ir.edits import replace_op, set_type, settle_called_types
from vendor_reference.compiler.ir.names import at_function, bodies, functions_of
from vendor_reference.compiler.ir.shape_attributes import (
    BOUNDS,
    INPUT_PATTERNS,
    OUTPUT_PATTERNS,
    Formulas,
    Shape,
    call_bounds,
    read_output_shapes,
    read_shapes,
    shapes_attribute,
)
from vendor_reference.compiler.ir.types import is_open, shape_of
from vendor_reference.compiler.levels.ie import ActualShapeOfOp
from vendor_reference.compiler.levels.layer import LayerOp, input_shapes_of, output_shapes_of
from vendor_reference.compiler.levels.values import ShapeOfOp
from vendor_reference.compiler.pass_pipeline import CompilerPass
from vendor_reference.compiler.shape_functions import (
    CalledLayer,
    ShapeFunction,
    find_shape_function,
    read_call,
)
from vendor_reference.executable.executable import format_shape


@dataclass(frozen=True)
class BoundShapes(CompilerPass):
    """Replaces run-time shapes in types by the largest shapes."""

    name = "bound-shapes"
    AFTER = "add-shape-values"

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        functions = functions_of(op)
        is_changed = False
        for function, block in bodies(op):
            made = [t for one in block.ops for t in one.result_types]
            if any(map(is_open, (*block.arg_types, *made))):
                _FunctionBounds(functions, function, block).run()
                is_changed = True
        if is_changed:
            settle_called_types(op)


PASS = BoundShapes


class _FunctionBounds:
    """Bounds the shapes of one function."""

    def __init__(self, functions: dict[str, FuncOp], function: FuncOp, block: Block) -> None:
        self._functions = functions
        self._function = function
        self._block = block
        self._bounds: dict[SSAValue, Shape] = {}  # of shape values

    def run(self) -> None:
        function, arguments = self._function, list(self._block.args)
        given = read_shapes(function.attributes, BOUNDS, len(arguments))
        function.attributes[INPUT_PATTERNS] = shapes_attribute(_patterns(self._block.arg_types))
        for index, (argument, bound) in enumerate(zip(arguments, given, strict=True)):
            if is_open(argument.type):
                set_type(argument, self._bounded(argument, bound, f"argument {index}"))
        for op in list(self._block.ops):
            self._bound(op)
        function.attributes.pop(BOUNDS, None)

    @singledispatchmethod
    def _bound(self, op: Operation) -> None:
        """Gives the results of a kind of op their largest shapes; leaves other ops."""

    @_bound.register(ShapeOfOp)
    def _shape_of(self, op: ShapeOfOp) -> None:
        actual = ActualShapeOfOp(op.source)
        replace_op(op, actual)
        self._bounds[actual.shape] = shape_of(op.source.type)

    @_bound.register(ReturnOp)
    def _return(self, op: ReturnOp) -> None:
        outputs = self._function.function_type.outputs.data
        before = [t for t in outputs if isinstance(t, TensorType)]
        self._function.attributes[OUTPUT_PATTERNS] = shapes_attribute(_patterns(before))
        types = FunctionType.from_lists(self._block.arg_types, list(op.operand_types))
        self._function.function_type = types

    @_bound.register(CallOp)
    def _call(self, op: CallOp) -> None:
        symbol = op.callee.root_reference.data
        function = self._functions[symbol]
        found = find_shape_function(function)
        if found is not None:
            self._bounds[op.results[0]] = self._largest(found, op.arguments)
            return
        layer = read_call(op, function)
        bounds = call_bounds(op, function, len(layer.outputs or op.results))
        op.attributes.pop(BOUNDS, None)
        if not layer.outputs:  # a kernel that finds shapes
            for result, bound in zip(op.results, bounds, strict=True):
                self._bounds[result] = self._known(
                    bound, f"a tensor whose shape '{symbol}' computes"
                )
            return
        sources = read_output_shapes(function.attributes, len(layer.outputs))
        for port, tensor in enumerate(layer.outputs):
            if not is_open(tensor.type):
                continue
            source, shape = sources[port], layer.output_shapes.get(port)
            if shape is None:
                bound = shape_of(layer.inputs[getattr(source, "input", 0)].type)
            elif shape in self._bounds:
                bound = self._bounds[shape]
            else:  # the layer's own kernel
                bound = self._bounds[shape] = self._own(source, bounds[port], layer, symbol)
            what = f"output {port} of function '{symbol}'"
            set_type(tensor, self._bounded(tensor, bound, what))

    def _own(self, source: object, given: Shape | None, layer: CalledLayer, symbol: str) -> Shape:
        """Returns the bound of a shape that a layer's kernel finds."""
        if given is None and isinstance(source, Formulas):
            passed = layer.input_shapes
            held = [None if i in passed else shape_of(v.type) for i, v in enumerate(layer.inputs)]
            return self._largest(ShapeFunction(source.texts, tuple(held)), list(passed.values()))
        return self._known(given, f"a tensor whose shape '{symbol}' computes")

    @_bound.register(LayerOp)
    def _layer(self, op: LayerOp) -> None:
        bounds = read_shapes(op.attributes, BOUNDS, len(op.outputs))
        op.attributes.pop(BOUNDS, None)
        shapes = output_shapes_of(op)
        for port, tensor in enumerate(list(op.outputs)):
            if not is_open(tensor.type):
                continue
            if port not in shapes:
                bound = shape_of(op.inputs[next(iter(input_shapes_of(op)))].type)
            else:
                bound = self._bounds.get(shapes[port]) or self._known(bounds[port], op.name)
                self._bounds[shapes[port]] = bound
            set_type(tensor, self._bounded(tensor, bound, f"output {port} of {op.name}"))

    def _largest(self, function: ShapeFunction, passed: Sequence[SSAValue]) -> Shape:
        bounds = [self._bounds[value] for value in passed]
        symbolic = [[Dimension(i, d) for d in range(len(bound))] for i, bound in enumerate(bounds)]
        sizes = function.evaluate(symbolic)
        return tuple(find_largest(size, bounds.__getitem__) for size in sizes)

    def _bounded(self, value: SSAValue, bound: Shape | None, what: str) -> Attribute:
        """Returns the type of a value with a bound."""
        pattern = shape_of(value.type)
        bound = self._known(bound, what)
        if len(bound) != len(pattern):
            raise LiteRtError(
                Status.INVALID_ARGUMENT,
                f"the largest shape of {what} is {format_shape(bound)}, which has another rank than type "
                f"{value.type}",
                at_function(self._function),
            )
        assert isinstance(value.type, TensorType)
        shape = [b if p < 0 else p for p, b in zip(pattern, bound, strict=True)]
        return TensorType(value.type.element_type, shape, value.type.encoding)

    def _known(self, bound: Shape | None, what: str) -> Shape:
        if bound is None:
            raise LiteRtError(
                Status.UNSUPPORTED,
                f"the largest shape of {what} is unknown",
                at_function(self._function),
                f"Write the largest shape into the attribute {BOUNDS} in the IR text, for example "
                f"{BOUNDS} = [array<i64: 100, 3>].",
            )
        return bound


def _patterns(types: Sequence[Attribute]) -> Sequence[Shape | None]:
    return [shape_of(t) if is_open(t) else None for t in types]

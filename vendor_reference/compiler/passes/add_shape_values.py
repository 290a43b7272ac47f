"""`add-shape-values`: adds values for run-time shapes, which layers take as operands and return as results.

    %1 = func.call @Upscale(%0) : (tensor<?x3xf32>) -> tensor<?x6xf32>

    %s = shape.shape_of %0 : tensor<?x3xf32> -> !shape.shape
    %t = func.call @shape_of_Upscale(%s) : (!shape.shape) -> !shape.shape
    %1 = func.call @Upscale(%0, %s, %t) : (tensor<?x3xf32>, !shape.shape, !shape.shape) -> tensor<?x6xf32>

A result that has the shape of an input has no separate shape value, but uses the input's shape value. A layer
whose kernel computes a shape returns the shape after its tensors. A function returns the shapes of its results
after the results.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import singledispatchmethod

from xdsl.context import Context
from xdsl.dialects.builtin import ArrayAttr, FunctionType, ModuleOp, SymbolRefAttr
from xdsl.dialects.func import CallOp, FuncOp, ReturnOp
from xdsl.ir import Attribute, Block, BlockArgument, Operation, SSAValue

from litert.core.errors import LiteRtError
from litert.core.output_shape import SameShape
from litert.core.status import Status
from vendor_reference.compiler.ir.assembly import number
from vendor_reference.compiler.ir.edits import remove_op, settle_called_types
from vendor_reference.compiler.ir.kernel_attribute import KERNEL, read_kernel
from vendor_reference.compiler.ir.names import SymbolNames, at_function, bodies, functions_of
from vendor_reference.compiler.ir.shape_attributes import (
    BOUNDS,
    DYNAMIC_INPUTS,
    DYNAMIC_OUTPUTS,
    Formulas,
    FoundBy,
    call_bounds,
    found_by_kernel,
    read_output_shapes,
    shapes_attribute,
)
from vendor_reference.compiler.ir.types import ShapeType, is_open, shape_of
from vendor_reference.compiler.levels.ie import CopyOp
from vendor_reference.compiler.levels.layer import (
    INPUT_SIZES,
    FindsShape,
    LayerOp,
    SameShapes,
    input_sizes_attribute,
    made_in,
)
from vendor_reference.compiler.levels.values import ShapeOfOp
from vendor_reference.compiler.library.dynamic_kernel import Sizes
from vendor_reference.compiler.pass_pipeline import CompilerPass
from vendor_reference.compiler.shape_functions import ShapeFunction, make_shape_function
from vendor_reference.custom_layers.kernel_spec import KernelSpec

SHAPE_FUNCTION = "shape_function"
"""Attribute of a builtin layer: the function that computes the first of the outputs' run-time shapes."""


@dataclass(frozen=True)
class AddShapeValues(CompilerPass):
    """Adds a value for each shape that is known only at run time; layers take and return these values."""

    name = "add-shape-values"
    AFTER = "optimize-reorders"

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        if not any(is_open(t) for f in functions_of(op).values() for t in _types(f)):
            return
        shapes = _ModuleShapes(op)
        for function, block in bodies(op):
            if not any(map(_hands_shapes_on, block.ops)):
                _FunctionShapes(shapes, function, block).run()
        settle_called_types(op)


PASS = AddShapeValues


def _hands_shapes_on(op: Operation) -> bool:
    """Returns whether an op already has shapes as operands or results, as in IR text that a person has written."""
    types = (*op.operand_types, *op.result_types)
    return not isinstance(op, ShapeOfOp) and any(isinstance(t, ShapeType) for t in types)


class _ModuleShapes:
    """The state that the functions of a module share."""

    def __init__(self, module: ModuleOp) -> None:
        self.functions = functions_of(module)
        self._module = module
        self._names = SymbolNames(self.functions)
        self._made: dict[tuple[str, ShapeFunction], str] = {}

    def shape_function(self, layer: str, function: ShapeFunction) -> str:
        """Returns the name of a shape function; equal functions of a layer are stored once."""
        if (layer, function) not in self._made:
            name = self._names.new(f"shape_of_{layer}")
            made = make_shape_function(name, function)
            before = self.functions.get(layer) or self._module.body.block.first_op
            assert before is not None
            self._module.body.block.insert_op_before(made, before)
            self._made[layer, function] = name
        return self._made[layer, function]


class _FunctionShapes:
    """Adds shape values to one function."""

    def __init__(self, module: _ModuleShapes, function: FuncOp, block: Block) -> None:
        self._module = module
        self._function = function
        self._block = block
        self._shapes: dict[SSAValue, SSAValue] = {}

    def run(self) -> None:
        self._copy_inputs()
        ops = list(self._block.ops)
        for argument in self._block.args:
            if is_open(argument.type):
                shape_of_argument = ShapeOfOp(argument)
                self._name(shape_of_argument.shape, argument)
                self._block.insert_op_before(shape_of_argument, ops[0])
                self._shapes[argument] = shape_of_argument.shape
        for op in ops:
            types = (*op.operand_types, *op.result_types)
            if isinstance(op, ReturnOp) or any(map(is_open, types)):
                self._add(op)

    def _copy_inputs(self) -> None:
        """Copies inputs that are outputs, too: a run copies only as much as the input's shape says."""
        last = self._block.last_op
        assert last is not None
        for index, value in enumerate(last.operands):
            if is_open(value.type) and isinstance(made_in(value), BlockArgument):
                copy = CopyOp([value], [value.type])
                self._block.insert_op_before(copy, last)
                last.operands[index] = copy.outputs[0]

    @singledispatchmethod
    def _add(self, op: Operation) -> None:
        """Adds the shapes that a kind of op takes and makes."""
        raise self._no_rule(op.name)

    @_add.register(ShapeOfOp)
    def _shape_of(self, op: ShapeOfOp) -> None:
        """Handles a `shape_of` that the text already contains."""

    @_add.register(LayerOp)
    def _layer(self, op: LayerOp) -> None:
        inputs = _open_ports(op.inputs)
        outputs = _open_ports(op.outputs)
        attributes = dict(op.attributes)
        input_shapes = [self._shape(op.inputs[i]) for i in inputs]
        own = 0
        given: Sequence[SSAValue] = ()
        if op.has_trait(SameShapes):
            outputs = []
        elif op.has_trait(FindsShape):
            own = len(outputs)
        else:
            given = self._given_shapes(op, attributes, input_shapes)
        for name, ports in ((DYNAMIC_INPUTS, inputs), (DYNAMIC_OUTPUTS, outputs)):
            if list(ports) != list(range(len(ports))):
                attributes[name] = ArrayAttr([number(port) for port in ports])
        new = type(op)(op.inputs, op.outputs.types, attributes, input_shapes, given, own)
        self._replace(op, new)
        if op.has_trait(SameShapes):
            self._take_over(new.inputs, new.outputs, op.name)
        for port, shape in zip(outputs, given or new.result_shapes, strict=True):
            self._shapes[new.outputs[port]] = shape
            self._name(shape, new.outputs[port])

    def _input_sizes(self, op: LayerOp) -> Sequence[Sizes]:
        """Returns the names of a layer's input sizes in formulas.

        An input with a shared shape has the first input's names.
        """
        shapes = [self._shape(v) if is_open(v.type) else v for v in op.inputs]
        return [
            tuple(
                f"INPUT{shapes.index(shape)}_SHAPE[{d}]" if size < 0 else size
                for d, size in enumerate(shape_of(value.type))
            )
            for value, shape in zip(op.inputs, shapes, strict=True)
        ]

    def _given_shapes(
        self, op: LayerOp, attributes: dict[str, Attribute], input_shapes: Sequence[SSAValue]
    ) -> Sequence[SSAValue]:
        """Returns shapes of a layer's results that are computed before the layer, from inputs or by formulas."""
        finder = attributes.pop(SHAPE_FUNCTION, None)
        if isinstance(finder, SymbolRefAttr) and len(_open_ports(op.outputs)) == 1:
            name, bounds = finder.root_reference.data, attributes.get(BOUNDS)
            return self._find_shape(op, name, input_shapes, bounds, 1)
        inputs = self._input_sizes(op)
        attributes[INPUT_SIZES] = input_sizes_attribute(inputs)
        try:
            results = op.result_sizes(inputs, attributes)
        except LiteRtError as error:
            raise self._no_rule(op.name) from error
        known = {
            sizes: self._shape(value)
            for value, sizes in zip(op.inputs, inputs, strict=True)
            if is_open(value.type)
        }
        held = tuple(None if is_open(v.type) else shape_of(v.type) for v in op.inputs)
        given = []
        for port in _open_ports(op.outputs):
            sizes = results[port]
            if sizes not in known:
                function = ShapeFunction(tuple(map(str, sizes)), held)
                name = self._module.shape_function(op.name.removeprefix("IE."), function)
                known[sizes] = self._find_shape(op, name, input_shapes, None, 1)[0]
            given.append(known[sizes])
        return given

    def _take_over(
        self, inputs: Sequence[SSAValue], outputs: Sequence[SSAValue], name: str
    ) -> None:
        """Gives outputs the shape value of an input that has their shape."""
        for output in outputs:
            if is_open(output.type):
                pattern = shape_of(output.type)
                alike = [v for v in inputs if is_open(v.type) and shape_of(v.type) == pattern]
                if not alike:
                    raise self._no_rule(name)
                self._shapes[output] = self._shape(alike[0])

    @_add.register(CallOp)
    def _call(self, op: CallOp) -> None:
        symbol = op.callee.root_reference.data
        function = self._module.functions.get(symbol)
        if function is None or not function.is_declaration:
            raise self._no_rule(f"the called function '{symbol}'")
        inputs, outputs = _open_ports(op.operands), _open_ports(op.results)
        input_shapes = [self._shape(op.operands[i]) for i in inputs]
        sources = read_output_shapes(function.attributes, len(op.results))
        bounds = call_bounds(op, function, len(op.results))
        spec = read_kernel(function.attributes) if KERNEL in function.attributes else KernelSpec()
        by_kernel = found_by_kernel(function.attributes)
        own = [port for port in outputs if port in by_kernel]
        given: dict[int, SSAValue] = {}
        same: dict[int, SSAValue] = {}
        for port in outputs:
            source = sources[port]
            if port in own or port in given:  # found with another
                continue
            if isinstance(source, SameShape) and source.input < len(op.operands):
                same[port] = self._shape(op.operands[source.input])
            elif isinstance(source, Formulas):
                held = [
                    None if i in inputs else shape_of(v.type) for i, v in enumerate(op.operands)
                ]
                for absent in sorted(spec.absent_inputs):
                    held.insert(absent, ())
                shape_function = ShapeFunction(source.texts, tuple(held))
                name = self._module.shape_function(symbol, shape_function)
                given[port] = self._find_shape(op, name, input_shapes, None, 1)[0]
            elif isinstance(source, FoundBy):
                ports = [p for p in outputs if sources[p] == source]
                known = [bounds[p] for p in ports]
                largest = shapes_attribute(known) if any(known) else None
                found = self._find_shape(op, source.function, input_shapes, largest, len(ports))
                given.update(zip(ports, found, strict=True))
            else:
                raise self._no_rule(f"output {port} of function '{symbol}'")
        function.attributes[DYNAMIC_INPUTS] = ArrayAttr([number(i) for i in inputs])
        function.attributes[DYNAMIC_OUTPUTS] = ArrayAttr([number(i) for i in (*given, *own)])
        operands = [*op.operands, *input_shapes, *given.values()]
        new = CallOp(op.callee, operands, [*op.result_types, *[ShapeType()] * len(own)])
        new.attributes.update(op.attributes)
        self._replace(op, new)
        found_shapes = dict(zip(own, new.results[len(op.results) :], strict=True))
        for port, shape in {**same, **given, **found_shapes}.items():
            self._shapes[new.results[port]] = shape
            if port not in same:
                self._name(shape, new.results[port])

    def _find_shape(
        self,
        op: Operation,
        name: str,
        inputs: Sequence[SSAValue],
        bounds: Attribute | None,
        count: int,
    ) -> Sequence[SSAValue]:
        """Calls a shape function in front of an op."""
        call = CallOp(name, inputs, [ShapeType()] * count)
        if bounds is not None:
            call.attributes[BOUNDS] = bounds
        self._block.insert_op_before(call, op)
        return call.results

    @_add.register(ReturnOp)
    def _return(self, op: ReturnOp) -> None:
        shapes = [self._shape(v) for v in op.arguments if is_open(v.type)]
        op.operands = [*op.arguments, *shapes]
        arguments = self._function.function_type.inputs.data
        self._function.function_type = FunctionType.from_lists(arguments, list(op.operand_types))

    def _shape(self, value: SSAValue) -> SSAValue:
        found = self._shapes.get(value)
        if found is None:
            raise self._no_rule(f"the op that makes the tensor of type {value.type}")
        return found

    def _replace(self, old: Operation, new: Operation) -> None:
        """Replaces an op by another, whose first results take over the uses."""
        self._block.insert_op_before(new, old)
        for result, replacement in zip(old.results, new.results, strict=False):
            replacement.name_hint = result.name_hint
            result.replace_all_uses_with(replacement)
        remove_op(old)

    @staticmethod
    def _name(shape: SSAValue, of: SSAValue) -> None:
        if shape.name_hint is None and of.name_hint is not None:
            shape.name_hint = f"{of.name_hint}_shape"

    def _no_rule(self, what: str) -> LiteRtError:
        return LiteRtError(
            Status.UNSUPPORTED,
            f"the shape of the result is known only at run time, but {what} has no rule to compute this shape",
            at_function(self._function),
            "Add the attribute IE.output_shapes to the function of the layer, or convert the model with fixed "
            "shapes.",
        )


def _types(function: FuncOp) -> Sequence[Attribute]:
    return [*function.function_type.inputs.data, *function.function_type.outputs.data]


def _open_ports(values: Sequence[SSAValue]) -> Sequence[int]:
    return [index for index, value in enumerate(values) if is_open(value.type)]

"""Shapes of a function on VPUIP become shape values of the executable's function."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

from xdsl.dialects.builtin import ArrayAttr, StringAttr
from xdsl.dialects.func import FuncOp
from xdsl.ir import SSAValue

from litert.core.output_shape import SameShape
from litert.core.sizes import Dimension, Size
from vendor_reference.compiler.ir.shape_attributes import (
    INPUT_NAMES,
    INPUT_PATTERNS,
    OUTPUT_PATTERNS,
    OUTPUT_SHAPES,
    Shape,
    read_output_shapes,
    read_shapes,
)
from vendor_reference.compiler.ir.types import shape_of
from vendor_reference.compiler.kernel_spec import KernelSpec
from vendor_reference.compiler.layer_kernels import all_inputs
from vendor_reference.compiler.memory_planner import aligned
from vendor_reference.compiler.shape_functions import find_shape_function
from vendor_reference.compiler.vpuip.dialect import EvaluateShapeOp, TaskActualShapeOfOp
from vendor_reference.compiler.vpuip.task_op import TaskOp
from vendor_reference.compiler.work_items import OpShapes
from vendor_reference.executable.executable import Argument, ArgumentKind
from vendor_reference.executable.shape_value import DynamicOutput, ShapeKind, ShapeValue


class FunctionShapes:
    """The shape values of one function, in the order in which it has them.

    Attributes:
      values: without their places, until `place` has given them some.
    """

    def __init__(self, function: FuncOp, functions: Mapping[str, FuncOp]) -> None:
        self.values: list[ShapeValue] = []
        self._function = function
        self._functions = functions
        self._index: dict[SSAValue, int] = {}
        self._bounds: dict[SSAValue, Shape] = {}
        for op in function.body.block.ops:
            if isinstance(op, TaskOp) and op.output_shapes and op.outputs:
                for port, shape in zip(op.dynamic_outputs(), op.output_shapes, strict=True):
                    self._bounds.setdefault(shape, shape_of(op.outputs[port].type))

    def index(self, value: SSAValue) -> int:
        """The number of a shape that came before."""
        return self._index[value]

    def bound(self, index: int) -> Shape:
        """The largest of a shape."""
        return self.values[index].bound

    def add_input(self, op: TaskActualShapeOfOp, input_index: int) -> None:
        """The shape of a function's input."""
        bound = shape_of(op.source.type)
        count = len(self._function.function_type.inputs.data)
        patterns = self._function.attributes.get(INPUT_PATTERNS)
        if isinstance(patterns, ArrayAttr):
            count = len(patterns.data)
        pattern = read_shapes(self._function.attributes, INPUT_PATTERNS, count)[input_index]
        name = self._input_name(input_index)
        self._add(op.shape, name, ShapeKind.INPUT, pattern, bound, index=input_index)

    def add_computed(self, op: EvaluateShapeOp) -> None:
        """A shape that formulas give."""
        function = find_shape_function(self._functions[op.callee.root_reference.data])
        assert function is not None
        *passed, result = op.shapes
        sizes = function.evaluate([self._sizes(value) for value in passed])
        bound = self._bounds.get(result)
        if bound is None:  # handed on as it is
            bound = self.values[self._index[passed[0]]].bound
        pattern = tuple(b if size == b else -1 for size, b in zip(sizes, bound, strict=True))
        name = self._name(result)
        self._add(result, name, ShapeKind.COMPUTED, pattern, bound, sizes=sizes)

    def add_written(self, op: TaskOp, task: int) -> None:
        """Shapes that a task's kernel writes."""
        for shape in op.output_shapes:
            if shape not in self._index:
                bound = self._bounds[shape]
                pattern = (-1,) * len(bound)
                self._add(shape, self._name(shape), ShapeKind.WRITTEN, pattern, bound, index=task)

    def op_shapes(self, op: TaskOp, spec: KernelSpec) -> OpShapes | None:
        """Shapes of a task's tensors, as far as a run tells them; None where it tells none."""
        if not (op.input_shapes or op.output_shapes) or not op.outputs:
            return None
        read = dict(zip(op.dynamic_inputs(), op.input_shapes, strict=True))
        inputs = [self._port(value, read.get(i)) for i, value in enumerate(op.inputs)]
        written = dict(zip(op.dynamic_outputs(), op.output_shapes, strict=True))
        outputs = []
        sources = self._sources(op)
        for port, value in enumerate(op.outputs):
            source = sources[port]
            if port not in written and isinstance(source, SameShape) and source.input in read:
                outputs.append(self._port(value, read[source.input]))
            else:
                outputs.append(self._port(value, written.get(port)))
        return OpShapes(tuple(all_inputs(spec, inputs)), tuple(outputs))

    def dynamic_outputs(self, outputs: Sequence[SSAValue]) -> Sequence[DynamicOutput]:
        """Which of a function's outputs have shapes that are further outputs."""
        attribute = self._function.attributes.get(OUTPUT_PATTERNS)
        if not isinstance(attribute, ArrayAttr):
            return ()
        patterns = read_shapes(self._function.attributes, OUTPUT_PATTERNS, len(attribute.data))
        ports = [i for i, pattern in enumerate(patterns) if pattern is not None]
        holders = range(len(patterns), len(outputs))
        return [
            DynamicOutput(port, holder, self._index[outputs[holder]])
            for port, holder in zip(ports, holders, strict=True)
        ]

    def place(self, places: Mapping[SSAValue, Argument], end: int) -> int:
        """Gives each shape its place in DDR, behind `end` where the caller allocates it; returns the new end."""
        end = aligned(end)
        for value, index in self._index.items():
            place = places.get(value)
            offset = end
            if place is not None and place.kind is ArgumentKind.DDR:
                offset = place.offset
            else:
                end += aligned(self.values[index].size_bytes)
            self.values[index] = replace(self.values[index], offset=offset)
        return end

    def _add(
        self,
        value: SSAValue,
        name: str,
        kind: ShapeKind,
        pattern: Shape | None,
        bound: Shape,
        index: int = 0,
        sizes: tuple[Size, ...] = (),
    ) -> None:
        self._index[value] = len(self.values)
        pattern = pattern or (-1,) * len(bound)
        self.values.append(ShapeValue(name, kind, pattern, bound, 0, index, sizes))

    def _sizes(self, value: SSAValue) -> tuple[Size, ...]:
        """A shape's dimensions: numbers where it has no others."""
        index = self._index[value]
        shape = self.values[index]
        return tuple(
            Dimension(index, d) if size < 0 else size for d, size in enumerate(shape.pattern)
        )

    def _port(self, buffer: SSAValue, shape: SSAValue | None) -> tuple[Size, ...]:
        return shape_of(buffer.type) if shape is None else self._sizes(shape)

    def _sources(self, op: TaskOp) -> Sequence[object]:
        function = self._functions.get(op.callee.root_reference.data) if op.callee else None
        if function is None or OUTPUT_SHAPES not in function.attributes:
            return [None] * len(op.outputs)
        return read_output_shapes(function.attributes, len(op.outputs))

    def _input_name(self, index: int) -> str:
        names = self._function.attributes.get(INPUT_NAMES)
        if isinstance(names, ArrayAttr) and index < len(names.data):
            name = names.data[index]
            assert isinstance(name, StringAttr)
            return name.data
        return f"input {index}"

    @staticmethod
    def _name(shape: SSAValue) -> str:
        return (shape.name_hint or "a result").removesuffix("_shape")

"""Converts the run-time shapes of a VPUIP function to shape values of a function in the executable."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

from xdsl.dialects.builtin import ArrayAttr, StringAttr
from xdsl.dialects.func import FuncOp
from xdsl.ir import SSAValue

from litert.core.counts import count_text
from litert.core.errors import LiteRtError
from litert.core.output_shape import SameShape
from litert.core.sizes import Dimension, Size, find_largest
from litert.core.status import Status
from vendor_reference.compiler.ir.attributes import read_fp16_of
from vendor_reference.compiler.ir.names import at_function
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
from vendor_reference.compiler.layer_kernels import all_inputs
from vendor_reference.compiler.levels.layer import input_shapes_of, output_shapes_of
from vendor_reference.compiler.levels.vpuip import EvaluateShapeOp, TaskActualShapeOfOp, TaskOp
from vendor_reference.compiler.shape_functions import find_shape_function
from vendor_reference.compiler.work_items import OpShapes
from vendor_reference.custom_layers.kernel_spec import KernelSpec
from vendor_reference.executable.executable import (
    Argument,
    ArgumentKind,
    DynamicOutput,
    ShapeKind,
    ShapeValue,
    align,
)


class FunctionShapes:
    """The shape values of one function, in the function's order.

    Attributes:
      values: Shape values; `place` assigns their memory locations.
      index: Index of each shape in `values`.
      needs_fp16: Whether the function is for devices with fp16 arithmetic.
    """

    def __init__(self, function: FuncOp, functions: Mapping[str, FuncOp]) -> None:
        self.values: list[ShapeValue] = []
        self.needs_fp16 = read_fp16_of(function) is not None
        self._function = function
        self._functions = functions
        self.index: dict[SSAValue, int] = {}
        self._bounds: dict[SSAValue, Shape] = {}
        self._asked: dict[SSAValue, int] = {}  # index of the output, until its task is known
        for op in function.body.block.ops:
            if isinstance(op, TaskOp) and op.output_shapes and op.outputs:
                for port, shape in output_shapes_of(op).items():
                    self._bounds.setdefault(shape, shape_of(op.outputs[port].type))

    def bound(self, index: int) -> Shape:
        """Returns the largest possible value of a shape."""
        return self.values[index].bound

    def add_input(self, op: TaskActualShapeOfOp, input_index: int) -> None:
        """Adds the run-time shape of an input of the function."""
        bound = shape_of(op.source.type)
        patterns = self._patterns(INPUT_PATTERNS)
        pattern = patterns[input_index] if patterns else None
        name = self._input_name(input_index)
        self._add(op.shape, name, ShapeKind.INPUT, pattern, bound, index=input_index)

    def add_computed(self, op: EvaluateShapeOp) -> None:
        """Adds a shape that formulas compute."""
        function = find_shape_function(self._functions[op.callee.root_reference.data])
        assert function is not None
        *passed, result = op.shapes
        sizes = function.evaluate([self._sizes(value) for value in passed])
        bound = self._bounds.get(result)
        if bound is None:  # the shape of a view, or an unchanged shape
            bound = tuple(find_largest(size, self.bound) for size in sizes)
        pattern = tuple(b if size == b else -1 for size, b in zip(sizes, bound, strict=True))
        name = self._name(result)
        self._add(result, name, ShapeKind.COMPUTED, pattern, bound, sizes=sizes)

    def add_written(self, op: TaskOp, task: int) -> None:
        """Adds shapes that the kernel of a task writes."""
        for shape in op.output_shapes:
            if shape not in self.index:
                bound = self._bounds[shape]
                pattern = (-1,) * len(bound)
                self._add(shape, self._name(shape), ShapeKind.WRITTEN, pattern, bound, index=task)

    def add_asked(self, op: TaskOp, spec: KernelSpec) -> None:
        """Adds shapes that the library of a CPU layer computes; the task of this CPU layer is set later."""
        assert spec.cpu_layer is not None
        patterns = spec.cpu_layer.asked_shapes
        ports = [port for port, pattern in enumerate(patterns) if -1 in pattern]
        if len(ports) != len(op.output_shapes):
            raise LiteRtError(
                Status.INVALID_ARGUMENT,
                f"the task has {count_text(len(op.output_shapes), 'output shape')}, but its layer computes "
                f"{len(ports)}",
                spec.location,
            )
        for port, shape in zip(ports, op.output_shapes, strict=True):
            if shape in self._bounds:  # otherwise no op has such a tensor
                bound = self._bounds[shape]
                self._add(shape, self._name(shape), ShapeKind.ASKED, patterns[port], bound)
                self._asked[shape] = port

    def settle_asked(self, op: TaskOp, task: int) -> None:
        """Stores the index of the task whose library computes these shapes."""
        if not self._asked:
            return
        for port, shape in output_shapes_of(op).items():
            if self._asked.get(shape) == port:
                index = self.index[shape]
                self.values[index] = replace(self.values[index], index=task, output=port)
                del self._asked[shape]

    def check_settled(self) -> None:
        """Raises an error if a library should compute a shape that belongs to no task of that library."""
        for shape in self._asked:
            raise LiteRtError(
                Status.INVALID_ARGUMENT,
                f"a layer computes the shape of tensor '{self._name(shape)}', but no output of this layer has "
                "this shape",
                at_function(self._function),
            )

    def task_shapes(self, op: TaskOp) -> tuple[Sequence[int | None], Sequence[int | None]]:
        """Returns the shape indices of a task's passed inputs, and of its outputs.

        The index of a fixed shape is None.
        """
        inputs, outputs = self._told(op)
        return (
            [None if shape is None else self.index[shape] for shape in inputs],
            [None if shape is None else self.index[shape] for shape in outputs],
        )

    def op_shapes(self, op: TaskOp, spec: KernelSpec) -> OpShapes | None:
        """Returns the shapes of a task's tensors, of which some are known only at run time.

        Returns None if all shapes are fixed.
        """
        if not (op.input_shapes or op.output_shapes) or not op.outputs:
            return None
        read, written = self._told(op)
        inputs = [self._port(value, shape) for value, shape in zip(op.inputs, read, strict=True)]
        outputs = [
            self._port(value, shape) for value, shape in zip(op.outputs, written, strict=True)
        ]
        return OpShapes(tuple(all_inputs(spec, inputs)), tuple(outputs))

    def dynamic_outputs(self, outputs: Sequence[SSAValue]) -> Sequence[DynamicOutput]:
        """Returns those outputs for whose run-time shapes the function has additional outputs."""
        patterns = self._patterns(OUTPUT_PATTERNS)
        if not patterns:
            return ()
        ports = [i for i, pattern in enumerate(patterns) if pattern is not None]
        holders = range(len(patterns), len(outputs))
        return [
            DynamicOutput(port, holder, self.index[outputs[holder]])
            for port, holder in zip(ports, holders, strict=True)
        ]

    def place(self, places: Mapping[SSAValue, Argument], end: int) -> int:
        """Assigns each shape a location in DDR; shapes that the caller allocates are placed after `end`.

        Returns the new end.
        """
        end = align(end)
        for value, index in self.index.items():
            place = places.get(value)
            offset = end
            if place is not None and place.kind is ArgumentKind.DDR:
                offset = place.offset
            else:
                end += align(self.values[index].size_bytes)
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
        self.index[value] = len(self.values)
        pattern = pattern or (-1,) * len(bound)
        self.values.append(ShapeValue(name, kind, pattern, bound, 0, index, sizes))

    def _sizes(self, value: SSAValue) -> tuple[Size, ...]:
        """Returns a shape's dimensions; plain numbers for a fixed shape."""
        index = self.index[value]
        shape = self.values[index]
        return tuple(
            Dimension(index, d) if size < 0 else size for d, size in enumerate(shape.pattern)
        )

    def _told(self, op: TaskOp) -> tuple[Sequence[SSAValue | None], Sequence[SSAValue | None]]:
        """Returns the run-time shapes of a task's inputs and outputs."""
        read, written = input_shapes_of(op), output_shapes_of(op)
        for port, source in enumerate(self._sources(op)):
            if port not in written and isinstance(source, SameShape) and source.input in read:
                written[port] = read[source.input]
        return (
            [read.get(index) for index in range(len(op.inputs))],
            [written.get(port) for port in range(len(op.outputs))],
        )

    def _patterns(self, name: str) -> Sequence[Shape | None]:
        """Returns the shape patterns of all inputs or outputs; empty if the function has none."""
        attribute = self._function.attributes.get(name)
        count = len(attribute.data) if isinstance(attribute, ArrayAttr) else 0
        return read_shapes(self._function.attributes, name, count) if count else ()

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

"""Runs ops of the library on a device, and the same ops in stock LiteRT's interpreter."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from dispatch.tensor_buffer import TensorBuffer
from litert.core.element_type import ElementType
from litert.core.tensor_type import RankedTensorType
from litert.model.blob import Blob
from litert.model.builder import ModelBuilder
from litert.model.graph import Model, Op, Tensor
from litert.model.writer import to_bytes
from tests.vendor_reference.executables import Array, byte_code
from tests.vendor_reference.firmware_runs import Command, Lab
from vendor_reference.compiler.emission.launches import assemble_command
from vendor_reference.compiler.library.library_op import PlacedOp, library_ops
from vendor_reference.compiler.library.views import View
from vendor_reference.custom_layers.kernel_spec import (
    ConstantArgument,
    InternalArgument,
    KernelArgument,
    KernelSpec,
    ScalarArgument,
    TensorArgument,
)
from vendor_reference.device.module import Module
from vendor_reference.executable.executable import (
    Argument,
    ArgumentKind,
    Constant,
    Executable,
    Function,
    LayerTask,
    align,
)
from vendor_reference.firmware.instructions import instruction_set


def one_op(
    name: str, inputs: Sequence[Tensor], outputs: Sequence[Tensor], b: ModelBuilder, **options: Any
) -> tuple[Model, Op]:
    """Returns a model of one op on the tensors in `b`, and the op."""
    b.op(name, list(inputs), list(outputs), **options)
    b.output(*outputs)
    model = b.build()
    return model, model.subgraphs[0].ops[-1]


def run_stock(model: Model, inputs: Sequence[Array]) -> list[Array]:
    """Runs a model in stock LiteRT's interpreter; returns its outputs."""
    from ai_edge_litert.interpreter import Interpreter

    interpreter = Interpreter(model_content=bytes(to_bytes(model)), num_threads=1)
    interpreter.allocate_tensors()
    for detail, array in zip(interpreter.get_input_details(), inputs, strict=True):
        interpreter.set_tensor(detail["index"], array)
    interpreter.invoke()
    return [interpreter.get_tensor(d["index"]) for d in interpreter.get_output_details()]


@dataclass(frozen=True)
class Case:
    """An op with its inputs.

    Attributes:
      op: an op that the library supports.
      inputs: a value for each operand.
      views: views of the operands, then of the results; None if all of them are in row order.
    """

    op: Op
    inputs: Sequence[Array]
    views: Sequence[View] | None = None

    def placed(self) -> PlacedOp:
        """Returns the op on its views."""
        rule = library_ops()[self.op.name]
        assert rule.refusal(self.op) == ""
        tensors = [*rule.operands(self.op), *self.op.outputs]
        views = self.views or [View.dense(t.element_type, t.shape) for t in tensors]
        return PlacedOp.of(views, len(self.op.outputs), rule.attributes(self.op))


def run_library(device: Any, cases: Sequence[Case]) -> list[Array]:
    """Runs ops one after the other and returns their results.

    All of them are in one function and one program, because building a program takes most of the time.
    """
    function = _Function()
    for case in cases:
        function.add(case)
    return function.run(device)


def run_specs(
    device: Any, calls: Sequence[tuple[KernelSpec, Sequence[Array], Sequence[View]]]
) -> list[Array]:
    """Runs kernels one after the other on inputs as they lie in memory; returns their results."""
    function = _Function()
    for call in calls:
        function.add_spec(*call)
    return function.run(device)


def run_in_lab(lab: Lab, cases: Sequence[Case], workers: int) -> list[Array]:
    """Runs ops one after the other with only the firmware's commands; returns their results."""
    commands: list[Command] = []
    found: list[tuple[Array, View]] = []
    for case in cases:
        call = case.placed()
        spec = library_ops()[case.op.name].kernel(call)
        inputs = [place(a, view) for a, view in zip(case.inputs, call.inputs, strict=True)]
        results = [np.full(size_of(v), 77, v.element_type.numpy_dtype) for v in call.results]
        places = [_lab_place(argument, inputs, results) for argument in spec.arguments]
        for command in spec.commands:
            fields: dict[str, Any] = dict(command.fields)
            for name in instruction_set()[command.instruction].places:
                if name in fields:
                    fields[name] = places[fields[name]]
            commands.append((command.instruction, fields))
        found += zip(results, call.results, strict=True)
    lab.run(commands, workers)
    return [take(memory, view) for memory, view in found]


def _lab_place(
    argument: KernelArgument, inputs: Sequence[Array], results: Sequence[Array]
) -> Array:
    if isinstance(argument, TensorArgument):
        return (results if argument.is_output else inputs)[argument.index]
    assert isinstance(argument, InternalArgument) and argument.element_type is not None
    return np.full(int(argument.size), 77, argument.element_type.numpy_dtype)


def place(array: Array, view: View) -> Array:
    """Returns memory with an array's elements at the places of a view; all other elements are junk."""
    memory = np.full(size_of(view), 77, view.element_type.numpy_dtype)
    strided(memory, view)[...] = array
    return memory


def take(memory: Array, view: View) -> Array:
    """Returns the elements of a view as an array of the view's shape."""
    elements: Array = strided(memory, view).copy()
    return elements


def strided(memory: Array, view: View) -> Array:
    strides = [memory.itemsize * stride for stride in view.strides]
    elements: Array = np.lib.stride_tricks.as_strided(memory[view.offset :], view.shape, strides)
    return elements


def size_of(view: View) -> int:
    """Returns the number of elements from the argument's start to the end of the view."""
    if 0 in view.shape:
        return 1
    last = sum((n - 1) * s for n, s in zip(view.shape, view.strides, strict=True))
    return view.offset + last + 1


class _Function:
    """Builds a function with a task for each case."""

    def __init__(self) -> None:
        self._constants: list[Constant] = []
        self._tasks: list[LayerTask] = []
        self._ddr_size = 0
        self._inputs: list[Array] = []
        self._results: list[View] = []

    def add(self, case: Case) -> None:
        call = case.placed()
        inputs = [place(a, view) for a, view in zip(case.inputs, call.inputs, strict=True)]
        spec = library_ops()[case.op.name].kernel(call)
        self.add_spec(spec, inputs, call.results, case.inputs)

    def add_spec(
        self,
        spec: KernelSpec,
        memory: Sequence[Array],
        results: Sequence[View],
        inputs: Sequence[Array] = (),
    ) -> None:
        """Adds a task; `memory` contains its inputs as they lie, and `inputs` the values to pack as constants."""
        self._tasks.append(self._task(spec, inputs))
        self._inputs += memory
        self._results += results

    def run(self, device: Any) -> list[Array]:
        """Runs all cases and returns their results; elements that no kernel wrote are 77."""
        inputs = [_type(ElementType.from_numpy(a.dtype), a.size) for a in self._inputs]
        outputs = [_type(view.element_type, size_of(view)) for view in self._results]
        function = Function("f", inputs, outputs, self._tasks, self._ddr_size)
        instructions = list(instruction_set().values())
        made = Executable("EMU8", [function], [], self._constants, instructions)
        module = Module(device, byte_code(made).view, {})
        loaded = module.load(module.find_function("f"))
        read = [TensorBuffer.allocate(t) for t in inputs]
        written = [TensorBuffer.allocate(t) for t in outputs]
        for index, (buffer, array) in enumerate(zip(read, self._inputs, strict=True)):
            buffer.array()[...] = array
            loaded.attach(ArgumentKind.INPUT, index, device.share(buffer.address, buffer.size))
        for index, buffer in enumerate(written):
            buffer.array()[...] = 77
            loaded.attach(ArgumentKind.OUTPUT, index, device.share(buffer.address, buffer.size))
        loaded.run()
        return [take(b.array(), view) for b, view in zip(written, self._results, strict=True)]

    def _task(self, spec: KernelSpec, inputs: Sequence[Array]) -> LayerTask:
        arguments = [self._argument(argument, inputs) for argument in spec.arguments]
        return LayerTask(spec.title, arguments, [*map(assemble_command, spec.commands)])

    def _argument(self, argument: KernelArgument, inputs: Sequence[Array]) -> Argument:
        if isinstance(argument, TensorArgument):
            if argument.is_output:
                return Argument(ArgumentKind.OUTPUT, len(self._results) + argument.index)
            if argument.order or argument.panel:
                array = inputs[argument.index]
                tensor_type = RankedTensorType.of(ElementType.from_numpy(array.dtype), array.shape)
                how = (None, argument.order, argument.panel)
                self._constants.append(Constant(tensor_type, Blob(array.tobytes()), *how))
                return Argument(ArgumentKind.CONSTANT, len(self._constants) - 1)
            return Argument(ArgumentKind.INPUT, len(self._inputs) + argument.index)
        if isinstance(argument, ScalarArgument):
            return Argument(ArgumentKind.SCALAR, scalar=argument.data)
        if isinstance(argument, InternalArgument):
            assert argument.element_type is not None
            offset, size = self._ddr_size, int(argument.size) * argument.element_type.bits // 8
            self._ddr_size += align(size)
            return Argument(ArgumentKind.DDR, offset=offset, size_bytes=size)
        assert isinstance(argument, ConstantArgument)
        count = len(argument.data) * 8 // argument.element_type.bits
        self._constants.append(Constant(_type(argument.element_type, count), Blob(argument.data)))
        return Argument(ArgumentKind.CONSTANT, len(self._constants) - 1)


def _type(element_type: ElementType, size: int) -> RankedTensorType:
    return RankedTensorType.of(element_type, (size,))

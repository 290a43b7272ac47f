"""Runs one layer on the device with given arrays, and detects forbidden behaviour of its kernel.

In a compiled layer, the buffers between two tasks lie side by side in DDR and CMX, so a write past the end of one
buffer changes the next buffer. To detect such writes, each of these buffers becomes an additional output of the
function, with its own memory. The kernel's constants become inputs of the function, so that they have their own
memory, too.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from dataclasses import replace
from typing import Any

import numpy as np

from litert.core.element_type import ElementType
from litert.core.errors import LiteRtError
from litert.core.output_shape import output_sizes
from litert.core.tensor_type import RankedTensorType
from litert.model.graph import Tensor
from litert.model.quantized_tensor import find_quantization
from vendor_reference.authoring.compiled_layer import CompiledLayer, LayerOptions, load_layer
from vendor_reference.authoring.device_call import DeviceCall, load_call, quiet
from vendor_reference.authoring.subject import Subject
from vendor_reference.authoring.surroundings import Watched, find_faults
from vendor_reference.compiler.shape_rules import ByKernel, find_shape_rule, shapes_misfit
from vendor_reference.custom_layers.value_sources import stored_constant
from vendor_reference.device.opencl_memory import read_constant
from vendor_reference.drivers.device_choice import choose_device
from vendor_reference.executable.byte_code import write_executable
from vendor_reference.executable.executable import (
    Argument,
    ArgumentKind,
    CpuTask,
    Function,
    KernelTask,
    Task,
)

Array = np.ndarray[Any, np.dtype[Any]]

_ARENAS = (ArgumentKind.DDR, ArgumentKind.CMX)


class RunningLayer:
    """A compiled layer on the device, with separate memory for each buffer that its kernels use.

    Attributes:
      call: Call that runs the layer without checks.
    """

    def __init__(self, compiled: CompiledLayer, call: DeviceCall) -> None:
        self.entry = compiled.task.entry
        self.compiled = compiled
        self.call = call
        subject = compiled.subject
        self._num_outputs = len(subject.op.outputs)
        names = [f"output {index}" for index in range(self._num_outputs)]
        names += ["an intermediate buffer of the layer"] * (len(call.outputs) - self._num_outputs)
        names += [f"input {index}" for index, _ in subject.inputs]
        names += ["a constant"] * (len(call.inputs) - len(subject.inputs))
        memories = [*call.outputs, *call.inputs]
        self._tensors = [
            Watched(memory, name, is_written=index < len(call.outputs))
            for index, (memory, name) in enumerate(zip(memories, names, strict=True))
        ]

    def set_inputs(self, arrays: Sequence[Array]) -> None:
        """Sets the non-constant inputs to arrays of their types, in the order of the subject's model."""
        inputs = self.call.inputs[: len(self.compiled.subject.inputs)]
        for memory, array in zip(inputs, arrays, strict=True):
            memory.array[...] = array

    def run(self) -> tuple[list[Array], list[str]]:
        """Runs the layer several times, each time with different bytes in the memory around its tensors.

        Returns:
          The outputs of the layer; and one sentence for each forbidden behaviour of the kernel.
        """
        faults = find_faults(self.call, self._tensors, self._num_outputs)
        return [self.call.result(index).copy() for index in range(self._num_outputs)], faults

    def crash_cause(self) -> str:
        """Returns a sentence about code in the kernel that can crash the driver; "" if there is no such code."""
        try:
            text = self.compiled.text(self.compiled.find_kernel()[1]).text
        except LiteRtError:  # the layer was compiled ahead of time, or is not OpenCL
            return ""
        return choose_device().installation.driver.crash_cause(text)

    def measure_kernel(self, repeat: int) -> list[float]:
        """Returns the kernel's time on the device for each of `repeat` runs, in seconds.

        Discards the kernel's printed output.
        """
        with quiet():
            return self.call.measure(repeat, warm_ups=0).kernels[self.entry]


@contextmanager
def run_on_device(compiled: CompiledLayer) -> Iterator[RunningLayer]:
    """Loads a compiled layer onto the device."""
    separated, constants = separate_memory(compiled)
    with load_compiled(separated) as call:
        for memory, content in zip(
            call.inputs[len(compiled.function.inputs) :], constants, strict=True
        ):
            memory.array[...] = content
        yield RunningLayer(compiled, call)


def separate_memory(compiled: CompiledLayer) -> tuple[CompiledLayer, Sequence[Array]]:
    """Converts a layer's intermediate buffers to additional outputs, and its kernels' constants to inputs.

    Tensors that share a buffer in the memory plan still share an output. Shapes that kernels write stay in DDR,
    where each shape has its own memory.

    Returns:
      The changed layer, and the bytes of the additional inputs, which were constants.
    """
    function, constants = compiled.function, compiled.executable.constants
    places: dict[tuple[ArgumentKind, int, int], int] = {}
    contents: dict[int, Array] = {}

    def separate(argument: Argument) -> Argument:
        if argument.kind not in _ARENAS:
            return argument
        key = (argument.kind, argument.offset, argument.size_bytes)
        index = len(function.outputs) + places.setdefault(key, len(places))
        return Argument(ArgumentKind.OUTPUT, index)

    def separate_of_kernel(argument: Argument) -> Argument:
        if argument.kind is not ArgumentKind.CONSTANT:
            return separate(argument)
        if argument.index not in contents:
            content = read_constant(constants[argument.index])
            contents[argument.index] = content.reshape(-1).view(np.uint8)
        index = len(function.inputs) + list(contents).index(argument.index)
        return Argument(ArgumentKind.INPUT, index)

    def separate_task(task: Task) -> Task:
        if not isinstance(task, CpuTask):
            # Constants of the library's layers stay: library programs are checked with constants.
            of_task = separate_of_kernel if isinstance(task, KernelTask) else separate
            return replace(task, arguments=[*map(of_task, task.arguments)])
        inputs, outputs = (
            tuple(p and replace(p, argument=separate(p.argument)) for p in cpu_places)
            for cpu_places in (task.inputs, task.outputs)
        )
        return replace(task, inputs=inputs, outputs=tuple(p for p in outputs if p is not None))

    tasks = [separate_task(task) for task in function.tasks]
    if not places and not contents:
        return compiled, []
    separated: Function = replace(
        function,
        inputs=[*function.inputs, *(_bytes_type(content.size) for content in contents.values())],
        outputs=[*function.outputs, *(_bytes_type(size) for _, _, size in places)],
        tasks=tasks,
        ddr_size=function.ddr_size if function.shapes else 0,
        cmx_size=0,
    )
    module = write_executable(replace(compiled.executable, functions=[separated]))
    return replace(compiled, byte_code=module, function=separated), [*contents.values()]


def load_compiled(compiled: CompiledLayer) -> AbstractContextManager[DeviceCall]:
    """Loads a compiled layer like the runtime, so that its buffers lie at their planned offsets."""
    native = compiled.options.compiler.allow_native_assets
    return load_call(compiled.byte_code, compiled.function, compiled.assets, native)


def freeze_shapes(subject: Subject, options: LayerOptions) -> None:
    """Replaces dynamic input shapes by the model's initial shapes, and computes the output shapes from them.

    Two kinds of outputs keep a dynamic shape. The shape of the first kind is written by the layer's kernel. The
    second kind has a bound, and a separate shape kernel computes its shape.
    """
    op, tensors = subject.op, subject.model.subgraphs[0].tensors
    if all(tensor.type.layout.is_static for tensor in tensors):
        return
    layer, _ = load_layer(options, op.name)
    if shapes_misfit(op, layer):
        return  # the compilation reports the error
    rules = {
        tensor: find_shape_rule(op, layer, index)
        for index, tensor in enumerate(op.outputs)
        if not tensor.type.layout.is_static
    }
    patterns = {tensor: tensor.type.shape for tensor in rules}
    for tensor in tensors:
        rule = rules.get(tensor)
        by_bound = rule is ByKernel.SEPARATE and tensor.name in options.compiler.shape_bounds
        if rule is not ByKernel.OWN and not by_bound:
            tensor.shape_signature = None
    inputs = [tensor.shape if tensor else None for tensor in op.inputs]
    for tensor, rule in rules.items():
        if rule is not None and not isinstance(rule, ByKernel):
            sizes = zip(patterns[tensor], output_sizes(rule, inputs), strict=True)
            tensor.shape = tuple(fixed if fixed >= 0 else int(str(size)) for fixed, size in sizes)


def constant_value(tensor: Tensor) -> Array:
    """Returns a constant's numbers as kernels get them; a following DEQUANTIZE is applied to them."""
    stored = stored_constant(tensor)
    assert stored is not None
    numbers = np.frombuffer(stored.data, stored.element_type.numpy_dtype).reshape(stored.shape)
    if stored is tensor:
        return numbers
    quantization = find_quantization(stored)
    return quantization.dequantize(numbers) if quantization else numbers.astype(np.float32)


def _bytes_type(size: int) -> RankedTensorType:
    return RankedTensorType.of(ElementType.UINT8, (size,))

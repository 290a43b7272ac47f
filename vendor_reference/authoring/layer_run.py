"""One layer on the device: run on arrays, and watched for what it must not do.

In a compiled layer the places between two tasks lie side by side in DDR and CMX: what a kernel writes past one of
them lands in the next. So that it is found out, each becomes one more output of the function, with its own memory.
"""

from __future__ import annotations

import os
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
from vendor_reference.authoring.compiled_layer import CompiledLayer, LayerOptions, load_layer
from vendor_reference.authoring.device_call import DeviceCall, load_call
from vendor_reference.authoring.quantized_tensor import find_quantization
from vendor_reference.authoring.subject import Subject
from vendor_reference.compiler.shape_rules import ByKernel, find_shape_rule, shapes_misfit
from vendor_reference.custom_layers.value_sources import stored_constant
from vendor_reference.drivers.device_choice import choose_device
from vendor_reference.executable.byte_code import write_executable
from vendor_reference.executable.executable import (
    Argument,
    ArgumentKind,
    CpuTask,
    Function,
    KernelTask,
)

Array = np.ndarray[Any, np.dtype[Any]]

_FILLS = (0xA5, 0x5A)
_ARENAS = (ArgumentKind.DDR, ArgumentKind.CMX)


class RunningLayer:
    """A compiled layer on the device, with memory of its own for each place that its kernels use.

    Attributes:
      call: runs it, and looks at nothing.
    """

    def __init__(self, compiled: CompiledLayer, call: DeviceCall) -> None:
        self.entry = compiled.task.entry
        self.compiled = compiled
        self.call = call
        # Others are places between its kernels.
        self._outputs = call.outputs[: len(compiled.subject.op.outputs)]

    def set_inputs(self, arrays: Sequence[Array]) -> None:
        """Sets the inputs that are no constants, in the order of the subject's model, to arrays of their types."""
        for memory, array in zip(self.call.inputs, arrays, strict=True):
            memory.array[...] = array

    def run(self) -> tuple[list[Array], list[str]]:
        """Runs the layer twice, on outputs that hold something else each time.

        Returns:
          The outputs; and what the kernel did that it must not, in sentences.
        """
        before = [memory.content() for memory in self.call.inputs]
        results: list[list[Array]] = []
        for fill in _FILLS:
            for memory in self.call.outputs:
                memory.fill(fill)
            self.call.run()
            results.append([self.call.result(i).copy() for i in range(len(self._outputs))])
        problems = list(self._damages())
        ports = [index for index, _ in self.compiled.subject.inputs]
        for index, memory, old in zip(ports, self.call.inputs, before, strict=True):
            if memory.content() != old:
                problems.append(f"the kernel changes its input {index}")
        for index, (first, second) in enumerate(zip(*results, strict=True)):
            problems += _differences(index, first, second)
        return results[-1], problems

    def crash_cause(self) -> str:
        """A sentence about what the kernel has that is known to crash the driver; "" for nothing, or no text."""
        try:
            text = self.compiled.text(self.compiled.find_kernel()[1]).text
        except LiteRtError:  # it was compiled ahead, or is no OpenCL
            return ""
        return choose_device().installation.driver.crash_cause(text)

    def measure_kernel(self, repeat: int) -> list[float]:
        """How long the kernel takes on the device, in seconds, for each of some runs; it prints nothing."""
        with quiet():
            return self.call.measure(repeat, warm_ups=0).kernels[self.entry]

    def _damages(self) -> Iterator[str]:
        names = [f"input {index}" for index, _ in self.compiled.subject.inputs]
        names += [f"output {index}" for index in range(len(self._outputs))]
        for index, memory in enumerate((*self.call.inputs, *self.call.outputs)):
            place = memory.damage()
            if place is not None:
                size = memory.tensor_type.size_bytes
                side = f"{-place} bytes before" if place < 0 else f"at byte {place} of"
                name = names[index] if index < len(names) else "a tensor in its own layout"
                yield f"the kernel writes {side} {name}, which has {size} bytes"


@contextmanager
def run_on_device(compiled: CompiledLayer) -> Iterator[RunningLayer]:
    """Loads a compiled layer onto the device."""
    with load_compiled(separate_places(compiled)) as call:
        yield RunningLayer(compiled, call)


def separate_places(compiled: CompiledLayer) -> CompiledLayer:
    """A layer with its places behind its outputs; one place in the plan stays one.

    Shapes that its kernels write stay in DDR: they have places of their own there.
    """
    function = compiled.function
    places: dict[tuple[ArgumentKind, int, int], int] = {}

    def separate(argument: Argument) -> Argument:
        if argument.kind not in _ARENAS:
            return argument
        key = (argument.kind, argument.offset, argument.size_bytes)
        return Argument(
            ArgumentKind.OUTPUT, len(function.outputs) + places.setdefault(key, len(places))
        )

    def separate_task(task: KernelTask | CpuTask) -> KernelTask | CpuTask:
        if isinstance(task, KernelTask):
            return replace(task, arguments=[separate(argument) for argument in task.arguments])
        inputs, outputs = (
            tuple(p and replace(p, argument=separate(p.argument)) for p in cpu_places)
            for cpu_places in (task.inputs, task.outputs)
        )
        return replace(task, inputs=inputs, outputs=tuple(p for p in outputs if p is not None))

    tasks = [separate_task(task) for task in function.tasks]
    if not places:
        return compiled
    types = [RankedTensorType.of(ElementType.UINT8, (size,)) for _, _, size in places]
    separated: Function = replace(
        function,
        outputs=[*function.outputs, *types],
        tasks=tasks,
        ddr_size=function.ddr_size if function.shapes else 0,
        cmx_size=0,
    )
    module = write_executable(replace(compiled.executable, functions=[separated]))
    return replace(compiled, byte_code=module, function=separated)


def load_compiled(compiled: CompiledLayer) -> AbstractContextManager[DeviceCall]:
    """Loads a compiled layer as the runtime would: its places lie where they were planned."""
    native = compiled.options.compiler.allow_native_assets
    return load_call(compiled.byte_code, compiled.function, compiled.assets, native)


@contextmanager
def quiet() -> Iterator[None]:
    """Drops what kernels print: they have printed it before they are measured."""
    before = os.dup(1)
    with open(os.devnull, "wb") as nowhere:
        os.dup2(nowhere.fileno(), 1)
    try:
        yield
    finally:
        os.dup2(before, 1)
        os.close(before)


def freeze_shapes(subject: Subject, options: LayerOptions) -> None:
    """Makes dynamic shapes those that the model starts with, and of outputs those that the layer gives them there.

    Outputs whose shape the layer's kernel writes stay open; and those whose shape another kernel finds, where they
    have a bound.
    """
    op, tensors = subject.op, subject.model.subgraphs[0].tensors
    if all(tensor.type.layout.is_static for tensor in tensors):
        return
    layer, _ = load_layer(options, op.name)
    if shapes_misfit(op, layer):
        return  # compiling it says so
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
    """A constant's numbers; those that a DEQUANTIZE makes of one as real numbers, as kernels get them."""
    stored = stored_constant(tensor)
    assert stored is not None
    numbers = np.frombuffer(stored.data, stored.element_type.numpy_dtype).reshape(stored.shape)
    if stored is tensor:
        return numbers
    quantization = find_quantization(stored)
    return quantization.dequantize(numbers) if quantization else numbers.astype(np.float32)


def _differences(index: int, first: Array, second: Array) -> Iterator[str]:
    """What two runs on different outputs say about them."""
    if first.shape != second.shape:
        yield (
            f"output {index} has shape {list(first.shape)} in one run, {list(second.shape)} in the next on equal "
            "inputs: a race, or a read of what nobody wrote"
        )
        return
    size = first.dtype.itemsize
    old, new = (np.frombuffer(a.tobytes(), np.uint8).reshape(-1, size) for a in (first, second))
    left = np.all(old == _FILLS[0], axis=1) & np.all(new == _FILLS[1], axis=1)
    other = np.any(old != new, axis=1) & ~left

    def first_place(found: Array) -> list[int]:
        return [int(i) for i in np.unravel_index(int(np.argmax(found)), first.shape)]

    if left.any():
        yield (
            f"{int(left.sum())} of {len(left)} elements of output {index} are never written, the first "
            f"at {first_place(left)}"
        )
    if other.any():
        yield (
            f"{int(other.sum())} elements of output {index} differ between two runs on equal inputs, the "
            f"first at {first_place(other)}: a race, or a read of what nobody wrote"
        )

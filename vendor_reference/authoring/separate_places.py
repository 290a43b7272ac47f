"""Gives each place between two tasks memory of its own, so that a kernel that leaves its place is found out.

In a compiled layer such places lie side by side in DDR and CMX: what a kernel writes past one of them lands in the
next. Here each becomes one more output of the function.
"""

from __future__ import annotations

from dataclasses import replace

from litert.core.element_type import ElementType
from litert.core.tensor_type import RankedTensorType
from vendor_reference.authoring.compiled_layer import CompiledLayer
from vendor_reference.executable.byte_code import write_executable
from vendor_reference.executable.executable import (
    Argument,
    ArgumentKind,
    CpuTask,
    Function,
    KernelTask,
)

_ARENAS = (ArgumentKind.DDR, ArgumentKind.CMX)


def separate_places(compiled: CompiledLayer) -> CompiledLayer:
    """The same layer with its places behind its outputs; those that are one place in the plan stay one.

    Args:
      compiled: of fixed shapes.
    """
    function = compiled.function
    assert not function.shapes
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
        function, outputs=[*function.outputs, *types], tasks=tasks, ddr_size=0, cmx_size=0
    )
    module = write_executable(replace(compiled.executable, functions=[separated]))
    return replace(compiled, byte_code=module, function=separated)

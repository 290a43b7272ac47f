"""Finds the kernel that a task runs in its program, and checks that the kernel accepts the task's arguments."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace

from litert.core.counts import count_text
from litert.core.errors import LiteRtError
from litert.core.status import Status
from vendor_reference.compiler.built_kernels import BuiltProgram
from vendor_reference.compiler.emission.module_emission import Lowered
from vendor_reference.compiler.kernel_bindings import check_bindings
from vendor_reference.custom_layers.custom_layer import CustomLayer
from vendor_reference.custom_layers.kernel_source import (
    choose_kernel,
    decode_source,
    kernel_names,
    parameters_in_text,
)
from vendor_reference.executable.executable import Executable, KernelTask


def entries_by_text(executable: Executable, layers: Mapping[str, CustomLayer]) -> Executable | None:
    """Returns the executable with kernel names from the source code; None if only a build can find the names.

    In an executable that needs a build, the entry of each custom op's task is "".
    """
    entries: dict[str, str] = {}
    for name in {t.op_name for f in executable.functions for t in f.tasks if not t.entry}:
        entry = _entry_in_text(layers[name])
        if entry is None:
            return None
        entries[name] = entry
    return _with_kernel_tasks(
        executable, lambda task: task if task.entry else replace(task, entry=entries[task.op_name])
    )


def entries_by_build(
    lowered: Lowered,
    built: Sequence[BuiltProgram | None],
    layers: Mapping[str, CustomLayer],
    notes: list[str],
) -> Executable:
    """Returns the executable with the kernel names found in the built programs.

    If this device lacks fp16 arithmetic, `built` has None for each program that needs fp16 arithmetic. `notes`
    gets a sentence for each kernel argument that is legal, but may be a mistake.

    Raises:
      LiteRtError: NOT_FOUND, if the kernel does not exist; INVALID_ARGUMENT, if the kernel's arguments differ
        from the layer's, or if the layer's work groups are too large for the kernel.
    """
    entries: dict[str, str] = {}
    bindings = iter([bound for _, _, bound in lowered.kernel_tasks()])

    def settle(task: KernelTask) -> KernelTask:
        bound, program = next(bindings), built[task.program]
        if task.entry:
            if program is not None:
                _check_entry(task, program.kernels, layers)
            return task
        if program is None:  # functions for fp16 arithmetic follow the others
            return replace(task, entry=entries[task.op_name])
        layer, kernels = layers[task.op_name], program.kernels
        entry = find_entry(layer, program)
        if entry is None:
            wanted = layer.kernel.entry or layer.op_name
            has = ", ".join(sorted(kernels))
            raise LiteRtError(
                Status.NOT_FOUND,
                f"the asset has no kernel '{wanted}', only {has}"
                if has
                else f"the asset has no kernel, but must have kernel '{wanted}'",
                _where(layer),
                "Add this kernel to the asset."
                if not has
                else "Set the layer's entry to one of these kernels."
                if layer.kernel.entry
                else "Give the kernel the op's name, or set the layer's entry in a description (.json).",
            )
        entries[task.op_name] = entry
        kernel = kernels[entry]
        if len(kernel.arguments) != len(task.arguments):
            raise LiteRtError(
                Status.INVALID_ARGUMENT,
                f"the code declares kernel '{entry}' with {count_text(len(kernel.arguments), 'argument')}, but "
                f"the layer binds {count_text(len(task.arguments), 'argument')}",
                _where(layer),
                "The layer's description must have one entry for each argument of the kernel."
                if layer.kernel.arguments
                else (
                    "The arguments are the op's inputs, then the op's outputs; a description (.json) can "
                    "bind the arguments to other values."
                ),
            )
        notes.extend(check_bindings(entry, kernel, task, bound, _where(layer)))
        return replace(task, entry=entry)

    return _with_kernel_tasks(lowered.executable, settle)


def find_entry(layer: CustomLayer, built: BuiltProgram) -> str | None:
    """Returns the name of a layer's kernel in a built program; None if the program lacks that kernel."""
    entry = layer.kernel.entry or choose_kernel(layer.op_name, list(built.kernels))
    return entry if entry in built.kernels else None


def declared_in_text(layer: CustomLayer, prelude: str) -> Sequence[str] | None:
    """Returns the argument types that a layer's kernel declares in its source code; see `parameters_in_text`.

    `prelude` is the code that the compiler puts before the source code.
    """
    entry = _entry_in_text(layer)
    found = None if entry is None else parameters_in_text(prelude, _texts(layer), entry)
    return None if found is None else [parameter.type for parameter in found]


def _check_entry(
    task: KernelTask, kernels: Mapping[str, object], layers: Mapping[str, CustomLayer]
) -> None:
    """Rejects a shape kernel that its program does not contain."""
    layer = layers.get(task.op_name)
    if task.entry not in kernels and layer is not None:
        has = ", ".join(sorted(kernels))
        raise LiteRtError(
            Status.NOT_FOUND,
            f"the source code has no kernel '{task.entry}' to compute shapes, only {has}"
            if has
            else f"the source code has no kernel, but must have kernel '{task.entry}' to compute shapes",
            _where(layer),
            "Set shape_kernel in the description to the name of a kernel in the source code.",
        )


def _entry_in_text(layer: CustomLayer) -> str | None:
    return layer.kernel.entry or choose_kernel(layer.op_name, kernel_names(_texts(layer)))


def _texts(layer: CustomLayer) -> Sequence[str]:
    return [decode_source(file.data, file.path) for file in (*layer.headers, *layer.sources)]


def _where(layer: CustomLayer) -> str:
    return f"{layer.file_name}, op '{layer.op_name}'"


def _with_kernel_tasks(
    executable: Executable, change: Callable[[KernelTask], KernelTask]
) -> Executable:
    """Returns the executable with the tasks that run kernels replaced."""
    functions = [
        replace(f, tasks=[change(t) if isinstance(t, KernelTask) else t for t in f.tasks])
        for f in executable.functions
    ]
    return replace(executable, functions=functions)

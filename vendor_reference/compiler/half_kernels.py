"""Finds kernels that declare a `half*` argument for a tensor.

Such kernels get half tensors as half on every device, even on devices without fp16 arithmetic.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from typing import TypeAlias

from litert.core.element_type import ElementType
from litert.core.errors import LiteRtError
from litert.core.status import Status
from vendor_reference.compiler.built_kernels import BuiltProgram
from vendor_reference.compiler.emission.module_emission import Lowered
from vendor_reference.compiler.entry_points import declared_in_text, find_entry
from vendor_reference.compiler.kernel_bindings import BoundArgument
from vendor_reference.custom_layers.custom_layer import CustomLayer, LayerType
from vendor_reference.executable.binary_layer import program_digest, unpack_binary_layer
from vendor_reference.executable.executable import KernelTask

_HALVES = re.compile(r"half(2|3|4|8|16)?\*")

_Bound: TypeAlias = tuple[KernelTask, Sequence[BoundArgument]]


def find_half_ops(
    lowered: Lowered, built: Sequence[BuiltProgram | None], layers: Mapping[str, CustomLayer]
) -> set[str]:
    """Returns the names of the custom ops whose kernels declare a `half*` argument.

    If this device lacks fp16 arithmetic, `built` has None for each program that needs fp16 arithmetic.
    """
    found: set[str] = set()
    for (task, bound), (_, halves) in _pairs(lowered):
        program = built[task.program]
        assert program is not None  # all devices run these functions
        entry = find_entry(layers[task.op_name], program)
        arguments = program.kernels[entry].arguments if entry is not None else ()
        declared = [argument.type_name for argument in arguments]
        if any(map(_is_written_for_halves, declared, bound, halves)):
            found.add(task.op_name)
    return found


def find_half_ops_in_text(lowered: Lowered, layers: Mapping[str, CustomLayer]) -> set[str]:
    """Does the same as `find_half_ops`, but reads the kernels' arguments from the source code instead of a build.

    Raises:
      LiteRtError: INVALID_ARGUMENT, if the arguments of a kernel cannot be determined from its source code.
    """
    found: set[str] = set()
    for (task, bound), (_, halves) in _pairs(lowered):
        layer = layers[task.op_name]
        if any(file.packed_in is not None for file in layer.sources):
            continue  # `find_packed_half_ops` finds these ops
        declared = declared_in_text(layer, lowered.samples[task.program].prelude)
        if declared is None or len(declared) != len(bound):
            declared = [""] * len(bound)
        by_device = [
            name
            for name, one, other in zip(declared, bound, halves, strict=True)
            if one.element_type is not other.element_type
        ]
        if "" in by_device:
            raise LiteRtError(
                Status.INVALID_ARGUMENT,
                "the source code does not show whether the kernel declares half* arguments, so the kernel was "
                "not built",
                f"{layer.file_name}, op '{layer.op_name}'",
                "Pass --reference_fp16=half or --reference_fp16=float to set the type of half tensors in kernels.",
            )
        if any(map(_is_written_for_halves, declared, bound, halves)):
            found.add(task.op_name)
    return found


def find_packed_half_ops(lowered: Lowered, layers: Mapping[str, CustomLayer]) -> set[str]:
    """Returns the names of custom ops whose binary layers have code for half tensors, but no code for float."""
    found: set[str] = set()
    for (task, _), (with_fp16, _) in _pairs(lowered):
        for file in layers[task.op_name].sources:
            if file.packed_in is not None:
                codes = unpack_binary_layer(file.packed_in, file.path).codes
                packed = {code.program for code in codes}
                floats, halves = (
                    program_digest(lowered.samples[t.program]) for t in (task, with_fp16)
                )
                if halves in packed and floats not in packed:
                    found.add(task.op_name)
    return found


def find_declared_half_ops(layers: Mapping[str, CustomLayer]) -> set[str]:
    """Returns the names of layers whose kernels declare a `half*` argument, in compiled code or source code."""
    found: set[str] = set()
    for name, layer in layers.items():
        packed = {f.packed_in for f in layer.sources if f.packed_in is not None}
        declared = [
            argument.type_name
            for data in packed
            for code in unpack_binary_layer(data, layer.file_name).codes
            for kernel in code.kernels.values()
            for argument in kernel.arguments
        ]
        if not packed and layer.type is LayerType.OCL:
            declared = list(declared_in_text(layer, "") or ())
        if any(map(_HALVES.fullmatch, declared)):
            found.add(name)
    return found


def _pairs(lowered: Lowered) -> Iterator[tuple[_Bound, _Bound]]:
    """Yields tasks for custom ops in two forms, if they differ: for any device, and for fp16 arithmetic."""
    tasks: dict[tuple[str, bool], list[_Bound]] = {}
    for function, task, bound in lowered.kernel_tasks():
        if not task.entry:
            tasks.setdefault((function.name, function.needs_fp16), []).append((task, bound))
    for (name, needs_fp16), with_fp16 in tasks.items():
        if needs_fp16:
            for pair in zip(tasks.get((name, False), ()), with_fp16, strict=False):
                if pair[0][0].op_name != pair[1][0].op_name:
                    break  # one of the functions was edited
                if pair[0][0].program != pair[1][0].program:
                    yield pair


def _is_written_for_halves(declared: str, bound: BoundArgument, with_fp16: BoundArgument) -> bool:
    is_by_device = bound.element_type is not with_fp16.element_type
    is_half = is_by_device and with_fp16.element_type is ElementType.FLOAT16
    return is_half and bool(_HALVES.fullmatch(declared))

"""Makes arrays for the inputs and outputs of an op, from files, random numbers or constants of the model."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from litert.core.errors import LiteRtError
from litert.core.option import Flag
from litert.core.status import Status

from ..array_files import (
    InputArray,
    TensorSpec,
    complete_inputs,
    read_inputs,
)
from ..command_line import SEED
from ..input_ranges import INPUT_RANGE, index_ranges, read_ranges

if TYPE_CHECKING:
    from litert.model.graph import Op, Tensor
    from vendor_reference.authoring.subject import Subject

VALUE_RANGE = (-1.0, 1.0)
"""Least and greatest random float."""


INPUT_FLAGS = (
    Flag(
        "input",
        (),
        "A .npy or .npz file with the data of an input, as [input=]file. Give the input by name "
        "or index. If you omit input=, a .npz file gives the data of all inputs that the file "
        "names, and a .npy file gives the data of the first input that has no file yet. "
        "Inputs without a file get random data: floats from -1 to 1, and integers from 0 to 99 (any "
        "value if the integers have 8 bits). The flag may be repeated.",
        is_repeated=True,
    ),
    INPUT_RANGE,
    SEED,
)
INPUT_FLAG_NAMES = tuple(flag.name for flag in INPUT_FLAGS)


def input_values(subject: Subject, request: Mapping[str, Any]) -> list[Any]:
    """Returns arrays for the op's inputs that are not constants, in the order of the inputs."""
    return [given.value for given in read_op_inputs(subject, request).values()]


def read_op_inputs(subject: Subject, request: Mapping[str, Any]) -> dict[str, InputArray]:
    """Returns, by name, the arrays that `INPUT_FLAGS` specify for the op's inputs that are not constants."""
    specs = input_specs(subject)
    given = read_inputs(request["input"], specs, VALUE_RANGE)
    for spec in specs:
        if spec.name in given:
            given[spec.name] = _as_type(given[spec.name], spec)
    ranges = index_ranges((s.name, t) for s, (_, t) in zip(specs, subject.inputs, strict=True))
    ranges |= read_ranges(request["input_range"], specs, given)
    return complete_inputs(given, specs, request["seed"], ranges, VALUE_RANGE)


def _as_type(given: InputArray, spec: TensorSpec) -> InputArray:
    import numpy as np

    array, dtype = given.value, np.dtype(spec.dtype)
    if array.shape != spec.shape:
        raise LiteRtError(
            Status.INVALID_ARGUMENT,
            f"the array for input '{spec.name}' has the shape {list(array.shape)}, but the op needs the shape "
            f"{list(spec.shape)}",
            given.origin,
            "Save an array of this shape in the file.",
        )
    if not np.can_cast(array.dtype, dtype, "same_kind"):
        raise LiteRtError(
            Status.INVALID_ARGUMENT,
            f"the array for input '{spec.name}' has elements of type {array.dtype}, but the op needs elements of "
            f"type {spec.dtype}",
            given.origin,
            f"Convert the array with array.astype({spec.dtype!r}).",
        )
    return InputArray(array.astype(dtype), given.origin)


def read_golden(op: Op, files: Sequence[str]) -> dict[str, Any]:
    """Reads the expected outputs of an op from files, and returns them by name."""
    found = read_inputs(files, output_specs(op), VALUE_RANGE, "output", "golden")
    return {name: array.value for name, array in found.items()}


def all_inputs(op: Op, inputs: Mapping[str, InputArray]) -> list[Any]:
    """Returns arrays for all inputs of an op, from the given arrays and the constants of the model.

    The given arrays are copied, because the caller may change the returned arrays. An omitted input is None.
    """
    from vendor_reference.authoring.layer_run import constant_value

    given = iter(inputs.values())
    by_tensor: dict[Tensor, Any] = {}
    for tensor in op.inputs:
        if tensor is not None and tensor not in by_tensor:
            is_constant = tensor.is_constant or tensor.producer is not None
            by_tensor[tensor] = constant_value(tensor) if is_constant else next(given).value.copy()
    return [None if tensor is None else by_tensor[tensor] for tensor in op.inputs]


def input_specs(subject: Subject) -> list[TensorSpec]:
    """Describes the op's inputs that are not constants.

    If names are missing or not unique, the inputs are called `input0`, `input1` and so on.
    """
    return _specs(subject.inputs, "input")


def output_specs(op: Op) -> list[TensorSpec]:
    """Describes the op's outputs.

    If names are missing or not unique, the outputs are called `output0`, `output1` and so on.
    """
    return _specs(list(enumerate(op.outputs)), "output")


def _specs(tensors: Sequence[tuple[int, Tensor]], kind: str) -> list[TensorSpec]:
    names = {tensor.name for _, tensor in tensors}
    are_good = all(names) and len(names) == len(tensors)
    return [
        TensorSpec(
            tensor.name if are_good else f"{kind}{index}",
            str(tensor.element_type.numpy_dtype),
            tensor.shape,
            index,
        )
        for index, tensor in tensors
    ]

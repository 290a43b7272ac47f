"""A driver with taps that computes in float64, except for the op that the byte code marks with an error."""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

import numpy as np

from dispatch.api import HostInvocationContext, Receive
from litert.core.element_type import ElementType
from litert.core.tensor_type import RankedTensorType
from tests.conformance.numeric.LiteRtDispatch_Numeric import NumericDispatch, read_byte_code

Array = Any
_FAULTS = {
    "padding": "padding",
    "scale": "per_channel",
    "zero point": "zero_point",
    "activation": "activation",
}
"""Errors that the numeric driver can make, with the driver's name of each."""


class PlantedDispatch(NumericDispatch):
    """The dispatch table of Planted."""

    vendor_id = "Planted"

    def invoke_tapped(self, invocation_context: HostInvocationContext, receive: Receive) -> None:
        code = read_byte_code(invocation_context.byte_code)
        function = code["functions"][invocation_context.function_name]
        names = function.get("names", [])

        def show(tensor: int, array: Array) -> None:
            if names:
                kind = ElementType.from_numpy(array.dtype)
                receive(
                    names[tensor],
                    RankedTensorType.of(kind, array.shape),
                    memoryview(array.tobytes()),
                )

        self.run(invocation_context, show)

    def run_op(
        self,
        op: Mapping[str, Any],
        tensors: Sequence[Mapping[str, Any]],
        arrays: Mapping[int, Array],
        constants: Mapping[str, str],
    ) -> Array:
        error = op.get("planted", "")
        with _switched(_FAULTS.get(error, "")):
            result = super().run_op(op, tensors, arrays, constants)
        if not error or error in _FAULTS:
            return result
        inputs = [arrays[index] for index in op["inputs"] if index in arrays]
        return _ERRORS[error](result, inputs)


@contextmanager
def _switched(fault: str) -> Iterator[None]:
    os.environ["NUMERIC_FAULT"] = fault
    try:
        yield
    finally:
        del os.environ["NUMERIC_FAULT"]


def _wrong_kernel(result: Array, inputs: Sequence[Array]) -> Array:
    """Computes TANH by the first terms of its series, clipped."""
    x = inputs[0]
    return np.clip(x - x**3 / 3, -1, 1).astype(result.dtype)


def _last_row(result: Array, inputs: Sequence[Array]) -> Array:
    """Leaves out the last row, like a loop that ends too early."""
    result[:, -1] = 0
    return result


def _half(result: Array, inputs: Sequence[Array]) -> Array:
    """Computes a product in half precision."""
    with np.errstate(over="ignore"):
        lhs, rhs = (*inputs, *inputs)[:2]
        return (lhs.astype(np.float16) * rhs.astype(np.float16)).astype(result.dtype)


def _race(result: Array, inputs: Sequence[Array]) -> Array:
    """Adds two parts to the same elements in two threads without a lock, so that one can undo the other's sum."""
    shared = np.zeros_like(result)
    parts = [result * 0.25, result * 0.75]

    step = threading.Barrier(len(parts))

    def add(part: Array) -> None:
        pauses = np.random.default_rng().uniform(1e-4, 3e-4, shared.size)
        for index in range(shared.size):
            meets = index % shared.shape[-1] == 0
            if meets:  # otherwise, a busy machine may run the threads one after the other
                step.wait()
            seen = shared.flat[index]
            if meets:
                time.sleep(pauses[index])
            shared.flat[index] = seen + part.flat[index]

    items = [threading.Thread(target=add, args=(part,)) for part in parts]
    for item in items:
        item.start()
    for item in items:
        item.join()
    return shared


_ERRORS = {"kernel": _wrong_kernel, "last row": _last_row, "half": _half, "race": _race}

DISPATCH = PlantedDispatch()

"""Python functions of the user that compute an op, as a reference for ops without a kernel in stock LiteRT."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, TypeAlias

from litert.core.errors import LiteRtError
from litert.core.status import Status

if TYPE_CHECKING:
    from litert.model.graph import Op

Function: TypeAlias = "Callable[[Op, Sequence[Any]], Sequence[Any]]"
"""A function that computes an op's outputs from the op and all its inputs, including constants."""

Functions: TypeAlias = "Mapping[str, Function]"
"""Reference functions by op name."""


def call_function(function: Function, op: Op, inputs: Sequence[Any]) -> list[Any]:
    """Calls the reference function of an op, and converts the outputs to the model's element types.

    Raises:
      LiteRtError: INVALID_ARGUMENT, if an output's shape differs from its shape in the model; or an error that the
        function raised.
    """
    results = []
    for index, (tensor, array) in enumerate(zip(op.outputs, function(op, inputs), strict=True)):
        if array.shape != tensor.shape and tensor.type.layout.is_static:
            raise LiteRtError(
                Status.INVALID_ARGUMENT,
                f"the reference function of op '{op.name}' returned an array of shape {list(array.shape)} "
                f"for output {index}, but this output has shape {list(tensor.shape)} in the model",
                hint="Change the function: the arrays that it returns must have the shapes in the model.",
            )
        results.append(array.astype(tensor.element_type.numpy_dtype))
    return results

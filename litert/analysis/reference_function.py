"""Functions of the user that compute an op: what an op without a kernel in stock LiteRT is compared with."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, TypeAlias

from litert.core.errors import LiteRtError
from litert.core.status import Status

if TYPE_CHECKING:
    from litert.model.graph import Op

Function: TypeAlias = "Callable[[Op, Sequence[Any]], Sequence[Any]]"
"""From an op and all its inputs, constants too, to its outputs."""

Functions: TypeAlias = "Mapping[str, Function]"
"""By the ops' names."""


def call_function(function: Function, op: Op, inputs: Sequence[Any]) -> list[Any]:
    """An op's outputs, of the types that the model has.

    Raises:
      LiteRtError: INVALID_ARGUMENT, for an output of another shape than the model's; what the function raises.
    """
    results = []
    for tensor, array in zip(op.outputs, function(op, inputs), strict=True):
        if array.shape != tensor.shape and tensor.type.layout.is_static:
            raise LiteRtError(
                Status.INVALID_ARGUMENT,
                f"the reference of op {op.name} returns shape {list(array.shape)}, the model has "
                f"{list(tensor.shape)}",
                hint="Return the outputs in the shapes that the model has.",
            )
        results.append(array.astype(tensor.element_type.numpy_dtype))
    return results

"""Outputs of dynamic shape: an NPU call says their shapes in further outputs, which the host adds to it.

The manifest names them by the call's function, so that a function of this kind has one name in the file.
"""

from __future__ import annotations

from collections.abc import Sequence

from litert.core.element_type import ElementType
from litert.core.errors import LiteRtError
from litert.core.status import Status
from litert.model.graph import Model, Op, Subgraph, Tensor
from litert.model.manifest import ShapeOutput


def add_shape_outputs(
    model: Model, subgraph: Subgraph, call: Op, function_name: str, outputs: Sequence[int]
) -> list[ShapeOutput]:
    """Appends an int32 output of shape `[rank]` to an NPU call for each of its outputs that is named.

    Args:
      model: that the call is in.
      subgraph: that the call is in.
      call: the dispatch op.
      function_name: of the call.
      outputs: indices of the call's outputs.

    Returns:
      Which output has the shape of which.
    """
    added = []
    for index in outputs:
        of = call.outputs[index]
        shape = Tensor(f"{of.name}/shape", ElementType.INT32, (len(of.shape),), model.buffers[0])
        subgraph.tensors.append(shape)
        added.append(ShapeOutput(function_name, index, len(call.outputs)))
        call.append_output(shape)
    return added


def check_function_names(
    functions: Sequence[tuple[str, Sequence[ShapeOutput]]], where: str
) -> None:
    """Refuses calls of one name of which a manifest could not say what their outputs are.

    Args:
      functions: the name and shape outputs of each call.
      where: the vendor's call, for the error.

    Raises:
      LiteRtError: INVALID_ARGUMENT.
    """
    seen: dict[str, Sequence[ShapeOutput]] = {}
    for name, outputs in functions:
        if seen.setdefault(name, outputs) != outputs:
            raise LiteRtError(
                Status.INVALID_ARGUMENT,
                f"two calls are named '{name}', and differ in their outputs of dynamic shape",
                where,
                "Name each function for itself, as by its partition.",
            )

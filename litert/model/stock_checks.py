"""What stock's interpreter takes for granted of a model, and crashes without."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from math import prod

from litert.core.errors import LiteRtError
from litert.core.status import Status
from litert.model.graph import Model, Op

_NEEDED_INPUTS: Mapping[str, Sequence[int]] = {
    "BIDIRECTIONAL_SEQUENCE_LSTM": (0,), "BIDIRECTIONAL_SEQUENCE_RNN": (0,), "CONV_2D": (0, 1), "CONV_3D": (0, 1),
    "CONV_3D_TRANSPOSE": (0, 1, 2), "DEPTHWISE_CONV_2D": (0, 1), "FULLY_CONNECTED": (0, 1), "LSTM": (0,),
    "STABLEHLO_COMPOSITE": (), "SVDF": (0, 1, 2), "TRANSPOSE_CONV": (0, 1, 2),
    "UNIDIRECTIONAL_SEQUENCE_LSTM": (0,), "UNIDIRECTIONAL_SEQUENCE_RNN": (0,),
}  # fmt: skip
"""Builtin ops of which stock's kernels ask whether an input is there, and the inputs that they do not ask for."""

_LEAST_INPUTS: Mapping[str, int] = {
    "ASSIGN_VARIABLE": 2, "BATCH_MATMUL": 2, "SLICE": 3, "SPLIT": 2, "STRIDED_SLICE": 4,
}  # fmt: skip
_WITH_OUTPUT = frozenset({"BATCH_MATMUL", "READ_VARIABLE", "SIGN", "SLICE"})
"""Here and above: ops that XNNPACK looks at before it, or stock's kernel, counts what they have."""


_MOST_DIMENSIONS = 6
"""Of XNNPACK, which copies a constant new shape of any size to where there is room for so many."""


def check_for_stock(model: Model, where: str) -> None:
    """Refuses a model that would crash stock's interpreter.

    Raises:
      LiteRtError: INVALID_FLATBUFFER, with the place.
    """
    check_subgraphs(model, where)
    for code in model.operator_codes:
        if code.custom_code and "\0" in code.custom_code:
            name = code.custom_code.partition("\0")[0]
            raise _damaged(f"a custom op has a zero byte in its name, behind '{name}'", where)
    for subgraph_index, subgraph in enumerate(model.subgraphs):
        for index, op in enumerate(subgraph.ops):
            if what := _find_problem(op):
                raise _damaged(what, f"{where}, op {index} of subgraph {subgraph_index}")


def check_subgraphs(model: Model, where: str) -> None:
    """Refuses a model without a subgraph: there is nothing in it to compile, to transform or to run.

    Raises:
      LiteRtError: INVALID_FLATBUFFER.
    """
    if not model.subgraphs:
        raise _damaged("the model has no subgraph", where)


def _find_problem(op: Op) -> str:
    """What is wrong with an op; "" for nothing."""
    if op.is_custom:
        return ""
    name, inputs = op.name, op.inputs
    if None in inputs:
        for index in _NEEDED_INPUTS.get(name, range(len(inputs))):
            if index >= len(inputs) or inputs[index] is None:
                return f"{name} without its input {index}"
    if len(inputs) < _LEAST_INPUTS.get(name, 0):
        return f"{name} without its input {len(inputs)}"
    if not op.outputs and name in _WITH_OUTPUT:
        return f"{name} without its output"
    if name == "RESHAPE" and op.outputs and len(inputs) > 1 and (new := inputs[1]) is not None:
        size, rank = prod(new.shape), len(op.outputs[0].shape)
        if new.is_constant and size != rank and size > _MOST_DIMENSIONS:
            return f"RESHAPE to {size} dimensions, with an output of {rank}"
    if name == "SPLIT":
        has_options = op.options is not None and op.options.type_name == "SplitOptions"
        count = op.options.get("num_splits") if op.options and has_options else 0
        if count != len(op.outputs):
            return f"SPLIT into {count} parts, with {len(op.outputs)} outputs"
    return ""


def _damaged(what: str, where: str) -> LiteRtError:
    return LiteRtError(
        Status.INVALID_FLATBUFFER,
        what,
        where,
        "The file is damaged, or not a TFLite model: get it again from where it came.",
    )

"""What stock's interpreter takes for granted of a model, and crashes without."""

from __future__ import annotations

from litert.core.errors import LiteRtError
from litert.core.status import Status
from litert.model.graph import Model, Op

_OPTIONAL_INPUTS = frozenset(
    {
        "BIDIRECTIONAL_SEQUENCE_LSTM", "BIDIRECTIONAL_SEQUENCE_RNN", "CONV_2D", "CONV_3D", "CONV_3D_TRANSPOSE",
        "DEPTHWISE_CONV_2D", "FULLY_CONNECTED", "LSTM", "STABLEHLO_COMPOSITE", "SVDF", "TRANSPOSE_CONV",
        "UNIDIRECTIONAL_SEQUENCE_LSTM", "UNIDIRECTIONAL_SEQUENCE_RNN",
    }
)  # fmt: skip
"""Builtin ops of which stock's kernels ask whether an input is there."""


def check_for_stock(model: Model, where: str) -> None:
    """Refuses a model that would crash stock's interpreter.

    Raises:
      LiteRtError: INVALID_FLATBUFFER, with the place.
    """
    if not model.subgraphs:
        raise _damaged("the model has no subgraph", where)
    for code in model.operator_codes:
        if code.custom_code and "\0" in code.custom_code:
            name = code.custom_code.partition("\0")[0]
            raise _damaged(f"a custom op has a zero byte in its name, behind '{name}'", where)
    for subgraph_index, subgraph in enumerate(model.subgraphs):
        for index, op in enumerate(subgraph.ops):
            if what := _find_problem(op):
                raise _damaged(what, f"{where}, op {index} of subgraph {subgraph_index}")


def _find_problem(op: Op) -> str:
    """What is wrong with an op; "" for nothing."""
    if None in op.inputs and not op.is_custom and op.name not in _OPTIONAL_INPUTS:
        return f"{op.name} without its input {list(op.inputs).index(None)}"
    return ""


def _damaged(what: str, where: str) -> LiteRtError:
    return LiteRtError(
        Status.INVALID_FLATBUFFER,
        what,
        where,
        "The file is damaged, or not a TFLite model: get it again from where it came.",
    )

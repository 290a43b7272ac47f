"""Composite ops (`STABLEHLO_COMPOSITE`), which have the name of a computation and the index of its subgraph.

Converters write a composite op for a function such as `odml.rms_norm`. The op's subgraph, which is called the
decomposition, computes the function with other ops. A backend that has its own code for the function need not run
the decomposition (LiteRT: `litert/cc/internal/litert_op_options.h`).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from litert.core.errors import LiteRtError
from litert.model.flexbuffer import read_flexbuffer
from litert.model.graph import Op

COMPOSITE_OP = "STABLEHLO_COMPOSITE"

NPU_CALL = "odml.npu_call"
"""Name of a composite op that the model's author wants to run on the NPU, as one NPU call."""
CPU_CALL = "odml.cpu_call"
"""Name of a composite op that the model's author wants to run on the CPU."""


@dataclass(frozen=True, slots=True)
class Composite:
    """A composite op's computation: its name, and the index of its subgraph; the model may lack this subgraph."""

    name: str
    decomposition: int


def read_composite(op: Op) -> Composite | None:
    """Returns the name and the subgraph index of a composite op; None for any other op.

    As in stock LiteRT, an op is not a composite op if its attributes are not a FlexBuffer map.
    """
    options = op.options_2
    if op.name != COMPOSITE_OP or options is None:
        return None
    attributes = options.get("composite_attributes")
    try:
        if attributes and not isinstance(read_flexbuffer(attributes), Mapping):
            return None
    except LiteRtError:
        return None
    return Composite(options.get("name") or "", options.get("decomposition_subgraph_index"))


def forget_decomposition(op: Op) -> None:
    """Removes an op's reference to its decomposition, because the op's receiver does not get the subgraph.

    The function sets the subgraph's index to -1, as stock LiteRT does.
    """
    assert op.options_2 is not None
    op.options_2 = op.options_2.with_fields(decomposition_subgraph_index=-1)

"""`STABLEHLO_COMPOSITE`: an op that says what it computes by its name, and how by another subgraph.

Converters write it for what a backend may know as a whole, such as `odml.rms_norm`; where nobody does, the
decomposition is as good (LiteRT: `litert/cc/internal/litert_op_options.h`).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from litert.core.errors import LiteRtError
from litert.model.flexbuffer import read_flexbuffer
from litert.model.graph import Op

COMPOSITE_OP = "STABLEHLO_COMPOSITE"

NPU_CALL = "odml.npu_call"
"""What the model's author wants on the NPU, as one call."""
CPU_CALL = "odml.cpu_call"
"""What the model's author wants on the CPU."""


@dataclass(frozen=True, slots=True)
class Composite:
    """What a composite op computes, and the index of the subgraph that does, which the model may not have."""

    name: str
    decomposition: int


def read_composite(op: Op) -> Composite | None:
    """What an op says of itself as a composite; None for any other op.

    One whose attributes are no FlexBuffer map is none either, as in stock.
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
    """Lets a composite go without its decomposition, for who has only the op: -1, as stock writes it."""
    assert op.options_2 is not None
    op.options_2 = op.options_2.with_fields(decomposition_subgraph_index=-1)

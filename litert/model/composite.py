"""`STABLEHLO_COMPOSITE`: an op that names a computation, and names another subgraph that defines the computation.

Converters write this op for functions that a backend may know as a whole, such as `odml.rms_norm`;
other backends run the decomposition (LiteRT: `litert/cc/internal/litert_op_options.h`).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from litert.core.errors import LiteRtError
from litert.model.flexbuffer import read_flexbuffer
from litert.model.graph import Op

COMPOSITE_OP = "STABLEHLO_COMPOSITE"

NPU_CALL = "odml.npu_call"
"""Name of a composite that the model's author wants as one call on the NPU."""
CPU_CALL = "odml.cpu_call"
"""Name of a composite that the model's author wants on the CPU."""


@dataclass(frozen=True, slots=True)
class Composite:
    """A composite op's computation: its name, and the index of its subgraph, which the model may lack."""

    name: str
    decomposition: int


def read_composite(op: Op) -> Composite | None:
    """Returns the description of a composite op; None for any other op.

    An op whose attributes are not a FlexBuffer map is not a composite, as in stock LiteRT.
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
    """Removes the reference to the decomposition, for a receiver that gets only the op.

    The index becomes -1, as stock LiteRT writes.
    """
    assert op.options_2 is not None
    op.options_2 = op.options_2.with_fields(decomposition_subgraph_index=-1)

"""Which function runs in another's place on devices with fp16 arithmetic: `VPUIP.fp16_of = @Partition_0`."""

from __future__ import annotations

from xdsl.dialects.builtin import SymbolRefAttr
from xdsl.dialects.func import FuncOp

from litert.core.errors import LiteRtError
from litert.core.status import Status

FP16_OF = "VPUIP.fp16_of"


def read_fp16_of(function: FuncOp) -> str | None:
    """The function in whose place one runs on devices with fp16 arithmetic; None for one that runs on all.

    Raises:
      LiteRtError: INVALID_ARGUMENT, if the attribute names no function.
    """
    attribute = function.attributes.get(FP16_OF)
    if attribute is None:
        return None
    if not isinstance(attribute, SymbolRefAttr):
        raise LiteRtError(
            Status.INVALID_ARGUMENT,
            f"{FP16_OF} is {attribute}, expected a function such as @Partition_0",
            f"function '{function.sym_name.data}'",
        )
    return attribute.root_reference.data


def set_fp16_of(function: FuncOp, name: str) -> None:
    """Makes a function the one that runs in another's place."""
    function.attributes[FP16_OF] = SymbolRefAttr(name)

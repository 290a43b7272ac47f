"""What the report says about memory: how large the arenas are, and how near to the least possible."""

from __future__ import annotations

from collections.abc import Iterator

from xdsl.dialects.builtin import IntegerAttr, ModuleOp
from xdsl.dialects.func import FuncOp

from vendor_reference.compiler.ir.fp16_attribute import read_fp16_of
from vendor_reference.compiler.memory_spaces import MemorySpace
from vendor_reference.soc import SocModel


def memory_notes(module: ModuleOp, soc: SocModel) -> Iterator[str]:
    """A sentence for each space in which something lives between tasks.

    Functions for devices with fp16 arithmetic do not count: the others have the larger tensors.

    Args:
      module: behind the pass `plan-memory`.
      soc: what it is compiled for.
    """
    for space, room in ((MemorySpace.DDR, soc.ddr_size), (MemorySpace.CMX, soc.cmx_size)):
        plans = [
            (size, _number(function, space, "bound"), function.sym_name.data)
            for function in module.body.block.ops
            if isinstance(function, FuncOp)
            and read_fp16_of(function) is None
            and (size := _number(function, space, "size"))
        ]
        if plans:
            size, bound, name = max(plans)
            others = f", the most of {len(plans)} calls" if len(plans) > 1 else ""
            yield (
                f"memory: {size:,} of {room:,} bytes of {space.value} between the tasks of {name}"
                f"{others}, {size / max(bound, 1):.2f} times the least possible."
            )


def _number(function: FuncOp, space: MemorySpace, what: str) -> int:
    attribute = function.attributes.get(f"VPUIP.{space.value.lower()}_{what}")
    return int(attribute.value.data) if isinstance(attribute, IntegerAttr) else 0

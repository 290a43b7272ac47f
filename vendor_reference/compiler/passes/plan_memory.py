"""`plan-memory`: assigns static offsets to allocated buffers.

    %1 = memref.alloc() : memref<4xf32, @DDR>

    %1 = VPUIP.DeclareBuffer @DDR[4096] : memref<4xf32, @DDR>

Buffers that are not in use at the same time can share memory. The pass also removes the deallocations, which are
no longer needed. The attribute `VPUIP.ddr_size` of a function is the size of its arena in DDR, and
`VPUIP.ddr_bound` is a lower bound for this size; `VPUIP.cmx_size` and `VPUIP.cmx_bound` are for CMX. The report
has a sentence about these sizes.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from xdsl.context import Context
from xdsl.dialects.builtin import IntegerAttr, ModuleOp
from xdsl.dialects.func import FuncOp
from xdsl.dialects.memref import AllocOp, DeallocOp

from litert.core.errors import LiteRtError
from litert.core.status import Status
from vendor_reference.compiler.ir.assembly import number
from vendor_reference.compiler.ir.attributes import read_fp16_of, soc_of
from vendor_reference.compiler.ir.edits import remove_op, replace_op
from vendor_reference.compiler.ir.names import bodies, functions_of
from vendor_reference.compiler.ir.types import size_bytes_of, space_of
from vendor_reference.compiler.levels.vpuip import DeclareBufferOp
from vendor_reference.compiler.memory_planner import plan_memory
from vendor_reference.compiler.memory_spaces import MemorySpace, ranges_in
from vendor_reference.compiler.memory_verifier import verify_plan
from vendor_reference.compiler.pass_pipeline import CompilerPass
from vendor_reference.compiler.task_buffers import find_demands
from vendor_reference.executable.executable import align
from vendor_reference.soc import SocModel


@dataclass(frozen=True)
class PlanMemory(CompilerPass):
    """Assigns static offsets in DDR or CMX to allocated buffers; a verifier checks that they do not overlap."""

    name = "plan-memory"
    AFTER = "assign-memory-spaces"

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        soc = soc_of(op)
        for function, _ in bodies(op):
            _plan(op, function, soc)


PASS = PlanMemory


def _plan(module: ModuleOp, function: FuncOp, soc: SocModel) -> None:
    allocs = [op for op in function.body.block.ops if isinstance(op, AllocOp)]
    demands, _ = find_demands(module, function, [alloc.memref for alloc in allocs])
    spaces = [space_of(alloc.memref.type) or MemorySpace.DDR for alloc in allocs]
    for space, limit in ((MemorySpace.DDR, soc.ddr_size), (MemorySpace.CMX, soc.cmx_size)):
        members, ranges = ranges_in([d.alive for d in demands], spaces, space)
        plan = plan_memory(ranges)
        verify_plan(ranges, plan.offsets, plan.size)
        if plan.size > limit:
            raise LiteRtError(
                Status.UNSUPPORTED,
                f"the tensors between the tasks of function '{function.sym_name.data}' need {plan.size} "
                f"bytes of {space.value} memory, but {soc.name} has only {limit} bytes",
            )
        for index, offset in zip(members, plan.offsets, strict=True):
            alloc = allocs[index]
            for use in list(alloc.memref.uses):
                if isinstance(use.operation, DeallocOp):
                    remove_op(use.operation)
            replace_op(alloc, DeclareBufferOp(space.value, offset, alloc.memref.type))
        if members:
            name = f"VPUIP.{space.value.lower()}"
            function.attributes[f"{name}_size"] = number(plan.size)
            function.attributes[f"{name}_bound"] = number(plan.lower_bound)


def tell_sizes(function: FuncOp) -> None:
    """Updates the attributes that hold the arena sizes of a function whose memory plan was edited."""
    ends: dict[str, int] = {}
    for op in function.body.block.ops:
        if isinstance(op, DeclareBufferOp):
            name = f"VPUIP.{op.space.data.lower()}_size"
            end = op.offset.value.data + size_bytes_of(op.buffer.type)
            ends[name] = max(ends.get(name, 0), end)
    function.attributes.update({name: number(align(end)) for name, end in ends.items()})


def memory_notes(module: ModuleOp, soc: SocModel) -> Iterator[str]:
    """For a module after `plan-memory`, yields a sentence for each memory space that has buffers between tasks.

    The sentences ignore functions for devices with fp16 arithmetic, because their tensors are smaller.
    """
    for space, room in ((MemorySpace.DDR, soc.ddr_size), (MemorySpace.CMX, soc.cmx_size)):
        plans = [
            (size, _number(function, space, "bound"), function.sym_name.data)
            for function in functions_of(module).values()
            if read_fp16_of(function) is None and (size := _number(function, space, "size"))
        ]
        if plans:
            size, bound, name = max(plans)
            others = f" (the largest of {len(plans)} NPU calls)" if len(plans) > 1 else ""
            yield (
                f"memory: {name}{others} uses {size:,} of {room:,} bytes of {space.value} for the tensors "
                f"between its tasks; at most {bound:,} of these bytes are in use at the same time."
            )


def _number(function: FuncOp, space: MemorySpace, what: str) -> int:
    attribute = function.attributes.get(f"VPUIP.{space.value.lower()}_{what}")
    return int(attribute.value.data) if isinstance(attribute, IntegerAttr) else 0

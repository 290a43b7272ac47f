"""`assign-memory-spaces`: chooses a memory space for each buffer.

CMX contains the buffers with the most read and written bytes in relation to their size.
"""

from __future__ import annotations

from dataclasses import dataclass

from xdsl.context import Context
from xdsl.dialects.builtin import ModuleOp
from xdsl.dialects.memref import AllocOp

from vendor_reference.compiler.ir.attributes import soc_of
from vendor_reference.compiler.ir.edits import set_type
from vendor_reference.compiler.ir.names import bodies
from vendor_reference.compiler.ir.types import with_space
from vendor_reference.compiler.memory_spaces import choose_spaces
from vendor_reference.compiler.pass_pipeline import CompilerPass
from vendor_reference.compiler.task_buffers import find_demands


@dataclass(frozen=True)
class AssignMemorySpaces(CompilerPass):
    """Chooses a memory space for each buffer: CMX while there is room, otherwise DDR."""

    name = "assign-memory-spaces"
    AFTER = "lower-iert-to-vpuip"

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        soc = soc_of(op)
        for function, block in bodies(op):
            buffers = [alloc.memref for alloc in block.ops if isinstance(alloc, AllocOp)]
            demands, local_bytes = find_demands(op, function, buffers)
            spaces = choose_spaces(demands, soc.cmx_size, local_bytes)
            for buffer, space in zip(buffers, spaces, strict=True):
                set_type(buffer, with_space(buffer.type, space))


PASS = AssignMemorySpaces

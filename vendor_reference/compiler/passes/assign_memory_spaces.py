"""`assign-memory-spaces`: each buffer gets its memory space, CMX where tasks touch it most for its room."""

from __future__ import annotations

from dataclasses import dataclass

from xdsl.context import Context
from xdsl.dialects.builtin import ModuleOp
from xdsl.dialects.func import FuncOp

from vendor_reference.compiler.ir.attributes import soc_of
from vendor_reference.compiler.ir.edits import set_type
from vendor_reference.compiler.ir.types import with_space
from vendor_reference.compiler.memory_spaces import choose_spaces
from vendor_reference.compiler.pass_pipeline import CompilerPass
from vendor_reference.compiler.task_buffers import find_buffers


@dataclass(frozen=True)
class AssignMemorySpaces(CompilerPass):
    """Each buffer gets its memory space: CMX where there is room, else DDR."""

    name = "assign-memory-spaces"
    AFTER = "lower-iert-to-vpuip"

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        soc = soc_of(op)
        for function in op.body.block.ops:
            if isinstance(function, FuncOp) and not function.is_declaration:
                buffers = find_buffers(op, function)
                spaces = choose_spaces(buffers.demands, soc.cmx_size, buffers.local_bytes)
                for alloc, space in zip(buffers.allocs, spaces, strict=True):
                    set_type(alloc.memref, with_space(alloc.memref.type, space))


PASS = AssignMemorySpaces

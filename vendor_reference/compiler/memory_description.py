"""Describes the memory plans of functions after the pass `plan-memory`, for reports."""

from __future__ import annotations

from collections.abc import Mapping

from xdsl.dialects.builtin import ModuleOp
from xdsl.dialects.func import FuncOp

from litert.model.memory_plan import MemoryPlan, MemorySpaceUse, PlacedBuffer
from vendor_reference.compiler.ir.attributes import read_fp16_of, soc_of
from vendor_reference.compiler.ir.names import bodies
from vendor_reference.compiler.layer_kernels import TaskKernels
from vendor_reference.compiler.levels.vpuip import DeclareBufferOp, TaskOp
from vendor_reference.compiler.memory_spaces import MemorySpace
from vendor_reference.compiler.task_buffers import find_demands

_SPACES = (MemorySpace.CMX, MemorySpace.DDR)


def describe_memory(module: ModuleOp) -> Mapping[str, MemoryPlan]:
    """Returns the memory plan of each function that has buffers between its tasks, by function name.

    The result omits functions for devices with fp16 arithmetic, because their tensors are smaller.
    """
    soc, kernels = soc_of(module), TaskKernels(module)
    capacity = {MemorySpace.CMX: soc.cmx_size, MemorySpace.DDR: soc.ddr_size}
    return {
        function.sym_name.data: plan
        for function, _ in bodies(module)
        if read_fp16_of(function) is None
        and (plan := _describe(module, function, kernels, capacity)).buffers
    }


def _describe(
    module: ModuleOp, function: FuncOp, kernels: TaskKernels, capacity: Mapping[MemorySpace, int]
) -> MemoryPlan:
    ops = list(function.body.block.ops)
    declared = [op for op in ops if isinstance(op, DeclareBufferOp)]
    demands, _ = find_demands(module, function, [op.buffer for op in declared])
    buffers = [
        PlacedBuffer(
            op.buffer.name_hint or "scratch",
            _SPACES.index(MemorySpace(op.space.data)),
            op.offset.value.data,
            demand.alive.size_bytes,
            demand.alive.first,
            demand.alive.last,
        )
        for op, demand in zip(declared, demands, strict=True)
    ]
    ends = [[b.offset + b.size for b in buffers if b.space == i] for i in range(len(_SPACES))]
    spaces = [
        MemorySpaceUse(space.value, max(ends[i], default=0), capacity[space])
        for i, space in enumerate(_SPACES)
    ]
    return MemoryPlan([_name(op, kernels) for op in ops if isinstance(op, TaskOp)], spaces, buffers)


def _name(op: TaskOp, kernels: TaskKernels) -> str:
    spec = kernels.find(op)
    return op.name if spec is None else spec.op_name or spec.title

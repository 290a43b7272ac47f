"""Whether the places and shaves that a text gives its tasks can be: `plan-memory` makes them, people edit them."""

from __future__ import annotations

from xdsl.dialects.builtin import ModuleOp
from xdsl.dialects.func import FuncOp
from xdsl.ir import SSAValue

from litert.core.errors import LiteRtError
from litert.core.status import Status
from vendor_reference.compiler.ir.soc_attribute import soc_of
from vendor_reference.compiler.layer_ports import bodies
from vendor_reference.compiler.memory_spaces import MemorySpace, ranges_in
from vendor_reference.compiler.memory_verifier import verify_plan
from vendor_reference.compiler.task_buffers import find_demands
from vendor_reference.compiler.vpuip.dialect import DeclareBufferOp
from vendor_reference.compiler.vpuip.task_op import TaskOp
from vendor_reference.soc import SocModel


def check_edited_plan(module: ModuleOp) -> None:
    """Checks what is declared at an offset, and how many shaves tasks have, against the SoC.

    Raises:
      LiteRtError: INVALID_IR_TYPE, with the two buffers that overlap while both are needed, the one that lies
        outside of its memory, or the task that has too many shaves, or no function; INVALID_ARGUMENT, for a
        wrong kernel.
    """
    soc = soc_of(module)
    functions = {op.sym_name.data for op in module.body.block.ops if isinstance(op, FuncOp)}
    for function, block in bodies(module):
        _check_places(module, function, soc)
        for step, op in enumerate(op for op in block.ops if isinstance(op, TaskOp)):
            if op.callee is not None and op.callee.root_reference.data not in functions:
                what = f"there is no function '{op.callee.root_reference.data}' for its kernel"
                raise _error(what, f"task {step}", function)
            if op.num_shaves() > soc.shaves:
                what = f"num_shaves is {op.num_shaves()}, {soc.name} has {soc.shaves}"
                raise _error(what, f"task {step}", function)


def _check_places(module: ModuleOp, function: FuncOp, soc: SocModel) -> None:
    declared = [op for op in function.body.block.ops if isinstance(op, DeclareBufferOp)]
    if not declared:
        return
    demands, _ = find_demands(module, function, [op.buffer for op in declared])
    alive = [demand.alive for demand in demands]
    spaces = [MemorySpace(op.space.data) for op in declared]
    for space, size in ((MemorySpace.DDR, soc.ddr_size), (MemorySpace.CMX, soc.cmx_size)):
        members, ranges = ranges_in(alive, spaces, space)
        offsets = [declared[i].offset.value.data for i in members]
        names = [_name(declared[i].buffer, i) for i in members]
        try:
            verify_plan(ranges, offsets, size, names)
        except LiteRtError as error:
            raise _error(error.what, f"{space.value} of {soc.name}", function) from error


def _name(value: SSAValue, index: int) -> str:
    return f"%{value.name_hint}" if value.name_hint else f"declared buffer {index}"


def _error(what: str, where: str, function: FuncOp) -> LiteRtError:
    return LiteRtError(
        Status.INVALID_IR_TYPE, what, f"{where}, function '{function.sym_name.data}'"
    )

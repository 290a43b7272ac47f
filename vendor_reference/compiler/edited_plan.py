"""Checks memory plans that a person has edited: the offsets of buffers, and the number of shaves of each task.

The check runs before the compiler uses the plan.
"""

from __future__ import annotations

from collections.abc import Mapping

from xdsl.dialects.builtin import ModuleOp
from xdsl.dialects.func import FuncOp
from xdsl.ir import Operation

from litert.core.errors import LiteRtError
from litert.core.status import Status
from vendor_reference.compiler.ir.attributes import soc_of
from vendor_reference.compiler.ir.names import at_function, bodies, functions_of
from vendor_reference.compiler.levels.vpuip import DeclareBufferOp, TaskOp
from vendor_reference.compiler.memory_spaces import MemorySpace, ranges_in
from vendor_reference.compiler.memory_verifier import verify_plan
from vendor_reference.compiler.task_buffers import find_demands
from vendor_reference.soc import SocModel


def check_edited_plan(module: ModuleOp, places: Mapping[Operation, str]) -> None:
    """Checks that the declared offsets of buffers and the numbers of shaves of tasks are possible on the SoC.

    `places` holds the position of each op in its file.

    Raises:
      LiteRtError: INVALID_IR_TYPE, if two buffers overlap while both are in use, a buffer is outside its memory, a
        task has too many shaves, or a task has no function; INVALID_ARGUMENT, if a kernel is invalid.
    """
    soc = soc_of(module)
    functions = functions_of(module)
    for function, block in bodies(module):
        _check_places(module, function, soc, places)
        for step, op in enumerate(op for op in block.ops if isinstance(op, TaskOp)):
            if op.callee is not None and op.callee.root_reference.data not in functions:
                what = f"task {step} calls function '{op.callee.root_reference.data}', which does not exist"
                hint = "Correct the name, or add the function to the IR text."
                raise _error(what, "", function, places.get(op, ""), hint)
            if op.num_shaves() > soc.shaves:
                what = (
                    f"task {step} uses {op.num_shaves()} vector processors (shaves), but {soc.name} has only "
                    f"{soc.shaves}"
                )
                hint = f"Set num_shaves of the task to at most {soc.shaves}."
                raise _error(what, "", function, places.get(op, ""), hint)


def _check_places(
    module: ModuleOp, function: FuncOp, soc: SocModel, places: Mapping[Operation, str]
) -> None:
    declared = [op for op in function.body.block.ops if isinstance(op, DeclareBufferOp)]
    if not declared:
        return
    demands, _ = find_demands(module, function, [op.buffer for op in declared])
    alive = [demand.alive for demand in demands]
    spaces = [MemorySpace(op.space.data) for op in declared]
    for space, size in ((MemorySpace.DDR, soc.ddr_size), (MemorySpace.CMX, soc.cmx_size)):
        members, ranges = ranges_in(alive, spaces, space)
        offsets = [declared[i].offset.value.data for i in members]
        hints = [(i, declared[i].buffer.name_hint) for i in members]
        names = [f"buffer %{hint}" if hint else f"declared buffer {i}" for i, hint in hints]
        lines = [places.get(declared[i], "") for i in members]
        try:
            verify_plan(ranges, offsets, size, names, lines)
        except LiteRtError as error:
            where = f"{space.value} of {soc.name}"
            hint = "Correct the offset of the buffer in the IR text."
            raise _error(error.what, where, function, error.where, hint) from error


def _error(what: str, where: str, function: FuncOp, place: str, hint: str) -> LiteRtError:
    wheres = filter(None, (place, where, at_function(function)))
    return LiteRtError(Status.INVALID_IR_TYPE, what, ", ".join(wheres), hint)

"""IR text in, IR text out: what `litert-npu opt` does. Every stage of a compilation can be taken up here again.

People may edit the places and shaves that `plan-memory` gives tasks: whether they can be is checked first.
"""

from __future__ import annotations

from collections.abc import Sequence

from xdsl.dialects.builtin import ModuleOp
from xdsl.dialects.func import FuncOp

from litert.core.errors import LiteRtError, describe
from litert.core.status import Status
from vendor_reference.compiler.ir.attributes import set_soc, soc_of
from vendor_reference.compiler.ir.names import at_function, bodies, functions_of
from vendor_reference.compiler.ir.text import print_ir, read_ir
from vendor_reference.compiler.ir.verification import check_ir
from vendor_reference.compiler.levels.dialects import make_context
from vendor_reference.compiler.levels.vpuip import DeclareBufferOp, TaskOp
from vendor_reference.compiler.library_layers import library_layers
from vendor_reference.compiler.memory_spaces import MemorySpace, ranges_in
from vendor_reference.compiler.memory_verifier import verify_plan
from vendor_reference.compiler.pass_pipeline import (
    describe_pass,
    find_passes,
    parse_passes,
    run_passes,
)
from vendor_reference.compiler.task_buffers import find_demands
from vendor_reference.soc import SocModel, get_soc_model


def transform_text(text: bytes, name: str, passes: str, soc_model: str = "") -> str:
    """Reads a module, verifies it, runs passes on it, and verifies it after each.

    Args:
      text: of any level.
      name: of its file, for messages.
      passes: names, with commas between them, as in `adjust-layouts,optimize-reorders`.
      soc_model: what it is compiled for, in place of what the text says; "" for that.

    Returns:
      The text of what the passes leave.

    Raises:
      LiteRtError: NOT_FOUND, for a pass or SoC that there is not; INVALID_ARGUMENT and INVALID_IR_TYPE, for a
        wrong text, with its line; what a pass raises.
    """
    chosen = parse_passes(passes)
    soc = get_soc_model(soc_model) if soc_model else None
    context = make_context(list(library_layers().values()))
    ir = read_ir(text, name, context)
    check_ir(ir.module, ir.places)
    if soc is not None:
        set_soc(ir.module, soc)
    try:
        check_edited_plan(ir.module)
        run_passes(context, ir.module, chosen, lambda done, module: check_ir(module, after=done))
        return print_ir(ir.module, ir.aliases)
    except RecursionError as error:
        raise LiteRtError(Status.UNSUPPORTED, "nested too deep for a pass", name) from error
    except (LiteRtError, MemoryError):
        raise
    except Exception as error:  # a pass trusts what the compiler makes; a text may be anybody's
        what = f"no compiler has made this text, and a pass fails on it: {describe(error)}"
        raise LiteRtError(Status.INVALID_IR_TYPE, what, name) from error


def list_passes() -> Sequence[tuple[str, str]]:
    """Names of passes, those of a compilation first and in order, with what they do."""
    return [(name, describe_pass(known)) for name, known in find_passes().items()]


def check_edited_plan(module: ModuleOp) -> None:
    """Checks what is declared at an offset, and how many shaves tasks have, against the SoC.

    Raises:
      LiteRtError: INVALID_IR_TYPE, with the two buffers that overlap while both are needed, the one that lies
        outside of its memory, or the task that has too many shaves, or no function; INVALID_ARGUMENT, for a
        wrong kernel.
    """
    soc = soc_of(module)
    functions = functions_of(module)
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
        hints = [(i, declared[i].buffer.name_hint) for i in members]
        names = [f"%{hint}" if hint else f"declared buffer {i}" for i, hint in hints]
        try:
            verify_plan(ranges, offsets, size, names)
        except LiteRtError as error:
            raise _error(error.what, f"{space.value} of {soc.name}", function) from error


def _error(what: str, where: str, function: FuncOp) -> LiteRtError:
    return LiteRtError(Status.INVALID_IR_TYPE, what, f"{where}, {at_function(function)}")

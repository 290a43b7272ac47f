"""Attributes of modules and functions: the SoC, the kind of tasks, and the stage of the compilation.

A module's `VPUIP.soc = "EMU8"` is the SoC to compile for. A module's `VPUIP.after = "adjust-layouts"` is the last
pass of a compilation that has run on the module. A function with `VPUIP.fp16_of = @Partition_0` replaces
`Partition_0` on devices with fp16 arithmetic. An external function's `VPUIP.task = "OCL"` is the kind of task that
its calls become. An external function's `VPUIP.source = "..."` is the source code of its kernel, if no asset
contains the source code.
"""

from __future__ import annotations

from xdsl.dialects.builtin import ModuleOp, StringAttr, SymbolRefAttr
from xdsl.dialects.func import FuncOp

from litert.core.errors import LiteRtError
from litert.core.status import Status
from vendor_reference.compiler.ir.assembly import TASKS
from vendor_reference.soc import SocModel, get_soc_model

SOC = "VPUIP.soc"
AFTER = "VPUIP.after"
SOURCE = "VPUIP.source"
FP16_OF = "VPUIP.fp16_of"
TASK = "VPUIP.task"


def soc_of(module: ModuleOp) -> SocModel:
    """Returns the SoC in a module's `VPUIP.soc`, or the default SoC.

    Raises:
      LiteRtError: INVALID_ARGUMENT, if the attribute is not a string; UNSUPPORTED, if the SoC does not exist.
    """
    attribute = module.attributes.get(SOC)
    if attribute is None:
        return get_soc_model("")
    if not isinstance(attribute, StringAttr):
        raise LiteRtError(
            Status.INVALID_ARGUMENT,
            f'attribute {SOC} is {attribute}, but must be a string such as "EMU8"',
        )
    return get_soc_model(attribute.data)


def set_soc(module: ModuleOp, soc: SocModel) -> None:
    """Sets the SoC of a module."""
    module.attributes[SOC] = StringAttr(soc.name)


def read_after(module: ModuleOp) -> str:
    """Returns the last pass of a compilation that has run on a module; "" without the attribute `VPUIP.after`.

    Raises:
      LiteRtError: INVALID_ARGUMENT, if the attribute is not a string.
    """
    attribute = module.attributes.get(AFTER)
    if attribute is not None and not isinstance(attribute, StringAttr):
        raise LiteRtError(
            Status.INVALID_ARGUMENT,
            f'attribute {AFTER} is {attribute}, but must be the name of a pass, such as "adjust-layouts"',
        )
    return "" if attribute is None else attribute.data


def set_after(module: ModuleOp, name: str) -> None:
    """Stores the last pass that has run on a module."""
    module.attributes[AFTER] = StringAttr(name)


def read_fp16_of(function: FuncOp) -> str | None:
    """Returns the name of the function that `function` replaces on devices with fp16 arithmetic.

    Returns None for a function that replaces no other function.
    """
    attribute = function.attributes.get(FP16_OF)
    if attribute is None:
        return None
    if not isinstance(attribute, SymbolRefAttr):
        raise LiteRtError(
            Status.INVALID_ARGUMENT,
            f"attribute {FP16_OF} is {attribute}, but must be a function such as @Partition_0",
            f"function '{function.sym_name.data}'",
        )
    return attribute.root_reference.data


def read_task(function: FuncOp) -> str:
    """Returns the kind of a function's tasks, `OCL` or `CPP`; `OCL` without the attribute `VPUIP.task`."""
    task = function.attributes.get(TASK)
    if task is None:
        return "OCL"
    if not isinstance(task, StringAttr) or task.data not in TASKS:
        raise LiteRtError(
            Status.INVALID_ARGUMENT,
            f"attribute {TASK} of function '{function.sym_name.data}' is {task}, but must be one of "
            f"{', '.join(TASKS)}",
        )
    return task.data

"""Attributes of modules and functions: their device, their tasks, and their stage of the compilation.

`VPUIP.soc = "EMU8"` of a module: the SoC that the module is compiled for. `VPUIP.after =
"adjust-layouts"` of a module: the last pass of a compilation that the module has gone through.
`VPUIP.fp16_of = @Partition_0` of a function: the function that this one replaces on devices with
fp16 arithmetic. `VPUIP.task = "OCL"` of a layer's external function: the kind of task that calls
become; `VPUIP.source = "..."`: the source of its kernel, if no asset has the source.
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
    """Returns the SoC that a module names, or the default SoC.

    Raises:
      LiteRtError: INVALID_ARGUMENT, if the attribute is not a text; UNSUPPORTED, if there is no
        such SoC.
    """
    attribute = module.attributes.get(SOC)
    if attribute is None:
        return get_soc_model("")
    if not isinstance(attribute, StringAttr):
        raise LiteRtError(
            Status.INVALID_ARGUMENT, f'{SOC} is {attribute}, expected a text such as "EMU8"'
        )
    return get_soc_model(attribute.data)


def set_soc(module: ModuleOp, soc: SocModel) -> None:
    """Sets the SoC of a module."""
    module.attributes[SOC] = StringAttr(soc.name)


def read_after(module: ModuleOp) -> str:
    """Returns the last pass of a compilation that a module has gone through; "" if the module names none.

    Raises:
      LiteRtError: INVALID_ARGUMENT, if the attribute is not a text.
    """
    attribute = module.attributes.get(AFTER)
    if attribute is not None and not isinstance(attribute, StringAttr):
        raise LiteRtError(
            Status.INVALID_ARGUMENT,
            f'{AFTER} is {attribute}, expected the name of a pass, such as "adjust-layouts"',
        )
    return "" if attribute is None else attribute.data


def set_after(module: ModuleOp, name: str) -> None:
    """Records the pass that the module has gone through last."""
    module.attributes[AFTER] = StringAttr(name)


def read_fp16_of(function: FuncOp) -> str | None:
    """Returns the function that this one replaces on devices with fp16 arithmetic.

    None for a function of all devices.
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


def read_task(function: FuncOp) -> str:
    """Returns the kind of a function's task, `OCL` or `CPP`; `OCL` if the function names none."""
    task = function.attributes.get(TASK)
    if task is None:
        return "OCL"
    if not isinstance(task, StringAttr) or task.data not in TASKS:
        raise LiteRtError(
            Status.INVALID_ARGUMENT,
            f"{TASK} of function '{function.sym_name.data}' is {task}",
            hint=f"Use one of {', '.join(TASKS)}.",
        )
    return task.data

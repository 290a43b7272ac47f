"""`VPUIP.task`: on a layer's external function, the kind of task that its calls become."""

from __future__ import annotations

from xdsl.dialects.builtin import StringAttr
from xdsl.dialects.func import FuncOp

from litert.core.errors import LiteRtError
from litert.core.status import Status
from vendor_reference.compiler.ir.assembly import TASKS

TASK = "VPUIP.task"


def read_task(function: FuncOp) -> str:
    """`OCL` or `CPP`; `OCL` where the function does not say.

    Raises:
      LiteRtError: INVALID_ARGUMENT, if it says something else.
    """
    task = function.attributes.get(TASK)
    if task is None:
        return "OCL"
    if not isinstance(task, StringAttr) or task.data not in TASKS:
        raise LiteRtError(
            Status.INVALID_ARGUMENT,
            f"{TASK} of function '{function.sym_name.data}' is {task}",
            hint=f"It is one of {', '.join(TASKS)}.",
        )
    return task.data

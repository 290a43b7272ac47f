"""Whether IR is as its dialects say, with errors that name the op."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from xdsl.dialects.builtin import ModuleOp
from xdsl.dialects.func import FuncOp
from xdsl.ir import Block, Operation, SSAValue
from xdsl.utils.exceptions import VerifyException

from litert.core.errors import LiteRtError, describe
from litert.core.status import Status

_NO_PLACES: Mapping[Operation, str] = {}


def check_ir(
    module: ModuleOp, places: Mapping[Operation, str] = _NO_PLACES, after: str = ""
) -> None:
    """Checks each op, and that values are defined before they are used.

    Args:
      module: any level.
      places: where ops begin in their file; those that are not there are named by function and number.
      after: the pass that the module comes from, for messages; "" for a file.

    Raises:
      LiteRtError: INVALID_IR_TYPE, with the op, and what is wrong with it.
    """
    defined: set[SSAValue] = set()
    for op in module.walk():
        for index, operand in enumerate(op.operands):
            if operand not in defined:
                raise _error(f"operand {index} is used before it is defined", op, places, after)
        defined.update(op.results)
        for region in op.regions:
            for block in region.blocks:
                defined.update(block.args)
        _check_op(op, places, after)


def _check_op(op: Operation, places: Mapping[Operation, str], after: str) -> None:
    try:
        op.verify(verify_nested_ops=False)
        for block in _blocks(op):
            if not block.ops:
                block.verify()
    except VerifyException as error:
        sentence = (str(error).splitlines() or [""])[0].rstrip(".")
        raise _error(sentence, op, places, after) from error
    except Exception as error:  # a verifier that has not thought of this
        raise _error(describe(error), op, places, after) from error


def _blocks(op: Operation) -> Iterator[Block]:
    for region in op.regions:
        yield from region.blocks


def _error(what: str, op: Operation, places: Mapping[Operation, str], after: str) -> LiteRtError:
    where = [places.get(op) or _describe_place(op)]
    if after:
        where.append(f"after pass '{after}'")
    hint = "This is a defect of the pass." if after else ""
    return LiteRtError(Status.INVALID_IR_TYPE, f"{op.name}: {what}", ", ".join(where), hint)


def _describe_place(op: Operation) -> str:
    block = op.parent
    function = op.parent_op()
    if block is None:
        return "the module"
    number = next(i for i, other in enumerate(block.ops) if other is op)
    inside = f" of @{function.sym_name.data}" if isinstance(function, FuncOp) else ""
    return f"op {number}{inside}"

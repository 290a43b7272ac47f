"""Ops in the place of other ops, and types in the place of other types."""

from __future__ import annotations

from xdsl.ir import Attribute, Operation, SSAValue
from xdsl.rewriter import Rewriter


def replace_op(old: Operation, new: Operation) -> None:
    """Puts an op in the place of another, whose results it has."""
    block = old.parent
    assert block is not None
    block.insert_op_before(new, old)
    for result, replacement in zip(old.results, new.results, strict=True):
        replacement.name_hint = result.name_hint
        result.replace_all_uses_with(replacement)
    remove_op(old)


def remove_op(op: Operation) -> None:
    """Takes an op out, whose results nobody uses."""
    op.detach()  # type: ignore[no-untyped-call]
    op.erase()


def set_type(value: SSAValue, new_type: Attribute) -> SSAValue:
    """A value with another type in the place of one; what reads it reads the new one."""
    if value.type == new_type:
        return value
    return Rewriter.replace_value_with_new_type(value, new_type)

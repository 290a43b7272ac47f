"""Ops in the place of other ops."""

from __future__ import annotations

from xdsl.ir import Operation


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

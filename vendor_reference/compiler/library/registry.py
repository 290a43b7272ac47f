"""The library's ops by name, and which of them the user wants: `--reference_ops=ADD,RELU` or `all`."""

from __future__ import annotations

from collections.abc import Mapping
from difflib import get_close_matches
from functools import cache
from types import MappingProxyType

from litert.core.errors import LiteRtError
from litert.core.status import Status
from litert.host.extensions import check_unique, load_package
from vendor_reference.compiler.library.builtin_op import BuiltinOp
from vendor_reference.compiler.options import REFERENCE_OPS


@cache
def library_ops() -> Mapping[str, BuiltinOp]:
    """All ops of the library, by their names in the schema; each module in `ops/` has some as `OPS`."""
    families = load_package(
        "vendor_reference.compiler.library.ops", "OPS", lambda ops: str(ops[0].name)
    )
    ops: list[BuiltinOp] = [op for family in families.values() for op in family]
    for names in ([op.name for op in ops], [op.ie_name for op in ops]):
        check_unique([(name, "the op library") for name in names], "Rename one of them.")
    return MappingProxyType({op.name: op for op in sorted(ops, key=lambda op: op.name)})


def choose_ops(wanted: str) -> Mapping[str, BuiltinOp]:
    """The ops that an option's value names.

    Args:
      wanted: names in the schema, with commas between them, in either case; or `all`.

    Raises:
      LiteRtError: INVALID_TOOL_CONFIG, for an op that the library does not have.
    """
    known = library_ops()
    names = [name.strip().upper() for name in wanted.split(",") if name.strip()]
    if names == ["ALL"]:
        return known
    if names == ["TRUE"]:  # the flag without a value
        names = []
    for name in names:
        if name not in known:
            near = get_close_matches(name, [*known, "ALL"], 1)
            hint = (
                f"Do you mean {near[0].lower() if near == ['ALL'] else near[0]}? " if near else ""
            )
            raise LiteRtError(
                Status.INVALID_TOOL_CONFIG,
                f"--{REFERENCE_OPS}: the library has no op '{name}'",
                "vendor 'Reference'",
                f"{hint}It has {', '.join(known)}; all is all of them.",
            )
    if not names:
        raise LiteRtError(
            Status.INVALID_TOOL_CONFIG,
            f"--{REFERENCE_OPS} names no op",
            "vendor 'Reference'",
            "Write --reference_ops=all, or names of builtin ops with commas between them.",
        )
    return {name: known[name] for name in dict.fromkeys(names)}

"""The dialects of the levels, and a context that parses and prints all of them."""

from __future__ import annotations

from collections.abc import Sequence

from xdsl.context import Context
from xdsl.dialects.builtin import Builtin
from xdsl.dialects.func import Func
from xdsl.dialects.memref import MemRef
from xdsl.ir import Dialect

from vendor_reference.compiler.levels import blocks, ie, iert, vpuip
from vendor_reference.compiler.levels.layer import LayerOp
from vendor_reference.compiler.levels.values import Shape


def make_context(layers: Sequence[type[LayerOp]] = ()) -> Context:
    """Returns a context with all dialects.

    `layers` are further ops of IE; each gets its counterpart on IERT.
    """
    context = Context()
    layers = (*ie.LAYERS, *blocks.LAYERS, *layers)
    for dialect in (
        Builtin,
        Func,
        MemRef,
        Shape,
        Dialect("IE", [*ie.OPS, *layers]),
        Dialect("IERT", [*iert.OPS, *map(iert.counterpart, layers)]),
        Dialect("VPUIP", [*vpuip.OPS]),
    ):
        context.load_dialect(dialect)
    return context

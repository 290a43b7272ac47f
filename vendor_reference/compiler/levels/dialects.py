"""The dialects of all IR levels, and an xDSL context with these dialects."""

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
    """Returns an xDSL context with all dialects.

    `layers` are additional ops of IE; for each of them, IERT gets an op on buffers.
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

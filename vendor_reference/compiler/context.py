"""What the levels are made of: a context that parses and prints all of them."""

from __future__ import annotations

from collections.abc import Sequence

from xdsl.context import Context
from xdsl.dialects.builtin import Builtin
from xdsl.dialects.func import Func
from xdsl.dialects.memref import MemRef

from vendor_reference.compiler.ie.dialect import LAYERS, ie_dialect
from vendor_reference.compiler.ie.layer_op import LayerOp
from vendor_reference.compiler.iert.dialect import iert_dialect
from vendor_reference.compiler.ir.shape import Shape
from vendor_reference.compiler.vpuip.dialect import VPUIP


def make_context(layers: Sequence[type[LayerOp]] = ()) -> Context:
    """A context with all dialects.

    Args:
      layers: ops of IE beside those that are always there; each gets its counterpart on IERT.
    """
    context = Context()
    all_layers = (*LAYERS, *layers)
    for dialect in (
        Builtin,
        Func,
        MemRef,
        Shape,
        ie_dialect(all_layers),
        iert_dialect(all_layers),
        VPUIP,
    ):
        context.load_dialect(dialect)
    return context

"""The dialects of the levels, and a context that parses and prints all of them."""

from __future__ import annotations

from collections.abc import Sequence

from xdsl.context import Context
from xdsl.dialects.builtin import Builtin
from xdsl.dialects.func import Func
from xdsl.dialects.memref import MemRef
from xdsl.ir import Dialect

from vendor_reference.compiler.levels.blocks import PackOp, UnpackOp
from vendor_reference.compiler.levels.ie import (
    ActualShapeOfOp,
    ConstantOp,
    ConvertOp,
    CopyOp,
    CustomBinaryLayerOp,
    ReorderOp,
)
from vendor_reference.compiler.levels.iert import (
    BufferActualShapeOfOp,
    BufferConstantOp,
    BufferCustomBinaryLayerOp,
    ViewOp,
    counterpart,
)
from vendor_reference.compiler.levels.layer import LayerOp
from vendor_reference.compiler.levels.values import Shape
from vendor_reference.compiler.levels.vpuip import (
    CppOp,
    DeclareBufferOp,
    EvaluateShapeOp,
    OclOp,
    TaskActualShapeOfOp,
    TaskConstantOp,
    TaskViewOp,
)

_LAYERS: Sequence[type[LayerOp]] = (ReorderOp, ConvertOp, CopyOp, PackOp, UnpackOp)
"""Layers that are there before any op library."""
_IE = (ConstantOp, ActualShapeOfOp, CustomBinaryLayerOp)
_IERT = (BufferConstantOp, BufferActualShapeOfOp, BufferCustomBinaryLayerOp, ViewOp)
_VPUIP = (
    DeclareBufferOp, TaskConstantOp, TaskViewOp, TaskActualShapeOfOp, EvaluateShapeOp, OclOp, CppOp,
)  # fmt: skip


def make_context(layers: Sequence[type[LayerOp]] = ()) -> Context:
    """A context with all dialects.

    Args:
      layers: ops of IE beside those that are always there; each gets its counterpart on IERT.
    """
    context = Context()
    layers = (*_LAYERS, *layers)
    for dialect in (
        Builtin,
        Func,
        MemRef,
        Shape,
        Dialect("IE", [*_IE, *layers]),
        Dialect("IERT", [*_IERT, *map(counterpart, layers)]),
        Dialect("VPUIP", [*_VPUIP]),
    ):
        context.load_dialect(dialect)
    return context

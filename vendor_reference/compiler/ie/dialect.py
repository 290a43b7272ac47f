"""The IE dialect: a model's ops on tensors."""

from __future__ import annotations

from collections.abc import Sequence

from xdsl.ir import Dialect

from vendor_reference.compiler.ie.custom_binary_layer import CustomBinaryLayerOp
from vendor_reference.compiler.ie.layer_op import LayerOp
from vendor_reference.compiler.ie.ops import (
    ActualShapeOfOp,
    ConstantOp,
    ConvertOp,
    CopyOp,
    ReorderOp,
)
from vendor_reference.compiler.ie.pack_ops import PackOp, UnpackOp

LAYERS: Sequence[type[LayerOp]] = (ReorderOp, ConvertOp, CopyOp, PackOp, UnpackOp)
"""Layers that are there before any op library."""


def ie_dialect(layers: Sequence[type[LayerOp]]) -> Dialect:
    """The dialect with these layers."""
    return Dialect("IE", [ConstantOp, ActualShapeOfOp, CustomBinaryLayerOp, *layers])

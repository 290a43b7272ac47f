"""The IERT dialect: ops on buffers, which are allocated outside of them."""

from __future__ import annotations

from collections.abc import Sequence

from xdsl.ir import Dialect
from xdsl.irdl import irdl_op_definition

from vendor_reference.compiler.ie.layer_op import LayerOp
from vendor_reference.compiler.iert.custom_binary_layer import BufferCustomBinaryLayerOp
from vendor_reference.compiler.iert.layer_op import counterpart
from vendor_reference.compiler.ir.buffer_ops import (
    AnyActualShapeOfOp,
    AnyBufferConstantOp,
    AnyViewOp,
)


@irdl_op_definition
class BufferConstantOp(AnyBufferConstantOp):
    """A constant buffer."""

    name = "IERT.Constant"


@irdl_op_definition
class BufferActualShapeOfOp(AnyActualShapeOfOp):
    """The actual shape of a function's input."""

    name = "IERT.ActualShapeOf"


@irdl_op_definition
class ViewOp(AnyViewOp):
    """Another view of a buffer's memory."""

    name = "IERT.View"


def iert_dialect(layers: Sequence[type[LayerOp]]) -> Dialect:
    """The dialect with the counterparts of these layers."""
    ops = [counterpart(layer) for layer in layers]
    return Dialect(
        "IERT", [BufferConstantOp, BufferActualShapeOfOp, BufferCustomBinaryLayerOp, ViewOp, *ops]
    )

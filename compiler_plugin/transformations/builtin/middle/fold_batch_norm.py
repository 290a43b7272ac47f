"""Products and sums with constants behind a convolution or fully connected op move into its weights and bias."""

from __future__ import annotations

from typing import TYPE_CHECKING
from typing import Any as AnyType

from compiler_plugin.transformations.graph import Graph
from compiler_plugin.transformations.node import Node
from compiler_plugin.transformations.pattern import Any, Const, Match
from compiler_plugin.transformations.replacement import PatternReplacement
from litert.core.element_type import ElementType

if TYPE_CHECKING:
    import numpy as np

    Array = np.ndarray[AnyType, AnyType]


class FoldBatchNorm(PatternReplacement):
    """MUL, DIV, ADD or SUB by a constant for each channel is folded into the linear op before it."""

    pattern = Match(
        ("ADD", "DIV", "MUL", "SUB"),
        Match(
            ("CONV_2D", "DEPTHWISE_CONV_2D", "FULLY_CONNECTED"),
            Any(),
            Const("weights"),
            Const("bias", optional=True),
            name="linear",
            uses=1,
            fused_activation_function="NONE",
        ),
        Const("constant"),
        name="scale",
    )

    def run_before(self) -> tuple[str, ...]:
        """An activation behind the scale fuses with the linear op then."""
        return ("fuse_activation",)

    def rewrite(
        self,
        graph: Graph,
        scale: Node,
        linear: Node,
        weights: Node,
        bias: Node | None,
        constant: Node,
    ) -> Node | None:
        """The linear op with new weights and bias, and the activation of the op that is gone."""
        import numpy as np

        if linear.soft_get("weights_format", "DEFAULT") != "DEFAULT":
            return None
        kernel = _floats(weights)
        factor = _floats(constant)
        offset = None if bias is None else _floats(bias)
        if kernel is None or factor is None or (bias is not None and offset is None):
            return None
        if scale.op in ("DIV", "SUB") and scale.in_port(0).get_source() != linear.out_port(0):
            return None
        is_depthwise = linear.op == "DEPTHWISE_CONV_2D"
        channels = kernel.shape[-1 if is_depthwise else 0]
        rank = len(linear.out_port(0).data.get_shape() or ())
        if factor.ndim > rank or factor.size not in (1, channels):
            return None
        if factor.size > 1 and factor.shape[-1] != channels:
            return None
        each = np.broadcast_to(factor.reshape(-1), (channels,))
        offset = np.zeros(channels, np.float32) if offset is None else offset
        if scale.op in ("MUL", "DIV"):
            with np.errstate(divide="ignore", over="ignore"):
                each = 1 / each if scale.op == "DIV" else each
                shape = (channels,) if is_depthwise else (channels, *(1,) * (kernel.ndim - 1))
                kernel, offset = kernel * each.reshape(shape), offset * each
            if not (np.isfinite(kernel).all() and np.isfinite(offset).all()):
                return None
            scaled = graph.create_const(kernel.astype(np.float32), f"{weights.name}/folded")
            linear.in_port(1).connect(scaled.out_port(0))
        else:
            offset = offset - each if scale.op == "SUB" else offset + each
        added = graph.create_const(offset.astype(np.float32), f"{linear.name}/bias")
        if len(linear.in_ports()) < 3:
            linear.add_input_port()
        linear.in_port(2).connect(added.out_port(0))
        linear.fused_activation_function = scale.fused_activation_function
        return linear


def _floats(constant: Node) -> Array | None:
    """A constant's numbers, where they are float32 and dense."""
    if constant.out_port(0).get_data_type() is not ElementType.FLOAT32:
        return None
    return constant.out_port(0).data.get_value()

"""Folds a product or sum with a constant into the weights and bias of the preceding linear op."""

from __future__ import annotations

from math import prod

from compiler_plugin.transformations.graph import Graph
from compiler_plugin.transformations.node import Node
from compiler_plugin.transformations.pattern import Any, Const, Match
from compiler_plugin.transformations.replacement import PatternReplacement
from litert.core.element_type import ElementType
from litert.model.tensor_data import Array


class FoldBatchNorm(PatternReplacement):
    """Folds MUL, DIV, ADD or SUB with per-channel constants into the preceding convolution or FULLY_CONNECTED."""

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
        """Runs before activations are fused, so that an activation after the folded op can also be fused."""
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
        """Returns the convolution or FULLY_CONNECTED with new weights, bias and activation."""
        import numpy as np

        if not _is_for_channels(scale, linear, weights, constant):
            return None
        factor = constant.out_port(0).data.get_value()
        offset = None if bias is None else bias.out_port(0).data.get_value()
        if factor is None or (bias is not None and offset is None):
            return None
        channels = _count_channels(linear, weights)
        each = np.broadcast_to(factor.reshape(-1), (channels,))
        offset = np.zeros(channels, np.float32) if offset is None else offset
        if scale.op in ("MUL", "DIV"):
            with np.errstate(divide="ignore", over="ignore", invalid="ignore"):
                each = 1 / each if scale.op == "DIV" else each
                offset = offset * each
            if not np.isfinite(offset).all() or not _scale_weights(graph, linear, weights, each):
                return None
        else:
            offset = offset - each if scale.op == "SUB" else offset + each
        added = graph.create_const(offset.astype(np.float32), f"{linear.name}/bias")
        if len(linear.in_ports()) < 3:
            linear.add_input_port()
        linear.in_port(2).connect(added.out_port(0))
        linear.fused_activation_function = scale.fused_activation_function
        return linear


def _is_for_channels(scale: Node, linear: Node, weights: Node, constant: Node) -> bool:
    """Whether a constant has one float32 per channel, or a single one, and is an operand that can be folded."""
    if linear.soft_get("weights_format", "DEFAULT") != "DEFAULT":
        return False
    if scale.op in ("DIV", "SUB") and scale.in_port(0).get_source() != linear.out_port(0):
        return False
    for port in list(linear.in_ports().values())[1:]:
        source = port.get_source()
        if source is not None and source.get_data_type() is not ElementType.FLOAT32:
            return False
    shape = constant.out_port(0).tensor.shape
    if len(shape) > len(linear.out_port(0).data.get_shape() or ()):
        return False
    return prod(shape) == 1 or prod(shape) == shape[-1] == _count_channels(linear, weights)


def _count_channels(linear: Node, weights: Node) -> int:
    """The number of output channels."""
    return weights.out_port(0).tensor.shape[-1 if linear.op == "DEPTHWISE_CONV_2D" else 0]


def _scale_weights(graph: Graph, linear: Node, weights: Node, each: Array) -> bool:
    """Multiplies the weights of each channel; returns False on overflow, or if `fold_limit` is exceeded."""
    import numpy as np

    port = weights.out_port(0)
    tensor = port.tensor
    added = prod(tensor.shape) * 4 if len(port.get_destinations()) > 1 else 0  # other readers stay
    kernel = port.data.get_value() if added <= graph.fold_limit else None
    if kernel is None:
        return False
    if linear.op != "DEPTHWISE_CONV_2D":
        each = each.reshape(-1, *(1,) * (kernel.ndim - 1))
    with np.errstate(over="ignore", invalid="ignore"):
        kernel = (kernel * each).astype(np.float32)
    if not np.isfinite(kernel).all():
        return False
    graph.fold_limit -= added
    scaled = graph.create_const(kernel, f"{weights.name}/folded")
    linear.in_port(1).connect(scaled.out_port(0))
    return True

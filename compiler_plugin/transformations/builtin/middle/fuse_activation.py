"""Fuses RELU, RELU6 or RELU_N1_TO_1 with the op before it if no other op reads the unfused result."""

from __future__ import annotations

from compiler_plugin.transformations.graph import Graph
from compiler_plugin.transformations.node import Node
from compiler_plugin.transformations.pattern import Match
from compiler_plugin.transformations.replacement import PatternReplacement

_HOSTS = (
    "ADD", "AVERAGE_POOL_2D", "CONV_2D", "DEPTHWISE_CONV_2D", "DIV", "FULLY_CONNECTED",
    "MAX_POOL_2D", "MUL", "SUB",
)  # fmt: skip
"""Ops whose kernels in stock LiteRT support RELU, RELU6 and RELU_N1_TO_1 as fused activations."""


class FuseActivation(PatternReplacement):
    """Fuses RELU, RELU6 or RELU_N1_TO_1 with the op before it."""

    pattern = Match(
        ("RELU", "RELU6", "RELU_N1_TO_1"),
        Match(_HOSTS, ..., name="host", uses=1, fused_activation_function="NONE"),
        name="activation",
    )

    def rewrite(self, graph: Graph, host: Node, activation: Node) -> Node | None:
        """Fuses the activation with the op before it, and returns that op.

        If the outputs of the op and of the activation have different scales, both ops stay, because fusion would
        skip a rounding step and change results.
        """
        if host.out_port(0).quantization != activation.out_port(0).quantization:
            return None
        host.fused_activation_function = activation.op
        return host

"""Removes a PAD with zeros before a convolution if `SAME` padding of the convolution has the same effect."""

from __future__ import annotations

from compiler_plugin.transformations.graph import Graph
from compiler_plugin.transformations.node import Node, OutPort
from compiler_plugin.transformations.pattern import Any, Const, Match
from compiler_plugin.transformations.replacement import PatternReplacement


class FusePad(PatternReplacement):
    """Replaces a PAD with zeros by `SAME` padding of the next convolution, if the results do not change."""

    pattern = Match(
        ("CONV_2D", "DEPTHWISE_CONV_2D"),
        Match(
            ("PAD", "PADV2"),
            Any("x"),
            Const("paddings", shape=(4, 2)),
            Const("value", optional=True),
            name="pad",
        ),
        ...,
        name="conv",
        padding="VALID",
    )

    def rewrite(
        self, graph: Graph, x: OutPort, paddings: Node, value: Node | None, pad: Node, conv: Node
    ) -> Node | None:
        """Returns the convolution, which now reads the unpadded tensor and has `SAME` padding."""
        if x.quantization != pad.out_port(0).quantization or not _is_zero(value, pad):
            return None
        shape, kernel = x.data.get_shape(), conv.in_port(1).data.get_shape()
        amounts = paddings.out_port(0).data.get_value()
        if shape is None or kernel is None or amounts is None or amounts[[0, 3]].any():
            return None
        axes = (
            (shape[1], kernel[1], conv.stride_h, conv.dilation_h_factor, amounts[1]),
            (shape[2], kernel[2], conv.stride_w, conv.dilation_w_factor, amounts[2]),
        )
        for size, taps, stride, dilation, (before, after) in axes:
            if not _is_same(size, (taps - 1) * dilation + 1, stride, int(before), int(after)):
                return None
        conv.in_port(0).connect(x)
        conv.padding = "SAME"
        return conv


def _is_same(size: int, window: int, stride: int, before: int, after: int) -> bool:
    """Whether the padding results in the same number and positions of windows as `SAME`."""
    if size < 0 or min(before, after) < 0:
        return False
    count = -(-size // stride)
    total = max((count - 1) * stride + window - size, 0)
    return before == total // 2 and (size + before + after - window) // stride + 1 == count


def _is_zero(value: Node | None, pad: Node) -> bool:
    """Whether the value of a PAD is the padding value of a convolution: 0, or the zero point."""
    if value is None:
        return True
    number = value.out_port(0).data.get_value()
    quantization = pad.out_port(0).quantization
    zero = quantization.zero_point[0] if quantization and quantization.zero_point else 0
    return number is not None and number.size == 1 and number.reshape(()) == zero

"""Fuses the five ops of a normalization into one custom op with a kernel."""

from __future__ import annotations

from compiler_plugin.transformations import (
    Any,
    Const,
    Graph,
    Match,
    Node,
    Op,
    OutPort,
    PatternReplacement,
)


class FuseRmsNorm(PatternReplacement):
    """Fuses x * rsqrt(mean(x * x) + epsilon) along the last axis into RmsNorm."""

    square = Match("MUL", Any("x"), Any("x"), uses=1)
    mean = Match("MEAN", square, Const("axis"), uses=1, keep_dims=True)
    safe = Match("ADD", mean, Const("epsilon", shape=()), uses=1)
    pattern = Match("MUL", Any("x"), Match("RSQRT", safe, uses=1), name="product")

    def rewrite(
        self, graph: Graph, x: OutPort, axis: Node, epsilon: Node, product: Node
    ) -> Node | None:
        """Returns an RmsNorm op that replaces the last MUL; the host deletes the other four unused ops."""
        shape = x.data.get_shape()
        axes = axis.out_port(0).data.get_value()
        value = epsilon.out_port(0).data.get_value()
        if shape is None or axes is None or value is None:
            return None
        if axes.ravel().tolist() not in ([-1], [len(shape) - 1]):
            return None  # another kind of normalization stays unchanged
        rms_norm = Op.get_op_class_by_name("RmsNorm")
        return rms_norm(graph, {"epsilon": float(value)}).create_node([x], {"name": product.name})

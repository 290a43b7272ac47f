"""The custom op Swish, declared like an op of the Model Optimizer; its kernel is in `Swish.cl`."""

from __future__ import annotations

from typing import Any

from compiler_plugin.transformations.model_optimizer import Graph, Node, Op


class Swish(Op):
    """Computes x / (1 + exp(-beta * x))."""

    op = "Swish"

    def __init__(self, graph: Graph, attrs: dict[str, Any]) -> None:
        super().__init__(
            graph,
            {
                "type": __class__.op,  # type: ignore[name-defined]
                "op": __class__.op,  # type: ignore[name-defined]
                "version": "opset4",
                "infer": Swish.infer,
                "beta": 1.0,
                "in_ports_count": 1,
                "out_ports_count": 1,
            },
            attrs,
        )

    def backend_attrs(self) -> list[str]:
        """Returns the attributes to write to the file; the kernel gets `beta` as PARAM_beta."""
        return ["beta"]

    @staticmethod
    def infer(node: Node) -> None:
        """Sets the shape of the output to the shape of the input."""
        node.out_port(0).data.set_shape(node.in_port(0).data.get_shape() or ())

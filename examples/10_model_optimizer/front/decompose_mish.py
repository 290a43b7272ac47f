"""Replaces the custom op Mish, which has no kernel, by builtin ops."""

from __future__ import annotations

from compiler_plugin.transformations.model_optimizer import (
    Add,
    Exp,
    FrontReplacementOp,
    Graph,
    Log,
    Mul,
    Node,
    Tanh,
    create_op_with_const_inputs,
    float_array,
    rename_nodes,
)


class DecomposeMish(FrontReplacementOp):
    """Replaces Mish by x * tanh(log(1 + exp(x)))."""

    op = "Mish"
    enabled = True

    def replace_op(self, graph: Graph, node: Node) -> list[str]:
        """Returns the id of the MUL op that replaces the Mish op, with the name of the Mish op."""
        name = node.soft_get("name", node.id)
        x = node.in_port(0).get_source()
        power = Exp(graph, {"name": f"{name}/exp"}).create_node([x])
        above = create_op_with_const_inputs(
            graph, Add, {1: float_array(1)}, {"name": f"{name}/above"}, power
        )
        softplus = Log(graph, {"name": f"{name}/softplus"}).create_node([above])
        gate = Tanh(graph, {"name": f"{name}/tanh"}).create_node([softplus])
        mish = Mul(graph, {"name": f"{name}/mul"}).create_node([x, gate])
        rename_nodes([(node, f"{name}/TBR"), (mish, name)])
        return [mish.id]

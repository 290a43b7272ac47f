"""Ops that change nothing go: reshapes to the same shape, transposes that cancel, casts to the same type, ..."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from compiler_plugin.transformations.graph import Graph
from compiler_plugin.transformations.node import Node
from compiler_plugin.transformations.ports import OutPort
from compiler_plugin.transformations.replacement import OpReplacement
from compiler_plugin.transformations.scalar_chains import find_operands


class RemoveNoOps(OpReplacement):
    """Reshapes, transposes, casts, pads, slices and sums that change nothing are removed; pairs become one."""

    op = (
        "ADD", "CAST", "CONCATENATION", "DIV", "EXPAND_DIMS", "MUL", "PAD", "QUANTIZE", "RESHAPE",
        "SLICE", "SQUEEZE", "SUB", "TRANSPOSE",
    )  # fmt: skip

    def replace_op(self, graph: Graph, node: Node) -> Node | OutPort | None:
        """What is the same without the op; the op itself where it does the work of the one before it too."""
        if not node.in_ports():
            return None
        find = _FINDERS.get(node.op, _find_reshaped)
        source = find(node)
        if source is not None and _is_same(source, node.out_port(0)):
            return source
        return _join(graph, node)


def _is_same(source: OutPort, result: OutPort) -> bool:
    """Whether all that read a result may read the source instead."""
    shape = source.data.get_shape()
    if shape is None or -1 in shape or shape != result.data.get_shape():
        return False
    if source.get_data_type() is not result.get_data_type():
        return False
    if source.quantization != result.quantization:
        return False
    if not any(port.node.is_result for port in result.get_destinations()):
        return True
    # A result of the model needs an op that writes it, and a name of its own.
    return source.node.is_op and not any(p.node.is_result for p in source.get_destinations())


def _find_reshaped(node: Node) -> OutPort | None:
    """The input, of ops that do nothing where shape and type stay the same."""
    return node.in_port(0).get_source()


def _find_transposed(node: Node) -> OutPort | None:
    order = _order(node)
    return node.in_port(0).get_source() if order == tuple(range(len(order or ()))) else None


def _find_joined(node: Node) -> OutPort | None:
    """The input of a CONCATENATION of one."""
    if len(node.in_ports()) != 1 or node.fused_activation_function != "NONE":
        return None
    return node.in_port(0).get_source()


def _find_neutral(node: Node) -> OutPort | None:
    """The operand of a sum with 0, or of a product with 1."""
    if node.fused_activation_function != "NONE":
        return None
    operand, number, is_second = find_operands(node)
    neutral = 1.0 if node.op in ("MUL", "DIV") else 0.0
    if number != neutral or (node.op in ("DIV", "SUB") and not is_second):
        return None
    return operand


def _find_requantized(node: Node) -> OutPort | None:
    """What a QUANTIZE gets from a DEQUANTIZE, which it undoes where scale and type are the same."""
    source = node.in_port(0).get_source()
    if source is None or source.node.op != "DEQUANTIZE":
        return None
    return source.node.in_port(0).get_source()


_FINDERS: Mapping[str, Callable[[Node], OutPort | None]] = {
    "ADD": _find_neutral,
    "CONCATENATION": _find_joined,
    "DIV": _find_neutral,
    "MUL": _find_neutral,
    "QUANTIZE": _find_requantized,
    "SUB": _find_neutral,
    "TRANSPOSE": _find_transposed,
}
"""How each op is looked at; the others do nothing where they keep shape and type."""


def _join(graph: Graph, node: Node) -> Node | None:
    """Lets a RESHAPE or TRANSPOSE read what the same op before it reads."""
    source = node.in_port(0).get_source()
    if source is None or source.node.op != node.op or node.op not in ("RESHAPE", "TRANSPOSE"):
        return None
    first = source.node.in_port(0).get_source()
    if first is None or first.quantization != source.quantization:
        return None
    if node.op == "TRANSPOSE":
        before, after = _order(source.node), _order(node)
        if before is None or after is None or len(before) != len(after):
            return None
        order = graph.create_const([before[axis] for axis in after], f"{node.name}/perm")
        node.in_port(1).connect(order.out_port(0))
    node.in_port(0).connect(first)
    return node


def _order(node: Node) -> tuple[int, ...] | None:
    """A TRANSPOSE's permutation, where it is constant."""
    value = node.in_port(1).data.get_value()
    if value is None:
        return None
    rank = value.size
    return tuple(int(axis) % rank for axis in value.ravel())

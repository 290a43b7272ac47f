"""Removes ops that do not change their input, such as reshapes to the same shape and transposes that cancel."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from compiler_plugin.transformations.graph import Graph
from compiler_plugin.transformations.node import Node, OutPort
from compiler_plugin.transformations.replacement import OpReplacement
from compiler_plugin.transformations.scalar_chains import find_operands


class RemoveNoOps(OpReplacement):
    """Removes reshapes, transposes, casts, pads, slices and arithmetic ops that change nothing.

    Two consecutive reshapes, or two consecutive transposes, are merged into one op.
    """

    op = (
        "ADD", "CAST", "CONCATENATION", "DIV", "EXPAND_DIMS", "MUL", "PAD", "PADV2", "QUANTIZE",
        "RESHAPE", "SLICE", "SQUEEZE", "STRIDED_SLICE", "SUB", "TRANSPOSE",
    )  # fmt: skip
    force_clean_up = True
    """Otherwise, the first of two reshapes that cancel stays without a reader, and prevents fusions."""

    def run_after(self) -> Sequence[str]:
        """Runs after constant folding, because constants show which ops change nothing."""
        return ["fold_constants"]

    def run_before(self) -> Sequence[str]:
        """Runs before fusions, because a no-op between two ops prevents their fusion."""
        return ["fold_batch_norm", "fuse_activation", "fuse_hard_swish", "fuse_pad", "fuse_swish"]

    def replace_op(self, graph: Graph, node: Node) -> Node | OutPort | None:
        """Returns an earlier tensor with the same data; or the op, if it now also does the preceding op's work."""
        if not node.in_ports():
            return None
        find = _FINDERS.get(node.op, _find_reshaped)
        source = find(node)
        for same in (source, _find_undone(node, source)):
            if same is not None and _is_same(node, same):
                return same
        return _join(graph, node)


def _is_same(node: Node, source: OutPort) -> bool:
    """Whether all readers of an op's result may read `source` instead."""
    result, shape = node.out_port(0), source.data.get_shape()
    if shape is None or shape != result.data.get_shape():
        return False
    if -1 in shape and not (node.op in _KEEPING or _has_one_unknown(node, shape)):
        return False
    if source.get_data_type() is not result.get_data_type():
        return False
    if source.quantization != result.quantization or source.tensor.is_variable:
        return False
    if not result.is_result:
        return True
    # A result of the model needs an op that writes it, and a name of its own.
    return source.node.is_op and not source.is_result


def _has_one_unknown(node: Node, shape: Sequence[int]) -> bool:
    """Whether the equal number of elements implies the same shape, because only one size is unknown."""
    return node.op in _RESHAPES and shape.count(-1) == 1 and 0 not in shape


def _find_reshaped(node: Node) -> OutPort | None:
    """Returns input 0 of an op that is a no-op if shape and type do not change."""
    return node.in_port(0).get_source()


def _find_sliced(node: Node) -> OutPort | None:
    """Returns the input of a STRIDED_SLICE with positive strides: a no-op if the shape does not change."""
    steps = node.in_port(3).data.get_value()
    if steps is None or (steps < 1).any() or node.new_axis_mask or node.shrink_axis_mask:
        return None
    return node.in_port(0).get_source()


def _find_undone(node: Node, source: OutPort | None) -> OutPort | None:
    """Returns the tensor before two ops that both keep the order of elements."""
    if source is None or node.op not in _RESHAPES or source.node.op not in _RESHAPES:
        return None
    first = source.node.in_port(0).get_source()
    return first if first is not None and first.quantization == source.quantization else None


def _find_transposed(node: Node) -> OutPort | None:
    order = _order(node)
    return node.in_port(0).get_source() if order == tuple(range(len(order or ()))) else None


def _find_joined(node: Node) -> OutPort | None:
    """Returns the input of a CONCATENATION with only one input."""
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
    """Returns the input of a DEQUANTIZE before a QUANTIZE: a no-op if scale and type are equal."""
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
    "STRIDED_SLICE": _find_sliced,
    "SUB": _find_neutral,
    "TRANSPOSE": _find_transposed,
}
"""For each op, the function that returns the tensor to read in place of its result; default: `_find_reshaped`."""

_KEEPING = ("ADD", "CAST", "CONCATENATION", "DIV", "MUL", "QUANTIZE", "SUB", "TRANSPOSE")
"""Ops that, if they are no-ops, also keep dimensions that are known only at run time."""

_RESHAPES = ("EXPAND_DIMS", "RESHAPE", "SQUEEZE")
"""Ops that change only the shape, and not the order of elements."""

_JOINED: Mapping[str, Sequence[str]] = {"RESHAPE": _RESHAPES, "TRANSPOSE": ("TRANSPOSE",)}
"""For each op, the preceding ops whose work the op can do too."""


def _join(graph: Graph, node: Node) -> Node | None:
    """Lets a RESHAPE or TRANSPOSE replace the preceding op of the same kind, by reading the input of that op."""
    source = node.in_port(0).get_source()
    before = _JOINED.get(node.op, ())
    if source is None or source.node.op not in before:
        return None
    first = source.node.in_port(0).get_source()
    if first is None or first.quantization != source.quantization:
        return None
    if node.op == "TRANSPOSE":
        one, other = _order(source.node), _order(node)
        if one is None or other is None or len(one) != len(other):
            return None
        order = graph.create_const([one[axis] for axis in other], f"{node.name}/perm")
        node.in_port(1).connect(order.out_port(0))
    node.in_port(0).connect(first)
    return node


def _order(node: Node) -> tuple[int, ...] | None:
    """Returns the permutation of a TRANSPOSE; None if the permutation is not constant."""
    value = node.in_port(1).data.get_value()
    if value is None:
        return None
    rank = value.size
    return tuple(int(axis) % rank for axis in value.ravel())

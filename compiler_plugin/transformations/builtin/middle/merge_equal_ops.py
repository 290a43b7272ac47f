"""Merges ops that compute the same result from the same inputs, so that the result is computed once."""

from __future__ import annotations

from collections.abc import Hashable, Sequence

from compiler_plugin.effects import has_side_effects
from compiler_plugin.transformations.graph import Graph
from compiler_plugin.transformations.node import Node
from compiler_plugin.transformations.transformation import Transformation
from litert.model.graph import Tensor

_COMPARED_BYTES = 64
"""Largest size of constants that are compared by value; larger ones count as equal only if they share a buffer."""


class MergeEqualOps(Transformation):
    """Merges ops that compute the same result, such as MAX_POOL_2D, PAD or MUL ops that a converter repeats."""

    def run_before(self) -> Sequence[str]:
        """Runs before folding, so that a merged op is folded once."""
        return ["fold_dequantize"]

    def find_and_replace_pattern(self, graph: Graph) -> int:
        """Keeps the first of several equal ops, in execution order.

        If two ops are merged, ops that read them may become equal, and are then merged too.
        """
        kept: dict[Hashable, Node] = {}
        alike: dict[Hashable, Node] = {}
        count = 0
        for node in graph.nodes:
            family = _find_family(node)
            if family is None or alike.setdefault(family, node) is node:
                continue  # most ops are unique, and need no full comparison
            kept.setdefault(_key(alike[family]), alike[family])
            first = kept.setdefault(_key(node), node)
            if first is not node and not (_is_result(first) and _is_result(node)):
                for old, new in zip(
                    node.out_ports().values(), first.out_ports().values(), strict=True
                ):
                    old.get_connection().set_source(new)
                graph.remove_node(node)
                count += 1
        return count


def _find_family(node: Node) -> Hashable | None:
    """A cheap key that is the same for equal ops; None for an op that must not be merged."""
    op = node.model_op
    assert op is not None
    first = op.inputs[0] if op.inputs else None
    return None if first is None or has_side_effects(op) else (op.name, _input_key(first))


def _key(node: Node) -> Hashable:
    """A key that is the same exactly for ops that compute the same results."""
    op = node.model_op
    assert op is not None
    options = tuple((name, repr(value)) for name, value in node.attributes().items())
    inputs = tuple(None if tensor is None else _input_key(tensor) for tensor in op.inputs)
    return node.op, node.version, options, inputs, tuple(_type_key(t) for t in op.outputs)


def _input_key(tensor: Tensor) -> Hashable:
    if not tensor.is_constant or tensor.sparsity is not None or tensor.blockwise is not None:
        return tensor
    blob = tensor.buffer.blob
    if blob is not None and blob.size <= _COMPARED_BYTES:
        return bytes(blob.view), _type_key(tensor)
    return tensor.buffer, _type_key(tensor)


def _type_key(tensor: Tensor) -> Hashable:
    return (
        tensor.element_type,
        tensor.shape,
        tensor.shape_signature,
        repr(tensor.quantization),
        tensor.blockwise is None or tensor,
    )


def _is_result(node: Node) -> bool:
    """Whether an op writes a result of the model; each result needs its own tensor and name."""
    return any(port.is_result for port in node.out_ports().values())

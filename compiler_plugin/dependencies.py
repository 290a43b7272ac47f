"""Which op of a subgraph must run before which: data, and the order of side effects."""

from __future__ import annotations

from collections.abc import Container, Iterable

from compiler_plugin.effects import has_side_effects
from litert.core.errors import LiteRtError
from litert.core.status import Status
from litert.model.graph import Op, Subgraph
from litert.model.positions import Edge


def find_dependencies(
    subgraph: Subgraph, selected: Container[Op], edges: Iterable[Edge] = ()
) -> list[list[int]]:
    """The ops that each op must wait for.

    Args:
      subgraph: in the order that it runs.
      selected: ops that a plugin takes, and with that vouches for: they have no side effects.
      edges: of the subgraph, which the model's metadata add.

    Returns:
      For each op the positions of others before it, ascending and none twice.

    Raises:
      LiteRtError: INVALID_GRAPH_INVARIANT, for a tensor that two ops write, or that is read before it
        is written.
    """
    position = {op: index for index, op in enumerate(subgraph.ops)}
    added: dict[int, list[int]] = {}
    for before_op, op_after in edges:
        if before_op < op_after:
            added.setdefault(op_after, []).append(before_op)
    found: list[list[int]] = []
    last_effect = -1
    for index, op in enumerate(subgraph.ops):
        before = set(added.get(index, ()))
        for tensor in op.inputs:
            if tensor is None or tensor.producer is None:
                continue
            producer = position.get(tensor.producer, -1)
            if not 0 <= producer < index:
                raise _bad_order(subgraph, op, index, tensor.name, "reads it before it is written")
            before.add(producer)
        for tensor in op.outputs:
            if tensor.producer is not op:
                raise _bad_order(
                    subgraph, op, index, tensor.name, "is not the only one to write it"
                )
        if op not in selected and has_side_effects(op):
            if last_effect >= 0:
                before.add(last_effect)
            last_effect = index
        found.append(sorted(before))
    return found


def _bad_order(subgraph: Subgraph, op: Op, index: int, tensor: str, what: str) -> LiteRtError:
    return LiteRtError(
        Status.INVALID_GRAPH_INVARIANT,
        f"tensor '{tensor}' has no single value: {op.name} {what}",
        f"op {index} of subgraph '{subgraph.name}'",
        "Such a subgraph cannot be partitioned; convert the model again.",
    )

"""The order in which a changed subgraph runs: each op after what it reads, and otherwise as before."""

from __future__ import annotations

from collections.abc import Container, Iterable, Iterator, Sequence
from itertools import pairwise

from compiler_plugin.effects import has_side_effects
from litert.core.errors import LiteRtError
from litert.core.status import Status
from litert.model.graph import Op


def sort_ops(
    ops: Sequence[Op], edges: Iterable[tuple[Op, Op]] = (), new: Container[Op] = ()
) -> list[Op]:
    """Orders ops so that each runs after those it waits for; an op that can stay where it is does.

    Ops with side effects keep their order among each other, but for new ones: where data let an op be, it may be.

    Args:
      ops: of one subgraph, in their present order, new ones at the end: they move before their first readers.
      edges: further pairs of an op and one that must run after it.
      new: those that have no place among the others yet.

    Raises:
      LiteRtError: INVALID_GRAPH_INVARIANT for a cycle, with its members.
    """
    present = dict.fromkeys(ops)
    waits_for = _side_effect_order(op for op in ops if op not in new)
    for first, second in edges:
        waits_for.setdefault(second, []).append(first)

    def find_before(op: Op) -> Iterator[Op]:
        for tensor in op.inputs:
            if tensor is not None and tensor.producer is not None and tensor.producer in present:
                yield tensor.producer
        yield from waits_for.get(op, ())

    order: dict[Op, None] = {}
    for start in ops:
        if start in order:
            continue
        path = {start: find_before(start)}
        while path:
            op, before = next(reversed(path.items()))
            following = next((b for b in before if b not in order), None)
            if following is None:
                del path[op]
                order[op] = None
            elif following in path:
                raise _cycle(list(path), following)
            else:
                path[following] = find_before(following)
    return list(order)


def _side_effect_order(ops: Iterable[Op]) -> dict[Op, list[Op]]:
    effects = [op for op in ops if has_side_effects(op)]
    return {after: [before] for before, after in pairwise(effects)}


def _cycle(path: Sequence[Op], op: Op) -> LiteRtError:
    members = path[path.index(op) :]
    names = " -> ".join(f"{m.name} '{m.outputs[0].name if m.outputs else ''}'" for m in members)
    return LiteRtError(
        Status.INVALID_GRAPH_INVARIANT,
        f"{len(members)} ops wait for each other: {names}",
        hint="An op may not read, even through others, what it writes.",
    )

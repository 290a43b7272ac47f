"""Asks a plugin about a subgraph, again once composites that it does not take are taken apart.

As in stock LiteRT (`litert/compiler/plugin/compiler_plugin.cc`, `PartitionModel`), but that a composite of which
nothing goes to the NPU is put back, since the CPU may know it; and that one within another is taken apart too,
unless the plugin's partitions are to be those of stock.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from compiler_plugin.composites import OpenComposites, why_closed
from compiler_plugin.effects import why_cpu_only
from compiler_plugin.vendor_plugin import NO_REASON, Taken, VendorPlugin
from litert.model.composite import CPU_CALL, NPU_CALL, Composite, read_composite
from litert.model.graph import Model, Op, Subgraph
from litert.model.positions import Edge


@dataclass(frozen=True, slots=True)
class CompositeFate:
    """What has become of a composite.

    Attributes:
      op: the composite.
      name: of what it computes.
      ops: the positions of itself, or of its parts where it is taken apart.
      is_apart: whether it is.
    """

    op: Op
    name: str
    ops: Sequence[int]
    is_apart: bool


@dataclass(frozen=True, slots=True)
class NpuShare:
    """What goes to the NPU of a subgraph.

    Attributes:
      selected: partition index by position of the op; negative ones are the host's.
      reasons: why all other ops stay, by position.
      bodies: of composites that go to the NPU as the ops that they stand for, by position.
      composites: of the subgraph, where it has any.
      edges: the subgraph's control dependencies, if it is not as it was.
    """

    selected: Mapping[int, int]
    reasons: dict[int, str]
    bodies: Mapping[int, Subgraph] = field(default_factory=dict)
    composites: Sequence[CompositeFate] = ()
    edges: list[Edge] | None = None


def ask(
    model: Model, index: int, plugin: VendorPlugin, edges: Sequence[Sequence[Edge]]
) -> NpuShare:
    """Asks about one subgraph, in which composites may be taken apart.

    `edges` are the control dependencies of each subgraph.
    """
    subgraph, where = model.subgraphs[index], f"subgraph {index}"
    opened = OpenComposites(model, subgraph)
    taken = plugin.partition(subgraph, where)
    fresh = _read_composites(subgraph.ops)
    composites, closed = dict(fresh), dict[Op, str]()
    while fresh:
        for op, composite in fresh.items():
            if op not in taken.selected and composite.name not in (NPU_CALL, CPU_CALL):
                closed[op] = taken.reasons.get(op, NO_REASON)
                if why := opened.admit(op, composite):
                    closed[op] += f", and cannot have it in parts: {why}"
        parts = opened.take_apart()
        if not parts:
            break
        taken = plugin.partition(subgraph, where)
        fresh = _read_composites(parts)
        composites.update(fresh)
        if plugin.is_asked_as_in_stock:
            break
    if not composites:
        return NpuShare(*taken.by_position(subgraph.ops))
    bodies = _heed_author(model, subgraph, composites, taken)
    unused = [op for op in opened.parts if taken.selected.keys().isdisjoint(opened.leaves(op))]
    taken.reasons.update(closed)
    taken.reasons.update((op, f"{closed[op]}, nor any op that it stands for") for op in unused)
    opened.put_back(unused)
    position = {op: number for number, op in enumerate(subgraph.ops)}
    fates = [
        CompositeFate(
            op, composite.name, [position[leaf] for leaf in opened.leaves(op)], op in opened.parts
        )
        for op, composite in composites.items()
        if op in position or op in opened.parts
    ]
    return NpuShare(
        *taken.by_position(subgraph.ops),
        {position[op]: body for op, body in bodies.items()},
        fates,
        opened.move_edges(index, edges) if opened.parts else None,
    )


def _read_composites(ops: Sequence[Op]) -> dict[Op, Composite]:
    return {op: composite for op in ops if (composite := read_composite(op))}


def _heed_author(
    model: Model, subgraph: Subgraph, composites: Mapping[Op, Composite], taken: Taken
) -> dict[Op, Subgraph]:
    """Sends composites where the model's author wants them, whatever the plugin says of the op.

    Returns:
      What is compiled in the place of those that go to the NPU. Each is a partition of its own.
    """
    bodies: dict[Op, Subgraph] = {}
    for op in subgraph.ops:
        composite = composites.get(op)
        if composite is None or composite.name not in (NPU_CALL, CPU_CALL):
            continue
        taken.selected.pop(op, None)
        if composite.name == CPU_CALL:
            taken.reasons[op] = "the model's author wants it on the CPU"
        elif why := _why_no_call(model, op, composite):
            taken.reasons[op] = f"the model's author wants it on the NPU, but {why}"
        else:
            bodies[op] = model.subgraphs[composite.decomposition]
            taken.selected[op] = -len(bodies)
    return bodies


def _why_no_call(model: Model, op: Op, composite: Composite) -> str:
    if why := why_closed(model, op, composite):
        return why
    for part in model.subgraphs[composite.decomposition].ops:
        if why := why_cpu_only(part):
            return f"of {part.name} in its decomposition {why}"
    return ""

"""Asks a plugin about a subgraph, again once composites that it does not take are taken apart.

As in stock LiteRT (`litert/compiler/plugin/compiler_plugin.cc`, `PartitionModel`), but that a composite of which
nothing goes to the NPU is put back, since the CPU may know it; and that one within another is taken apart too,
unless the plugin's partitions are to be those of stock.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

from compiler_plugin.composites import OpenComposites, why_closed
from compiler_plugin.effects import why_cpu_only
from compiler_plugin.vendor_plugin import VendorPlugin
from litert.model.composite import CPU_CALL, NPU_CALL, Composite, read_composite
from litert.model.graph import Model, Op, Subgraph
from litert.model.positions import Edge

NO_REASON = "the plugin does not take it"


@dataclass(frozen=True, slots=True)
class CompositeFate:
    """What has become of a composite.

    Attributes:
      name: of what it computes.
      ops: positions of what is in the subgraph of it: itself, or its parts.
      is_apart: whether it is these.
    """

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
    bodies: dict[int, Subgraph] = field(default_factory=dict)
    composites: list[CompositeFate] = field(default_factory=list)
    edges: list[Edge] | None = None


def ask(
    model: Model, index: int, plugin: VendorPlugin, edges: Sequence[Sequence[Edge]]
) -> NpuShare:
    """Asks about one subgraph, in which composites may be taken apart.

    Args:
      model: whose subgraph may change.
      index: of the subgraph.
      plugin: of the vendor.
      edges: control dependencies of each subgraph.

    Raises:
      LiteRtError: of the vendor.
    """
    subgraph = model.subgraphs[index]
    opened = OpenComposites(model, subgraph)
    wishes = _Wishes.of(plugin, subgraph, index)
    fresh = _read_composites(subgraph.ops)
    composites, closed = dict(fresh), dict[Op, str]()
    while fresh:
        for op, composite in fresh.items():
            if op not in wishes.selected and composite.name not in (NPU_CALL, CPU_CALL):
                closed[op] = wishes.reasons.get(op, NO_REASON)
                if why := opened.admit(op, composite):
                    closed[op] += f", and cannot have it in parts: {why}"
        parts = opened.take_apart()
        if not parts:
            break
        wishes = _Wishes.of(plugin, subgraph, index)
        fresh = _read_composites(parts)
        composites.update(fresh)
        if plugin.is_asked_as_in_stock:
            break
    if not composites:
        return _answer(subgraph, wishes)
    bodies = _heed_author(model, subgraph, composites, wishes)
    unused = [op for op in opened.parts if wishes.selected.keys().isdisjoint(opened.leaves(op))]
    wishes.reasons.update(closed)
    wishes.reasons.update((op, f"{closed[op]}, nor any op that it stands for") for op in unused)
    opened.put_back(unused)
    position = {op: number for number, op in enumerate(subgraph.ops)}
    fates = [
        CompositeFate(
            composite.name, [position[leaf] for leaf in opened.leaves(op)], op in opened.parts
        )
        for op, composite in composites.items()
        if op in position or op in opened.parts
    ]
    answer = _answer(subgraph, wishes)
    answer.bodies.update((position[op], body) for op, body in bodies.items())
    answer.composites.extend(fates)
    return replace(answer, edges=opened.move_edges(index, edges)) if opened.parts else answer


@dataclass(frozen=True, slots=True)
class _Wishes:
    """What a plugin takes: partition indices, and reasons for the rest, by op."""

    selected: dict[Op, int]
    reasons: dict[Op, str]

    @classmethod
    def of(cls, plugin: VendorPlugin, subgraph: Subgraph, index: int) -> _Wishes:
        """Asks the plugin."""
        ops, choice = subgraph.ops, plugin.partition(subgraph, f"subgraph {index}")
        return cls(
            {ops[position]: number for position, number in choice.selected.items()},
            {ops[position]: reason for position, reason in choice.reasons.items()},
        )


def _read_composites(ops: Sequence[Op]) -> dict[Op, Composite]:
    return {op: composite for op in ops if (composite := read_composite(op))}


def _heed_author(
    model: Model, subgraph: Subgraph, composites: Mapping[Op, Composite], wishes: _Wishes
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
        wishes.selected.pop(op, None)
        if composite.name == CPU_CALL:
            wishes.reasons[op] = "the model's author wants it on the CPU"
        elif why := _why_no_call(model, op, composite):
            wishes.reasons[op] = f"the model's author wants it on the NPU, but {why}"
        else:
            bodies[op] = model.subgraphs[composite.decomposition]
            wishes.selected[op] = -len(bodies)
    return bodies


def _why_no_call(model: Model, op: Op, composite: Composite) -> str:
    if why := why_closed(model, op, composite):
        return why
    for part in model.subgraphs[composite.decomposition].ops:
        if why := why_cpu_only(part):
            return f"of {part.name} in its decomposition {why}"
    return ""


def _answer(subgraph: Subgraph, wishes: _Wishes) -> NpuShare:
    selected, reasons = wishes.selected, wishes.reasons
    return NpuShare(
        {i: selected[op] for i, op in enumerate(subgraph.ops) if op in selected},
        {i: reasons.get(op, NO_REASON) for i, op in enumerate(subgraph.ops) if op not in selected},
    )

"""Asks a plugin which ops of a subgraph it takes; decomposes composites that the plugin refuses, and asks again.

The procedure is the same as in stock LiteRT (`litert/compiler/plugin/compiler_plugin.cc`, `PartitionModel`), with
two differences. If no op of a decomposed composite goes to the NPU, the composite is restored, because the CPU may
have a kernel for it. A refused composite inside another composite's decomposition is decomposed, too, unless the
plugin requires the same partitions as in stock LiteRT.
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
    """The state of a composite after the plugin has chosen its ops.

    Attributes:
      op: The composite op.
      name: Name of the operation that the composite computes.
      ops: Position of the composite op in the subgraph; if the composite is decomposed, positions of the ops that
        replace it.
      is_apart: Whether the composite has been replaced by the ops of its decomposition.
    """

    op: Op
    name: str
    ops: Sequence[int]
    is_apart: bool


@dataclass(frozen=True, slots=True)
class NpuShare:
    """The ops of a subgraph that go to the NPU.

    Attributes:
      selected: Partition index of each op that goes to the NPU, by position of the op. Negative indices are those
        that the host has assigned, not the plugin.
      reasons: Reasons why ops stay on the CPU, by position of the op.
      bodies: Decompositions of the composites that the NPU runs as separate ops, by position of the composite.
      composites: States of the composites in the subgraph.
      edges: New control dependencies of the subgraph; None if the control dependencies have not changed.
    """

    selected: Mapping[int, int]
    reasons: dict[int, str]
    bodies: Mapping[int, Subgraph] = field(default_factory=dict)
    composites: Sequence[CompositeFate] = ()
    edges: list[Edge] | None = None


def ask(
    model: Model, index: int, plugin: VendorPlugin, edges: Sequence[Sequence[Edge]]
) -> NpuShare:
    """Asks the plugin which ops of one subgraph it takes; decomposes composites in the subgraph if necessary.

    `edges` holds the control dependencies of each subgraph of the model.
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
                    closed[op] += f", and the composite cannot be decomposed: {why}"
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
    taken.reasons.update(
        (op, f"{closed[op]}, and the plugin also refuses all ops of the composite's decomposition")
        for op in unused
    )
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
    """Assigns composites to the NPU or the CPU if the model's author prescribes this, whatever the plugin says.

    Returns:
      The decompositions to compile in place of the composites on the NPU. Each decomposition is a separate
      partition.
    """
    bodies: dict[Op, Subgraph] = {}
    for op in subgraph.ops:
        composite = composites.get(op)
        if composite is None or composite.name not in (NPU_CALL, CPU_CALL):
            continue
        taken.selected.pop(op, None)
        if composite.name == CPU_CALL:
            taken.reasons[op] = "the model's author has placed the op on the CPU"
        elif why := _why_no_call(model, op, composite):
            taken.reasons[op] = f"the model's author has placed the op on the NPU, but {why}"
        else:
            bodies[op] = model.subgraphs[composite.decomposition]
            taken.selected[op] = -len(bodies)
    return bodies


def _why_no_call(model: Model, op: Op, composite: Composite) -> str:
    if why := why_closed(model, op, composite):
        return why
    for part in model.subgraphs[composite.decomposition].ops:
        if why := why_cpu_only(part):
            return f"{part.name} in the composite's decomposition cannot run on the NPU: {why}"
    return ""

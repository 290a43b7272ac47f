"""Asks a plugin which ops of a subgraph it takes, and asks again after it takes refused composites apart.

The procedure is that of stock LiteRT (`litert/compiler/plugin/compiler_plugin.cc`, `PartitionModel`), with two
differences. A composite without any part on the NPU is restored, since the CPU may know the composite. A composite
within another composite is taken apart too, unless the plugin asks for the partitions of stock LiteRT.
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
    """The state of a composite after the plugin was asked.

    Attributes:
      op: The composite op.
      name: Name of the operation that the composite computes.
      ops: Positions of the composite, or of its parts if the composite is taken apart.
      is_apart: Whether the composite is taken apart.
    """

    op: Op
    name: str
    ops: Sequence[int]
    is_apart: bool


@dataclass(frozen=True, slots=True)
class NpuShare:
    """The ops of a subgraph that go to the NPU.

    Attributes:
      selected: Partition index by position of the op. The host assigns negative indices.
      reasons: Why each other op stays on the CPU, by position of the op.
      bodies: Decomposition of each composite that goes to the NPU as its parts, by position of the composite.
      composites: States of the composites in the subgraph.
      edges: Control dependencies of the subgraph, if they have changed.
    """

    selected: Mapping[int, int]
    reasons: dict[int, str]
    bodies: Mapping[int, Subgraph] = field(default_factory=dict)
    composites: Sequence[CompositeFate] = ()
    edges: list[Edge] | None = None


def ask(
    model: Model, index: int, plugin: VendorPlugin, edges: Sequence[Sequence[Edge]]
) -> NpuShare:
    """Asks the plugin which ops of one subgraph it takes; composites in the subgraph may be taken apart.

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
                    closed[op] += f", and the composite cannot be taken apart: {why}"
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
        (op, f"{closed[op]}, and the plugin takes no op of its decomposition") for op in unused
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
            return f"{part.name} in its decomposition cannot run on the NPU: {why}"
    return ""

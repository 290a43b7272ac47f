"""What a page shows: the same for all commands and vendors, as plain data that becomes JSON."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from enum import Enum
from typing import TypeAlias

from litert.model.memory_plan import CallMemory

Cell: TypeAlias = "str | int | float | bool | None"


class Quantity(str, Enum):
    """What a number is, which says how the page shows it."""

    TEXT = "text"
    COUNT = "count"
    AMOUNT = "amount"  # a large count: 12.3 M
    BYTES = "bytes"
    SECONDS = "seconds"
    SHARE = "share"  # 1 is all of it
    NUMBER = "number"
    DECIBEL = "decibel"


@dataclass(frozen=True, slots=True)
class ShownTensor:
    """A tensor of the graph.

    Attributes:
      type: `1x256x256x3 f32`.
      is_constant: whether the file has its data.
    """

    name: str
    type: str
    is_constant: bool = False


@dataclass(frozen=True, slots=True)
class GraphNode:
    """An op, or an input or output of its subgraph.

    Attributes:
      id: `<subgraph>/<op>`; inputs and outputs of a subgraph are `<subgraph>/in/<n>` and `<subgraph>/out/<n>`.
        Where there are several models, `<model>:` is before it.
      kind: `op`, `input` or `output`.
      name: of the op, or of the input or output.
      inputs, outputs: indices of the subgraph's tensors; -1 is an input that is left out.
      call: the NPU call that it is, or went to; "" on the CPU.
      reason: why it stays on the CPU; "" where nobody said.
      group: index of its group among those of its subgraph; -1 for none.
      is_constant: whether it works on constants alone, such as an op that unpacks weights.
    """

    id: str
    kind: str
    name: str
    inputs: Sequence[int] = ()
    outputs: Sequence[int] = ()
    call: str = ""
    reason: str = ""
    group: int = -1
    is_constant: bool = False


@dataclass(frozen=True, slots=True)
class NodeGroup:
    """Nodes that are shown as one until it is opened.

    Attributes:
      name: of the NPU call, or which ops they are.
      about: how many ops of which names.
      call: the NPU call that it is or is a part of; "" on the CPU.
      parent: index of the group that it is in; -1 for none.
    """

    name: str
    about: str
    call: str = ""
    parent: int = -1


@dataclass(frozen=True, slots=True)
class ShownSubgraph:
    """A subgraph: nodes stand behind those whose outputs they read."""

    name: str
    nodes: Sequence[GraphNode]
    groups: Sequence[NodeGroup]
    tensors: Sequence[ShownTensor]


Graph: TypeAlias = Sequence[ShownSubgraph]
"""One model or several."""


@dataclass(frozen=True, slots=True)
class Measure:
    """A number for each of some nodes: time, error, arithmetic.

    Attributes:
      name: of the measure, as a heading.
      is_summed: whether a group has the sum of its nodes' numbers; else it has the greatest.
      values: by the node's id.
      flagged: why a node is marked, by its id: an error beyond the limit.
      counted_in: the node whose number counts this one's, too, by the id of this one.
    """

    name: str
    quantity: Quantity
    values: Mapping[str, float]
    is_summed: bool = True
    flagged: Mapping[str, str] = field(default_factory=dict)
    counted_in: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Column:
    """A column of a table."""

    name: str
    quantity: Quantity = Quantity.TEXT


@dataclass(frozen=True, slots=True)
class Table:
    """Rows that the reader can sort.

    Attributes:
      about: a sentence about it; may be "".
      rows: as they are shown first.
      nodes: for each row the id of the graph's node that it is about, "" for none; empty where no row has one.
      is_first: whether it stands before the graph.
    """

    title: str
    columns: Sequence[Column]
    rows: Sequence[Sequence[Cell]]
    about: str = ""
    nodes: Sequence[str] = ()
    is_first: bool = False


@dataclass(frozen=True, slots=True)
class ShownSpan:
    """A stretch of the time line; times are seconds from its begin."""

    kind: str
    name: str
    start_s: float
    duration_s: float
    track: str
    details: Mapping[str, str | int | float] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Page:
    """All that a page shows; what is empty is not shown.

    Attributes:
      title: of what the page is about: the file's name.
      about: what the command did, in a sentence.
      facts: names with their values, the most important first.
      notes: sentences that the reader must not miss.
      spans: of the time line; `spans_note` is a sentence about it.
      memory: what lies where in each NPU call.
      focus: the id of the node that is shown first; "" for none.
    """

    title: str
    about: str
    facts: Sequence[tuple[str, str]] = ()
    notes: Sequence[str] = ()
    graph: Graph = ()
    measures: Sequence[Measure] = ()
    spans: Sequence[ShownSpan] = ()
    spans_note: str = ""
    memory: Sequence[CallMemory] = ()
    tables: Sequence[Table] = ()
    focus: str = ""

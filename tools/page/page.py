"""The contents of an HTML page, for all commands and vendors, as data classes that are converted to JSON."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from enum import Enum
from typing import TypeAlias

from litert.model.memory_plan import CallMemory

Cell: TypeAlias = "str | int | float | bool | None"


class Quantity(str, Enum):
    """Unit of a number, which determines how the page shows the number."""

    TEXT = "text"
    COUNT = "count"
    AMOUNT = "amount"  # a large count: 12.3 M
    BYTES = "bytes"
    SECONDS = "seconds"
    SHARE = "share"  # a fraction of the whole, which is 1
    NUMBER = "number"
    DECIBEL = "decibel"


@dataclass(frozen=True, slots=True)
class ShownTensor:
    """A tensor in the graph of a page.

    Attributes:
      type: Shape and element type, such as `1x256x256x3 f32`.
      is_constant: Whether the file contains the tensor's data.
    """

    name: str
    type: str
    is_constant: bool = False


@dataclass(frozen=True, slots=True)
class GraphNode:
    """An op, or an input or output of its subgraph.

    Attributes:
      id: `<subgraph>/<op>`; inputs and outputs of a subgraph are `<subgraph>/in/<n>` and `<subgraph>/out/<n>`. If
        the page shows several models, the id begins with `<model>:`.
      kind: `op`, `input` or `output`.
      name: Name of the op, input or output.
      inputs, outputs: Indices of the subgraph's tensors; -1 for an omitted input.
      call: Name of the NPU call, if this op is an NPU call or a part of one; "" if the op runs on the CPU.
      reason: Reason why the op stays on the CPU; "" if unknown.
      group: Index of the node's group in its subgraph; -1 for no group.
      is_constant: Whether the op reads only constants, such as an op that unpacks weights.
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
    """A group of nodes, which the page shows as one node until the reader opens the group.

    Attributes:
      name: Name of the NPU call, or a name such as "ops 3 to 9".
      about: Number of ops of each name, as text, such as `3 RELU, 1 ADD`.
      call: Name of the NPU call, if this group is an NPU call or a part of one; "" if the ops run on the CPU.
      parent: Index of the enclosing group; -1 for no enclosing group.
    """

    name: str
    about: str
    call: str = ""
    parent: int = -1


@dataclass(frozen=True, slots=True)
class ShownSubgraph:
    """A subgraph of the graph, in which each node follows the nodes whose outputs it reads."""

    name: str
    nodes: Sequence[GraphNode]
    groups: Sequence[NodeGroup]
    tensors: Sequence[ShownTensor]


Graph: TypeAlias = Sequence[ShownSubgraph]
"""The graph of a page: the subgraphs of one or several models."""


@dataclass(frozen=True, slots=True)
class Measure:
    """A measure: a number for some nodes, such as time, error or arithmetic.

    Attributes:
      name: Name of the measure, as a heading.
      is_summed: Whether a group shows the sum of the numbers of its nodes, instead of the greatest number.
      values: Numbers by node id.
      flagged: By node id, the reason why the node is marked, for example an error beyond the limit.
      counted_in: By node id, the id of another node whose number includes this node's number.
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
    """A table whose rows the reader can sort.

    Attributes:
      about: A sentence about the table; may be "".
      rows: Rows in their initial order.
      nodes: For each row, the id of its node in the graph or ""; empty if no row has a node.
      is_first: Whether the page shows the table before the graph.
    """

    title: str
    columns: Sequence[Column]
    rows: Sequence[Sequence[Cell]]
    about: str = ""
    nodes: Sequence[str] = ()
    is_first: bool = False


@dataclass(frozen=True, slots=True)
class ShownSpan:
    """A span that starts `start_s` seconds after the start of the time line."""

    kind: str
    name: str
    start_s: float
    duration_s: float
    track: str
    details: Mapping[str, str | int | float] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Page:
    """The contents of an HTML page; empty parts are not shown.

    Attributes:
      title: Title of the page, usually the file's name.
      about: A sentence about the result of the command.
      facts: Facts as pairs of a name and a value, with the most important fact first.
      notes: Warnings and other important sentences.
      spans: Spans of the time line; `spans_note` is a sentence about them.
      memory: Memory maps of the NPU calls.
      focus: Id of the node that the page selects first; "" for no node.
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

"""A graph to look at: one subgraph of a model, seen as nodes, ports and connections.

Nothing is copied: nodes stand for the model's ops and tensors.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, NoReturn

from compiler_plugin.transformations.counterparts import GRAPH_NAMES
from compiler_plugin.transformations.graph_ops import GraphOps
from compiler_plugin.transformations.node import InPort, Node, NodeGraph, OutPort
from compiler_plugin.transformations.node_attributes import (
    CONST,
    ENDS,
    PARAMETER,
    RESULT,
    VARIABLE,
    is_same_value,
)
from compiler_plugin.transformations.op_request import FreeNames, refused
from litert.core.errors import LiteRtError
from litert.model.graph import Model, Op, Subgraph, Tensor

_ABSENT: Any = object()


class NodeList(list[Node]):
    """Nodes. Where it is used as `nodes` of `networkx`, an error says how it is done here."""

    def __call__(self, *args: object, **named: object) -> NoReturn:
        raise refused("graph.nodes is a list of nodes, and no function", GRAPH_NAMES["node"])

    def __getitem__(self, index: Any) -> Any:
        if isinstance(index, str):
            raise refused(f"graph.nodes is a list, and has no '{index:.100}'", GRAPH_NAMES["node"])
        return super().__getitem__(index)


class GraphView(NodeGraph):
    """The nodes of one subgraph, by their places, names and attributes.

    Attributes:
      model, subgraph: what it is a view of.
      edit_count: grows with each edit.
      results: the outputs of the subgraph in order, then what signatures name beside them.
    """

    def __init__(self, model: Model, subgraph: Subgraph) -> None:
        self.model = model
        self.subgraph = subgraph
        self.edit_count = 0
        self._ids = FreeNames()
        self._by_id: dict[str, Node] = {}
        self._ops = GraphOps(model, subgraph)
        self._nodes: dict[Op, Node] = {}
        self._ends: dict[Tensor, Node] = {}
        self._inputs = dict.fromkeys(subgraph.inputs)
        self._unwritten = {
            tensor
            for op in subgraph.ops
            for tensor in op.inputs
            if tensor is not None and tensor.producer is None
        }
        self.results = self._find_results()
        self._results_by_tensor: dict[Tensor, list[Node]] = {}
        for result in self.results:
            assert result.tensor is not None
            self._results_by_tensor.setdefault(result.tensor, []).append(result)

    @property
    def nodes(self) -> list[Node]:
        """All ops in execution order; those that were added since the last sort come last."""
        return NodeList([self.node_of(op) for op in self._ops])

    @property
    def parameters(self) -> list[Node]:
        """The inputs of the subgraph, in order."""
        return [self._end_of(tensor) for tensor in self.subgraph.inputs]

    @property
    def op_names(self) -> list[str]:
        """What ops there are, by name."""
        return self._ops.names

    @property
    def control_edges(self) -> list[tuple[Op, Op]]:
        """Pairs of an op and one that must run after it, beyond what data say (the converter's metadata)."""
        return self._ops.control_edges

    @property
    def known_nodes(self) -> list[Node]:
        """The ops that somebody has asked for; of the others nothing but the model itself can have changed."""
        return list(self._nodes.values())

    def constants(self) -> list[Node]:
        """The constants that ops and results read, each once."""
        return [node for node in self._find_sources() if node.is_const]

    def get_op_nodes(self, **attributes: Any) -> list[Node]:
        """The ops that have all of these attributes, in execution order.

        Args:
          attributes: by name; `op` is what it does, which is fast. Where that is one of the four ends, they are
            found and no ops. A value may be a function that says whether an attribute's value will do.
        """
        name = attributes.get("op")
        if isinstance(name, str) and name in ENDS:
            nodes = self._find_ends()
        else:
            ops: Iterable[Op] = self._ops.named(name) if isinstance(name, str) else self._ops
            nodes = [self.node_of(op) for op in ops]
        return [node for node in nodes if _has_attributes(node, attributes)]

    def get_nodes_with_attributes(self, **attributes: Any) -> list[Node]:
        """As `get_op_nodes`, with inputs, constants and results of the model too."""
        nodes = (*self.nodes, *self._find_ends())
        return [node for node in nodes if _has_attributes(node, attributes)]

    def find_node(self, name: str) -> Node | None:
        """The first op that writes a tensor of that name, else the input or constant of that name."""
        for op in self._ops:
            if any(tensor.name == name for tensor in op.outputs):
                return self.node_of(op)
        ends = (*self.parameters, *self.constants())
        return next((node for node in ends if node.name == name), None)

    def find_by_id(self, node_id: str) -> Node | None:
        """The node that has an id, which whoever knows it has read of that node; None where it is gone."""
        node = self._by_id.get(node_id)
        return node if node is not None and node.is_alive else None

    def new_id(self, node: Node, base: str) -> str:
        """For nodes: an id that no other has, made of a text."""
        node_id = self._ids.find_free(base)
        self._by_id[node_id] = node
        return node_id

    def as_node(self, node: Node | str) -> Node:
        """The node itself, or the one that has this id, or else this name.

        Raises:
          LiteRtError: INVALID_ARGUMENT, where there is none.
        """
        found = node
        if isinstance(node, str):
            found = self.find_by_id(node) or self.find_node(node) or node
        if not isinstance(found, Node):
            raise refused(f"{node!r:.100} is no node", "Give a node, or its id.")
        return found

    def node_of(self, op: Op, node_id: str = "") -> Node:
        """The node that stands for an op of this subgraph; a new one may be given its id.

        Raises:
          LiteRtError: INVALID_ARGUMENT, for an op that is not in it.
        """
        node = self._nodes.get(op)
        if node is None:
            if op not in self._ops:
                raise not_in_graph(f"op {op.name}")
            node = self._nodes[op] = Node(self, "", op, None)
            if node_id:
                node.take_id(node_id)
        return node

    def out_port_of(self, tensor: Tensor) -> OutPort:
        """The output port that stands for a tensor."""
        producer = tensor.producer
        if producer is None or producer not in self._ops:
            return OutPort(self._end_of(tensor), 0)
        index = next(i for i, output in enumerate(producer.outputs) if output is tensor)
        return OutPort(self.node_of(producer), index)

    def find_readers(self, tensor: Tensor) -> list[InPort]:
        """The input ports that read a tensor: of ops, then of results."""
        readers = [
            InPort(self.node_of(op), index)
            for op in tensor.readers
            if op in self._ops
            for index, read in enumerate(op.inputs)
            if read is tensor
        ]
        return readers + [InPort(result, 0) for result in self._results_of(tensor)]

    def is_result(self, tensor: Tensor) -> bool:
        """Whether a tensor is a result of the model."""
        return bool(self._results_of(tensor))

    def is_read(self, tensor: Tensor) -> bool:
        """Whether an op reads a tensor, or it is a result."""
        return self.is_result(tensor) or any(op in self._ops for op in tensor.readers)

    def has_node(self, node: Node) -> bool:
        """Whether a node is in the graph, and was not removed."""
        if node.graph is not self:
            return False
        if node.model_op is not None:
            return node.model_op in self._ops
        return node.is_result or (node.tensor is not None and self._ends.get(node.tensor) is node)

    def has_source(self, tensor: Tensor) -> bool:
        """Whether a tensor that no op writes has a value all the same, or had no op in the file already."""
        return (
            tensor.is_constant
            or 0 in tensor.shape
            or tensor.is_variable
            or tensor in self._inputs
            or (tensor in self._unwritten and tensor.producer is None)
        )

    def topological_sort(self, reverse: bool = False) -> list[Node]:
        """Puts the ops of the subgraph in an order in which they can run; those that can stay do.

        Returns:
          The ops in this order, or the last one first.

        Raises:
          LiteRtError: INVALID_GRAPH_INVARIANT for a cycle, with its members.
        """
        self.sort_ops()
        return self.nodes[::-1] if reverse else self.nodes

    def sort_ops(self) -> None:
        """As `topological_sort`, which makes a node of each op."""
        ops = self._ops.sort()
        if ops is not None:
            self.subgraph.ops = ops

    def sort_by_place(self, nodes: Iterable[Node]) -> list[Node]:
        """Ops of the graph in an order in which they can run."""
        if not self._ops.is_valid:
            self.sort_ops()
        ops = self._ops.by_place(node.model_op for node in nodes if node.model_op is not None)
        return [self.node_of(op) for op in ops]

    def _find_ends(self) -> list[Node]:
        """What is no op: inputs, what else is read that no op writes, and results."""
        sources = [node for node in self._find_sources() if node.op != PARAMETER]
        return [*self.parameters, *sources, *self.results]

    def _find_sources(self) -> list[Node]:
        """What ops and results read that no op writes, each once."""
        tensors = dict.fromkeys(tensor for op in self._ops for tensor in op.inputs)
        tensors.update(dict.fromkeys(self._results_by_tensor))
        return [
            self._end_of(tensor)
            for tensor in tensors
            if tensor is not None and tensor.producer not in self._ops
        ]

    def _end_of(self, tensor: Tensor) -> Node:
        node = self._ends.get(tensor)
        if node is None:
            kind = VARIABLE if tensor.is_variable else CONST
            kind = PARAMETER if tensor in self._inputs else kind
            node = self._ends[tensor] = Node(self, kind, None, tensor)
        return node

    def _results_of(self, tensor: Tensor) -> list[Node]:
        return self._results_by_tensor.get(tensor, [])

    def _find_results(self) -> list[Node]:
        """A node for each output, with the same outputs of signatures; then what only signatures name."""
        results: list[Node] = []

        def add(tensor: Tensor, index: int) -> Node:
            result = Node(self, RESULT, None, tensor)
            result.take_id(f"result_{len(results)}")
            result.result_index = index
            results.append(result)
            return result

        for index, tensor in enumerate(self.subgraph.outputs):
            add(tensor, index)
        for signature in self.model.signatures:
            if signature.subgraph is not self.subgraph:
                continue
            free: dict[Tensor, list[Node]] = {}
            for result in results:
                assert result.tensor is not None
                free.setdefault(result.tensor, []).append(result)
            for index, (_, tensor) in enumerate(signature.outputs):
                same = free.get(tensor)
                result = same.pop(0) if same else add(tensor, -1)
                result.result_signatures.append((signature, index))
        return results


class _Absent:
    """An attribute that is there in the Model Optimizer: an error says what is here.

    A `__getattr__` would do it too, and all attributes of a graph would be found more slowly.
    """

    def __init__(self, name: str, counterpart: str) -> None:
        self._name, self._counterpart = name, counterpart

    def __get__(self, graph: object, owner: type) -> NoReturn:
        what = f"a graph has no attribute '{self._name}'. {self._counterpart}"
        raise AttributeError(what, name=self._name, obj=graph)


for _name, _counterpart in GRAPH_NAMES.items():
    setattr(GraphView, _name, _Absent(_name, _counterpart))


def _has_attributes(node: Node, wanted: Mapping[str, Any]) -> bool:
    for name, value in wanted.items():
        found = node.soft_get(name, _ABSENT)
        if found is _ABSENT or not (
            value(found) if callable(value) else is_same_value(found, value)
        ):
            return False
    return True


def not_in_graph(what: str) -> LiteRtError:
    """An error for what belongs to another graph."""
    return refused(f"{what} is not in this graph")

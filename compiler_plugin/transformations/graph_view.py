"""A view of one subgraph of a model, as nodes, ports and connections that refer to the model's ops and tensors."""

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
    """A list of nodes.

    Code that treats this list like `nodes` of `networkx` gets an error that says what to use instead.
    """

    def __call__(self, *args: object, **named: object) -> NoReturn:
        raise refused("graph.nodes is a list of nodes, not a function", GRAPH_NAMES["node"])

    def __getitem__(self, index: Any) -> Any:
        if isinstance(index, str):
            raise refused(
                f"graph.nodes is a list, and has no key '{index:.100}'", GRAPH_NAMES["node"]
            )
        return super().__getitem__(index)


class GraphView(NodeGraph):
    """The nodes of one subgraph, with functions that find nodes by name, id and attributes.

    Attributes:
      model, subgraph: Model and subgraph that the view shows.
      edit_count: Number of edits so far.
      results: Nodes of the subgraph's outputs, in order, followed by tensors that are outputs only in signatures.
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
        """All ops in execution order; ops that were added since the last sort come last."""
        return NodeList([self.node_of(op) for op in self._ops])

    @property
    def parameters(self) -> list[Node]:
        """The inputs of the subgraph, in order."""
        return [self._end_of(tensor) for tensor in self.subgraph.inputs]

    @property
    def op_names(self) -> list[str]:
        """The names of the ops in the subgraph."""
        return self._ops.names

    @property
    def control_edges(self) -> list[tuple[Op, Op]]:
        """Pairs of ops (first, second) that must run in this order, according to the converter's metadata."""
        return self._ops.control_edges

    @property
    def known_nodes(self) -> list[Node]:
        """The ops for which a node object exists; all other ops are unchanged, because only nodes change ops."""
        return list(self._nodes.values())

    def constants(self) -> list[Node]:
        """The nodes of constants that ops and results read, each constant once."""
        return [node for node in self._find_sources() if node.is_const]

    def get_op_nodes(self, **attributes: Any) -> list[Node]:
        """Returns the ops that have all given attributes, in execution order.

        Args:
          attributes: Attributes and their values, by name; a value may also be a function that tests the
            attribute. A search by `op`, the name of the operator, is fast. If `op` is Parameter, Const, Variable
            or Result, the function returns nodes of this kind instead of ops.
        """
        name = attributes.get("op")
        if isinstance(name, str) and name in ENDS:
            nodes = self._find_ends()
        else:
            ops: Iterable[Op] = self._ops.named(name) if isinstance(name, str) else self._ops
            nodes = [self.node_of(op) for op in ops]
        return [node for node in nodes if _has_attributes(node, attributes)]

    def get_nodes_with_attributes(self, **attributes: Any) -> list[Node]:
        """Same as `get_op_nodes`, but also finds inputs, constants and results of the model."""
        nodes = (*self.nodes, *self._find_ends())
        return [node for node in nodes if _has_attributes(node, attributes)]

    def find_node(self, name: str) -> Node | None:
        """Returns the first op that writes the tensor `name`, or else the input or constant `name`."""
        for op in self._ops:
            if any(tensor.name == name for tensor in op.outputs):
                return self.node_of(op)
        ends = (*self.parameters, *self.constants())
        return next((node for node in ends if node.name == name), None)

    def find_by_id(self, node_id: str) -> Node | None:
        """Returns the node with an id; None if the node was removed. Ids are the values of `node.id`."""
        node = self._by_id.get(node_id)
        return node if node is not None and node.is_alive else None

    def new_id(self, node: Node, base: str) -> str:
        """Returns a unique id that is derived from a string."""
        node_id = self._ids.find_free(base)
        self._by_id[node_id] = node
        return node_id

    def as_node(self, node: Node | str) -> Node:
        """Returns a node of this graph, given the node, its id or its name.

        Raises:
          LiteRtError: INVALID_ARGUMENT, if the graph has no such node.
        """
        found = node
        if isinstance(node, str):
            found = self.find_by_id(node) or self.find_node(node) or node
        if not isinstance(found, Node):
            if isinstance(node, str):
                what = f"the graph has no node with the id or name '{node:.100}'"
                raise refused(what, "graph.nodes is the list of all ops.")
            raise refused(f"{node!r:.100} is not a node", "Pass a node, or a node's id.")
        return found

    def node_of(self, op: Op, node_id: str = "") -> Node:
        """Returns the node of an op in this subgraph; `node_id` becomes the id if the node object is new.

        Raises:
          LiteRtError: INVALID_ARGUMENT, if the op is not in this subgraph.
        """
        node = self._nodes.get(op)
        if node is None:
            if op not in self._ops:
                raise not_in_graph(f"{op.name} '{op.outputs[0].name if op.outputs else ''}'")
            node = self._nodes[op] = Node(self, "", op, None)
            if node_id:
                node.take_id(node_id)
        return node

    def out_port_of(self, tensor: Tensor) -> OutPort:
        """Returns the output port of a tensor."""
        producer = tensor.producer
        if producer is None or producer not in self._ops:
            return OutPort(self._end_of(tensor), 0)
        index = next(i for i, output in enumerate(producer.outputs) if output is tensor)
        return OutPort(self.node_of(producer), index)

    def find_readers(self, tensor: Tensor) -> list[InPort]:
        """Returns the input ports that read a tensor: first the ports of ops, then the ports of results."""
        readers = [
            InPort(self.node_of(op), index)
            for op in tensor.readers
            if op in self._ops
            for index, read in enumerate(op.inputs)
            if read is tensor
        ]
        return readers + [InPort(result, 0) for result in self._results_of(tensor)]

    def is_result(self, tensor: Tensor) -> bool:
        """Returns whether a tensor is a result of the model."""
        return bool(self._results_of(tensor))

    def is_read(self, tensor: Tensor) -> bool:
        """Returns whether any op reads a tensor, or the tensor is a result."""
        return self.is_result(tensor) or any(op in self._ops for op in tensor.readers)

    def has_node(self, node: Node) -> bool:
        """Returns whether a node is in the graph and was not removed."""
        if node.graph is not self:
            return False
        if node.model_op is not None:
            return node.model_op in self._ops
        return node.is_result or (node.tensor is not None and self._ends.get(node.tensor) is node)

    def has_source(self, tensor: Tensor) -> bool:
        """Returns whether a tensor without a producer has a value, or also lacked a producer in the file."""
        return (
            tensor.is_constant
            or 0 in tensor.shape
            or tensor.is_variable
            or tensor in self._inputs
            or (tensor in self._unwritten and tensor.producer is None)
        )

    def topological_sort(self, reverse: bool = False) -> list[Node]:
        """Sorts the ops of the subgraph into execution order; ops move only if necessary.

        Returns:
          The sorted ops; with `reverse`, the last op comes first.

        Raises:
          LiteRtError: INVALID_GRAPH_INVARIANT, if ops form a cycle; the error lists these ops.
        """
        self.sort_ops()
        return self.nodes[::-1] if reverse else self.nodes

    def sort_ops(self) -> None:
        """Sorts the ops like `topological_sort`, but does not create a node for each op."""
        ops = self._ops.sort()
        if ops is not None:
            self.subgraph.ops = ops

    def sort_by_place(self, nodes: Iterable[Node]) -> list[Node]:
        """Returns the given ops of the graph in execution order."""
        if not self._ops.is_valid:
            self.sort_ops()
        ops = self._ops.by_place(node.model_op for node in nodes if node.model_op is not None)
        return [self.node_of(op) for op in ops]

    def _find_ends(self) -> list[Node]:
        """All nodes that are not ops: inputs, other tensors that no op writes, and results."""
        sources = [node for node in self._find_sources() if node.op != PARAMETER]
        return [*self.parameters, *sources, *self.results]

    def _find_sources(self) -> list[Node]:
        """The tensors that ops or results read but no op writes, without duplicates."""
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
        """Creates a node for each output of the subgraph, then for tensors that are outputs only in signatures."""
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
    """An attribute of the Model Optimizer, which raises an error that says what to use instead.

    A `__getattr__` would make the access to all attributes of a graph slower.
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
    """Returns an error for an object that belongs to another graph."""
    return refused(
        f"{what} belongs to another graph, or was removed from this graph",
        "Use only nodes that are in this graph.",
    )

"""The API of OpenVINO's Model Optimizer: its extensions run in this project after a change of their imports.

    from compiler_plugin.transformations.model_optimizer import FrontReplacementOp, Graph, Mul, Node

    class SquareToMul(FrontReplacementOp):
        op = "SQUARE"

        def replace_op(self, graph: Graph, node: Node):
            return [Mul(graph, {"name": node.name + "/mul"}).create_node([node.in_node(0)] * 2).id]

The module also has classes for TFLite's operators: `Mul` for MUL, `Conv2d` for CONV_2D. For new extensions, the
classes of `compiler_plugin.transformations` need less code, because patterns are checked when the extension is
loaded, and the result of `rewrite` takes over names and readers of the replaced ops.

As in the Model Optimizer, a transformation first finds all its matches and then changes each match once, and
functions may return ids instead of nodes. Matched nodes without readers are removed.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, TypeAlias

from compiler_plugin.transform_options import Phase
from compiler_plugin.transformations.custom_ops import Extractor
from compiler_plugin.transformations.data_node import DataNode
from compiler_plugin.transformations.edge_pattern import EdgePattern, Found, read_edge_pattern
from compiler_plugin.transformations.graph import Graph
from compiler_plugin.transformations.node import Connection, InPort, Node, OutPort
from compiler_plugin.transformations.op import (
    Op,
    OpClass,
    builtin_class_name,
    builtin_op_class,
)
from compiler_plugin.transformations.replacement import Replacement, Replacer, remove_unread
from compiler_plugin.transformations.sub_graph_match import SubgraphMatch
from compiler_plugin.transformations.sub_graph_replacement import (
    GeneralReplacement,
    SubgraphReplacement,
)
from compiler_plugin.transformations.transformation import Transformation
from litert.core.errors import LiteRtError
from litert.core.status import Status
from litert.core.suggestion import did_you_mean
from litert.model.builtin_options import BUILTIN_NUMBERS

if TYPE_CHECKING:
    from litert.model.tensor_data import Array

__all__ = [
    "BackFinish",
    "BackReplacementPattern",
    "BackStart",
    "Connection",
    "Const",
    "Error",
    "FrontExtractorOp",
    "FrontFinish",
    "FrontReplacementFromConfigFileGeneral",
    "FrontReplacementFromConfigFileOp",
    "FrontReplacementFromConfigFileSubGraph",
    "FrontReplacementOp",
    "FrontReplacementPattern",
    "FrontReplacementSubgraph",
    "FrontStart",
    "Graph",
    "MiddleFinish",
    "MiddleReplacementPattern",
    "MiddleStart",
    "Node",
    "Op",
    "Port",
    "SubgraphMatch",
    "create_op_node_with_second_input",
    "create_op_with_const_inputs",
    "float_array",
    "get_backend_pad",
    "int32_array",
    "rename_node",
    "rename_nodes",
]

Port: TypeAlias = InPort | OutPort


class Error(Exception):
    """An error that extensions can raise, as in the Model Optimizer."""


class FrontExtractorOp(Extractor):
    """An extractor for all ops with the name `op`; `extract` may be a class method and returns `cls.enabled`."""


class _Replacement(Transformation):
    """A transformation with a `pattern()` and a method that is called for each match."""

    def pattern(self) -> Mapping[str, Any]:
        """Returns the pattern: `dict(nodes=[(name, attributes), ...], edges=[(name, name, {"in": 0}), ...])`."""
        raise _missing(self, "pattern(self)")

    def wanted_ops(self) -> Sequence[str]:
        """The op names in the pattern; empty if the pattern is not valid."""
        try:
            return self._read_pattern().ops
        except Exception:  # the error is raised again if the transformation runs
            return ()

    def _read_pattern(self) -> EdgePattern:
        return read_edge_pattern(self.pattern())

    def _replace_matches(self, graph: Graph, replace: Callable[[Graph, Any], object]) -> int:
        return _replace_all(graph, list(self._read_pattern().find_matches(graph)), replace)


class _PatternReplacement(_Replacement):
    def replace_pattern(self, graph: Graph, match: dict[str, Any]) -> None:
        """Changes the graph at a match; `match` maps names in the pattern to nodes and data nodes."""
        raise _missing(self, "replace_pattern(self, graph, match)")

    def find_and_replace_pattern(self, graph: Graph) -> int | None:
        """Calls `replace_pattern` for each match; override this function to edit the whole graph."""
        return self._replace_matches(graph, self.replace_pattern)


class FrontReplacementPattern(_PatternReplacement):
    """A front-phase transformation with `find_and_replace_pattern`, or with `pattern` and `replace_pattern`."""

    phase = Phase.FRONT


class MiddleReplacementPattern(_PatternReplacement):
    """A transformation of the middle phase with the same functions as `FrontReplacementPattern`."""

    phase = Phase.MIDDLE


class BackReplacementPattern(_PatternReplacement):
    """A transformation of the back phase with the same functions as `FrontReplacementPattern`."""

    phase = Phase.BACK


class _GeneratedSubGraph(Transformation):
    """Replaces a sub-graph by a new sub-graph; dictionaries map old ports to new ports."""

    def generate_sub_graph(self, graph: Graph, match: Any) -> Any:
        """Creates the new sub-graph; the other methods get the return value as `new_sub_graph`."""
        raise _missing(self, "replace_sub_graph(self, graph, match)")

    def input_edges_match(self, graph: Graph, match: Any, new_sub_graph: Any) -> Mapping[Any, Any]:
        """Maps old input ports to the new input ports that replace them: `{(old.id, 0): (new.id, 0)}`.

        A node can stand for its id, and an id without a port stands for port 0.
        """
        return {}

    def output_edges_match(self, graph: Graph, match: Any, new_sub_graph: Any) -> Mapping[Any, Any]:
        """Maps old output ports to the new output ports that replace them."""
        return {}

    def _generate(self, graph: Graph, match: Any) -> None:
        created = graph.creation_count
        new = self.generate_sub_graph(graph, match)
        for old_port, new_port in self.input_edges_match(graph, match, new).items():
            (old, i), (node, k) = _split(graph, old_port), _split(graph, new_port)
            source = old.in_port(i).get_source()
            if source is not None:
                node.add_input_port(k, skip_if_exist=True).connect(source)
        outputs = self.output_edges_match(graph, match, new)
        if outputs:
            olds, news = _out_ports(graph, outputs), _out_ports(graph, outputs.values())
            Replacer(graph, self.name).replace(olds, news, created)


class FrontReplacementSubgraph(_Replacement, _GeneratedSubGraph):
    """A transformation of the front phase with `pattern` and `replace_sub_graph`."""

    phase = Phase.FRONT

    def replace_sub_graph(self, graph: Graph, match: dict[str, Any]) -> None:
        """Changes the graph at a match of the pattern; `match` maps the names in the pattern to nodes."""
        self._generate(graph, match)
        remove_unread(graph, [graph.as_node(n) for n in self.nodes_to_remove(graph, match)])

    def nodes_to_remove(self, graph: Graph, match: dict[str, Any]) -> Sequence[Node | str]:
        """Returns nodes or ids; after `generate_sub_graph`, the returned nodes without readers are removed."""
        return [node for node in match.values() if node.is_op]

    def find_and_replace_pattern(self, graph: Graph) -> int | None:
        """Calls `replace_sub_graph` for each match; override this function to edit the whole graph."""
        return self._replace_matches(graph, self.replace_sub_graph)


class FrontReplacementOp(FrontReplacementSubgraph):
    """A transformation of the front phase with `op` and `replace_op`.

    Attributes:
      op: Name of the operator in the schema, or custom code.
    """

    op: str = ""

    def pattern(self) -> Mapping[str, Any]:
        """Returns a pattern that matches the op; `replace_sub_graph` gets the matched node as `match["op"]`."""
        if not self.op:
            raise _missing(self, "op = 'NAME_OF_THE_OP'")
        return {"nodes": [("op", {"op": self.op})], "edges": []}

    def replace_op(self, graph: Graph, node: Node) -> Any:
        """Returns the replacement of an op.

        Returns:
          A list with an entry for each output of the op: a node, a node's id, a pair (id, output index), or a
          port. The function returns None or an empty list if it has already connected the op's readers, or if
          the op stays.
        """
        raise _missing(self, "replace_op(self, graph, node)")

    def replace_sub_graph(self, graph: Graph, match: dict[str, Any]) -> None:
        """Calls `replace_op`, and connects the returned replacement."""
        node: Node = match["op"]

        def rewrite() -> Replacement:
            given = self.replace_op(graph, node)
            return (
                _out_ports(graph, given) if given and not isinstance(given, Node) else given or None
            )

        Replacer(graph, self.name).rewrite_once([node], rewrite)


class FrontReplacementFromConfigFileSubGraph(_GeneratedSubGraph, SubgraphReplacement):
    """Replaces the sub-graphs that `--transformations_config` describes under `replacement_id`."""

    phase = Phase.FRONT

    def replace_sub_graph(self, graph: Graph, match: SubgraphMatch) -> Replacement:
        """Changes the graph at a match; the default calls `generate_sub_graph` and methods that match edges."""
        self._generate(graph, match)
        return None


class FrontReplacementFromConfigFileOp(FrontReplacementFromConfigFileSubGraph):
    """Puts one op, the `op` in a description, in the place of each sub-graph that matches the description."""

    def replace_sub_graph(self, graph: Graph, match: SubgraphMatch) -> Replacement:
        """Returns the new op, whose attributes are the custom attributes in the description."""
        return SubgraphReplacement.replace_sub_graph(self, graph, match)


class FrontReplacementFromConfigFileGeneral(GeneralReplacement):
    """Changes the whole graph, with the `custom_attributes` of the description for `replacement_id`."""

    phase = Phase.FRONT


class _Anchor(Transformation):
    def find_and_replace_pattern(self, graph: Graph) -> int:
        """Does nothing; the class only marks a position for `run_before` and `run_after`."""
        return 0


class FrontStart(_Anchor):
    """Marks the beginning of the front phase, for `run_before` and `run_after`."""

    phase, anchor = Phase.FRONT, "start"


class FrontFinish(_Anchor):
    """Marks the end of the front phase, for `run_before` and `run_after`."""

    phase, anchor = Phase.FRONT, "finish"


class MiddleStart(_Anchor):
    """Marks the beginning of the middle phase, for `run_before` and `run_after`."""

    phase, anchor = Phase.MIDDLE, "start"


class MiddleFinish(_Anchor):
    """Marks the end of the middle phase, for `run_before` and `run_after`."""

    phase, anchor = Phase.MIDDLE, "finish"


class BackStart(_Anchor):
    """Marks the beginning of the back phase, for `run_before` and `run_after`."""

    phase, anchor = Phase.BACK, "start"


class BackFinish(_Anchor):
    """Marks the end of the back phase, for `run_before` and `run_after`."""

    phase, anchor = Phase.BACK, "finish"


class Const:
    """A constant to create: `Const(graph, {"value": int32_array([0, 1]), "name": "axes"}).create_node()`."""

    def __init__(self, graph: Graph, attrs: Mapping[str, Any]) -> None:
        """Takes the attribute `value`, an array or number, and optionally `name` and `data_type`."""
        self._graph, self._attrs = graph, attrs

    def create_node(self) -> Node:
        """Adds the constant to the graph."""
        attrs = self._attrs
        name = attrs.get("name") or "const"
        return self._graph.create_const(attrs["value"], name, attrs.get("data_type"))


def create_op_with_const_inputs(
    graph: Graph,
    op: OpClass,
    port_value_dict: Mapping[int, Any],
    op_attrs: Mapping[str, Any] | None = None,
    input_node: Node | OutPort | None = None,
) -> Node:
    """Creates an op that reads `input_node` at input port 0, and constants at the ports in `port_value_dict`."""
    inputs: dict[int, Any] = {0: input_node, **port_value_dict}
    values = [inputs.get(index) for index in range(max(inputs) + 1)]
    attrs = {"in_ports_count": len(values), **(op_attrs or {})}
    return op(graph, attrs).create_node(values)


def create_op_node_with_second_input(
    graph: Graph,
    op: OpClass,
    second_input_value: Any,
    op_attrs: Mapping[str, Any] | None = None,
    input_node: Node | OutPort | None = None,
) -> Node:
    """Creates an op that reads `input_node` at input port 0 and a constant at input port 1."""
    return create_op_with_const_inputs(graph, op, {1: second_input_value}, op_attrs, input_node)


def rename_node(node: Node, name: str) -> None:
    """Renames a node."""
    node.name = name


def rename_nodes(nodes: Iterable[tuple[Node, str]]) -> None:
    """Renames nodes, given pairs of a node and its new name."""
    for node, name in nodes:
        rename_node(node, name)


def int32_array(values: Any) -> Array:
    """Returns whole numbers as an int32 array; most TFLite operators read shapes and axes as int32."""
    import numpy as np

    return np.array(values, np.int32)


def float_array(values: Any) -> Array:
    """Returns numbers as a float32 array."""
    import numpy as np

    return np.array(values, np.float32)


def get_backend_pad(pads: Any, spatial_dims: Iterable[int], begin_end: int) -> list[int]:
    """Returns the padding before (`begin_end` 0) or after (`begin_end` 1) each dimension in `spatial_dims`."""
    return [pads[dim][begin_end] for dim in spatial_dims]


def __getattr__(name: str) -> OpClass:
    """Returns the class of a builtin operator of TFLite, such as `Conv2d` for CONV_2D."""
    classes = {builtin_class_name(op): op for op in BUILTIN_NUMBERS if op != "CUSTOM"}
    if name in classes:
        return builtin_op_class(classes[name])
    if name.startswith("__"):
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    longer = [known for known in classes if known.startswith(name)]
    hint = _NOT_HERE.get(name) or did_you_mean(name, longer or [*__all__, *classes])
    hint = hint or "Import an op of your own from its file: from ..ops.my_op import MyOp."
    raise ImportError(f"{__name__} has no {name}. {hint}", name=name)


_NOT_HERE = {
    "int64_array": "TFLite's shapes and axes are int32: import int32_array, perhaps `as int64_array`.",
    **dict.fromkeys(
        ("Parameter", "Result"), "A transformation cannot create inputs and results of a model."
    ),
}


def _replace_all(
    graph: Graph, matches: Iterable[Found], replace: Callable[[Graph, Any], object]
) -> int:
    """Calls a method for each match whose nodes still exist; returns the number of changes."""
    count = 0
    for match in matches:
        nodes = [found for found in match.values() if isinstance(found, Node)]
        ports = [found.port for found in match.values() if isinstance(found, DataNode)]
        if all(node.is_alive for node in [*nodes, *(port.node for port in ports)]):
            edits = graph.edit_count
            replace(graph, match)
            if graph.edit_count != edits:
                count += 1
                remove_unread(graph, [node for node in nodes if node.is_op])
    return count


def _split(graph: Graph, given: Any) -> tuple[Node, int]:
    node, index = given if isinstance(given, tuple) else (given, 0)
    return graph.as_node(node), index


def _out_ports(graph: Graph, given: Any) -> list[OutPort]:
    if isinstance(given, str | OutPort) or not isinstance(given, Iterable):
        given = [given]
    ports = []
    for entry in given:
        if isinstance(entry, OutPort):
            ports.append(entry)
        else:
            node, index = _split(graph, entry)
            ports.append(node.out_port(index))
    return ports


def _missing(transformation: Transformation, what: str) -> LiteRtError:
    kind, line = ("function", f"def {what}") if "(" in what else ("attribute", what)
    name = what.partition("(" if kind == "function" else " ")[0]
    return LiteRtError(
        Status.INVALID_TRANSFORMATION,
        f"class {type(transformation).__name__} does not define the {kind} {name}",
        hint=f"Define the {kind} in the class: {line}.",
    )

"""A sub-graph that a configuration describes: its ops, the tensors that it reads from outside, and its outputs.

A constant belongs to each sub-graph that reads the constant. A variable belongs to a sub-graph if no outside op
reads the variable. All other tensors that a sub-graph reads from outside are its inputs.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from compiler_plugin.transformations.graph import Graph
from compiler_plugin.transformations.node import InPort, Node, OutPort
from compiler_plugin.transformations.replacement_config import PortName, ReplacementDescription
from litert.core.counts import index_range
from litert.core.errors import LiteRtError
from litert.core.status import Status

_OUTPUT_NUMBER = re.compile(r":\d+$")


class SubgraphMatch:
    """A sub-graph that a description matches, with the interface of `SubgraphMatch` in OpenVINO.

    Attributes:
      graph: Graph that contains the sub-graph.
      description: Description that matched the sub-graph.
      nodes: Ops of the sub-graph, in execution order.
      scope: Common leading part of the ops' names; "" if the description gives start and end points.
      instance: The regular expression in the description that matched the scope; "" if the description gives start
        and end points.
      inputs: Ports outside the sub-graph that the sub-graph reads, in the order of the description. If the
        description does not list inputs, the ports are in execution order.
      outputs: Ports inside the sub-graph that outside ops read, in the order of the description. If the
        description does not list outputs, the ports are in execution order.
    """

    def __init__(
        self,
        graph: Graph,
        description: ReplacementDescription,
        nodes: Sequence[Node],
        scope: str = "",
        instance: str = "",
        first_inputs: Sequence[OutPort] = (),
        outputs: Sequence[OutPort] | None = None,
    ) -> None:
        """Finds inputs and outputs; only `matching_instances` creates matches.

        If the description lists no inputs, the ports in `first_inputs` that the sub-graph reads become its first
        inputs. If the description lists no outputs, only ports in the argument `outputs` can become outputs; None
        allows all ports.

        Raises:
          LiteRtError: INVALID_ARGUMENT, if the inputs and outputs in the description do not fit the graph.
        """
        self.graph = graph
        self.description = description
        self.nodes = list(nodes)
        self.scope = scope
        self.instance = instance
        self._inside = set(self.nodes)
        readers = self._read_inputs() if description.inputs else self._find_inputs(first_inputs)
        self.inputs = list(readers)
        self._readers = list(readers.values())
        self.outputs = self._find_outputs(outputs)

    @property
    def custom_attributes(self) -> Mapping[str, Any]:
        """The custom attributes of the configuration file's entry that matched the sub-graph."""
        return self.description.custom_attributes

    @property
    def custom_replacement_desc(self) -> ReplacementDescription:
        """Same as `description`; OpenVINO's Model Optimizer uses this name."""
        return self.description

    def matched_nodes_names(self) -> list[str]:
        """Returns the ids of the sub-graph's ops."""
        return [node.id for node in self.nodes]

    def inputs_count(self) -> int:
        """Returns the number of inputs of the sub-graph; an input that several ops read counts once."""
        return len(self.inputs)

    def outputs_count(self) -> int:
        """Returns the number of outputs of the sub-graph."""
        return len(self.outputs)

    def input_nodes(self, port: int) -> list[tuple[Node, int]]:
        """Returns each op that reads the input `port` of the sub-graph.

        Each item is a pair: an op, and the number of the op's input port that reads the sub-graph's input.

        Raises:
          LiteRtError: INVALID_ARGUMENT, if the sub-graph has no input with this number.
        """
        self._check(port, self.inputs, "input")
        return [(reader.node, reader.index) for reader in self._readers[port]]

    def single_input_node(self, port: int) -> tuple[Node, int]:
        """Returns the only op that reads the input `port` of the sub-graph.

        The result is a pair: the op, and the number of the op's input port that reads the sub-graph's input.

        Raises:
          LiteRtError: INVALID_ARGUMENT, if the sub-graph has no input with this number, or several ops read the
            input.
        """
        nodes = self.input_nodes(port)
        if len(nodes) != 1:
            raise self.error(
                f"single_input_node({port}) needs a single reader, but {len(nodes)} ops read input {port}",
                f"Use input_nodes({port}).",
            )
        return nodes[0]

    def output_node(self, port: int) -> tuple[Node, int]:
        """Returns the op that computes the output `port` of the sub-graph.

        The result is a pair: the op, and the number of the op's output port.

        Raises:
          LiteRtError: INVALID_ARGUMENT, if the sub-graph has no output with this number.
        """
        self._check(port, self.outputs, "output")
        return self.outputs[port].node, self.outputs[port].index

    def node_by_pattern(self, pattern: str) -> Node | None:
        """Returns the op whose name begins with a match of the regular expression; None if no op matches.

        Each name is compared without the scope, which is the common prefix of all names in the sub-graph. If
        several ops match, the function returns the op whose whole name matches.

        Raises:
          LiteRtError: INVALID_ARGUMENT, if several ops match, but there is no single op whose whole name matches.
        """
        expression = re.compile(pattern)
        found = [n for n in self.nodes if any(expression.match(p) for p in self._inner_paths(n))]
        if len(found) > 1:
            exact = [n for n in found if any(expression.fullmatch(p) for p in self._inner_paths(n))]
            if len(exact) != 1:
                names = ", ".join(f"'{node.name}'" for node in found[:4])
                names += ", ..." if len(found) > 4 else ""
                raise self.error(
                    f"pattern '{pattern}' must match the name of one op, but matches {len(found)} ops: {names}",
                    "Write a longer pattern, or end the pattern with $.",
                )
            found = exact
        return found[0] if found else None

    def error(self, what: str, hint: str = "") -> LiteRtError:
        """Returns an error whose text names this sub-graph."""
        return description_error(self.description, what, hint, self.scope)

    def _find_inputs(self, first: Sequence[OutPort]) -> dict[OutPort, list[InPort]]:
        """Returns the outside ports that the sub-graph reads, each with its readers."""
        readers: dict[OutPort, list[InPort]] = {port: [] for port in first}
        for reader in (port for node in self.nodes for port in node.in_ports().values()):
            source = reader.get_source()
            if source is None or source.node in self._inside:
                continue
            if source in readers:
                readers[source].append(reader)
            elif not self._is_own(source):
                readers[source] = [reader]
        return {source: ports for source, ports in readers.items() if ports}

    def _read_inputs(self) -> dict[OutPort, list[InPort]]:
        """Same as `_find_inputs`, for a description that lists the inputs."""
        found: dict[OutPort, list[InPort]] = {}
        for names in self.description.inputs:
            listed = ", ".join(f"{name.port} of '{name.node}'" for name in names)
            readers = [self._find_node(name, "input").in_port(name.port) for name in names]
            sources = {reader.get_source() for reader in readers}
            source = next(iter(sources))
            if len(sources) > 1:
                raise self.error(
                    f"inputs {listed} are listed as one input, but read different tensors",
                    "In the field 'inputs' of the description, put each of these inputs into a list of its own.",
                )
            if source is None:
                raise self.error(
                    f"input {listed} is not connected in the model",
                    "Remove this input from the field 'inputs' of the description.",
                )
            if source.node in self._inside:
                raise self.error(
                    f"input {listed} reads tensor '{source.name}', which an op of the sub-graph writes",
                    "Remove this input from the field 'inputs' of the description.",
                )
            if source in found:
                raise self.error(
                    f"input {listed} reads tensor '{source.name}', which an earlier list of 'inputs' also reads",
                    "Combine the two lists into one.",
                )
            found[source] = readers
        return found

    def _find_outputs(self, allowed: Sequence[OutPort] | None) -> list[OutPort]:
        outward = [
            port for node in self.nodes for port in node.out_ports().values() if self._leaves(port)
        ]
        if self.description.outputs:
            named = [
                self._find_node(n, "output").out_port(n.port) for n in self.description.outputs
            ]
        else:
            named = outward if allowed is None else [p for p in allowed if self._leaves(p)]
        for port in outward:
            if port not in named:
                reader = next(r for r in port.get_destinations() if r.node not in self._inside)
                raise self.error(
                    f"{reader.node}, which is outside of the sub-graph, reads tensor '{port.name}', but the "
                    "description does not list this tensor as an output of the sub-graph",
                    f"Add {port.node}, which writes the tensor, to the outputs or end points of the description. "
                    f"Alternatively, add {reader.node} to the sub-graph.",
                )
        return list(dict.fromkeys(named))

    def _find_node(self, name: PortName, kind: str) -> Node:
        """Returns the op of a port name in the description; `kind` is input or output."""
        node = self.node_by_pattern(name.node)
        if node is None:
            raise self.error(
                f"no op of the sub-graph has a name that matches '{name.node}'",
                f"Correct the name in the field '{kind}s' of the description.",
            )
        count = len(node.in_ports() if kind == "input" else node.out_ports())
        if name.port >= count:
            raise self.error(
                f"{node} has no {kind} {name.port}: {index_range(kind, count)}",
                f"Correct the port in the field '{kind}s' of the description.",
            )
        return node

    def _leaves(self, port: OutPort) -> bool:
        return any(reader.node not in self._inside for reader in port.get_destinations())

    def _is_own(self, source: OutPort) -> bool:
        """Whether an outside port is a constant, or a variable that only the sub-graph reads."""
        if source.node.is_const:
            return True
        return source.node.op == "Variable" and not self._leaves(source)

    def _inner_paths(self, node: Node) -> Iterator[str]:
        """Yields the parts of a node's name after the scope."""
        prefix = f"{self.scope}/" if self.scope else ""
        for path in name_paths(node.name):
            if path.startswith(prefix):
                yield path[len(prefix) :]

    def _check(self, port: int, ports: Sequence[OutPort], what: str) -> None:
        if not 0 <= port < len(ports):
            raise self.error(f"the sub-graph has no {what} {port}: {index_range(what, len(ports))}")

    def __repr__(self) -> str:
        where = f"scope '{self.scope}'" if self.scope else "sub-graph"
        return f"{where} of {len(self.nodes)} ops"


def name_paths(name: str) -> Iterator[str]:
    """Returns the op names that a converter has joined by `;` into a node's name, without their `:0`."""
    for part in name.split(";"):
        yield _OUTPUT_NUMBER.sub("", part)


def description_error(
    description: ReplacementDescription, what: str, hint: str = "", scope: str = ""
) -> LiteRtError:
    """Returns an error about a description that does not fit the model."""
    where = f"{description.where}, id '{description.replacement_id}'"
    where += f", scope '{scope}'" if scope else ""
    return LiteRtError(Status.INVALID_ARGUMENT, what, where, hint)

"""Base classes of transformations that replace each op with a given name, or each match of a pattern.

A replacement takes over the output tensors of the replaced op, with their names, if the replacement is new, or if
all ops that read it are removed. Otherwise the readers of the replaced op are connected to the replacement.
Outputs of the model keep their names in both cases. Matched ops without readers are removed automatically. The
folder of the file with the class determines the phase.
"""

from __future__ import annotations

import inspect
from abc import abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

from compiler_plugin.transformations.graph import Graph
from compiler_plugin.transformations.matcher import find_candidates, find_match
from compiler_plugin.transformations.node import Node, OutPort
from compiler_plugin.transformations.pattern import Match, check_pattern, walk
from compiler_plugin.transformations.transformation import Transformation
from litert.core.counts import count_text, names_text
from litert.core.errors import LiteRtError
from litert.core.status import Status

Replacement: TypeAlias = Node | OutPort | Sequence[Node | OutPort | None] | None
"""Replacement of an op: a node, an output port, or a list.

The outputs of a node replace the outputs of the op in order. A port replaces the output of an op that has only one
output. A list has a port or node for each output, or None for an output without readers.
"""


class OpReplacement(Transformation):
    """Replaces each op that has a given name, or one of several given names.

    Attributes:
      op: Name of a builtin operator of TFLite or of a custom op (its custom code); or a tuple of such names.
    """

    @property
    @abstractmethod
    def op(self) -> str | tuple[str, ...]: ...

    def __init_subclass__(cls, **kwargs: Any) -> None:
        super().__init_subclass__(**kwargs)
        if "op" in cls.__dict__:
            _check_made(cls, lambda: Match(cls.__dict__["op"]))

    @abstractmethod
    def replace_op(self, graph: Graph, node: Node) -> Replacement:
        """Returns the replacement of an op.

        If the new op has one of the given names too, the function is called again for the new op.

        Returns:
          A node, whose outputs replace the op's outputs in order; an output port, if the op has only one output;
          or a list with a port or node for each output. The list has None for an output without readers. If the
          function has changed the op in place, it returns `node`. If the op stays unchanged, or the function has
          already reconnected the op's readers, it returns None.
        """

    def find_and_replace_pattern(self, graph: Graph) -> int:
        """Calls `replace_op` for each op with a given name, until no call changes the graph."""
        replacer = Replacer(graph, self.name)

        def attempt(node: Node) -> bool:
            return replacer.rewrite_once([node], lambda: self.replace_op(graph, node))

        return replacer.rewrite_all(self.wanted_ops(), attempt)

    def wanted_ops(self) -> Sequence[str]:
        """The names of the ops that the transformation replaces."""
        return Match(self.op).ops


class PatternReplacement(Transformation):
    """Replaces the last op at each match of a pattern.

    Other matched ops are removed unless an op outside the match reads them. The class is checked when it is
    defined: its pattern must be valid, and each parameter of `rewrite` must be the name of a part of the pattern.

    Attributes:
      pattern: Pattern to search for: a `Match` for the last op, which contains patterns for the op's inputs. The
        last op is replaced.
    """

    @property
    @abstractmethod
    def pattern(self) -> Match: ...

    @abstractmethod
    def rewrite(self, graph: Graph, *args: Any, **named: Any) -> Replacement:
        """Returns the replacement of the last op; a typical signature is `rewrite(self, graph, mul, sigmoid, x)`.

        Args:
          graph: Graph to change.
          args: Not used.
          named: Matches of the named parts of the pattern: a node for a `Match` or `Const`, an output port for an
            `Any`, None for an optional input that the op lacks. Only the parts that are parameters of `rewrite`
            are passed.

        Returns:
          Same as `OpReplacement.replace_op`.
        """

    def __init_subclass__(cls, **kwargs: Any) -> None:
        super().__init_subclass__(**kwargs)
        if "pattern" in cls.__dict__ or "rewrite" in cls.__dict__:
            _check_made(cls, lambda: _check_class(cls))

    def find_and_replace_pattern(self, graph: Graph) -> int:
        """Calls `rewrite` for each match in execution order, until no call changes the graph."""
        names = _parameters(type(self))
        replacer = Replacer(graph, self.name)

        def attempt(node: Node) -> bool:
            match = find_match(self.pattern, node)
            if match is None:
                return False
            named = {
                name: value for name, value in match.named.items() if names is None or name in names
            }
            return replacer.rewrite_once(match.nodes, lambda: self.rewrite(graph, **named))

        return replacer.rewrite_all(self.pattern.ops, attempt)

    def wanted_ops(self) -> Sequence[str]:
        """The names of the ops in the pattern."""
        return [op for part in walk(self.pattern) if isinstance(part, Match) for op in part.ops]


def _check_class(cls: type[PatternReplacement]) -> None:
    """Checks the pattern of a class, and the parameters of its `rewrite`, if they are defined."""
    if isinstance(cls.pattern, property):
        return
    named = check_pattern(cls.pattern)
    parameters = list(inspect.signature(cls.rewrite).parameters.values())[2:]  # self, graph
    for parameter in parameters:
        if parameter.kind in (parameter.VAR_POSITIONAL, parameter.VAR_KEYWORD):
            continue
        if parameter.name not in named and parameter.default is parameter.empty:
            raise LiteRtError(
                Status.INVALID_TRANSFORMATION,
                f"function rewrite has the parameter '{parameter.name}', but no part of the pattern has this name",
                hint=f"Rename the parameter, or name a part of the pattern '{parameter.name}'. "
                f"{names_text('named part', list(named))}.",
            )


def _parameters(cls: type[PatternReplacement]) -> frozenset[str] | None:
    """Returns the parameter names of a class's `rewrite`; None if it accepts all names."""
    parameters = inspect.signature(cls.rewrite).parameters.values()
    if any(parameter.kind is parameter.VAR_KEYWORD for parameter in parameters):
        return None
    return frozenset(parameter.name for parameter in parameters)


def _check_made(cls: type, check: Callable[[], object]) -> None:
    """Runs a check of a class, and adds the class to errors."""
    try:
        check()
    except LiteRtError as error:
        where = f"class {cls.__name__}"
        raise LiteRtError(error.status, error.what, where, error.hint) from error


@dataclass(frozen=True, slots=True)
class Replacer:
    """Replaces ops of a graph for the transformation `name`; error messages contain this name."""

    graph: Graph
    name: str

    def rewrite_all(self, ops: Sequence[str], attempt: Callable[[Node], bool]) -> int:
        """Calls `attempt` for each op with a given name until no call succeeds; returns the number of successes.

        Raises:
          LiteRtError: INVALID_TRANSFORMATION, if the rewrites do not terminate.
        """
        count = limit = 0
        while True:
            before = count
            for node in find_candidates(self.graph, ops):
                if not (node.is_alive and attempt(node)):
                    continue
                count += 1
                limit = limit or 1000 + 20 * len(self.graph.nodes)
                if count > limit:
                    raise self._error(
                        f"does not end: after {count} rewrites, the pattern still matches; the last rewritten "
                        f"op was {node}",
                        "If an op needs no rewrite, change nothing and return None. Alternatively, make the "
                        "pattern stricter.",
                    )
            if count == before:
                return count

    def rewrite_once(self, matched: Sequence[Node], rewrite: Callable[[], Replacement]) -> bool:
        """Calls `rewrite`, and replaces the first matched op by the returned replacement.

        Matched ops that then have no readers are removed. Returns whether anything has changed.
        """
        root, gone = matched[0], list(matched)
        edits, created = self.graph.edit_count, self.graph.creation_count
        outputs = list(root.out_ports().values())
        was_read = any(port.is_read for port in outputs)
        replacement = rewrite()
        if replacement is None or replacement is root:  # changed in place, or connected by hand
            if self.graph.edit_count == edits:
                return False
            if not was_read:
                gone.remove(root)
        else:
            if not root.is_alive:
                raise self._error(
                    f"has removed {root}, but also returns a replacement for this op",
                    "Do not remove the op: after the replacement, it is removed automatically.",
                )
            self.replace(outputs, replacement, created)
        remove_unread(self.graph, gone)
        return True

    def replace(self, old: Sequence[OutPort], replacement: object, created: int) -> None:
        """Connects the readers of each port in `old` to the corresponding port of the replacement.

        `created` is the number of ops that the graph had created before the replacement was built.
        """
        new = self._as_ports(old, replacement)
        pairs = [(b, a) for b, a in zip(old, new, strict=True) if a is not None and a != b]
        connections = [before.get_connection() for before, _ in pairs]
        for (before, after), connection in zip(pairs, connections, strict=True):
            if any(reader.node is after.node for reader in connection.get_destinations()):
                raise self._error(
                    f"returns {after.node}, which cannot replace {before}, because {after.node} reads this "
                    "output",
                    "To insert a node after another node, use connection.insert_node(node).",
                )
        are_old = set(old)
        if any(after in are_old for _, after in pairs):  # for example, outputs that are swapped
            for (_, after), connection in zip(pairs, connections, strict=True):
                connection.set_source(after)
            return
        for before, after in pairs:
            if not after.node.is_op or not self._is_own(after, before.node, created):
                before.get_connection().set_source(after)
            elif len(before.node.out_ports()) == len(after.node.out_ports()) == 1:
                self.graph.replace_node(before.node, after.node)
            else:
                self.graph.replace_port(before, after)

    def _as_ports(self, old: Sequence[OutPort], replacement: object) -> list[OutPort | None]:
        """Checks a replacement, and converts it to a list with an entry for each old output port."""
        nodes = {port.node for port in old}
        what = next(iter(nodes)) if len(nodes) == 1 else "the sub-graph"
        if isinstance(replacement, Node):
            self._check_alive(replacement)
            ports: list[OutPort | None] = list(replacement.out_ports().values())
            if len(ports) > len(old):
                raise self._error(
                    f"returns {replacement} with {count_text(len(ports), 'output')}, but {what} has only "
                    f"{count_text(len(old), 'output')}",
                    f"Return a list of output ports: one port for each output of {what}.",
                )
            ports += [None] * (len(old) - len(ports))
        elif isinstance(replacement, OutPort):
            ports = [replacement]
        elif isinstance(replacement, Mapping):  # such as `node.out_ports()`
            ports = [self._as_port(entry) for entry in replacement.values()]
        elif isinstance(replacement, Sequence) and not isinstance(replacement, str):
            ports = [self._as_port(entry) for entry in replacement]
        else:
            raise self._error(
                f"returns {replacement!r:.100}, which cannot replace {what}",
                "Return a node, an output port, a list with one of these for each output, or None.",
            )
        if len(ports) != len(old):
            raise self._error(
                f"returns {count_text(len(ports), 'port')}, but {what} has {count_text(len(old), 'output')}",
                "Return one port for each output; None for an output that has no reader.",
            )
        for before, port in zip(old, ports, strict=True):
            if port is not None:
                self._check_alive(port.node)
            elif before.is_read:
                raise self._error(
                    f"returns None for {before}, although this output still has readers",
                    "Return a port for this output, or first connect the readers to another source.",
                )
        return ports

    def _as_port(self, entry: object) -> OutPort | None:
        if entry is None or isinstance(entry, OutPort):
            return entry
        if isinstance(entry, Node):
            self._check_alive(entry)
            if len(entry.out_ports()) == 1:
                return entry.out_port(0)
            raise self._error(
                f"returns {entry}, which does not have exactly one output",
                "Return an output port of the node: node.out_port(i).",
            )
        raise self._error(
            f"returns {entry!r:.100}, which cannot replace an output",
            "Return a node or an output port.",
        )

    def _is_own(self, port: OutPort, old: Node, created: int) -> bool:
        """Whether only new ops and the replaced op read a port."""
        return not port.is_result and all(
            op is old.model_op or self.graph.node_of(op).creation > created
            for op in port.tensor.readers
        )

    def _check_alive(self, node: Node) -> None:
        if node.graph is not self.graph:
            raise self._error(
                f"returns {node}, which is in another graph", "Return a node of the same graph."
            )
        if not node.is_alive:
            raise self._error(
                f"returns {node}, which was removed from the graph",
                "Return a node that is in the graph.",
            )

    def _error(self, what: str, hint: str = "") -> LiteRtError:
        where = f"transformation '{self.name}'"
        return LiteRtError(Status.INVALID_TRANSFORMATION, f"the transformation {what}", where, hint)


def remove_unread(graph: Graph, nodes: Sequence[Node]) -> None:
    """Removes the given ops that have no readers; readers that are removed too do not count."""
    waiting = [node for node in nodes if node.is_alive]
    while waiting:
        left = []
        for node in waiting:
            if any(port.is_read for port in node.out_ports().values()):
                left.append(node)
            else:
                graph.remove_node(node)
        if len(left) == len(waiting):
            return
        waiting = left

"""Transformations that look for an op or a pattern, and put something else in its place, as long as there is one.

Coming from the Model Optimizer:

- `FrontReplacementOp` with `op` and `replace_op` is `OpReplacement` with the same two; nodes or ports are
  returned, and no names.
- `FrontReplacementSubgraph`, `MiddleReplacementPattern` and `BackReplacementPattern`, with a `pattern()` of nodes
  and edges and a `replace_sub_graph(graph, match)` or `replace_pattern(graph, match)`, are `PatternReplacement`
  with `pattern`, and `rewrite` that gets the nodes by their names.
- `FrontReplacementPattern` with `find_and_replace_pattern` alone is `Transformation` with the same.
- `FrontReplacementFromConfigFileSubGraph`, `...Op` and `...General` are in `sub_graph_replacement.py`.

What was matched goes by itself once nobody reads it. The phase is the folder, not the class.
"""

from __future__ import annotations

import inspect
from abc import abstractmethod
from collections.abc import Callable
from typing import Any

from compiler_plugin.transformations.graph import Graph
from compiler_plugin.transformations.matcher import find_match
from compiler_plugin.transformations.node import Node
from compiler_plugin.transformations.pattern import Match, check_pattern
from compiler_plugin.transformations.rewriting import Replacement, rewrite_all, rewrite_once
from compiler_plugin.transformations.transformation import Transformation
from litert.core.errors import LiteRtError
from litert.core.status import Status


class OpReplacement(Transformation):
    """Replaces each op of a name, or of several names.

    Attributes:
      op: the operator's name in the schema, or the custom code; or a tuple of them.
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
        """What takes an op's place.

        It is asked again for what it makes, if that is an op of the same name.

        Returns:
          As `Replacement` says; the node itself where it was changed in place. None where the op is to stay as it
          is (or where its readers were connected to something else by hand).
        """

    def find_and_replace_pattern(self, graph: Graph) -> int:
        """Replaces ops until none is left that `replace_op` replaces."""

        def attempt(node: Node) -> bool:
            return rewrite_once(
                graph, node, [node], lambda: self.replace_op(graph, node), self.name
            )

        return rewrite_all(graph, Match(self.op).ops, attempt, self.name)


class PatternReplacement(Transformation):
    """Replaces the last op of each place that a pattern fits.

    The other ops of the match stay if something outside reads them, and go if not. The class is checked when it is
    made: its pattern, and that `rewrite` asks for nothing that the pattern does not name.

    Attributes:
      pattern: what is looked for (`pattern.py`).
    """

    @property
    @abstractmethod
    def pattern(self) -> Match: ...

    @abstractmethod
    def rewrite(self, graph: Graph, *args: Any, **named: Any) -> Replacement:
        """What takes the place of the last op; as in `rewrite(self, graph, mul, sigmoid, x)`.

        Args:
          graph: to be changed.
          args: none.
          named: what those of the pattern's names stand for that it has parameters for: an op's or constant's
            node, the output port that `Any` stands for, None for an optional input that is left out.

        Returns:
          As for `OpReplacement.replace_op`.
        """

    def __init_subclass__(cls, **kwargs: Any) -> None:
        super().__init_subclass__(**kwargs)
        if "pattern" in cls.__dict__ or "rewrite" in cls.__dict__:
            _check_made(cls, lambda: _check_class(cls))

    def find_and_replace_pattern(self, graph: Graph) -> int:
        """Rewrites in execution order, until the pattern fits nowhere that `rewrite` has something for."""
        pattern = self.pattern
        names = _parameters(type(self))

        def attempt(node: Node) -> bool:
            match = find_match(pattern, node)
            if match is None:
                return False
            named = {
                name: value for name, value in match.named.items() if names is None or name in names
            }
            return rewrite_once(
                graph, node, match.nodes, lambda: self.rewrite(graph, **named), self.name
            )

        return rewrite_all(graph, pattern.ops, attempt, self.name)


def _check_class(cls: type[PatternReplacement]) -> None:
    """Checks a class's pattern, and its `rewrite` against it, as far as the class has them."""
    if isinstance(cls.pattern, property):
        return
    named = check_pattern(cls.pattern)
    parameters = list(inspect.signature(cls.rewrite).parameters.values())[2:]  # self, graph
    for parameter in parameters:
        if parameter.kind in (parameter.VAR_POSITIONAL, parameter.VAR_KEYWORD):
            continue
        if parameter.name not in named and parameter.default is parameter.empty:
            names = ", ".join(named) or "none"
            raise LiteRtError(
                Status.INVALID_TRANSFORMATION,
                f"rewrite asks for '{parameter.name}', which the pattern does not name",
                hint=f"The pattern's names: {names}.",
            )


def _parameters(cls: type[PatternReplacement]) -> frozenset[str] | None:
    """The names that a class's `rewrite` takes; None for all."""
    parameters = inspect.signature(cls.rewrite).parameters.values()
    if any(parameter.kind is parameter.VAR_KEYWORD for parameter in parameters):
        return None
    return frozenset(parameter.name for parameter in parameters)


def _check_made(cls: type, check: Callable[[], object]) -> None:
    """Runs a check of a class; its errors name the class."""
    try:
        check()
    except LiteRtError as error:
        where = f"class {cls.__name__}"
        raise LiteRtError(error.status, error.what, where, error.hint) from error

"""The base class of transformations: a transformation finds ops in a graph and replaces them.

The file of a transformation is in the subfolder `front`, `middle` or `back` of an extension folder. The subfolder
determines the phase, and no registration is needed. Most transformations are an `OpReplacement` or a
`PatternReplacement` (`replacement.py`).

The order of the transformations in a phase depends on `run_before` and `run_after`, and otherwise on their names.
The order of files does not matter.
"""

from __future__ import annotations

import re
from abc import ABC, abstractmethod
from collections.abc import Callable, Collection, Sequence
from graphlib import CycleError, TopologicalSorter
from heapq import heappop, heappush
from itertools import pairwise
from typing import ClassVar, NamedTuple

from compiler_plugin.transform_options import Phase
from compiler_plugin.transformations.graph import Graph
from compiler_plugin.transformations.op_request import refused
from litert.core.errors import LiteRtError
from litert.core.status import Status

_WORD_START = re.compile(r"(?<=[a-z])(?=[A-Z])|(?<=[A-Z0-9])(?=[A-Z][a-z])")

_COMMAND_LINE = "the command line"


class Transformation(ABC):
    """Base class of transformations.

    The first sentence of a derived class's docstring describes the class in lists of transformations. A derived
    class does not run if its name begins with `_`. A class that lacks a required method, and has subclasses in its
    file, is a base class, which does not run either.

    Attributes:
      enabled: Whether the transformation runs by default; `--transformations=NAME` also runs a disabled
        transformation.
      phase: The only phase in which the transformation may run; None for any phase.
      anchor: "start" or "finish" for a class that only marks the beginning or the end of its phase. Other classes
        refer to such a class in `run_before` and `run_after`.
      graph_condition: Functions with the graph as their argument; the transformation runs on a graph only if all
        of them return true.
      force_shape_inference: Whether all shapes are inferred again after the transformation; by default, only the
        shapes that depend on its edits are inferred again.
      force_clean_up: Whether ops without readers are removed directly after the transformation.
    """

    enabled: ClassVar[bool] = True
    phase: ClassVar[Phase | None] = None
    anchor: ClassVar[str] = ""
    graph_condition: ClassVar[Sequence[Callable[[Graph], bool]]] = ()
    force_shape_inference: ClassVar[bool] = False
    force_clean_up: ClassVar[bool] = False

    @property
    def name(self) -> str:
        """The class's name in snake case, as in flags and reports: `fuse_swish` for `FuseSwish`."""
        return snake_case(type(self).__name__)

    @property
    def description(self) -> str:
        """The first sentence of the class's docstring; "" if the class has no docstring."""
        text = " ".join((type(self).__dict__.get("__doc__") or "").split())
        return re.split(r"(?<=\.)\s", text, maxsplit=1)[0].rstrip(".")

    def run_before(self) -> Sequence[str | type[Transformation]]:
        """Returns names or classes of transformations in the same phase; this transformation runs before them."""
        return ()

    def run_after(self) -> Sequence[str | type[Transformation]]:
        """Returns names or classes of transformations in the same phase; this transformation runs after them."""
        return ()

    def wanted_ops(self) -> Sequence[str]:
        """The names of the ops that the transformation searches for; empty if they are not known in advance."""
        return ()

    @abstractmethod
    def find_and_replace_pattern(self, graph: Graph) -> int | None:
        """Transforms one subgraph.

        Args:
          graph: Graph to change, with the methods of the graph and of its nodes, ports and connections.

        Returns:
          Number of matches. None means one match if the graph has changed, and no match otherwise.
        """


def snake_case(name: str) -> str:
    """Converts the name of a class to snake case, as in lists and flags: `fold_nhwc_top_k` for `FoldNHWCTopK`."""
    return _WORD_START.sub("_", name).lower()


class OrderRule(NamedTuple):
    """The rule that transformation `first` runs before transformation `second`; `source` is the rule's origin."""

    first: str
    second: str
    source: str


def order_transformations(
    transformations: Collection[Transformation], named: Sequence[str] = ()
) -> list[Transformation]:
    """Sorts the transformations of one phase into execution order.

    A rule of `run_before` or `run_after` applies only if both of its transformations are given. The
    transformations in `named` must run in the order of this list. Where these rules leave a choice,
    transformations run in alphabetical order. All names must differ.

    Raises:
      LiteRtError: INVALID_TRANSFORMATION, if rules contradict each other; the error lists the rules that form a
        cycle.
    """
    by_name = {transformation.name: transformation for transformation in transformations}
    rules = sorted(rule for t in by_name.values() for rule in find_rules(t))
    present = [name for name in dict.fromkeys(named) if name in by_name]
    rules += [OrderRule(a, b, _COMMAND_LINE) for a, b in pairwise(present)]
    sorter: TopologicalSorter[str] = TopologicalSorter(dict.fromkeys(sorted(by_name), ()))
    for rule in rules:
        if rule.first in by_name and rule.second in by_name:
            sorter.add(rule.second, rule.first)
    try:
        sorter.prepare()
    except CycleError as error:
        circle = _find_circle(rules, error.args[1][1:])
        if all(rule.source != _COMMAND_LINE for rule in circle):
            hint = "Remove one of these rules." if len(circle) > 1 else "Remove this name."
            raise _circle_error(circle, hint) from None
        allowed = [t.name for t in order_transformations(transformations) if t.name in present]
        hint = f"List the transformations in another order: {','.join(allowed)}."
        raise _circle_error(circle, hint) from None
    ready: list[str] = []
    order: list[Transformation] = []
    while sorter.is_active():
        for name in sorter.get_ready():
            heappush(ready, name)
        name = heappop(ready)
        order.append(by_name[name])
        sorter.done(name)
    return order


def find_rules(transformation: Transformation) -> list[OrderRule]:
    """Returns the ordering rules of a transformation."""
    name = transformation.name
    before = [
        OrderRule(name, other, f"run_before of {name}")
        for other in _names(transformation, "run_before")
    ]
    return before + [
        OrderRule(other, name, f"run_after of {name}")
        for other in _names(transformation, "run_after")
    ]


def _names(transformation: Transformation, method: str) -> list[str]:
    given = getattr(transformation, method)()
    if isinstance(given, str) or not isinstance(given, Sequence):
        raise _wrong_rule(transformation, method, given, is_whole=True)
    names: list[str] = []
    for other in given:
        if isinstance(other, str):
            names.append(snake_case(other))
        elif isinstance(other, type) and issubclass(other, Transformation) and other.anchor:
            if (other.anchor == "start") == (method == "run_before"):
                raise refused(
                    f"{method} of transformation '{transformation.name}' names {other.__name__}, so the "
                    "transformation would run outside of its phase",
                    f"In {method}, name transformations of the same phase.",
                )
        elif isinstance(other, type) and issubclass(other, Transformation):
            names.append(snake_case(other.__name__))
        else:
            raise _wrong_rule(transformation, method, other, is_whole=False)
    return names


def _wrong_rule(
    transformation: Transformation, method: str, given: object, *, is_whole: bool
) -> LiteRtError:
    return refused(
        f"{method} of transformation '{transformation.name}' must return a list of transformations, but "
        f"{'returns' if is_whole else 'the list contains'} {given!r:.100}",
        "Return a list of names or classes of transformations, for example ['fold_constants'].",
    )


def _find_circle(rules: Sequence[OrderRule], names: Sequence[str]) -> list[OrderRule]:
    """Returns the rules that form a cycle of the given names."""
    start = names.index(min(names))
    names = [*names[start:], *names[: start + 1]]
    by_pair = {(rule.first, rule.second): rule for rule in rules}
    return [by_pair[pair] for pair in pairwise(names)]


def _circle_error(circle: Sequence[OrderRule], hint: str) -> LiteRtError:
    first = circle[0]
    steps = ", ".join(f"{rule.first} before {rule.second} ({rule.source})" for rule in circle)
    what = f"the rules for the order of transformations contradict each other: {steps}"
    if first.first == first.second:
        what = f"transformation '{first.first}' names itself ({first.source})"
    return LiteRtError(Status.INVALID_TRANSFORMATION, what, hint=hint)

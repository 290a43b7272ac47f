"""What `Transformation` is: a class that finds something in a graph and puts another thing in its place.

One lies in a file of an extension folder's `front`, `middle` or `back`, and nothing registers it: the folder is
its phase. Most are an `OpReplacement` or a `PatternReplacement` (`replacement.py`).

The transformations of a phase run in the order that `run_before` and `run_after` say, then by their names; it does
not depend on the order in which files were found.
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
    """Changes a graph; the first sentence of its docstring is what lists say of it.

    A class whose name begins with `_`, or that others of the folder are made from and that lacks a method, is a
    base and does not run.

    Attributes:
      enabled: whether it runs without being named (`--transformations=NAME` runs it all the same).
      phase: the only one that it may run in; None for any.
      anchor: "start" or "finish", for one that only stands for the beginning or end of its phase in rules.
      graph_condition: functions of the graph that must all be true, or it does not run on that graph.
      force_shape_inference: whether all shapes are inferred again after it, not only those its edits touched.
      force_clean_up: whether ops whose results nobody reads go after it.
    """

    enabled: ClassVar[bool] = True
    phase: ClassVar[Phase | None] = None
    anchor: ClassVar[str] = ""
    graph_condition: ClassVar[Sequence[Callable[[Graph], bool]]] = ()
    force_shape_inference: ClassVar[bool] = False
    force_clean_up: ClassVar[bool] = False

    @property
    def name(self) -> str:
        """Its class's name in snake case, as flags and reports have it: `fuse_swish` of `FuseSwish`."""
        return snake_case(type(self).__name__)

    @property
    def description(self) -> str:
        """The first sentence of its docstring; "" where it has none of its own."""
        text = " ".join((type(self).__dict__.get("__doc__") or "").split())
        return re.split(r"(?<=\.)\s", text, maxsplit=1)[0].rstrip(".")

    def run_before(self) -> Sequence[str | type[Transformation]]:
        """Transformations of the same phase, by name or class, that it runs before."""
        return ()

    def run_after(self) -> Sequence[str | type[Transformation]]:
        """Transformations of the same phase, by name or class, that it runs after."""
        return ()

    def wanted_ops(self) -> Sequence[str]:
        """The names of the ops that it looks for, as far as it says so beforehand."""
        return ()

    @abstractmethod
    def find_and_replace_pattern(self, graph: Graph) -> int | None:
        """Does its work on one subgraph.

        Args:
          graph: to be changed, by its own methods and those of its nodes, ports and connections.

        Returns:
          How often it matched; None for once if it has changed the graph, and else not at all.
        """


def snake_case(name: str) -> str:
    """A class's name as lists and flags have it: `fold_nhwc_top_k` of `FoldNHWCTopK`."""
    return _WORD_START.sub("_", name).lower()


class OrderRule(NamedTuple):
    """That one transformation runs before another, and who says so."""

    first: str
    second: str
    source: str


def order_transformations(
    transformations: Collection[Transformation], named: Sequence[str] = ()
) -> list[Transformation]:
    """Puts transformations of one phase, of different names, in order.

    Those that are among `named` keep that order. Each comes after those that must run before it; among those that
    may come next, the first by name does. What rules say of others does not count.

    Raises:
      LiteRtError: INVALID_TRANSFORMATION, for rules that contradict each other, with all that are in the circle.
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
            raise _circle_error(circle, "Take out one of these rules.") from None
        allowed = [t.name for t in order_transformations(transformations) if t.name in present]
        hint = f"Name them in another order: {','.join(allowed)}."
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
    """What a transformation says of its place."""
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
        raise _wrong_rule(transformation, method, given)
    names: list[str] = []
    for other in given:
        if isinstance(other, str):
            names.append(snake_case(other))
        elif isinstance(other, type) and issubclass(other, Transformation) and other.anchor:
            if (other.anchor == "start") == (method == "run_before"):
                raise refused(
                    f"{method} of {transformation.name} names {other.__name__}, beyond which nothing runs",
                    "Name the transformations that it is to run before or after.",
                )
        elif isinstance(other, type) and issubclass(other, Transformation):
            names.append(snake_case(other.__name__))
        else:
            raise _wrong_rule(transformation, method, other)
    return names


def _wrong_rule(transformation: Transformation, method: str, given: object) -> LiteRtError:
    return refused(
        f"{method} of {transformation.name} gives {given!r:.100}",
        "It gives a list of transformations: their names or classes.",
    )


def _find_circle(rules: Sequence[OrderRule], names: Sequence[str]) -> list[OrderRule]:
    """The rules that let each of some names run before the next, and the last before the first."""
    start = names.index(min(names))
    names = [*names[start:], *names[: start + 1]]
    by_pair = {(rule.first, rule.second): rule for rule in rules}
    return [by_pair[pair] for pair in pairwise(names)]


def _circle_error(circle: Sequence[OrderRule], hint: str) -> LiteRtError:
    steps = ", ".join(f"{rule.first} before {rule.second} ({rule.source})" for rule in circle)
    return LiteRtError(
        Status.INVALID_TRANSFORMATION,
        f"transformations that must each run before the next: {steps}",
        hint=hint,
    )

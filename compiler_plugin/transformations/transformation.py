"""What a transformation is: a class that finds something in a graph and puts another thing in its place.

One lies in a file of an extension folder's `front`, `middle` or `back`, and nothing registers it: the folder is
its phase. Most are an `OpReplacement` or a `PatternReplacement` (`replacement.py`).
"""

from __future__ import annotations

import re
from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, ClassVar

if TYPE_CHECKING:
    from compiler_plugin.transformations.graph import Graph

_WORD_START = re.compile(r"(?<=[a-z])(?=[A-Z])|(?<=[A-Z0-9])(?=[A-Z][a-z])")


class Transformation(ABC):
    """Changes a graph; the first sentence of its docstring is what lists say of it.

    A class whose name begins with `_`, or that others of the folder are made from and that lacks a method, is a
    base and does not run.

    Attributes:
      enabled: whether it runs without being named (`--transformations=NAME` runs it all the same).
      graph_condition: functions of the graph that must all be true, or it does not run on that graph.
      force_shape_inference: whether all shapes are inferred again after it, not only those its edits touched.
      force_clean_up: whether ops whose results nobody reads go after it.
    """

    enabled: ClassVar[bool] = True
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

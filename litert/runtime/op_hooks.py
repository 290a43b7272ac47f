"""Puts functions in front of the ops of a model.

The interpreter has a copy of each op's `TfLiteRegistration`, and calls what its `invoke` points to.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TypeAlias

from litert.runtime.subgraph import InterpreterSubgraph

Node: TypeAlias = tuple[int, int]
"""A subgraph by its index in the file, and an op of the interpreter's in it."""


class OpHooks:
    """Functions in place of the ops' own; whoever has it holds the model's lock.

    Attributes:
      nodes: that have one.
    """

    def __init__(self, subgraphs: Mapping[int, InterpreterSubgraph]) -> None:
        self.nodes: Sequence[Node] = ()
        self._subgraphs = subgraphs
        self._originals: Sequence[int] = ()
        self._functions: Sequence[int] = ()

    def install(self, make: Callable[[Sequence[int]], Sequence[int]]) -> None:
        """Puts functions there; again, after a plan that may have changed which ops run.

        Args:
          make: gets the addresses of the ops' own functions, and gives those to call in their places.
        """
        self.uninstall()
        nodes = [
            (index, node.index)
            for index, subgraph in self._subgraphs.items()
            for node in subgraph.nodes()
            if subgraph.registration(node.index).invoke
        ]
        originals = [self._subgraphs[i].registration(op).invoke or 0 for i, op in nodes]
        functions = make(originals)
        for (index, op), function in zip(nodes, functions, strict=True):
            self._subgraphs[index].registration(op).invoke = function
        self.nodes, self._originals, self._functions = nodes, originals, functions

    def uninstall(self) -> None:
        """Gives each op its own function back."""
        for (index, op), original, function in zip(
            self.nodes, self._originals, self._functions, strict=True
        ):
            registration = self._subgraphs[index].registration(op)
            if registration.invoke == function:
                registration.invoke = original
        self.nodes = self._originals = self._functions = ()

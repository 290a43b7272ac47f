"""Installs functions that are called instead of the ops' own functions.

The interpreter has its own copy of each op's `TfLiteRegistration`, and calls the function to which the copy's
`invoke` points.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TypeAlias

from litert.runtime.subgraph import InterpreterSubgraph

Node: TypeAlias = tuple[int, int]
"""Index of a subgraph in the file, and index of one of the interpreter's nodes in this subgraph."""


class OpHooks:
    """Replaces the functions of ops by other functions; callers must hold the model's lock.

    Attributes:
      nodes: Ops whose functions are replaced.
    """

    def __init__(self, subgraphs: Mapping[int, InterpreterSubgraph]) -> None:
        self.nodes: Sequence[Node] = ()
        self._subgraphs = subgraphs
        self._originals: Sequence[int] = ()
        self._functions: Sequence[int] = ()

    def install(self, make: Callable[[Sequence[int]], Sequence[int]]) -> None:
        """Installs the functions.

        Callers must install the functions again after each memory plan, because a plan may change the ops that
        run.

        Args:
          make: Function that takes the addresses of the ops' own functions, and returns the addresses of the
            functions that replace them.
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
        """Restores each op's own function."""
        for (index, op), original, function in zip(
            self.nodes, self._originals, self._functions, strict=True
        ):
            registration = self._subgraphs[index].registration(op)
            if registration.invoke == function:
                registration.invoke = original
        self.nodes = self._originals = self._functions = ()

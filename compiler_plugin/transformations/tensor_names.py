"""The names of a subgraph's tensors, and new ones that none has."""

from __future__ import annotations

from litert.core.errors import LiteRtError
from litert.core.status import Status
from litert.model.graph import Subgraph


class TensorNames:
    """The names of a subgraph's tensors; they are looked at when the first new one is asked for."""

    def __init__(self, subgraph: Subgraph) -> None:
        self._subgraph = subgraph
        self._taken: dict[str, int] | None = None  # with the last number behind each

    def find_free(self, base: str) -> str:
        """A name that none has, with a number where it needs one; it is taken from now on."""
        if self._taken is None:
            self._taken = dict.fromkeys((tensor.name for tensor in self._subgraph.tensors), 0)
        name, number = base, self._taken.get(base, 0)
        while name in self._taken:
            number += 1
            name = f"{base}_{number}"
        self._taken[base] = number  # the next one of this base goes on from here
        self._taken[name] = self._taken.get(name, 0)
        return name

    def note(self, name: str) -> None:
        """Remembers a name that a tensor was given."""
        if self._taken is not None:
            self._taken.setdefault(name, 0)


def check_name(name: str) -> None:
    """Refuses what is no name of a tensor.

    Raises:
      LiteRtError: INVALID_ARGUMENT.
    """
    if not isinstance(name, str):
        raise LiteRtError(Status.INVALID_ARGUMENT, f"{name!r:.100} is no name", hint="Give a text.")

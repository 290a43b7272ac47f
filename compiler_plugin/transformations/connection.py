"""A connection: an output port with all input ports that read it, or an input port that reads nothing yet.

A connection is a picture of the moment that it was asked for; the destinations that it had then are those that
it changes.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from litert.core.errors import LiteRtError
from litert.core.status import Status

if TYPE_CHECKING:
    from compiler_plugin.transformations.node import Node
    from compiler_plugin.transformations.ports import InPort, OutPort


class Connection:
    """Where data come from, and who reads them.

    A connection of an output port has all of its readers; one of an input port has that port alone.
    """

    __slots__ = ("_destinations", "_source")

    def __init__(self, source: OutPort | None, destinations: Sequence[InPort]) -> None:
        self._source = source
        self._destinations = list(destinations)

    def get_source(self) -> OutPort | None:
        """The output port that is read; None where there is none."""
        return self._source

    def get_destinations(self) -> list[InPort]:
        """The input ports that read it, results of the model too."""
        return list(self._destinations)

    def get_destination(self) -> InPort | None:
        """The only reader; None where there is none.

        Raises:
          LiteRtError: INVALID_ARGUMENT, where there are several.
        """
        if len(self._destinations) > 1:
            raise LiteRtError(
                Status.INVALID_ARGUMENT,
                f"{self._source} has {len(self._destinations)} readers",
                hint="Use get_destinations().",
            )
        return self._destinations[0] if self._destinations else None

    def set_source(self, source: OutPort) -> None:
        """Lets all destinations read another output port.

        Where a destination is a result of the model, its name goes to the new source's tensor if that has no
        public name of its own.

        Raises:
          LiteRtError: INVALID_ARGUMENT, for a port of another graph, or of a node that would read itself.
        """
        for destination in self._destinations:
            destination.check_source(source)
        for destination in self._destinations:
            destination.connect(source)
        self._source = source

    def set_destination(self, destination: InPort) -> None:
        """Lets one input port read the source, and nobody else.

        Raises:
          LiteRtError: INVALID_ARGUMENT, where a result of the model would be left without data.
        """
        source = self._known_source()
        source.check_destination(destination)
        others = [port for port in self._destinations if port != destination]
        for port in others:
            port.check_disconnect()
        destination.connect(source)
        for port in others:
            port.disconnect()
        self._destinations = [destination]

    def add_destination(self, destination: InPort) -> None:
        """Lets one more input port read the source."""
        self._known_source().connect(destination)
        if destination not in self._destinations:
            self._destinations.append(destination)

    def insert_node(self, node: Node) -> None:
        """Puts a node between the source and its destinations: its input 0, and its output 0.

        Where the node reads the source already, that stays as it is.

        Raises:
          LiteRtError: INVALID_ARGUMENT, for a node without input or output port.
        """
        source = self._known_source()
        in_port, out_port = node.in_port(0), node.out_port(0)
        in_port.check_source(source)
        destinations = [port for port in self._destinations if port.node is not node]
        for destination in destinations:
            destination.check_source(out_port)
        for destination in destinations:
            destination.connect(out_port)
        in_port.connect(source)
        self._source, self._destinations = out_port, destinations

    def remove(self) -> None:
        """Disconnects all destinations.

        Raises:
          LiteRtError: INVALID_ARGUMENT, where a result of the model would be left without data.
        """
        for destination in self._destinations:
            destination.check_disconnect()
        for destination in self._destinations:
            destination.disconnect()
        self._destinations = []

    def __repr__(self) -> str:
        return f"Connection({self._source} -> {', '.join(map(str, self._destinations))})"

    def _known_source(self) -> OutPort:
        if self._source is None:
            raise LiteRtError(
                Status.INVALID_ARGUMENT, "a connection without a source", hint="Set its source."
            )
        return self._source

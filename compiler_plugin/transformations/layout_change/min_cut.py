"""The cheapest cut of a network between its source and its sink (Dinic's algorithm)."""

from __future__ import annotations

SOURCE, SINK = 0, 1
UNLIMITED = 1 << 60


class Network:
    """Nodes by number, of which 0 is the source and 1 the sink, and edges with capacities."""

    def __init__(self) -> None:
        self._edges: list[list[int]] = [[], []]  # of each node; edge `e ^ 1` goes back
        self._ends: list[int] = []
        self._left: list[int] = []  # capacity that is not used

    def add_node(self) -> int:
        self._edges.append([])
        return len(self._edges) - 1

    def add_edge(self, start: int, end: int, capacity: int, back: int = 0) -> None:
        """Lets `capacity` flow from start to end, and `back` the other way."""
        self._edges[start].append(len(self._ends))
        self._edges[end].append(len(self._ends) + 1)
        self._ends += (end, start)
        self._left += (capacity, back)

    def cut(self, max_phases: int) -> list[bool] | None:
        """The nodes on the source's side of a cheapest cut: of several, the one that leaves it the most nodes.

        Args:
          max_phases: after which the search ends; each takes time in proportion to the edges, or a little more.

        Returns:
          For each node whether it is on the source's side; None where the phases did not do.
        """
        for _ in range(max_phases):
            distances = self._distances()
            if distances[SOURCE] < 0:
                return [distance < 0 for distance in distances]
            self._fill(distances)
        return None

    def _distances(self) -> list[int]:
        """Of each node to the sink, by edges that have capacity left; -1 where none lead there."""
        distances = [-1] * len(self._edges)
        distances[SINK] = 0
        front = [SINK]
        for node in front:
            for edge in self._edges[node]:
                start = self._ends[edge]
                if distances[start] < 0 and self._left[edge ^ 1]:
                    distances[start] = distances[node] + 1
                    front.append(start)
        return distances

    def _fill(self, distances: list[int]) -> None:
        """Lets flow all that can, by edges that lead nearer to the sink."""
        following = [0] * len(self._edges)
        path: list[int] = []  # edges from the source on
        node = SOURCE
        while True:
            if node == SINK:
                amount = min(self._left[edge] for edge in path)
                for edge in path:
                    self._left[edge] -= amount
                    self._left[edge ^ 1] += amount
                first = next(i for i, edge in enumerate(path) if not self._left[edge])
                node = self._ends[path[first] ^ 1]
                del path[first:]
            edges = self._edges[node]
            while following[node] < len(edges):
                edge = edges[following[node]]
                end = self._ends[edge]
                if self._left[edge] and distances[end] == distances[node] - 1 >= 0:
                    path.append(edge)
                    node = end
                    break
                following[node] += 1
            else:
                if node == SOURCE:
                    return
                edge = path.pop()
                node = self._ends[edge ^ 1]
                following[node] += 1

"""Runs one transformation on one graph, and sees to it that the graph is whole afterwards.

What goes wrong in it, also in code of the user's, becomes an error that says which transformation it was, the line
of its file, and what ran before it.
"""

from __future__ import annotations

import operator
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field

from compiler_plugin.report import TransformationReport
from compiler_plugin.transformations.counterparts import find_counterpart
from compiler_plugin.transformations.extensions import LoadedTransformation
from compiler_plugin.transformations.graph import Graph
from compiler_plugin.transformations.graph_check import check_graph
from litert.core.errors import LiteRtError, describe
from litert.core.status import Status
from litert.host.extensions import find_place


@dataclass(slots=True)
class Tally:
    """What a transformation has done so far, on all graphs that it ran on."""

    matches: int = 0
    seconds: float = 0.0


@dataclass(slots=True)
class Journal:
    """What has run so far, for reports and errors.

    Attributes:
      tallies: of each transformation that is to run, by name.
      ran: names of those that have run, in order.
    """

    planned: Sequence[LoadedTransformation]
    tallies: dict[str, Tally] = field(init=False)
    ran: dict[str, None] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.tallies = {item.name: Tally() for item in self.planned}

    def reports(self) -> list[TransformationReport]:
        """One of each transformation, in the order in which they run."""
        return [
            TransformationReport(
                item.name,
                item.phase.value,
                self.tallies[item.name].matches,
                self.tallies[item.name].seconds,
                "" if item.origin.is_builtin else item.origin.path,
            )
            for item in self.planned
        ]


def run_transformation(item: LoadedTransformation, graph: Graph, journal: Journal) -> None:
    """Runs a transformation, unless a condition of its own forbids it, and checks what it leaves.

    Args:
      item: the transformation.
      graph: is changed.
      journal: is told how often it matched, and how long it took.

    Raises:
      LiteRtError: of the transformation, or of the graph that it leaves.
    """
    transformation, tally = item.transformation, journal.tallies[item.name]
    start, edits = time.perf_counter(), graph.edit_count
    with naming(f"{item.name} of {item.origin.path}", graph, journal, [item.origin.folder]):
        if all([condition(graph) for condition in transformation.graph_condition]):
            result = transformation.find_and_replace_pattern(graph)
            tally.matches += _count_matches(item, result, graph.edit_count != edits)
            if transformation.force_clean_up:
                graph.clean_up()
            if transformation.force_shape_inference:
                for node in graph.nodes:
                    graph.touch(node)
            if graph.edit_count != edits:
                settle(graph)
    journal.ran[item.name] = None
    tally.seconds += time.perf_counter() - start


def settle(graph: Graph) -> None:
    """Infers what edits have touched, and checks the whole.

    Raises:
      LiteRtError: that of inference or of the check.
    """
    graph.infer()
    check_graph(graph)


@contextmanager
def naming(subject: str, graph: Graph, journal: Journal, folders: Sequence[str]) -> Iterator[None]:
    """Whatever is raised within becomes an error that names its subject, and a line of an extension's file.

    Args:
      subject: the transformation with its file, or a step of ours.
      graph: that it works on.
      journal: what ran before.
      folders: of extensions.
    """
    try:
        yield
    except BaseException as error:  # an extension's code may raise anything
        status, what, where = Status.INVALID_TRANSFORMATION, describe(error), ""
        hint = find_counterpart(error)
        if isinstance(error, LiteRtError):
            status, what, where, hint = error.status, error.what, error.where, error.hint
        elif isinstance(
            error, KeyboardInterrupt
        ):  # where it does not end the user sees where it is
            status, what = Status.CANCELLED, "interrupted"
        subgraphs = graph.model.subgraphs
        index = f"subgraph {subgraphs.index(graph.subgraph)}" if len(subgraphs) > 1 else ""
        line = next((place for folder in folders if (place := find_place(error, folder))), "")
        path = line.rpartition(":")[0]
        if path and subject.endswith(path):
            subject, line = subject.removesuffix(path) + line, ""
        places = [subject, line and f"at {line}", index, where]
        before = (
            f"Before it ran: {', '.join(journal.ran)}." if journal.ran else "Nothing ran before it."
        )
        raise LiteRtError(
            status, what, ", ".join(filter(None, places)), f"{hint} {before}".lstrip()
        ) from error


def _count_matches(item: LoadedTransformation, result: object, is_changed: bool) -> int:
    if result is None:
        return int(is_changed)
    try:
        count = operator.index(result)  # type: ignore[arg-type]
    except TypeError:
        count = -1
    if count < 0:
        raise LiteRtError(
            Status.INVALID_TRANSFORMATION,
            f"find_and_replace_pattern returns {result!r:.100}",
            hint="It returns how often it matched, or None.",
        )
    return count

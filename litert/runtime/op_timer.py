"""Measures each op of a model: during a collection, a measuring function is called, which calls the op's function.

XNNPACK runs many ops as one op. If the model was loaded with a profiler, XNNPACK reports the times of its
operators to the profiler.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple

from litert.runtime.op_hooks import Node, OpHooks
from litert.runtime.subgraph import InterpreterSubgraph
from litert.runtime.timing_code import EventLog, OperatorEvent, OpEvent, Profiler


class OpRun(NamedTuple):
    """A run of an op.

    Attributes:
      node: The op.
      start_ns, end_ns: Start and end, as times of `time.perf_counter_ns` in nanoseconds.
      inner: Other ops that were run by this op, in order.
      operators: XNNPACK operators that were run by the op, in order.
    """

    node: Node
    start_ns: int
    end_ns: int
    inner: Sequence[OpRun]
    operators: Sequence[OperatorEvent]


class OpTimer:
    """Measures the ops of a model; callers must hold the model's lock.

    Attributes:
      num_lost: Number of runs of ops that were lost because the log was full.
    """

    def __init__(
        self, subgraphs: Mapping[int, InterpreterSubgraph], profiler: Profiler | None
    ) -> None:
        """Does not measure before `install`; `profiler` is the profiler with which the model was loaded."""
        self.num_lost = 0
        self._hooks = OpHooks(subgraphs)
        self._profiler = profiler
        self._log: EventLog | None = None

    def install(self) -> None:
        """Starts the measurement; must be called again after each memory plan, which may replace ops.

        Raises:
          LiteRtError: UNSUPPORTED, if this kind of machine is not supported, or the system does not allow
            generated code. After an error, nothing is changed.
        """
        self.uninstall()
        self._hooks.install(self._make_log)
        if self._profiler is not None:
            self._profiler.write_to(self._log)

    def uninstall(self) -> None:
        """Restores each op's own function."""
        self._hooks.uninstall()
        if self._log is not None and self._profiler is not None:
            self._profiler.write_to(None)
        self._log = None

    def drop_runs(self) -> None:
        """Discards the measurements of runs that failed, and of runs for whose end no caller waited."""
        if self._log is not None:
            self._log.take()

    def take_run(self) -> list[OpRun]:
        """Returns the ops that ran in the last run of the model, in order."""
        if self._log is None:
            return []
        events, num_lost = self._log.take()
        self.num_lost += num_lost
        return _nest(events, self._hooks.nodes)

    def _make_log(self, originals: Sequence[int]) -> Sequence[int]:
        self._log = EventLog(originals)
        return self._log.functions


def _nest(events: Sequence[OpEvent | OperatorEvent], nodes: Sequence[Node]) -> list[OpRun]:
    """The result holds the runs of ops that no other op has run.

    Builds the tree of runs: an op's event follows the events of the ops that it has run, which
    belong to other subgraphs.
    """
    done: list[OpRun] = []
    operators: list[OperatorEvent] = []
    for event in events:
        if isinstance(event, OperatorEvent):
            operators.append(event)
            continue
        node = nodes[event.number]
        first = len(done)
        while (
            first
            and done[first - 1].start_ns >= event.start_ns
            and done[first - 1].node[0] != node[0]
        ):
            first -= 1
        done[first:] = [OpRun(node, event.start_ns, event.end_ns, done[first:], operators)]
        operators = []
    return done

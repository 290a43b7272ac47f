"""Measures each op of a model: for the time of a collection, another function runs in front of each op's own.

The interpreter has a copy of each op's `TfLiteRegistration`, and calls what its `invoke` points to. XNNPACK runs
its part of a model as one op, and tells the times of its operators to a profiler, where the model was loaded with
one.
"""

from __future__ import annotations

import threading
from collections.abc import Hashable, Iterator, Mapping, Sequence
from itertools import groupby

from litert.core import tracing
from litert.core.tracing import Span, SpanKind
from litert.runtime.metrics import OpMetrics, OpPlace, Spread
from litert.runtime.subgraph import InterpreterSubgraph
from litert.runtime.timing_code import EventLog, OperatorEvent, OpEvent, Profiler
from litert.runtime.xnnpack_operators import OperatorGroup, group_operators

_Node = tuple[int, int]
"""A subgraph, and an op in it."""


class OpTimer:
    """Measures the ops of a model; whoever has it holds the model's lock."""

    def __init__(
        self,
        subgraphs: Mapping[int, InterpreterSubgraph],
        functions: Mapping[_Node, str],
        profiler: Profiler | None,
    ) -> None:
        """Measures nothing before `install`.

        Args:
          subgraphs: by their index in the file.
          functions: names of the NPU calls, by the op in the file.
          profiler: which the model was loaded with.
        """
        self._subgraphs = subgraphs
        self._functions = functions
        self._profiler = profiler
        self._log: EventLog | None = None
        self._nodes: Sequence[_Node] = ()
        self._originals: Sequence[int] = ()
        self._root = _Row(None)
        self._groups: dict[tuple[_Node, Sequence[str]], Sequence[OperatorGroup]] = {}
        self._num_lost = 0

    def install(self) -> None:
        """Measures from now on; again, after a plan that may have changed which ops run.

        Raises:
          LiteRtError: UNSUPPORTED, where there is no such code, or it may not run. Nothing is changed then.
        """
        self.uninstall()
        found = [
            ((index, node.index), subgraph.registration(node.index))
            for index, subgraph in self._subgraphs.items()
            for node in subgraph.nodes()
        ]
        found = [(node, registration) for node, registration in found if registration.invoke]
        log = EventLog([registration.invoke for _, registration in found])
        self._nodes = [node for node, _ in found]
        self._originals = [registration.invoke for _, registration in found]
        for number, (_, registration) in enumerate(found):
            registration.invoke = log.function(number)
        self._log = log
        if self._profiler is not None:
            self._profiler.write_to(log)

    def uninstall(self) -> None:
        """Gives each op its own function back."""
        log, self._log = self._log, None
        if log is None:
            return
        if self._profiler is not None:
            self._profiler.write_to(None)
        for number, (subgraph, index) in enumerate(self._nodes):
            registration = self._subgraphs[subgraph].registration(index)
            if registration.invoke == log.function(number):
                registration.invoke = self._originals[number]

    def take_run(self) -> None:
        """Adds what the last run has measured."""
        assert self._log is not None
        events, num_lost = self._log.take()
        self._num_lost += num_lost
        touched: dict[_Row, None] = {}
        for run in _nest(events, self._nodes):
            self._add(self._root, run, touched)
        for row in touched:
            row.end_run()

    def drop_run(self) -> None:
        """Forgets a run that failed."""
        if self._log is not None:
            self._log.take()

    @property
    def problems(self) -> Sequence[str]:
        """What was not measured, and why."""
        found = []
        if self._num_lost:
            found.append(
                f"a run has too many ops to keep: {self._num_lost} runs of ops are not measured"
            )
        parts = [
            row
            for row in self._root.walk()
            if isinstance(row.key, tuple) and len(self._delegated(row.key)) > 1
        ]
        if any(not row.children for row in parts):
            found.append(
                "a delegate's part is one row: it tells nothing of its ops"
                if self._profiler is not None
                else "XNNPACK's part is one row: Options.enable_profiling tells its ops apart"
            )
        return found

    def metrics(self, num_runs: int) -> list[OpMetrics]:
        """What was measured in so many runs of the model."""
        found: list[OpMetrics] = []
        self._describe(self._root, -1, num_runs, found)
        return found

    def _add(self, parent: _Row, run: _OpRun, touched: dict[_Row, None]) -> None:
        row = parent.child(run.node)
        row.add(run.event.end_ns - run.event.start_ns)
        touched[row] = None
        for inner in run.inner:
            self._add(row, inner, touched)
        for group, operators in self._group(run):
            of_group = row.child(group)
            of_group.operators = [operator.name for operator in operators]
            of_group.add(1000 * sum(operator.duration_us for operator in operators))
            touched[of_group] = None
        if tracing.is_recording():
            self._add_spans(run)

    def _group(self, run: _OpRun) -> Iterator[tuple[OperatorGroup, Sequence[OperatorEvent]]]:
        """What XNNPACK's operators ran for, as ranges of the ops that it has taken."""
        if not run.operators:
            return
        names = tuple(operator.name for operator in run.operators)
        known = self._groups.get((run.node, names))
        if known is None:
            ops = [place.name for place in self._delegated(run.node)]
            known = self._groups[run.node, names] = group_operators(ops, names)
        for group in known:
            yield group, run.operators[group.operators.start : group.operators.stop]

    def _delegated(self, node: _Node) -> list[OpPlace]:
        subgraph = self._subgraphs[node[0]]
        return [self._place(node[0], index) for index in subgraph.delegated_ops(node[1])]

    def _place(self, subgraph: int, index: int) -> OpPlace:
        view = self._subgraphs[subgraph]
        outputs = view.node(index).outputs
        return OpPlace(
            subgraph, index, view.op_name(index), view.tensor_name(outputs[0]) if outputs else ""
        )

    def _describe(self, row: _Row, index: int, num_runs: int, found: list[OpMetrics]) -> None:
        """Adds the rows below one, which is at an index, each before its own."""
        for key, child in row.children.items():
            times = Spread(num_runs, child.total_s, child.squares)
            kind, name, ops = self._identify(row.key, key)
            found.append(OpMetrics(kind, name, ops, index, child.count, times, child.operators))
            self._describe(child, len(found) - 1, num_runs, found)

    def _identify(self, parent: Hashable, key: Hashable) -> tuple[SpanKind, str, Sequence[OpPlace]]:
        if isinstance(key, OperatorGroup):
            assert isinstance(parent, tuple)
            ops = self._delegated(parent)[key.ops.start : key.ops.stop]
            return SpanKind.CPU_OP, _joined_names(ops), ops
        assert isinstance(key, tuple)
        subgraph, index = key
        ops = self._delegated(key) or [self._place(subgraph, index)]
        function = self._functions.get((subgraph, ops[0].index))
        if function is not None:
            return SpanKind.CALL, function, ops
        node = self._subgraphs[subgraph].node(index)
        return SpanKind.CPU_OP, node.name if node.is_delegated else ops[0].name, ops

    def _add_spans(self, run: _OpRun) -> None:
        """Tells recordings of an op of the CPU, and of XNNPACK's operators as if one had followed the other."""
        kind, name, ops = self._identify(None, run.node)
        if kind is SpanKind.CALL:
            return  # it tells of itself
        track = threading.current_thread().name
        start_ns, end_ns = run.event.start_ns, run.event.end_ns
        tracing.add(
            Span(kind, name, start_ns, end_ns - start_ns, track, {"output": ops[-1].output})
        )
        for group, operators in self._group(run):
            duration_ns = 1000 * sum(operator.duration_us for operator in operators)
            name = _joined_names(ops[group.ops.start : group.ops.stop])
            duration_ns = min(duration_ns, end_ns - start_ns)
            details = {"operators": ", ".join(operator.name for operator in operators)}
            tracing.add(Span(kind, name, start_ns, duration_ns, track, details))
            start_ns += duration_ns


class _OpRun:
    """A run of an op, with what ran in it."""

    __slots__ = ("event", "inner", "node", "operators")

    def __init__(
        self,
        node: _Node,
        event: OpEvent,
        inner: Sequence[_OpRun],
        operators: Sequence[OperatorEvent],
    ) -> None:
        self.node = node
        self.event = event
        self.inner = inner
        self.operators = operators


class _Row:
    """Adds up what one op took, as a part of what runs it."""

    __slots__ = ("_run_ns", "children", "count", "key", "operators", "squares", "total_s")

    def __init__(self, key: Hashable) -> None:
        self.key = key
        self.children: dict[Hashable, _Row] = {}
        self.count = 0
        self.total_s = 0.0
        self.squares = 0.0
        self.operators: Sequence[str] = ()
        self._run_ns = 0

    def child(self, key: Hashable) -> _Row:
        row = self.children.get(key)
        if row is None:
            row = self.children[key] = _Row(key)
        return row

    def walk(self) -> Iterator[_Row]:
        """The rows below it."""
        for child in self.children.values():
            yield child
            yield from child.walk()

    def add(self, duration_ns: int) -> None:
        self.count += 1
        self._run_ns += duration_ns

    def end_run(self) -> None:
        seconds = self._run_ns / 1e9
        self.total_s += seconds
        self.squares += seconds * seconds
        self._run_ns = 0


def _nest(events: Sequence[OpEvent | OperatorEvent], nodes: Sequence[_Node]) -> list[_OpRun]:
    """The runs of ops that no other op has run, in order.

    An op's event follows those of the ops and operators that it has run; only ops of other subgraphs run in an op.
    """
    done: list[_OpRun] = []
    operators: list[OperatorEvent] = []
    for event in events:
        if isinstance(event, OperatorEvent):
            operators.append(event)
            continue
        node = nodes[event.number]
        inner = len(done)
        while (
            inner
            and done[inner - 1].event.start_ns >= event.start_ns
            and done[inner - 1].node[0] != node[0]
        ):
            inner -= 1
        run = _OpRun(node, event, done[inner:], operators)
        operators = []
        done[inner:] = [run]
    return done


def _joined_names(ops: Sequence[OpPlace]) -> str:
    """`DEQUANTIZE x 2 + CONV_2D + RELU`."""
    counts = [(name, len(list(group))) for name, group in groupby(op.name for op in ops)]
    return " + ".join(name if count == 1 else f"{name} x {count}" for name, count in counts)

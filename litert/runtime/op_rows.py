"""Adds up the runs of ops: a row for each op, and below it what it has run."""

from __future__ import annotations

import threading
from collections.abc import Hashable, Iterator, Mapping, Sequence
from itertools import groupby
from typing import NamedTuple

from litert.core import tracing
from litert.core.tracing import Span, SpanKind
from litert.runtime.metrics import OpMetrics, OpPlace, Spread
from litert.runtime.op_timer import Node, OpRun
from litert.runtime.subgraph import InterpreterSubgraph
from litert.runtime.timing_code import OperatorEvent
from litert.runtime.xnnpack_operators import OperatorGroup, group_operators

_OF_CALLS = (SpanKind.TASK, SpanKind.TRANSFER, SpanKind.WAIT)


class _OpKey(NamedTuple):
    """An op that the interpreter runs."""

    node: Node


class _GroupKey(NamedTuple):
    """Ops of a delegate's part."""

    node: Node
    group: OperatorGroup


class _SpanKey(NamedTuple):
    """What a vendor has measured in a call."""

    kind: SpanKind
    name: str
    task: int


class OpRows:
    """What the ops of a model took in its runs; bounded by the number of ops."""

    def __init__(
        self, subgraphs: Mapping[int, InterpreterSubgraph], functions: Mapping[Node, str]
    ) -> None:
        """Starts without runs.

        Args:
          subgraphs: by their index in the file.
          functions: names of the NPU calls, by the op in the file.
        """
        self._subgraphs = subgraphs
        self._functions = functions
        self._root = _Row(_SpanKey(SpanKind.RUN, "", -1))
        self._groups: dict[tuple[Node, Sequence[str]], Sequence[OperatorGroup]] = {}
        self._delegated: dict[Node, Sequence[OpPlace]] = {}

    def add_run(self, runs: Sequence[OpRun], spans: Sequence[Span]) -> None:
        """Adds a run of the model: its ops, and what vendors have measured in it."""
        touched: set[_Row] = set()
        self._add(self._root, runs, [s for s in spans if s.kind in _OF_CALLS], touched)
        for row in touched:
            row.end_run()

    @property
    def has_untold_parts(self) -> bool:
        """Whether a delegate has run several ops and told nothing of them."""
        rows = (row for row in self._root.walk() if isinstance(row.key, _OpKey))
        return any(len(self._ops(row.key)) > 1 and not row.children for row in rows)

    def metrics(self, num_runs: int) -> list[OpMetrics]:
        """What was added, for so many runs of the model."""
        found: list[OpMetrics] = []
        self._describe(self._root, -1, num_runs, found)
        return found

    def _add(
        self, parent: _Row, runs: Sequence[OpRun], spans: Sequence[Span], touched: set[_Row]
    ) -> None:
        for run in runs:
            row = parent.child(_OpKey(run.node))
            row.add(run.end_ns - run.start_ns)
            touched.add(row)
            self._add(row, run.inner, spans, touched)
            for group, operators in self._grouped(run):
                of_group = row.child(_GroupKey(run.node, group))
                of_group.operators = [operator.name for operator in operators]
                of_group.add(1000 * sum(operator.duration_us for operator in operators))
                touched.add(of_group)
            function = self._function(run.node) if spans else None
            if function is not None:
                for span, duration_ns in _own_times(run, function, spans):
                    task = int(span.details.get("task", -1))
                    of_span = row.child(_SpanKey(span.kind, span.name, task))
                    of_span.add(duration_ns)
                    touched.add(of_span)

    def _function(self, node: Node) -> str | None:
        """The name of an NPU call's function."""
        return self._functions.get((node[0], self._ops(_OpKey(node))[0].index))

    def _grouped(self, run: OpRun) -> Iterator[tuple[OperatorGroup, Sequence[OperatorEvent]]]:
        """What XNNPACK's operators ran for, as ranges of the ops that it has taken."""
        if not run.operators:
            return
        names = tuple(operator.name for operator in run.operators)
        groups = self._groups.get((run.node, names))
        if groups is None:
            ops = [place.name for place in self._ops(_OpKey(run.node))]
            groups = self._groups[run.node, names] = group_operators(ops, names)
        for group in groups:
            yield group, run.operators[group.operators.start : group.operators.stop]

    def _ops(self, key: Hashable) -> Sequence[OpPlace]:
        """The ops of the file that a row is of."""
        if isinstance(key, _GroupKey):
            return self._ops(_OpKey(key.node))[key.group.ops.start : key.group.ops.stop]
        if not isinstance(key, _OpKey):
            return ()
        known = self._delegated.get(key.node)
        if known is None:
            index, op = key.node
            indices = self._subgraphs[index].delegated_ops(op) or (op,)
            known = self._delegated[key.node] = [self._place(index, op) for op in indices]
        return known

    def _place(self, index: int, op: int) -> OpPlace:
        subgraph = self._subgraphs[index]
        outputs = subgraph.node(op).outputs
        output = subgraph.tensor_name(outputs[0]) if outputs else ""
        return OpPlace(index, op, subgraph.op_name(op), output)

    def _describe(self, row: _Row, index: int, num_runs: int, found: list[OpMetrics]) -> None:
        """Adds the rows below one, which is at an index, each before its own."""
        for key, child in row.children.items():
            times = Spread(num_runs, child.total_s, child.squares)
            kind, name = self._kind_and_name(key)
            ops = self._ops(key)
            found.append(OpMetrics(kind, name, ops, index, child.count, times, child.operators))
            self._describe(child, len(found) - 1, num_runs, found)

    def _kind_and_name(self, key: Hashable) -> tuple[SpanKind, str]:
        if isinstance(key, _SpanKey):
            return key.kind, f"task {key.task}, {key.name}" if key.task >= 0 else key.name
        if isinstance(key, _OpKey):
            function = self._function(key.node)
            if function is not None:
                return SpanKind.CALL, function
            node = self._subgraphs[key.node[0]].node(key.node[1])
            if node.is_delegated:
                return SpanKind.CPU_OP, node.name
        return SpanKind.CPU_OP, _joined_names(self._ops(key))

    def tell_recordings(self, runs: Sequence[OpRun]) -> None:
        """Adds spans of the CPU's ops, and of XNNPACK's operators as if one had followed the other."""
        track = threading.current_thread().name
        for run in runs:
            kind, name = self._kind_and_name(_OpKey(run.node))
            if kind is SpanKind.CALL:
                continue  # it tells of itself
            start_ns, end_ns = run.start_ns, run.end_ns
            output = self._ops(_OpKey(run.node))[-1].output
            tracing.add(Span(kind, name, start_ns, end_ns - start_ns, track, {"output": output}))
            self.tell_recordings(run.inner)
            for group, operators in self._grouped(run):
                ops = self._ops(_GroupKey(run.node, group))
                took_ns = 1000 * sum(operator.duration_us for operator in operators)
                took_ns = min(took_ns, end_ns - start_ns)  # so that spans nest
                details = {
                    "output": ops[-1].output,
                    "operators": ", ".join(operator.name for operator in operators),
                }
                tracing.add(Span(kind, _joined_names(ops), start_ns, took_ns, track, details))
                start_ns += took_ns


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
        """Adds what was added in a run of the model, together."""
        seconds = self._run_ns / 1e9
        self.total_s += seconds
        self.squares += seconds * seconds
        self._run_ns = 0


def _own_times(run: OpRun, function: str, spans: Sequence[Span]) -> Iterator[tuple[Span, int]]:
    """What a vendor has measured in a call, each with the nanoseconds that nothing before it has.

    The host waits while the device works: waits are the rest of these.
    """
    inside = [
        span
        for span in spans
        if run.start_ns <= span.start_ns <= run.end_ns and span.details.get("call") == function
    ]
    covered: list[tuple[int, int]] = []
    for span in sorted(inside, key=lambda span: (span.kind is SpanKind.WAIT, span.start_ns)):
        start_ns, end_ns = span.start_ns, min(span.start_ns + span.duration_ns, run.end_ns)
        own_ns = end_ns - start_ns
        for begin_ns, stop_ns in covered:
            own_ns -= max(0, min(end_ns, stop_ns) - max(start_ns, begin_ns))
        if span.kind is not SpanKind.WAIT:
            begin_ns = max(start_ns, covered[-1][1] if covered else start_ns)
            covered.append((begin_ns, max(begin_ns, end_ns)))
        yield span, max(0, own_ns)


def _joined_names(ops: Sequence[OpPlace]) -> str:
    """`DEQUANTIZE x 2 + CONV_2D + RELU`."""
    counts = [(name, len(list(group))) for name, group in groupby(op.name for op in ops)]
    return " + ".join(name if count == 1 else f"{name} x {count}" for name, count in counts)

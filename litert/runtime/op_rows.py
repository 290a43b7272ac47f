"""Adds up the times of ops in rows, one for each op; if an op runs other ops, their rows are below its row."""

from __future__ import annotations

import threading
from array import array
from collections.abc import Hashable, Iterator, Mapping, Sequence
from itertools import groupby
from typing import NamedTuple

from litert.core import tracing
from litert.core.tracing import Span, SpanKind
from litert.runtime.call_parts import call_parts
from litert.runtime.metrics import OpMetrics, OpPlace, Spread
from litert.runtime.op_hooks import Node
from litert.runtime.op_timer import OpRun
from litert.runtime.subgraph import InterpreterSubgraph
from litert.runtime.timing_code import OperatorEvent
from litert.runtime.xnnpack_operators import OperatorGroup, group_operators

_MOST_SAMPLES = 256
"""Number of runs for which a row keeps the time of each run."""


class _OpKey(NamedTuple):
    """An op that the interpreter runs."""

    node: Node


class _GroupKey(NamedTuple):
    """Ops of a delegate's part."""

    node: Node
    group: OperatorGroup


class _PartKey(NamedTuple):
    """A part of an NPU call."""

    kind: SpanKind
    name: str
    task: int


class OpRows:
    """The times of a model's ops in its runs; the number of runs does not change the object's size."""

    def __init__(
        self, subgraphs: Mapping[int, InterpreterSubgraph], functions: Mapping[Node, str]
    ) -> None:
        """Starts with no runs.

        Args:
          subgraphs: Subgraphs by their index in the file.
          functions: Names of the NPU calls, by the index of the op in the file.
        """
        self._subgraphs = subgraphs
        self._functions = functions
        self._root = _Row(_PartKey(SpanKind.RUN, "", -1))
        self._num_runs = 0
        self._stride = 1  # each row keeps the time of every n-th run
        self._groups: dict[tuple[Node, Sequence[str]], Sequence[OperatorGroup]] = {}
        self._delegated: dict[Node, Sequence[OpPlace]] = {}

    def add_run(self, runs: Sequence[OpRun], spans: Sequence[Span]) -> None:
        """Adds one run of the model: the times of its ops, and the vendors' measurements."""
        touched: set[_Row] = set()
        self._add(self._root, runs, spans, touched)
        sample, left = divmod(self._num_runs, self._stride)
        for row in touched:
            row.end_run(None if left else sample)
        self._num_runs += 1
        if not left and sample + 1 == _MOST_SAMPLES:
            self._stride *= 2
            for row in self._root.walk():
                del row.samples_s[1::2]

    @property
    def has_untold_parts(self) -> bool:
        """Returns whether a delegate has run several ops, but has not reported the time of each."""
        rows = (row for row in self._root.walk() if isinstance(row.key, _OpKey))
        return any(len(self._ops(row.key)) > 1 and not row.children for row in rows)

    def metrics(self) -> list[OpMetrics]:
        """Returns the rows with the sums over all runs."""
        found: list[OpMetrics] = []
        self._describe(self._root, -1, found)
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
                for part in call_parts(run, function, spans):
                    of_part = row.child(_PartKey(part.kind, part.name, part.task))
                    of_part.add(part.duration_ns)
                    touched.add(of_part)

    def _function(self, node: Node) -> str | None:
        """The name of an NPU call's function."""
        return self._functions.get((node[0], self._ops(_OpKey(node))[0].index))

    def _grouped(self, run: OpRun) -> Iterator[tuple[OperatorGroup, Sequence[OperatorEvent]]]:
        """Yields the ops that XNNPACK's operators ran for, as ranges of the ops that XNNPACK has taken."""
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
        """Returns the ops of the file that a row stands for."""
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

    def _describe(self, row: _Row, index: int, found: list[OpMetrics]) -> None:
        """Adds the rows below the row at an index, each before its own rows."""
        num_samples = -(-self._num_runs // self._stride)
        for key, child in row.children.items():
            child.fill(num_samples)
            times = Spread(self._num_runs, child.total_s, child.squares, child.samples_s)
            kind, name = self._kind_and_name(key)
            ops = self._ops(key)
            found.append(OpMetrics(kind, name, ops, index, child.count, times, child.operators))
            self._describe(child, len(found) - 1, found)

    def _kind_and_name(self, key: Hashable) -> tuple[SpanKind, str]:
        if isinstance(key, _PartKey):
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
        """Records spans of ops on the CPU and of XNNPACK's operators; the operators' spans have no gaps."""
        track = threading.current_thread().name
        for run in runs:
            kind, name = self._kind_and_name(_OpKey(run.node))
            if kind is SpanKind.CALL:
                continue  # the kernel records its own spans
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
    """Adds up the times of one op, as a part of the op that runs it."""

    __slots__ = (
        "_run_ns",
        "children",
        "count",
        "key",
        "operators",
        "samples_s",
        "squares",
        "total_s",
    )

    def __init__(self, key: Hashable) -> None:
        self.key = key
        self.children: dict[Hashable, _Row] = {}
        self.count = 0
        self.total_s = 0.0
        self.squares = 0.0
        self.samples_s = array("d")
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

    def end_run(self, sample: int | None) -> None:
        """Adds the time of one run of the model; keeps it as sample number `sample`, unless that is None."""
        seconds = self._run_ns / 1e9
        self.total_s += seconds
        self.squares += seconds * seconds
        self._run_ns = 0
        if sample is not None:
            self.fill(sample)
            self.samples_s.append(seconds)

    def fill(self, num_samples: int) -> None:
        """Adds samples of 0 for the runs in which this row did not occur."""
        self.samples_s.extend([0.0] * (num_samples - len(self.samples_s)))


def _joined_names(ops: Sequence[OpPlace]) -> str:
    """`DEQUANTIZE x 2 + CONV_2D + RELU`."""
    counts = [(name, len(list(group))) for name, group in groupby(op.name for op in ops)]
    return " + ".join(name if count == 1 else f"{name} x {count}" for name, count in counts)

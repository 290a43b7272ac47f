"""The HTML page of `litert-npu profile`, which shows the times of a model's parts on the model's graph."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping, Sequence

from litert.analysis.profile import ProfileRow
from litert.core.counts import count_text
from litert.core.tracing import Span, SpanKind
from litert.model.graph import Model, Op
from litert.model.memory_plan import read_memory
from litert.model.op_cost import find_cost
from litert.model.reader import read_model

from .console import name_text
from .page.graph import OpPlace, find_calls, node_id, show_graph
from .page.page import Cell, Column, Measure, Page, Quantity, Table
from .page.time_line import show_spans
from .profile_report import ProfileReport


def profile_page(report: ProfileReport, spans: Sequence[Span]) -> Page:
    """Returns the HTML page of a report; reads the model's graph, and shows the last run in `spans`."""
    with read_model(report.path) as model:
        calls = find_calls(model) or _calls_at_load(report.rows, model)
        graph = show_graph(model, calls)
        times = _times(report.rows, model, calls)
        memory = read_memory(model)
    shown, note = show_spans(_last_run(spans))
    return Page(
        name_text(os.path.basename(report.path)),
        "Time of the model's runs, part by part: litert-npu profile",
        list(_facts(report)),
        [name_text(text) for text in report.notes],
        graph,
        measures=[times],
        spans=shown,
        spans_note=f"One run, with the times of all parts. {note}".rstrip(),
        memory=memory,
        tables=[_row_table(report.rows)],
    )


def _last_run(spans: Sequence[Span]) -> Sequence[Span]:
    """Returns the spans of the last run."""
    run = next((one for one in reversed(spans) if one.kind is SpanKind.RUN), None)
    if run is None:
        return []
    end_ns = run.start_ns + run.duration_ns
    return [one for one in spans if run.start_ns <= one.start_ns < end_ns]


def _calls_at_load(rows: Sequence[ProfileRow], model: Model) -> dict[OpPlace, str]:
    """Returns the NPU calls of a model that was compiled when it was loaded.

    The row of a call contains the op that writes the call's first output. Ops whose results this op reads belong
    to the call, too, unless they are in a row of the CPU or in an earlier call.
    """
    on_cpu = {(op.subgraph, op.index) for row in rows if row.kind == "cpu_op" for op in row.ops}
    last = {
        (op.subgraph, op.index): row.name
        for row in rows
        if row.kind == "npu_call"
        for op in row.ops
    }
    calls: dict[OpPlace, str] = {}
    for (number, index), name in sorted(last.items()):
        ops = model.subgraphs[number].ops
        positions = {op: position for position, op in enumerate(ops)}
        waiting = [index] if index >= 0 else []
        while waiting:
            position = waiting.pop()
            if (number, position) not in on_cpu and (number, position) not in calls:
                calls[number, position] = name
                producers = [
                    tensor.producer for tensor in ops[position].inputs if tensor is not None
                ]
                waiting += [positions[op] for op in producers if op in positions]
    return calls


def _times(rows: Sequence[ProfileRow], model: Model, calls: Mapping[OpPlace, str]) -> Measure:
    """Returns the seconds of each op.

    The time of ops that were not measured separately is assigned to the op with the most arithmetic.
    """
    inside = {(row.parent, op) for row in rows for op in row.ops}
    values: dict[str, float] = {}
    counted_in: dict[str, str] = {}
    for index, row in enumerate(rows):
        if any((index, op) in inside for op in row.ops):
            continue
        places = [(op.subgraph, op.index) for op in row.ops if op.index >= 0]
        if row.kind == "npu_call" and places:
            places = [place for place, call in calls.items() if call == row.name] or places
        ids = [node_id(*place) for place in places]
        costs = [_arithmetic(model.subgraphs[number].ops[op]) for number, op in places]
        if ids:
            most = ids[costs.index(max(costs))]
            values[most] = values.get(most, 0.0) + row.mean_s
            counted_in |= {id: most for id in ids if id != most}
    return Measure("Time", Quantity.SECONDS, values, counted_in=counted_in)


def _arithmetic(op: Op) -> int:
    return find_cost(op).arithmetic or 0


def _facts(report: ProfileReport) -> Iterator[tuple[str, str]]:
    run, plain = report.run, report.plain_run
    yield (
        "A run, measured",
        f"{1e3 * run.p50_s:.3f} ms, the median of {count_text(run.runs, 'run')}",
    )
    yield "A run, not measured", f"{1e3 * plain.p50_s:.3f} ms"
    names = {"npu_call": "In NPU calls", "cpu_op": "In CPU ops", "rest": "In none of these parts"}
    for kind, name in names.items():
        yield name, f"{report.shares[kind]:.1%} of a run"
    yield "Load", f"{report.load_s:.3f} s"
    yield "On", f"{count_text(report.threads, 'CPU thread')}, {name_text(report.machine)}"


def _row_table(rows: Sequence[ProfileRow]) -> Table:
    shown: list[list[Cell]] = [
        [
            name_text(row.name),
            row.kind.replace("_", " "),
            row.share,
            row.mean_s,
            row.median_s,
            row.deviation_s,
            row.runs_per_run,
            name_text(rows[row.parent].name) if row.parent >= 0 else "",
            name_text(row.ops[-1].output) if row.ops else "",
        ]
        for row in rows
    ]
    columns = [
        Column("What"),
        Column("Kind"),
        Column("Share", Quantity.SHARE),
        Column("Mean", Quantity.SECONDS),
        Column("Median", Quantity.SECONDS),
        Column("+-", Quantity.SECONDS),
        Column("Times in a run", Quantity.NUMBER),
        Column("Part of"),
        Column("Writes"),
    ]
    nodes = [
        node_id(row.ops[-1].subgraph, row.ops[-1].index)
        if row.ops and row.ops[-1].index >= 0
        else ""
        for row in rows
    ]
    about = (
        "The times of all top-level rows add up to the time of a run. The times of a row's parts "
        "add up to the row's time."
    )
    return Table("Rows", columns, shown, about, nodes)

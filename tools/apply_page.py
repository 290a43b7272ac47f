"""The HTML page of `apply_plugin`, which shows which ops are on the NPU, and why the other ops are not."""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Iterator, Sequence

from compiler_plugin.report import Report
from litert.core.counts import count_text
from litert.core.tracing import Span
from litert.model.graph import Model

from .console import counts_text, name_text, size_text
from .page.graph import node_id, show_graph
from .page.page import Cell, Column, Graph, Page, Quantity, Table
from .page.time_line import show_spans


def planned_graph(model: Model, report: Report) -> Graph:
    """Returns the graph of a model; the ops have the same numbers in the graph as in the report."""
    calls = {(op.subgraph, op.index): op.call for op in report.npu_ops}
    reasons = {(op.subgraph, op.index): op.reason for op in report.cpu_ops}
    return show_graph(model, calls, reasons)


def apply_page(report: Report, graph: Graph, spans: Sequence[Span]) -> Page:
    """Returns the page of a report."""
    shown, note = show_spans(spans)
    tables = [_reason_table(report), _op_table(report), _call_table(report)]
    return Page(
        name_text(os.path.basename(report.model_path)),
        f"Ops on the NPU and on the CPU: apply_plugin, for {name_text(report.soc_manufacturer)}",
        list(_facts(report)),
        [name_text(text) for text in (*report.warnings, *report.notes)],
        graph,
        spans=shown,
        spans_note=note,
        memory=report.memory,
        tables=[table for table in (*tables, *_more_tables(report)) if table.rows],
    )


def _facts(report: Report) -> Iterator[tuple[str, str]]:
    target = name_text(f"{report.soc_manufacturer} {report.soc_model}")
    yield "Target", target
    yield "Ops on the NPU", f"{len(report.npu_ops)} of {len(report.ops)}"
    yield "NPU calls", str(len(report.calls))
    if report.modules:
        yield "Byte code", size_text(sum(report.modules))
    if report.output_path:
        yield "Compiled file", f"{name_text(report.output_path)}, {size_text(report.output_size)}"
    if report.plugin_sdk_version:
        yield "Vendor's compiler", name_text(report.plugin_sdk_version)
    yield "Compiled in", f"{report.seconds:.2f} s"


def _reason_table(report: Report) -> Table:
    by_reason: dict[str, list[str]] = {}
    for op in report.cpu_ops:
        by_reason.setdefault(op.reason, []).append(op.name)
    rows: list[list[Cell]] = [
        [name_text(reason), len(names), counts_text(names)]
        for reason, names in sorted(by_reason.items(), key=lambda item: -len(item[1]))
    ]
    columns = [Column("Reason"), Column("Ops", Quantity.COUNT), Column("Which")]
    return Table("On the CPU", columns, rows, "Why ops stay on the CPU.")


def _op_table(report: Report) -> Table:
    rows: list[list[Cell]] = [
        [op.index, name_text(op.name), "NPU" if op.call else "CPU", name_text(op.call or op.reason)]
        for op in report.ops
    ]
    columns = [
        Column("#", Quantity.COUNT),
        Column("Op"),
        Column("Runs on"),
        Column("NPU call, or the reason"),
    ]
    nodes = [node_id(op.subgraph, op.index) for op in report.ops]
    return Table("Ops", columns, rows, nodes=nodes)


def _call_table(report: Report) -> Table:
    names: dict[str, Counter[str]] = {}
    for op in report.npu_ops:
        names.setdefault(op.call, Counter())[op.name] += 1
    rows: list[list[Cell]] = [
        [
            name_text(call.name),
            call.num_ops,
            counts_text(names.get(call.name, Counter()).elements()),
            call.num_inputs,
            call.num_outputs,
        ]
        for call in report.calls
    ]
    columns = [
        Column("NPU call"),
        Column("Ops", Quantity.COUNT),
        Column("Which"),
        Column("Inputs", Quantity.COUNT),
        Column("Outputs", Quantity.COUNT),
    ]
    return Table("NPU calls", columns, rows)


def _more_tables(report: Report) -> Iterator[Table]:
    rows: list[list[Cell]] = [
        [item.name, item.phase, item.matches, item.seconds, name_text(item.path)]
        for item in report.transformations
    ]
    columns = [
        Column("Transformation"),
        Column("Phase"),
        Column("Matches", Quantity.COUNT),
        Column("Time", Quantity.SECONDS),
        Column("File"),
    ]
    yield Table("Transformations", columns, rows)
    assets: list[list[Cell]] = [
        [name_text(asset.name), asset.size, name_text(asset.path)] for asset in report.assets
    ]
    yield Table("Assets", [Column("Asset"), Column("Size", Quantity.BYTES), Column("File")], assets)
    composites = Counter((name_text(item.name), name_text(str(item))) for item in report.composites)
    counted: list[list[Cell]] = [[name, count, fate] for (name, fate), count in composites.items()]
    about = f"{count_text(len(report.composites), 'composite')} of the model."
    headings = [
        Column("Composite"),
        Column("How many", Quantity.COUNT),
        Column("Where the op runs"),
    ]
    yield Table("Composites", headings, counted, about)

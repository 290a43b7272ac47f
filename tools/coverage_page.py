"""The HTML page of `litert-npu coverage`: which ops an NPU can run, and why the other ops stay on the CPU."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from litert.analysis.coverage import ModelCoverage
from litert.analysis.coverage_change import CoverageChange
from litert.analysis.op_coverage import OpCoverage
from litert.core.counts import count_text
from litert.model.reader import read_model

from .console import counts_text, json_text, name_text, size_text
from .coverage_change_text import change_text
from .coverage_report import CoverageReport, common_folder, percent_text
from .page.graph import OpPlace, node_id, show_graph
from .page.html_file import graph_data
from .page.page import Cell, Column, Measure, Page, Quantity, ShownSubgraph, Table

_MOST_CHARACTERS = 1_900_000
"""Maximum number of characters for graphs and op rows on a page, so that the page stays below 2 MB."""


@dataclass(frozen=True, slots=True)
class _Shown:
    """The part of the page that shows the ops of one model.

    Attributes:
      number: Number of the model; None if there is only one model.
      graph: Subgraphs of the model.
      rows: A row for each op.
      nodes: Ids of the ops' nodes; "" for an op that is not in the file.
    """

    number: int | None
    model: ModelCoverage
    graph: Sequence[ShownSubgraph]
    rows: Sequence[Sequence[Cell]]
    nodes: Sequence[str]

    @classmethod
    def of(cls, model: ModelCoverage, number: int | None) -> _Shown:
        """Reads the graph of a model."""
        ids = [node_id(op.subgraph, op.index, number) if op.index >= 0 else "" for op in model.ops]
        rows = [_op_row(op) for op in model.ops]
        return cls(number, model, _show_model(model, number), rows, ids)

    @property
    def size(self) -> int:
        """Number of characters that the model adds to the page."""
        return len(
            json_text([graph_data(self.graph), self.rows, [self.nodes] * 3], is_compact=True)
        )


def coverage_page(report: CoverageReport) -> Page:
    """Returns the HTML page of a report, with the graphs of as many models as fit on a page."""
    only = report.models[0] if len(report.models) == 1 else None
    shown = _fitting(report.models)
    tables = [
        *([] if only else [_model_table(report.models, shown)]),
        *([_change_table(report.comparison)] if report.comparison else []),
        _refusal_table(report),
        _op_table(shown),
    ]
    return Page(
        name_text(os.path.basename(only.path)) if only else count_text(len(report.models), "model"),
        f"Ops that the NPU takes: litert-npu coverage, for {name_text(report.soc_manufacturer)}",
        [
            ("Target", name_text(f"{report.soc_manufacturer} {report.soc_model}")),
            *(_facts(only) if only else _facts_of_all(report.models)),
        ],
        [name_text(note) for note in _notes(report, shown)],
        [subgraph for each in shown for subgraph in each.graph],
        measures=list(_measures(shown)),
        tables=[table for table in tables if table.rows],
    )


def _fitting(models: Sequence[ModelCoverage]) -> list[_Shown]:
    """Returns the first models, as many as fit on the page with their graphs. A single model always fits."""
    shown: list[_Shown] = []
    left = _MOST_CHARACTERS
    for number, model in enumerate(models):
        if not model.problem:
            found = _Shown.of(model, number if len(models) > 1 else None)
            left -= found.size
            if shown and left < 0:
                break
            shown.append(found)
    return shown


def _notes(report: CoverageReport, shown: Sequence[_Shown]) -> Iterator[str]:
    yield from report.failures
    yield from (f"{model.path}: {model.problem}" for model in report.models if model.problem)
    yield from dict.fromkeys(text for model in report.models for text in model.warnings)
    left = sum(not model.problem for model in report.models) - len(shown)
    if left:
        yield (
            f"The graphs and ops of {count_text(left, 'model')} do not fit on this page. To see "
            "these graphs, give fewer models."
        )


def _facts_of_all(models: Sequence[ModelCoverage]) -> Iterator[tuple[str, str]]:
    npu, ops = (
        sum(getattr(model, name) for model in models) for name in ("num_npu_ops", "num_ops")
    )
    yield "Ops on the NPU", f"{npu} of {ops}"
    yield "NPU calls", str(sum(model.num_calls for model in models))
    problems = sum(bool(model.problem) for model in models)
    if problems:
        yield "With a problem", count_text(problems, "model")


def _facts(model: ModelCoverage) -> Iterator[tuple[str, str]]:
    if model.problem:
        return
    yield "Ops on the NPU", f"{model.num_npu_ops} of {model.num_ops}"
    yield "NPU calls", str(model.num_calls)
    yield "Arithmetic on the NPU", percent_text(model.arithmetic_share)
    yield "Memory traffic on the NPU", percent_text(model.bytes_share)
    tensors = count_text(model.num_transitions, "tensor")
    yield "Handed over", f"{tensors}, {size_text(model.transition_bytes)}"
    if model.num_unknown:
        yield "Of unknown cost", count_text(model.num_unknown, "op")


def _show_model(coverage: ModelCoverage, number: int | None) -> Sequence[ShownSubgraph]:
    """Its graph. An op with parts on the CPU has the reason."""
    calls: dict[OpPlace, str] = {}
    reasons: dict[OpPlace, str] = {}
    for op in coverage.ops:
        place = op.subgraph, op.index
        if op.call:
            calls[place] = op.call
        elif op.reason not in reasons.get(place, ""):
            reasons[place] = "; ".join(filter(None, [reasons.get(place), op.reason]))
    for place in reasons:
        calls.pop(place, None)
    with read_model(coverage.path) as model:
        name = "" if number is None else name_text(os.path.basename(coverage.path))
        return show_graph(model, calls, reasons, number, name)


def _measures(models: Sequence[_Shown]) -> Iterator[Measure]:
    arithmetic: dict[str, float] = {}
    traffic: dict[str, float] = {}
    for shown in models:
        for op, node in zip(shown.model.ops, shown.nodes, strict=True):
            for values, number in ((arithmetic, op.cost.arithmetic), (traffic, op.bytes)):
                if number is not None:
                    values[node] = values.get(node, 0) + number
    for name, quantity, values in (
        ("Arithmetic", Quantity.AMOUNT, arithmetic),
        ("Memory traffic", Quantity.BYTES, traffic),
    ):
        values.pop("", None)
        if values:
            yield Measure(name, quantity, values)


def _model_table(models: Sequence[ModelCoverage], shown: Sequence[_Shown]) -> Table:
    folder = common_folder([model for model in models if not model.problem]) or os.curdir
    rows: list[list[Cell]] = [
        [
            name_text(os.path.relpath(model.path, folder)),
            model.num_ops,
            model.num_npu_ops,
            model.num_calls,
            model.num_transitions,
            model.arithmetic_share,
            model.bytes_share,
        ]
        for model in models
        if not model.problem
    ]
    columns = [
        Column("Model"),
        Column("Ops", Quantity.COUNT),
        Column("On the NPU", Quantity.COUNT),
        Column("NPU calls", Quantity.COUNT),
        Column("Handed over", Quantity.COUNT),
        Column("Arithmetic", Quantity.SHARE),
        Column("Traffic", Quantity.SHARE),
    ]
    about = f"Models in {name_text(folder)}. Arithmetic and memory traffic: the NPU's share."
    first = {id(each.model): each.graph[0].nodes[0].id for each in shown if each.graph}
    nodes = [first.get(id(model), "") for model in models if not model.problem]
    return Table("Models", columns, rows, about, nodes, is_first=True)


def _change_table(change: CoverageChange) -> Table:
    rows: list[list[Cell]] = [
        [
            name_text(model.path),
            change_text(model),
            model.num_calls_before,
            model.num_calls,
            counts_text(name_text(op.name) for op in model.left),
            counts_text(name_text(op.name) for op in model.came),
        ]
        for model in change.models
    ]
    columns = [
        Column("Model"),
        Column("Verdict"),
        Column("NPU calls before", Quantity.COUNT),
        Column("Now", Quantity.COUNT),
        Column("Left the NPU"),
        Column("Came to it"),
    ]
    return Table("Changes", columns, rows, f"Since {name_text(change.path)}.")


def _refusal_table(report: CoverageReport) -> Table:
    rows: list[list[Cell]] = [
        [
            name_text(refusal.name),
            refusal.types,
            refusal.count,
            refusal.num_models,
            refusal.arithmetic_share,
            refusal.bytes_share,
            refusal.calls_change,
            name_text(refusal.reason),
        ]
        for refusal in report.refusals
    ]
    columns = [
        Column("Op"),
        Column("Types"),
        Column("Ops", Quantity.COUNT),
        Column("Models", Quantity.COUNT),
        Column("Arithmetic", Quantity.SHARE),
        Column("Traffic", Quantity.SHARE),
        Column("More calls with these ops", Quantity.COUNT),
        Column("Reason"),
    ]
    return Table("On the CPU", columns, rows, "Why ops stay on the CPU, the costliest first.")


def _op_row(op: OpCoverage) -> list[Cell]:
    where = name_text(op.call or op.reason)
    cost: list[Cell] = [op.cost.arithmetic, op.bytes]
    return [op.index, name_text(op.kind), op.types, *cost, "NPU" if op.call else "CPU", where]


def _op_table(models: Sequence[_Shown]) -> Table:
    columns = [
        Column("#", Quantity.COUNT),
        Column("Op"),
        Column("Types"),
        Column("Arithmetic", Quantity.AMOUNT),
        Column("Traffic", Quantity.BYTES),
        Column("Runs on"),
        Column("NPU call, or the reason"),
    ]
    rows: list[Sequence[Cell]] = []
    for shown in models:
        if shown.number is None:
            rows += shown.rows
        else:
            name = name_text(os.path.basename(shown.model.path))
            rows += [[*row, name] for row in shown.rows]
    if any(shown.number is not None for shown in models):
        columns.append(Column("Model"))
    return Table("Ops", columns, rows, nodes=[node for shown in models for node in shown.nodes])

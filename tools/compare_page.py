"""The HTML page of `litert-npu compare`, with the error of each op, and the op that causes wrong results."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence

from litert.analysis.comparison import TensorErrors
from litert.core.counts import count_text
from litert.model.graph import Model
from litert.model.reader import read_model

from .compare_report import CompareReport
from .console import name_text
from .page.graph import OpPlace, find_calls, node_id, show_graph
from .page.page import Cell, Column, Measure, Page, Quantity, Table


def compare_page(report: CompareReport, source: str) -> Page:
    """Returns the HTML page of a report; reads the graph of the compared model for the page."""
    with read_model(source) as model:
        graph = show_graph(model, find_calls(model) or _calls(report.tensors, model))
    return Page(
        name_text(os.path.basename(report.path)),
        f"Ops with wrong results: litert-npu compare, compared with {name_text(report.reference)}",
        list(_facts(report)),
        [*report.answer(), *map(name_text, report.notes)],
        graph,
        list(_measures(report)),
        tables=[table for table in _tables(report) if table.rows],
        focus=_worst_node(report),
    )


def _worst_node(report: CompareReport) -> str:
    """Returns the op to blame, or else the op of the first tensor beyond its limit; "" if there is none."""
    if report.blamed is not None:
        return node_id(report.blamed.op.subgraph, report.blamed.op.index)
    return next((node_id(t.subgraph, t.op) for t in report.tensors if not t.is_within), "")


def _calls(tensors: Sequence[TensorErrors], model: Model) -> dict[OpPlace, str]:
    """Returns the NPU calls of ops.

    If an op's tensor was not compared, as inside a kernel for several ops, the op belongs to the call of the ops
    that read the tensor.
    """
    compared = {(t.subgraph, t.op): t.call for t in tensors}
    for number, subgraph in enumerate(model.subgraphs):
        results = set(subgraph.outputs)
        places = {op: (number, index) for index, op in enumerate(subgraph.ops)}
        for op, place in reversed(places.items()):
            readers = {reader for tensor in op.outputs for reader in tensor.readers}
            calls = {compared.get(places[reader], "") for reader in readers if reader in places}
            if place not in compared and len(calls) == 1 and not results.intersection(op.outputs):
                compared[place] = calls.pop()
    return {place: call for place, call in compared.items() if call}


def _facts(report: CompareReport) -> Iterator[tuple[str, str]]:
    beyond = sum(not tensor.is_within for tensor in report.tensors)
    yield "Beyond their limits", f"{beyond} of {count_text(len(report.tensors), 'tensor')}"
    yield "On the NPU", count_text(sum(t.where == "npu" for t in report.tensors), "tensor")
    yield "Not compared", count_text(len(report.not_compared), "tensor")
    yield "Samples", str(report.num_samples)
    yield "Reference", f"stock LiteRT's {report.kernels} kernels"


def _measures(report: CompareReport) -> Iterator[Measure]:
    """Returns each op's worst tensor, with its own error as a fraction of the limit, and its difference."""
    own: dict[str, float] = {}
    greatest: dict[str, float] = {}
    flagged = {node_id(t.subgraph, t.op): _why(t) for t in report.tensors if not t.is_within}
    if report.blamed is not None:
        op = report.blamed.op
        flagged[node_id(op.subgraph, op.index)] = f"To blame: {name_text(report.blamed.why)}"
    for tensor in report.tensors:
        id = node_id(tensor.subgraph, tensor.op)
        if tensor.local_greatest is not None and tensor.limit:
            own[id] = max(own.get(id, 0.0), tensor.local_greatest / tensor.limit)
        greatest[id] = max(greatest.get(id, 0.0), tensor.greatest)
    yield Measure("Fraction of the limit", Quantity.SHARE, own, is_summed=False, flagged=flagged)
    yield Measure("Greatest error", Quantity.NUMBER, greatest, is_summed=False, flagged=flagged)


def _why(tensor: TensorErrors) -> str:
    if tensor.local_greatest is None or tensor.limit is None:
        return name_text(tensor.problem) or "beyond its limit"
    own = f"its own error is {tensor.local_greatest:.3g} {tensor.unit}".rstrip()
    return "; ".join(
        filter(None, [f"{own}, the limit {tensor.limit:.3g}", name_text(tensor.problem)])
    )


def _tables(report: CompareReport) -> Iterator[Table]:
    tensors = sorted(report.tensors, key=lambda tensor: tensor.is_within)
    rows: list[list[Cell]] = [
        [
            t.op,
            name_text(t.op_name),
            name_text(t.name),
            name_text(t.call) if t.call else t.where.upper(),
            t.local_greatest,
            t.limit,
            t.unit,
            t.greatest,
            t.mean,
            t.cosine,
            t.snr_db,
            "" if t.is_within else "beyond its limit",
            name_text(t.problem),
        ]
        for t in tensors
    ]
    columns = [
        Column("#", Quantity.COUNT),
        Column("Op"),
        Column("Tensor"),
        Column("Runs on"),
        Column("Own error", Quantity.NUMBER),
        Column("Limit", Quantity.NUMBER),
        Column("Unit"),
        Column("Greatest error", Quantity.NUMBER),
        Column("Mean", Quantity.NUMBER),
        Column("Cosine", Quantity.NUMBER),
        Column("SNR", Quantity.DECIBEL),
        Column("Verdict"),
        Column("Problem"),
    ]
    about = (
        "An op's own error is the error of its result, compared with the right result for the "
        "same inputs. All other errors on this page are differences from the reference."
    )
    nodes = [node_id(t.subgraph, t.op) for t in tensors]
    yield Table("Tensors", columns, rows, about, nodes)
    samples: list[list[Cell]] = [
        [number, name_text(sample.origin), sample.num_beyond, name_text(sample.first)]
        for number, sample in enumerate(report.samples)
    ]
    headings = [
        Column("#", Quantity.COUNT),
        Column("Sample"),
        Column("Beyond their limits", Quantity.COUNT),
        Column("The first"),
    ]
    yield Table("Samples", headings, samples if len(samples) > 1 else [])
    left: list[list[Cell]] = [
        [name_text(item.name), name_text(item.reason)] for item in report.not_compared
    ]
    yield Table("Not compared", [Column("Tensor or array"), Column("Why")], left)

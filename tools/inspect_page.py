"""The HTML page of `litert-npu inspect`, which shows the contents of a compiled file."""

from __future__ import annotations

import os
from collections.abc import Iterator

from litert.core.counts import count_text
from litert.model.reader import read_model

from .console import name_text, size_text
from .inspection import Inspection
from .page.graph import node_id, show_graph
from .page.page import Cell, Column, Page, Quantity, Table


def inspect_page(inspection: Inspection) -> Page:
    """Returns the HTML page of a file; reads the file's graph once more for the page."""
    with read_model(inspection.path) as model:
        graph = show_graph(model)
    return Page(
        name_text(os.path.basename(inspection.path)),
        "Contents of the file: litert-npu inspect",
        list(_facts(inspection)),
        [name_text(problem) for problem in inspection.problems],
        graph,
        memory=inspection.memory,
        tables=[table for table in _tables(inspection) if table.rows],
    )


def _facts(inspection: Inspection) -> Iterator[tuple[str, str]]:
    stamp, manifest = inspection.stamp, inspection.manifest
    target = name_text(f"{stamp.soc_manufacturer} {stamp.soc_model}") if stamp else ""
    yield "Compiled for", target or ("unknown: no stamp" if inspection.calls else "no NPU")
    yield "Size", size_text(inspection.size)
    yield "Ops", str(len(inspection.ops))
    yield "NPU calls", str(len(inspection.calls))
    if inspection.modules:
        sizes = sum(module.digest.size for module in inspection.modules)
        modules = count_text(len(inspection.modules), "module")
        yield "Byte code", f"{size_text(sizes)} in {modules}"
    if manifest is not None:
        yield "Made by", name_text(f"litert-npu {manifest.sdk_version}")
        if manifest.plugin_sdk_version:
            yield "Vendor's compiler", name_text(manifest.plugin_sdk_version)
        if manifest.flags:
            flags = " ".join(f"--{name}={value}" for name, value in manifest.flags.items())
            yield "Flags", name_text(flags)


def _tables(inspection: Inspection) -> Iterator[Table]:
    arguments: list[list[Cell]] = [
        [name_text(signature.key), kind, name_text(argument.name), argument.type]
        for signature in inspection.signatures
        for kind, arguments in (("input", signature.inputs), ("output", signature.outputs))
        for argument in arguments
    ]
    columns = [Column("Signature"), Column("Kind"), Column("Name"), Column("Type")]
    yield Table("Inputs and outputs", columns, arguments)
    calls: list[list[Cell]] = [
        [
            name_text(call.name),
            call.module,
            call.op,
            ", ".join(call.inputs),
            ", ".join(call.outputs),
        ]
        for call in inspection.calls
    ]
    headings = [
        Column("NPU call"),
        Column("Module", Quantity.COUNT),
        Column("Op", Quantity.COUNT),
        Column("Inputs"),
        Column("Outputs"),
    ]
    nodes = [node_id(call.subgraph, call.op) for call in inspection.calls]
    yield Table("NPU calls", headings, calls, nodes=nodes)
    parts: list[list[Cell]] = [
        [kind, name_text(part.name), part.digest.size, part.digest.sha256]
        for kind, found in (
            ("byte code", inspection.modules),
            ("asset", inspection.assets),
            ("metadata", inspection.metadata),
        )
        for part in found
    ]
    shown = [Column("Part"), Column("Name"), Column("Size", Quantity.BYTES), Column("SHA-256")]
    yield Table("Parts", shown, parts, "Parts that the file stores as a whole.")

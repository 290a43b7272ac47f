"""Tests pages in a browser: they are drawn whole, without a network, whatever names a model has."""

from __future__ import annotations

from pathlib import Path

import pytest
from litert_npu_tools.page.graph import show_graph
from litert_npu_tools.page.html_file import html_text
from litert_npu_tools.page.page import Column, Measure, Page, Quantity, ShownSpan, Table

from litert.model.builder import ModelBuilder
from litert.model.graph import Model
from litert.model.memory_plan import CallMemory, MemoryPlan, MemorySpaceUse, PlacedBuffer
from litert.model.reader import read_model
from tests.tools.page.conftest import Draw, Elements

HOSTILE = "</script><img src=x onerror=alert(1)><script>document.title='stolen'</script>"


def chain(*names: str) -> Model:
    """Returns a model with a chain of ops, whose tensors are `t0`, `t1`, ..."""
    b = ModelBuilder()
    tensor = b.input("t0", "float32", (1, 4))
    for index, name in enumerate(names):
        tensor = b.custom(name, [tensor], [(f"t{index + 1}", "float32", (1, 4))])
    b.output(tensor)
    return b.build()


def write(page: Page, folder: Path) -> Path:
    path = folder / "page.html"
    path.write_text(html_text(page), encoding="utf-8")
    return path


def test_a_page_shows_graph_time_line_memory_and_tables(draw: Draw, tmp_path: Path) -> None:
    plan = MemoryPlan(
        ["load", "multiply"],
        [MemorySpaceUse("CMX", 4096, 8192)],
        [PlacedBuffer("between", 0, 1024, 2048, 0, 1)],
    )
    page = Page(
        "a model",
        "what it is about",
        [("Target", "Null NULL1")],
        ["a warning"],
        show_graph(chain("First", "Second"), {(0, 1): "Partition_0"}, {(0, 0): "nobody takes it"}),
        [Measure("Time", Quantity.SECONDS, {"0/0": 0.00025, "0/1": 0.001})],
        [ShownSpan("call", "Partition_0", 0.0, 0.001, "main")],
        memory=[CallMemory("Partition_0", 0, plan)],
        tables=[Table("Ops", [Column("Op"), Column("Time", Quantity.SECONDS)], [["First", 0.25]])],
    )
    drawn = draw(write(page, tmp_path))
    assert 'data-drawn="yes"' in drawn.document and not drawn.console
    assert "data-failed" not in drawn.document
    assert drawn.count('class="node') == 4  # two ops, an input and an output
    assert drawn.count('class="node npu"') == 1
    for text in ("250 µs", "1.00 ms", "a warning", "2.00 KiB at 1,024", "Partition_0: 1.00 ms"):
        assert text in drawn.document


def test_a_network_of_712_ops_is_one_file_below_2_mb(
    draw: Draw, networks: Path, tmp_path: Path
) -> None:
    with read_model(networks / "face_landmark_with_attention.tflite") as model:
        graph = show_graph(model)
        ops = [node for node in graph[0].nodes if node.kind == "op"]
    assert len(ops) == 712
    times = {node.id: 1e-6 * index for index, node in enumerate(ops)}
    rows = [[node.name, times[node.id]] for node in ops]
    table = Table("Ops", [Column("Op"), Column("Time", Quantity.SECONDS)], rows, nodes=list(times))
    page = Page(
        "face", "", graph=graph, measures=[Measure("Time", Quantity.SECONDS, times)], tables=[table]
    )
    path = write(page, tmp_path)
    assert path.stat().st_size < 2_000_000
    drawn = draw(path)
    assert 'data-drawn="yes"' in drawn.document and not drawn.console
    blocks = [group for group in graph[0].groups if group.parent < 0]
    assert drawn.count(r'aria-label="ops \d+ to \d+, group of') == len(blocks)
    op = ops[700]
    opened = draw(path, place=f"#{op.id}")
    assert opened.count(f'class="node[^"]*selected"[^>]*aria-label="{op.name},') == 1


def test_nothing_of_a_page_comes_from_a_network() -> None:
    text = html_text(Page("a", "b", graph=show_graph(chain("Op"))))
    assert "http:" not in text and "https:" not in text and "import(" not in text
    assert "default-src 'none'" in text


@pytest.mark.parametrize("name", [HOSTILE, "<!--<script>", "\u202eevil\n", "' onclick='alert(1)"])
def test_names_of_a_model_are_text_and_nothing_else(draw: Draw, tmp_path: Path, name: str) -> None:
    model = chain(name, "Op")
    model.subgraphs[0].ops[0].outputs[0].name = name
    model.subgraphs[0].name = name
    table = Table(name, [Column(name)], [[name]], name)
    page = Page(name, name, [(name, name)], [name], show_graph(model), tables=[table])
    drawn = draw(write(page, tmp_path))
    assert 'data-drawn="yes"' in drawn.document and not drawn.console
    assert "stolen</title>" not in drawn.document
    found = Elements()
    found.feed(drawn.document)
    assert "img" not in found.tags and found.tags.count("script") == 2
    assert not [name for name in found.attributes if name.startswith("on")]


@pytest.mark.parametrize("model", [ModelBuilder().build(), chain(), chain(*["Op"] * 60)])
def test_small_and_long_models_are_drawn(draw: Draw, tmp_path: Path, model: Model) -> None:
    drawn = draw(write(Page("m", "", graph=show_graph(model)), tmp_path), width=375)
    assert 'data-drawn="yes"' in drawn.document and not drawn.console

"""Pages of commands: what they found, at the ops of the model that the user has."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from litert.model.builder import ModelBuilder
from litert.model.writer import write_model
from tests.tools.conftest import LitertNpu
from tests.tools.page.conftest import Draw, op_nodes, page_data


def test_profile_has_the_time_of_each_op_at_its_node(
    copying: str, in_folder: Path, litert_npu: LitertNpu, capfd: pytest.CaptureFixture[str]
) -> None:
    page = in_folder / "p.html"
    assert litert_npu("profile", copying, "--runs=4", "--report=json", f"--html={page}") == 0
    rows = json.loads(capfd.readouterr().out)["rows"]
    data = page_data(page)
    nodes = op_nodes(data)
    assert {id: node["call"] for id, node in nodes.items()} == {"0/0": "copy_0", "0/1": ""}
    (measure,) = data["measures"]
    call = next(row for row in rows if row["kind"] == "npu_call")
    assert measure["values"]["0/0"] == call["mean_s"]
    assert set(measure["values"]) == {"0/0", "0/1"}
    assert [row[0] for row in data["tables"][0]["rows"]] == [row["name"] for row in rows]


def test_the_time_line_of_a_profile_is_one_run_also_beside_a_trace(
    copying: str, in_folder: Path, litert_npu: LitertNpu
) -> None:
    flags = ("--runs=4", "--html=p.html", "--trace=t.json")
    assert litert_npu("profile", copying, *flags) == 0
    spans = page_data(in_folder / "p.html")["spans"]
    assert [span["kind"] for span in spans].count("run") == 1
    assert {"run", "call", "cpu_op"} <= {span["kind"] for span in spans}
    assert "load" not in {span["kind"] for span in spans}
    events = json.loads((in_folder / "t.json").read_text())["traceEvents"]
    categories = [event.get("cat") for event in events]
    assert categories.count("run") > 1 and "load" in categories


def test_ops_that_cannot_be_told_apart_have_their_time_at_the_one_that_computes(
    in_folder: Path, litert_npu: LitertNpu
) -> None:
    b = ModelBuilder()
    x = b.input("x", "float32", (1, 16, 16, 8))
    weights = b.constant("w", [[[[0.5] * 8] * 3] * 3] * 8, "float32")
    bias = b.constant("b", [0.0] * 8, "float32")
    shape = ("float32", (1, 16, 16, 8))
    y = b.op("CONV_2D", [x, weights, bias], [("y", *shape)], stride_w=1, stride_h=1, padding="SAME")
    b.output(b.op("RELU", [y], [("z", *shape)]))
    b.signature("serving_default", {"x": x}, {"z": b.graph.outputs[0]})
    write_model(b.build(), "m.tflite")
    assert litert_npu("profile", "m.tflite", "--runs=2", "--html=p.html") == 0
    (measure,) = page_data(in_folder / "p.html")["measures"]
    assert set(measure["values"]) == {"0/0"} and measure["counted_in"] == {"0/1": "0/0"}


def test_profile_in_a_browser(
    draw: Draw, copying: str, in_folder: Path, litert_npu: LitertNpu
) -> None:
    page = in_folder / "p.html"
    assert litert_npu("profile", copying, "--runs=2", f"--html={page}") == 0
    drawn = draw(page, place="#0/0")
    assert 'data-drawn="yes"' in drawn.document and not drawn.console
    assert drawn.count('class="node npu') == 1
    assert drawn.count(r"<h4>Time</h4><div>[\d.]+ µs</div>") == 1
    assert "One run, measured in every part" in drawn.document


@pytest.mark.parametrize("command", ["profile", "inspect"])
@pytest.mark.parametrize("flag", ["html", "model_explorer"])
def test_a_page_never_replaces_the_model(
    copying: str, litert_npu: LitertNpu, command: str, flag: str, capfd: pytest.CaptureFixture[str]
) -> None:
    before = Path(copying).read_bytes()
    assert litert_npu(command, copying, f"--{flag}={copying}") != 0
    assert Path(copying).read_bytes() == before
    assert f"the page would replace {copying}" in capfd.readouterr().err

"""Tests the pages of commands: each result is at the right op of the user's model."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from litert_npu_tools.apply_plugin import guarded_main
from litert_npu_tools.model_runs import Timing
from litert_npu_tools.page.html_file import html_text
from litert_npu_tools.page.model_explorer import explorer_files
from litert_npu_tools.page.page import GraphNode, Measure, Page, Quantity, ShownSubgraph
from litert_npu_tools.profile_page import profile_page
from litert_npu_tools.profile_report import ProfileReport

from litert.analysis.profile import ProfileRow
from litert.core.tracing import Span, SpanKind
from litert.model.builder import ModelBuilder
from litert.model.reader import read_model
from litert.model.writer import write_model
from litert.runtime.metrics import OpPlace
from tests.tools.conftest import LitertNpu
from tests.tools.page.conftest import Draw, Drawn, Elements, op_nodes, page_data

TAKES_MUL = ("--reference_ops=MUL",)


def write_scale(path: Path, factor: float, name: str = "scaled") -> None:
    """Writes a model of -(x * factor); `name` is the name of the product and of the subgraph."""
    b = ModelBuilder()
    x = b.input("x", "float32", (4, 4))
    scaled = b.op(
        "MUL", [x, b.constant("factor", factor, "float32")], [("scaled", "float32", (4, 4))]
    )
    b.output(b.op("NEG", [scaled], [("y", "float32", (4, 4))]))
    b.signature("serving_default", {"x": x}, {"y": b.graph.outputs[0]})
    model = b.build()
    scaled.name = model.subgraphs[0].name = name
    write_model(model, path)


@pytest.fixture
def scale(in_folder: Path) -> Path:
    """The path of a model of -(x * 2)."""
    write_scale(in_folder / "scale.tflite", 2.0)
    return in_folder / "scale.tflite"


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


def test_all_ops_of_a_call_that_was_compiled_at_load_are_in_it(
    in_folder: Path, litert_npu: LitertNpu
) -> None:
    b = ModelBuilder()
    x = b.input("x", "float32", (4,))
    y = b.op("ADD", [x, x], [("a", "float32", (4,))])
    z = b.op("NEG", [x], [("n", "float32", (4,))])
    y = b.op("MUL", [y, z], [("m", "float32", (4,))])
    b.output(b.op("ABS", [y], [("y", "float32", (4,))]))
    write_model(b.build(), "raw.tflite")
    flags = ("--reference_ops=ADD,MUL", "--runs=2", "--html=p.html")
    assert litert_npu("profile", "raw.tflite", *flags) == 0
    data = page_data(in_folder / "p.html")
    on_npu = {id for id, node in op_nodes(data).items() if node["call"]}
    assert on_npu == {"0/0", "0/2"}
    (measure,) = data["measures"]
    assert set(measure["values"]) | set(measure["counted_in"]) == {"0/0", "0/1", "0/2", "0/3"}
    assert len(on_npu & set(measure["values"])) == 1


def test_profile_in_a_browser(
    draw: Draw, copying: str, in_folder: Path, litert_npu: LitertNpu
) -> None:
    page = in_folder / "p.html"
    assert litert_npu("profile", copying, "--runs=2", f"--html={page}") == 0
    drawn = draw(page, place="#0/0")
    assert 'data-drawn="yes"' in drawn.document and not drawn.console
    assert drawn.count('class="node npu') == 1
    assert drawn.count(r"<h4>Time</h4><div>[\d.]+ µs</div>") == 1
    assert "One run, with the times of all parts" in drawn.document


def test_coverage_has_costs_and_reasons_at_nodes(scale: Path, litert_npu: LitertNpu) -> None:
    assert litert_npu("coverage", scale, *TAKES_MUL, "--html=p.html") == 0
    data = page_data(Path("p.html"))
    nodes = op_nodes(data)
    assert [node["call"] for node in nodes.values()] == ["Partition_0", ""]
    assert "--reference_ops or an asset" in nodes["0/1"]["reason"] and not nodes["0/0"]["reason"]
    arithmetic, traffic = data["measures"]
    assert arithmetic["values"] == {"0/0": 16, "0/1": 16}
    assert traffic["values"]["0/1"] == 16 * 4 * 2
    assert [table["title"] for table in data["tables"]] == ["On the CPU", "Ops"]


def test_coverage_of_a_folder_has_a_table_of_models_and_the_graph_of_each(
    draw: Draw, in_folder: Path, litert_npu: LitertNpu
) -> None:
    (in_folder / "models").mkdir()
    for name in ("a", "b"):
        write_scale(in_folder / "models" / f"{name}.tflite", 2.0)
    (in_folder / "models" / "damaged.tflite").write_bytes(b"no model")
    page = in_folder / "p.html"
    assert litert_npu("coverage", "models", *TAKES_MUL, f"--html={page}") == 2
    data = page_data(page)
    assert [subgraph["name"] for subgraph in data["graph"]] == ["a.tflite", "b.tflite"]
    assert set(op_nodes(data)) == {"0:0/0", "0:0/1", "1:0/0", "1:0/1"}
    assert [row[0] for row in data["tables"][0]["rows"]] == ["a.tflite", "b.tflite"]
    assert any("damaged.tflite" in note for note in data["notes"])
    drawn = draw(page, place="#1:0/1")
    assert 'data-drawn="yes"' in drawn.document and not drawn.console
    assert "op 1 of subgraph 0" in drawn.document
    assert drawn.document.index(">Models</h2>") < drawn.document.index(">Graph</h2>")


def test_graphs_that_a_page_has_no_room_for_are_left_out_in_words(
    in_folder: Path, litert_npu: LitertNpu, monkeypatch: pytest.MonkeyPatch
) -> None:
    (in_folder / "models").mkdir()
    for name in "abc":
        write_scale(in_folder / "models" / f"{name}.tflite", 2.0)
    monkeypatch.setattr("litert_npu_tools.coverage_page._MOST_CHARACTERS", 1500)
    assert litert_npu("coverage", "models", *TAKES_MUL, "--html=p.html") == 0
    data = page_data(Path("p.html"))
    assert len(data["graph"]) == 1 and len(data["tables"][0]["rows"]) == 3
    assert any("The graphs and ops of 2 models do not fit" in note for note in data["notes"])


def test_compare_shows_the_op_to_blame_first(
    draw: Draw, scale: Path, in_folder: Path, litert_npu: LitertNpu
) -> None:
    write_scale(in_folder / "wrong.tflite", 2.5)
    page = in_folder / "p.html"
    assert litert_npu("compare", "wrong.tflite", f"--reference={scale}", f"--html={page}") == 1
    data = page_data(page)
    part, greatest = data["measures"]
    assert data["focus"] == "0/0" and list(part["flagged"]) == ["0/0"]
    assert part["values"]["0/0"] > 1 > part["values"]["0/1"]
    assert greatest["values"]["0/1"] > 0
    assert any(note.startswith("To blame: op 0 MUL") for note in data["notes"])
    drawn = draw(page)
    assert 'data-drawn="yes"' in drawn.document and not drawn.console
    assert drawn.count(r'class="node flagged selected"') == 1
    assert drawn.count(r'class="flag">To blame: ') == 1


def test_ops_without_a_compared_tensor_are_in_the_call_that_reads_them(
    scale: Path, litert_npu: LitertNpu
) -> None:
    assert litert_npu("compare", scale, "--reference_ops=all", "--html=p.html") == 0
    calls = {node["call"] for node in op_nodes(page_data(Path("p.html"))).values()}
    assert calls == {"Partition_0"}


HOSTILE_NAMES = (
    "</script><img src=x onerror=alert(1)><script>document.title='stolen'</script><!--<script>",
    "' onclick='alert(1)\" onfocus=\"alert(2)\u202eevil\n\r\u2028 \udcff half",
    "x" * 10_000,
)


@pytest.mark.parametrize("name", HOSTILE_NAMES, ids=range(len(HOSTILE_NAMES)))
def test_names_are_text_in_the_pages_of_all_commands(
    draw: Draw, in_folder: Path, litert_npu: LitertNpu, name: str
) -> None:
    path = in_folder / name.replace("/", "_").replace("\udcff", "")[:90]
    write_scale(path.with_suffix(".tflite"), 2.0, name)
    made = str(path.with_suffix(".tflite"))
    flags = ["--model_explorer=e.json", "--html"]
    commands = {
        "profile": [made, "--runs=1", "--warm_up=0"],
        "inspect": [made],
        "coverage": [made, "--reference_ops=MUL"],
        "compare": [made, "--reference_ops=MUL"],
    }
    for command, arguments in commands.items():
        page = in_folder / f"{command}.html"
        assert litert_npu(command, *arguments, flags[0], f"{flags[1]}={page}") == 0
        check_is_harmless(draw(page))
    page = in_folder / "apply.html"
    line = [
        "apply_plugin",
        made,
        "none",
        "--cmd=partition",
        "--reference_ops=MUL",
        f"--html={page}",
    ]
    assert guarded_main(line) == 0
    check_is_harmless(draw(page))
    json.loads((in_folder / "e.json").read_text(encoding="utf-8"))


def check_is_harmless(drawn: Drawn) -> None:
    """Checks that only the page's own scripts ran, and that no name became an element."""
    assert 'data-drawn="yes"' in drawn.document and not drawn.console
    assert "stolen</title>" not in drawn.document
    found = Elements()
    found.feed(drawn.document)
    assert "img" not in found.tags and found.tags.count("script") == 2
    assert not [attribute for attribute in found.attributes if attribute.startswith("on")]


@pytest.mark.parametrize("command", ["profile", "inspect", "coverage", "compare"])
@pytest.mark.parametrize("flag", ["html", "model_explorer"])
def test_a_page_never_replaces_the_model(
    scale: Path, litert_npu: LitertNpu, command: str, flag: str, capfd: pytest.CaptureFixture[str]
) -> None:
    before = scale.read_bytes()
    assert litert_npu(command, scale, f"--{flag}={scale}") != 0
    assert scale.read_bytes() == before
    noun = "the HTML page" if flag == "html" else "the graph"
    assert f"{noun} would replace file '{scale}'" in capfd.readouterr().err


NODE_FIELDS = {
    "id", "label", "namespace", "attrs", "incomingEdges", "outputsMetadata", "style",
}  # fmt: skip
"""The fields of a node in `graph_builder.py` of Model Explorer 0.1.34."""


def test_model_explorer_gets_a_graph_and_node_data_that_fit_each_other(
    copying: str, in_folder: Path, litert_npu: LitertNpu
) -> None:
    assert litert_npu("profile", copying, "--runs=2", "--model_explorer=e.json") == 0
    graphs = json.loads((in_folder / "e.json").read_text())
    assert graphs["label"] == copying
    (graph,) = graphs["graphs"]
    nodes = {node["id"]: node for node in graph["nodes"]}
    assert len(nodes) == len(graph["nodes"]) == 4
    assert all(set(node) <= NODE_FIELDS for node in nodes.values())
    edges = {(e["sourceNodeId"], id) for id, node in nodes.items() for e in node["incomingEdges"]}
    assert edges == {("0/in/0", "0/0"), ("0/0", "0/1"), ("0/1", "0/out/0")}
    attributes = {a["key"]: a["value"] for a in nodes["0/0"]["attrs"]}
    assert attributes["runs on"] == "NPU, copy_0" and "Time" in attributes
    data = json.loads((in_folder / "e.time.json").read_text())
    assert list(data) == [graph["id"]]
    results = data[graph["id"]]["results"]
    assert set(results) == {"0/0", "0/1"} and results["0/0"]["value"] > 0


def test_a_number_that_json_has_not_is_left_out_of_node_data() -> None:
    graph = [ShownSubgraph("g", [GraphNode("0/0", "op", "A"), GraphNode("0/1", "op", "B")], [], [])]
    values = {"0/0": float("inf"), "0/1": 1.0}
    page = Page("m", "", graph=graph, measures=[Measure("Error", Quantity.NUMBER, values)])
    files = explorer_files(page, "e.json")
    assert json.loads(files["e.error.json"])["g"]["results"] == {"0/1": {"value": 1.0}}


def profile_of_each_op(network: Path) -> Page:
    """Returns the page of a made-up profile with a row for each op, since stock LiteRT cannot run all of them."""
    with read_model(str(network)) as model:
        places = [
            OpPlace(0, index, op.name, op.outputs[0].name)
            for index, op in enumerate(model.subgraphs[0].ops)
        ]
    one = (-1, 1e-5, 1e-5, 1e-6, 1 / len(places), 1.0)
    rows = [ProfileRow("cpu_op", place.name, (place,), *one) for place in places]
    timing = Timing.of([0.01, 0.01])
    report = ProfileReport(str(network), "", 1, "x", "1", 0.1, timing, timing, rows, [])
    spans = [
        Span(SpanKind.CPU_OP, place.name, i * 10_000, 10_000, "Main")
        for i, place in enumerate(places)
    ]
    run = Span(SpanKind.RUN, "all", 0, 10_000 * len(places), "Main")
    return profile_page(report, [run, *spans])


@pytest.mark.parametrize("command", ["apply_plugin", "inspect", "coverage", "compare", "profile"])
def test_pages_of_a_network_of_712_ops_are_below_2_mb(
    draw: Draw, networks: Path, in_folder: Path, litert_npu: LitertNpu, command: str
) -> None:
    network, page = networks / "face_landmark_with_attention.tflite", in_folder / "p.html"
    ops = "ADD" if command == "inspect" else "all"  # "all" would leave few ops in the file
    flags = (f"--reference_ops={ops}", f"--html={page}")
    if command == "profile":
        page.write_text(html_text(profile_of_each_op(network)), encoding="utf-8")
    elif command in ("apply_plugin", "inspect"):
        assert guarded_main(["apply_plugin", *flags, str(network), "face.tflite"]) == 0
    if command == "inspect":
        assert litert_npu("inspect", "face.tflite", flags[1]) == 0
    elif command in ("coverage", "compare"):
        assert litert_npu(command, network, *flags) == 0
    num_ops = 712
    if command == "inspect":
        num_ops = sum(len(subgraph.ops) for subgraph in read_model("face.tflite").subgraphs)
        assert num_ops > 500
    assert page.stat().st_size < 2_000_000 and len(op_nodes(page_data(page))) == num_ops
    drawn = draw(page, place=f"#0/{num_ops - 1}")
    assert 'data-drawn="yes"' in drawn.document and not drawn.console
    assert drawn.count(r'class="node[^"]*selected"') == 1

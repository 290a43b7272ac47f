"""Tests that the rows of `litert-npu profile` add up, in text and JSON, but not how fast anything is."""

from __future__ import annotations

import csv
import io
import json
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from litert_npu_tools.model_runs import Timing
from litert_npu_tools.profile_command import ProfileOptions, profile_model
from litert_npu_tools.profile_report import ProfileReport

from litert.analysis.profile import ProfileRow, profile_rows
from litert.core.tracing import RECORDINGS, SpanKind
from litert.model.builder import ModelBuilder
from litert.model.reader import read_model
from litert.model.writer import write_model
from litert.runtime.metrics import OpMetrics, RunMetrics, Spread
from tests.tools.conftest import LitertNpu

OPTIONS = ProfileOptions(warm_up=1, runs=4)
CONSTANTS = {"DEQUANTIZE", "DENSIFY"}


def add_up(report: ProfileReport, parent: int) -> float:
    return float(sum(row.mean_s for row in report.rows if row.parent == parent))


def test_rows_add_up_to_the_run_and_parts_to_their_row(copying: str) -> None:
    report = profile_model(copying, OPTIONS)
    assert add_up(report, -1) == pytest.approx(report.run.mean_s)
    assert sum(row.share for row in report.rows if row.parent < 0) == pytest.approx(1)
    for index, row in enumerate(report.rows):
        if any(part.parent == index for part in report.rows):
            assert add_up(report, index) >= row.mean_s * 0.999
    assert [row.name for row in report.rows if row.kind == "npu_call"] == ["copy_0"]
    ops = {op.name for row in report.rows for op in row.ops}
    assert ops == {"DISPATCH_OP", "MUL"}
    assert report.run.runs == report.plain_run.runs == 4


def test_rows_are_sorted_and_follow_what_they_are_parts_of(copying: str) -> None:
    report = profile_model(copying, OPTIONS)
    for parent in {row.parent for row in report.rows}:
        times = [row.mean_s for row in report.rows if row.parent == parent]
        assert times == sorted(times, reverse=True)
    assert all(row.parent < index for index, row in enumerate(report.rows))


def test_shares_are_those_of_the_rows() -> None:
    kinds = {"npu_call": (-1, 0.5), "task": (0, 0.3), "wait": (0, 0.1), "host": (0, 0.1)}
    rows = [ProfileRow(k, k, (), parent, 1.0, 1.0, 0.0, s, 1) for k, (parent, s) in kinds.items()]
    rows += [ProfileRow("cpu_op", "ADD", (), -1, 1.0, 1.0, 0.0, 0.3, 1)]
    rows += [ProfileRow("rest", "rest", (), -1, 1.0, None, None, 0.2, 1)]
    timing = Timing.of([1.0, 1.0])
    report = ProfileReport("m", "s", 1, "x", "1", 0.1, timing, timing, rows, [])
    expected = {
        "npu_call": 0.5,
        "task": 0.3,
        "transfer": 0,
        "wait": 0.1,
        "invoke": 0,
        "host": 0.1,
        "cpu_op": 0.3,
        "rest": 0.2,
    }
    assert report.shares == pytest.approx(expected)
    assert "  NPU calls 50.0%, CPU ops 30.0%, rest 20.0% of a run" in report.lines()
    assert "  in NPU calls: tasks 30.0%, waits 10.0%, host 10.0%" in report.lines()


def test_a_rest_has_what_single_runs_leave() -> None:
    run_s, op_s = [5.0, 6.0, 100.0], [2.0, 4.0, 6.0]
    op = OpMetrics(SpanKind.CPU_OP, "ADD", (), -1, 3, Spread.of(op_s))
    rest, add = profile_rows([RunMetrics(run_s, (), [op])])
    assert rest.kind == "rest" and rest.mean_s == pytest.approx(33)
    assert (rest.median_s, add.median_s, add.mean_s) == (3, 4, 4)
    seldom = replace(op, times=Spread(3, 12, 56, [2.0, 6.0]))  # the op runs in every second run
    rest, _ = profile_rows([RunMetrics(run_s, (), [seldom])])
    assert rest.mean_s == pytest.approx(33)
    assert (rest.median_s, rest.deviation_s) == (None, None)


@pytest.mark.parametrize(("slow_s", "is_said"), [(1.1, False), (9.0, True)])
def test_runs_that_vary_much_are_said(slow_s: float, is_said: bool) -> None:
    timing = Timing.of([1.0, 1.0, slow_s])
    rows = [ProfileRow("rest", "rest", (), -1, 1.0, 1.0, 0.0, 1.0, 1)]
    report = ProfileReport("m", "s", 1, "x", "1", 0.1, timing, timing, rows, [])
    assert any("runs vary much" in line for line in report.lines()) is is_said


def test_few_runs_are_noted(copying: str) -> None:
    assert "4 runs" in profile_model(copying, OPTIONS).notes[-1]
    assert not profile_model(copying, replace(OPTIONS, runs=50)).notes


def test_csv_has_a_line_for_each_row(
    copying: str, litert_npu: LitertNpu, capfd: pytest.CaptureFixture[str]
) -> None:
    assert litert_npu("profile", copying, "--runs=2", "--report=csv") == 0
    rows = list(csv.DictReader(io.StringIO(capfd.readouterr().out)))
    assert [int(row["row"]) for row in rows] == list(range(len(rows)))
    top = [float(row["share"]) for row in rows if row["parent"] == "-1"]
    assert sum(top) == pytest.approx(1)
    assert {row["kind"] for row in rows} >= {"npu_call", "cpu_op", "rest"}


def test_json_has_all_of_it(
    copying: str, litert_npu: LitertNpu, capfd: pytest.CaptureFixture[str]
) -> None:
    assert litert_npu("profile", copying, "--runs=2", "--report=json") == 0
    found = json.loads(capfd.readouterr().out)
    assert found["cost"] == found["run"]["min_s"] / found["plain_run"]["min_s"]
    call = next(row for row in found["rows"] if row["kind"] == "npu_call")
    assert call["ops"] == [{"subgraph": 0, "index": 0, "name": "DISPATCH_OP", "output": "c"}]


def test_text_shows_the_longest_rows() -> None:
    rows = [
        ProfileRow("cpu_op", f"OP_{i}", (), -1, 1 / (i + 1), 0.0, 0.0, 0.1, 1) for i in range(5)
    ]
    timing = Timing.of([1.0, 1.0])
    report = ProfileReport("m", "s", 1, "x", "1", 0.1, timing, timing, rows, ["a note"])
    lines = list(report.lines(2))
    assert [line.split()[-1] for line in lines if "OP_" in line] == ["OP_0", "OP_1"]
    assert lines[-1].strip() == "3 more rows of at most 333.333 ms: --rows=0 shows all"
    assert "  note: a note" in lines
    assert sum("OP_" in line for line in report.lines(0)) == 5


def test_a_raw_model_is_profiled_on_the_cpu(original: str) -> None:
    report = profile_model(original, OPTIONS)
    assert {op.name for row in report.rows for op in row.ops} == {"MUL"}
    assert len(report.notes) == 1  # only the note about the few runs


def test_ops_of_a_model_that_is_compiled_at_load_have_the_places_of_the_file(
    in_folder: Path, litert_npu: LitertNpu, capfd: pytest.CaptureFixture[str]
) -> None:
    b = ModelBuilder()
    x = b.input("x", "float32", (4,))
    y = b.op("ADD", [x, x], [("a", "float32", (4,))])
    y = b.op("MUL", [y, x], [("m", "float32", (4,))])
    b.output(b.op("NEG", [y], [("y", "float32", (4,))]))
    write_model(b.build(), "raw.tflite")
    flags = ("--reference_ops=ADD,MUL", "--report=json", "--runs=2")
    assert litert_npu("profile", "raw.tflite", *flags) == 0
    rows = json.loads(capfd.readouterr().out)["rows"]
    assert sum(row["kind"] == "npu_call" for row in rows) == 1
    places = {(op["index"], op["name"]) for row in rows for op in row["ops"]}
    assert places == {
        (1, "DISPATCH_OP"),
        (2, "NEG"),
    }  # the call contains ADD and MUL, and has the place of MUL


def test_an_op_whose_tensor_has_another_one_s_name_has_no_place(
    in_folder: Path, litert_npu: LitertNpu, capfd: pytest.CaptureFixture[str]
) -> None:
    b = ModelBuilder()
    x = b.input("x", "float32", (4,))
    y = b.op("ADD", [x, x], [("a", "float32", (4,))])
    y = b.op("ABS", [y], [("same", "float32", (4,))])
    b.output(b.op("NEG", [y], [("same", "float32", (4,))]))
    write_model(b.build(), "raw.tflite")
    assert litert_npu("profile", "raw.tflite", "--reference_ops=ADD", "--report=json") == 0
    rows = json.loads(capfd.readouterr().out)["rows"]
    places = {op["name"]: op["index"] for row in rows for op in row["ops"]}
    assert places == {"DISPATCH_OP": 0, "ABS": -1, "NEG": -1}


def test_a_signature_and_an_input_s_shape_are_chosen(in_folder: Path) -> None:
    b = ModelBuilder()
    b.output(b.op("NEG", [b.input("x", "float32", (2,))], [("y", "float32", (2,))]))
    b.signature("main")
    other = b.subgraph("other")
    x = other.input("x", "float32", (1, 2), shape_signature=(-1, 2))
    other.output(other.op("ABS", [x], [("y", "float32", (1, 2))]))
    other.signature("other")
    write_model(b.build(), "two.tflite")
    np.save("x.npy", np.ones((3, 2), np.float32))
    load = type(OPTIONS.load)(signature="other")
    report = profile_model("two.tflite", replace(OPTIONS, load=load, inputs=["x=x.npy"]))
    assert {(op.subgraph, op.name) for row in report.rows for op in row.ops} == {(1, "ABS")}


def test_the_options_that_were_given_are_not_changed(copying: str) -> None:
    options = replace(OPTIONS)
    profile_model(copying, options)
    assert not options.load.options.enable_profiling


def test_a_file_that_is_no_model_is_an_error(
    in_folder: Path, litert_npu: LitertNpu, capsys: pytest.CaptureFixture[str]
) -> None:
    Path("no.tflite").write_bytes(b"no")
    assert litert_npu("profile", "no.tflite") != 0
    assert "no.tflite" in capsys.readouterr().err


@pytest.mark.parametrize(
    "network", ["selfie_segmentation", "hand_landmark_full", "pose_landmark_full"]
)
def test_each_op_of_a_real_network_is_in_one_row(networks: Path, network: str) -> None:
    path = str(networks / f"{network}.tflite")
    with read_model(path) as model:
        ops = [(0, index, op.name) for index, op in enumerate(model.subgraphs[0].ops)]
    report = profile_model(path, OPTIONS)
    parents = {row.parent for row in report.rows}
    leaves = [row for index, row in enumerate(report.rows) if index not in parents]
    found = [(op.subgraph, op.index, op.name) for row in leaves for op in row.ops]
    assert sorted(found) == ops
    large = [row for row in leaves if len({op.name for op in row.ops} - CONSTANTS) > 2]
    assert len(large) <= 3  # nearly every operator of XNNPACK has a row of its own


def test_two_models_are_profiled_at_once(copying: str, original: str) -> None:
    options = replace(OPTIONS, runs=30)
    with ThreadPoolExecutor(2) as pool:
        profiles = [pool.submit(profile_model, path, options) for path in (copying, original) * 2]
    reports = [profile.result() for profile in profiles]
    for report in reports:
        assert report.run.runs == 30
        assert all(row.runs_per_run == 1 for row in report.rows)
        assert add_up(report, -1) == pytest.approx(report.run.mean_s)
    calls = [sum(row.kind == "npu_call" for row in report.rows) for report in reports]
    assert calls == [1, 0, 1, 0]
    assert not RECORDINGS


def test_a_trace_has_the_load_and_runs_with_ops_of_the_cpu(
    copying: str, litert_npu: LitertNpu
) -> None:
    assert litert_npu("profile", copying, "--runs=2", "--trace=trace.json") == 0
    events = json.loads(Path("trace.json").read_text())["traceEvents"]
    spans = [event for event in events if event["ph"] == "X"]
    names = Counter(event["name"] for event in spans)
    assert names["copying.tflite"] == 1
    assert names["copy_0"] == 6 and names["MUL"] == 5  # one NPU call more: the vendor gets ready
    runs = [event for event in spans if event["cat"] == "run"]
    ops = [event for event in spans if event["cat"] == "cpu_op"]
    for op in ops:
        assert any(
            run["ts"] <= op["ts"] and op["ts"] + op["dur"] <= run["ts"] + run["dur"] + 0.001
            for run in runs
        )

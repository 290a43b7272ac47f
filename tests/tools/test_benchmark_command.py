"""Tests what `litert-npu benchmark` measures, but not how fast anything is."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from litert_npu_tools.benchmark_command import BenchmarkOptions, Timing, benchmark_model
from litert_npu_tools.comparison import match_outputs

from litert.core.errors import LiteRtError
from litert.core.status import Status
from litert.model.builder import ModelBuilder
from litert.model.writer import write_model
from tests.tools.conftest import LitertNpu

OPTIONS = BenchmarkOptions(warm_up=1, runs=4)


def test_stock_runs_a_model_for_the_cpu_beside_it(original: str) -> None:
    report = benchmark_model(original, OPTIONS)
    assert report.stock and report.model.runs == report.stock.runs == 4
    assert report.ratio == report.model.p50_s / report.stock.p50_s
    assert report.greatest_difference == 0 and not report.calls
    assert "NPU calls" not in report.to_text()


def test_a_compiled_file_shows_its_calls(copying: str) -> None:
    report = benchmark_model(copying, OPTIONS)
    assert [(call.name, call.runs_per_run) for call in report.calls] == [("copy_0", 1)]
    assert report.stock is None and report.ratio is None
    assert "--stock_model" in report.to_text()


def test_a_call_stands_beside_the_runs_in_which_it_was_measured(copying: str) -> None:
    """A call must be shorter than the whole run in which it was measured."""
    report = benchmark_model(copying, OPTIONS)
    (call,) = report.calls
    assert call.timing.runs == report.measured.runs == 2
    assert call.timing.min_s < report.measured.min_s and call.timing.max_s < report.measured.max_s
    lines = report.to_text().splitlines()
    at = lines.index("NPU calls, measured in 2 further runs, since measuring slows down a run:")
    assert lines[at + 1] == f"  whole run: {report.measured}"
    assert lines[at + 2] == f"  copy_0, 1 per run: {call.timing}"


def test_a_vendor_s_measurements_are_short_for_people(copying: str) -> None:
    report = benchmark_model(copying, OPTIONS)
    call = replace(report.calls[0], vendor={"runs": 1234567, "mean_us": 127.67810012519475})
    text = replace(report, calls=[call]).to_text()
    assert text.endswith("    runs: 1234567\n    mean_us: 127.678")


def test_of_many_tasks_only_the_longest_have_a_line(copying: str) -> None:
    """The JSON report has all tasks."""
    report = benchmark_model(copying, OPTIONS)
    tasks = {f"task {index}, mean_us": float(index) for index in range(14)}
    call = replace(report.calls[0], vendor={"runs": 3, **tasks, "best_us": 90.0})
    text = replace(report, calls=[call]).to_text()
    longest = [f"    task {index}, mean_us: {index}" for index in range(4, 14)]
    rest = "    4 more parts, together 6 us: litert-npu profile shows all parts"
    assert text.splitlines()[-13:] == ["    runs: 3", *longest, "    best_us: 90", rest]
    assert json.loads(replace(report, calls=[call]).to_json())["calls"][0]["vendor"] == call.vendor


def test_a_compiled_file_stands_beside_its_original(copying: str, original: str) -> None:
    options = BenchmarkOptions(stock_model=original, warm_up=0, runs=2)
    report = benchmark_model(copying, options)
    assert report.stock and report.greatest_difference == 0 and report.calls


def test_what_stock_cannot_run_is_said(
    copying: str, litert_npu: LitertNpu, in_folder: Path
) -> None:
    with pytest.raises(LiteRtError, match="stock LiteRT cannot run the model") as error:
        benchmark_model(copying, BenchmarkOptions(stock_model="raw.tflite", runs=1))
    assert error.value.status is Status.UNSUPPORTED
    assert error.value.hint.startswith("Omit --stock_model")


def test_a_signature_of_another_subgraph_is_measured_without_stock(in_folder: Path) -> None:
    b = ModelBuilder()
    b.output(b.op("NEG", [b.input("x", "float32", (2,))], [("y", "float32", (2,))]))
    b.signature("main")
    other = b.subgraph("other")
    other.output(other.op("ABS", [other.input("x", "float32", (2,))], [("y", "float32", (2,))]))
    other.signature("other")
    write_model(b.build(), "two.tflite")
    load = type(OPTIONS.load)(signature="other")
    report = benchmark_model("two.tflite", BenchmarkOptions(load, warm_up=0, runs=1))
    assert report.stock is None and "main subgraph" in report.stock_problem


def test_percentiles_are_those_of_the_runs() -> None:
    timing = Timing.of([number / 100 for number in range(101)])
    assert (timing.runs, timing.min_s, timing.max_s) == (101, 0, 1)
    assert (timing.p50_s, timing.p90_s, timing.p99_s) == pytest.approx((0.5, 0.9, 0.99))


def test_the_report_for_machines_is_json(
    copying: str, litert_npu: LitertNpu, capsys: pytest.CaptureFixture[str]
) -> None:
    assert litert_npu("benchmark", copying, "--runs=2", "--warm_up=0", "--report=json") == 0
    report = json.loads(capsys.readouterr().out)
    assert report["model"]["runs"] == 2 and report["calls"][0]["name"] == "copy_0"
    assert report["ratio"] is None and report["sdk_version"]


def write_other(shape: tuple[int, ...] = (1, 4, 6, 3), outputs: Sequence[str] = ("other",)) -> str:
    """Writes a model like `original` that returns a quarter instead of a half, under other output names."""
    b = ModelBuilder()
    x = b.input("x", "float32", shape)
    quarter = b.constant("quarter", 0.25, "float32")
    for name in outputs:
        b.output(b.op("MUL", [x, quarter], [(name, "float32", shape)]))
    named = dict(zip(outputs, b.graph.outputs, strict=True))
    b.signature("serving_default", {"image": x}, named)
    write_model(b.build(), "other.tflite")
    return "other.tflite"


def test_outputs_of_other_names_are_compared_by_position(original: str) -> None:
    """Random inputs are at most 1, so the outputs differ by a quarter of the largest one."""
    options = BenchmarkOptions(stock_model=write_other(), warm_up=0, runs=2)
    report = benchmark_model(original, options)
    assert report.greatest_difference == pytest.approx(0.25, rel=0.1)
    assert "compared by position" in report.to_text() and "'half' with 'other'" in report.to_text()


@pytest.mark.parametrize(
    ("outputs", "says"),
    [
        (
            ("other", "more"),
            r"the measured model has 1 output \(half\), "
            r"but the model of --stock_model has 2 outputs \(other, more\)",
        ),
        (
            ("half", "more"),
            r"the measured model has 1 output \(half\), "
            r"but the model of --stock_model has 2 outputs \(half, more\)",
        ),
    ],
)
def test_outputs_that_cannot_be_compared_are_named(
    original: str, outputs: Sequence[str], says: str
) -> None:
    with pytest.raises(LiteRtError, match=says) as error:
        benchmark_model(original, BenchmarkOptions(stock_model=write_other(outputs=outputs)))
    assert error.value.status is Status.INVALID_ARGUMENT


def test_an_output_of_another_shape_is_refused(in_folder: Path) -> None:
    ours, others = {"y": np.zeros((1, 4), np.float32)}, {"z": np.zeros(4, np.float32)}
    with pytest.raises(
        LiteRtError,
        match=r"'y' of the measured model is float32 \[1, 4\], but output 'z' .* float32 \[4\]",
    ):
        match_outputs(ours, others)
    with pytest.raises(
        LiteRtError,
        match=r"'z' of the measured model is float32 \[4\], but output 'z' .* int8 \[4\]",
    ):
        match_outputs(others, {"z": np.zeros(4, np.int8)})


@pytest.mark.parametrize(("times_s", "is_noise"), [([0.03, 0.05], False), ([0.0, 0.08], True)])
def test_a_ratio_that_noise_hides_is_said_to_be(
    original: str, times_s: Sequence[float], is_noise: bool
) -> None:
    report = benchmark_model(original, OPTIONS)
    report = replace(report, model=Timing.of(times_s), stock=Timing.of([0.006, 0.006]))
    assert ("the ratio is not reliable" in report.to_text()) == is_noise
    assert json.loads(report.to_json())["is_ratio_noise"] is is_noise

"""Tests `--trace`: the contents of a time line, and that Perfetto's own trace processor reads it."""

from __future__ import annotations

import json
import tracemalloc
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from io import BytesIO
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from litert_npu_tools.apply_plugin import guarded_main as apply_plugin
from litert_npu_tools.trace_file import traced, write_trace

from litert.core import tracing
from litert.core.errors import LiteRtError
from litert.core.status import Status
from litert.core.tracing import Span, SpanKind
from litert.model.builder import ModelBuilder
from litert.model.writer import write_model
from tests.tools.conftest import LitertNpu
from tests.tools.perfetto_reader import query

DOUBLE = """__kernel void MyOp(__global const float* x, __global float* y) {
  y[get_global_id(0)] = 2 * x[get_global_id(0)];
}
"""
KERNEL = Path(__file__).parents[2] / "examples/kernels/Convolution2DTransposeBias.json"
EVENTS = "select name, category, dur from slice"
PROBLEMS = "select name from stats where value > 0 and severity != 'info'"

Event = Mapping[str, Any]


def written(spans: Sequence[Span]) -> Sequence[Event]:
    file = BytesIO()
    write_trace(file, spans)
    events: Sequence[Event] = json.loads(file.getvalue())["traceEvents"]
    return events


def complete(events: Sequence[Event]) -> Sequence[Event]:
    return [event for event in events if event["ph"] == "X"]


def read(path: Path) -> Sequence[Event]:
    events: Sequence[Event] = json.loads(path.read_text())["traceEvents"]
    return events


def check_rows_nest(events: Sequence[Event]) -> None:
    """Checks that events of a row do not overlap, unless one contains the other."""
    rows: dict[tuple[int, int], list[tuple[int, int]]] = defaultdict(list)
    for event in complete(events):
        begin, length = round(event["ts"] * 1000), round(event["dur"] * 1000)
        rows[event["pid"], event["tid"]].append((begin, begin + length))
    for spans in rows.values():
        open_ends: list[int] = []
        for begin, end in spans:
            while open_ends and open_ends[-1] <= begin:
                open_ends.pop()
            assert not open_ends or end <= open_ends[-1]
            open_ends.append(end)


@pytest.fixture
def model(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """The path of a model with a custom op and RELU, which stays on the CPU; the program cache is empty."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("LITERT_NPU_CACHE_DIR", str(tmp_path / "cache"))
    (tmp_path / "my.cl").write_text(DOUBLE)
    b = ModelBuilder()
    x = b.input("x", "float32", (1, 4))
    y = b.custom("MyOp", [x], [("doubled", "float32", (1, 4))])
    b.output(b.op("RELU", [y], [("z", "float32", (1, 4))]))
    write_model(b.build(), tmp_path / "in.tflite")
    yield tmp_path / "in.tflite"


def test_perfetto_reads_a_compilation_a_load_and_a_run(model: Path, litert_npu: LitertNpu) -> None:
    trace = model.with_name("trace.json")
    asset = "--npu_custom_op_info=MyOp,my.cl"
    assert litert_npu("run", str(model), asset, f"--trace={trace}") == 0
    slices, problems, flows, tasks = query(
        trace,
        EVENTS,
        PROBLEMS,
        "select d.name from flow f join slice d on f.slice_in = d.id",
        "select s.name, p.name as process, extract_arg(s.arg_set_id, 'args.tensor') as tensor from slice s "
        "join thread_track t on s.track_id = t.id join thread using (utid) join process p using (upid) "
        "where s.category = 'task'",
    )
    assert problems == []
    assert len(slices) == len(complete(read(trace)))
    found = {(row["category"], row["name"]) for row in slices}
    assert found >= {
        ("compile", str(model)), ("step", "partition"), ("plugin", "compile"), ("pass", "plan-memory"),
        ("build", "my.cl"), ("load", "open device"), ("call", "Partition_0"), ("task", "MyOp"),
    }  # fmt: skip
    assert ("run", "run") in found  # the model has no signature whose name the run could have
    assert tasks == [{"name": "MyOp", "process": "NPU", "tensor": "doubled"}]
    assert flows == [{"name": "MyOp"}]


def test_tasks_lie_in_their_call_and_builds_in_their_compilation(
    model: Path, litert_npu: LitertNpu
) -> None:
    trace = model.with_name("trace.json")
    asset = "--npu_custom_op_info=MyOp,my.cl"
    assert litert_npu("run", str(model), asset, f"--trace={trace}") == 0
    events = read(trace)
    check_rows_nest(events)
    by_kind: dict[str, list[Event]] = defaultdict(list)
    for event in complete(events):
        by_kind[event["cat"]].append(event)
    for inner, outer in (("task", "call"), ("call", "run"), ("pass", "compile"), ("build", "load")):
        assert by_kind[inner]
        for event in by_kind[inner]:
            end = event["ts"] + event["dur"]
            holders = by_kind[outer]
            assert any(
                o["ts"] <= event["ts"] and end <= o["ts"] + o["dur"] + 0.002 for o in holders
            )
    origins = {event["args"]["origin"] for event in by_kind["build"]}
    assert origins == {"compiler", "binary"}  # a child compiles, this process loads the binary


def test_apply_plugin_and_benchmark_have_traces(model: Path, litert_npu: LitertNpu) -> None:
    asset = "--npu_custom_op_info=MyOp,my.cl"
    assert apply_plugin(["", asset, "--trace=a.json", str(model), "out.tflite"]) == 0
    kinds = {event["cat"] for event in complete(read(model.with_name("a.json")))}
    assert kinds >= {"compile", "step", "plugin", "pass", "build"} and "run" not in kinds
    assert litert_npu("benchmark", "out.tflite", "--runs=3", "--trace=b.json") == 0
    runs = [event for event in complete(read(model.with_name("b.json"))) if event["cat"] == "run"]
    assert len(runs) == 11  # the first run, and the runs after the measured ones


@pytest.mark.parametrize(
    ("place", "status"),
    [
        ("in.tflite", Status.INVALID_ARGUMENT),
        ("out.tflite", Status.INVALID_ARGUMENT),
        ("none/t.json", Status.FILE_IO),
        (".", Status.FILE_IO),
    ],
)
def test_a_place_that_no_trace_can_have_is_refused_before_any_work(
    model: Path, capsys: pytest.CaptureFixture[str], place: str, status: Status
) -> None:
    before = model.read_bytes()
    asset = "--npu_custom_op_info=MyOp,my.cl"
    assert apply_plugin(["", asset, f"--trace={place}", str(model), "out.tflite"]) == 2
    assert capsys.readouterr().err.startswith(f"{status.name}: ")
    assert model.read_bytes() == before and not Path("out.tflite").exists()


@pytest.mark.parametrize("flag", ["--input=image=x.npy", "--output=half=x.npy"])
def test_a_trace_never_replaces_a_file_that_is_named_with_its_tensor(
    copying: str, litert_npu: LitertNpu, flag: str, capfd: pytest.CaptureFixture[str]
) -> None:
    np.save("x.npy", np.zeros((1, 4, 6, 3), np.float32))
    before = Path("x.npy").read_bytes()
    assert litert_npu("run", copying, flag, "--trace=x.npy") == 2
    assert Path("x.npy").read_bytes() == before
    told = "the time line would replace file 'x.npy', which the same command reads or writes (--trace=x.npy)"
    assert told in capfd.readouterr().err


def test_a_trace_and_a_page_are_two_files(model: Path, capfd: pytest.CaptureFixture[str]) -> None:
    arguments = ["", "--npu_custom_op_info=MyOp,my.cl", "--trace=a", "--html=a", str(model), "none"]
    assert apply_plugin(arguments) != 0 and not Path("a").exists()
    told = "the HTML page would replace file 'a', which the same command reads or writes (--html=a)"
    assert told in capfd.readouterr().err


@pytest.mark.parametrize(
    "error", [KeyboardInterrupt(), ValueError(), LiteRtError(Status.UNKNOWN, "no")]
)
def test_an_error_in_the_middle_leaves_what_was_there(tmp_path: Path, error: BaseException) -> None:
    trace = tmp_path / "trace.json"
    trace.write_text("old")
    with pytest.raises(type(error)), traced(str(trace)), tracing.span(SpanKind.STEP, "begun"):
        raise error
    assert [path.name for path in tmp_path.iterdir()] == ["trace.json"]
    assert trace.read_text() == "old" and not tracing.is_recording()


def test_spans_of_a_track_that_overlap_are_on_rows_of_their_own() -> None:
    times = [(0, 10), (2, 3), (5, 10), (6, 2), (10, 1), (20, 5)]
    spans = [
        Span(SpanKind.RUN, str(i), begin, length, "run") for i, (begin, length) in enumerate(times)
    ]
    events = written(spans)
    check_rows_nest(events)
    rows: dict[int, list[str]] = defaultdict(list)
    for event in complete(events):
        rows[event["tid"]].append(event["name"])
    assert list(rows.values()) == [["0", "1", "3", "4", "5"], ["2"]]
    names = [event["args"]["name"] for event in events if event["name"] == "thread_name"]
    assert names == ["run", "run"]


@pytest.mark.parametrize("work", ["apply", "run"])
def test_a_real_network_s_time_line_makes_sense(
    networks: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    litert_npu: LitertNpu,
    work: str,
) -> None:
    monkeypatch.setenv("LITERT_NPU_CACHE_DIR", str(tmp_path / "cache"))
    network, trace = str(networks / "selfie_segmentation.tflite"), tmp_path / "trace.json"
    asset = f"--npu_custom_op_info=Convolution2DTransposeBias,{KERNEL}"
    flags = [asset, "--reference_ops=ADD,HARD_SWISH", f"--trace={trace}"]
    if work == "apply":
        assert apply_plugin(["", *flags, network, str(tmp_path / "out.tflite")]) == 0
    else:
        assert litert_npu("run", network, *flags) == 0
    problems, slices, threads, flows = query(
        trace,
        PROBLEMS,
        "select count(*) as total, sum(dur < 0) as unfinished, sum(ts < 0) as early from slice",
        "select distinct p.name as process, t.name as thread from slice s "
        "join thread_track k on s.track_id = k.id join thread t using (utid) join process p using (upid)",
        "select a.category as source, b.category as target, a.ts <= b.ts as is_in_order from flow f "
        "join slice a on f.slice_out = a.id join slice b on f.slice_in = b.id",
    )
    assert problems == []
    assert slices == [{"total": len(complete(read(trace))), "unfinished": 0, "early": 0}]
    check_rows_nest(read(trace))
    named = {(row["process"], row["thread"]) for row in threads}
    assert named >= {("Host", "MainThread"), ("Host", "the OpenCL compiler")}
    assert (("NPU", "queue") in named) is (work == "run")
    assert bool(flows) is (work == "run")
    assert all(flow == {"source": "call", "target": "task", "is_in_order": 1} for flow in flows)


def test_perfetto_reads_hostile_names_and_numbers(tmp_path: Path) -> None:
    names = ['"}],\n\0\x1b[2J\u2028', "\ud800 alone", "\N{PILE OF POO}", "x" * 100_000, ""]
    details: dict[str, str | int | float] = {
        "inf": float("inf"),
        "nan": float("nan"),
        'key"\n': "\udcff",
        "large": 1 << 70,
    }
    spans = [Span(SpanKind.TASK, name, i * 10, 5, name, details) for i, name in enumerate(names)]
    trace = tmp_path / "trace.json"
    with trace.open("wb") as file:
        write_trace(file, spans)
    assert trace.read_bytes().isascii()
    slices, problems = query(trace, EVENTS, PROBLEMS)
    assert problems == []
    assert [row["dur"] for row in slices] == [5] * len(names)
    assert slices[3]["name"] == names[3]


def test_many_spans_are_written_one_by_one() -> None:
    spans = [Span(SpanKind.TASK, "t", i * 10, 5, "queue", {"task": i}) for i in range(10_000)]

    class Nowhere(BytesIO):
        size = 0

        def write(self, data: Any) -> int:
            Nowhere.size += len(data)
            return len(data)

    tracemalloc.start()
    try:
        write_trace(Nowhere(), spans)
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert Nowhere.size > 500_000 and peak < 100_000
    file = BytesIO()
    write_trace(file, [])
    assert json.loads(file.getvalue())["traceEvents"] == []

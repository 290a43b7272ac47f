"""Tests the metrics of a model's ops: CPU ops around NPU calls, ops in control flow, and after errors."""

from __future__ import annotations

import gc
import sys
import threading
import time
from collections import Counter
from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest

from litert.analysis.profile import profile_rows
from litert.compiled_model import CompiledModel, CpuKernelMode, CpuOptions, HardwareAccelerator
from litert.core.errors import LiteRtError
from litert.core.status import Status
from litert.core.tracing import Span, SpanKind, add, record, span
from litert.options import Options
from litert.runtime.metrics import OpMetrics, RunMetrics
from tests.runtime.conftest import Load
from tests.runtime.npu_models import FLOAT, NpuModelBuilder, cpu_around_npu, one_call
from tests.runtime.test_control_flow import loop

X = np.array([[1, 2, 3, 4]], np.float32)
SHAPE = (1, 4)
BOTH = HardwareAccelerator.CPU | HardwareAccelerator.NPU


def options(*, profiling: bool = False, mode: CpuKernelMode | None = None) -> Options:
    cpu = CpuOptions(kernel_mode=mode) if mode is not None else CpuOptions()
    return Options(BOTH, cpu, enable_profiling=profiling)


def measure(model: CompiledModel, inputs: Any, runs: int = 3, level: int = 2) -> RunMetrics:
    model.start_metrics_collection(level)
    for _ in range(runs):
        model.run(inputs)
    return model.stop_metrics_collection()


def pointers(model: CompiledModel) -> list[int]:
    """Returns the address of the function that the interpreter calls for each op."""
    subgraphs = model._model.subgraphs.values()
    return [s.registration(node.index).invoke or 0 for s in subgraphs for node in s.nodes()]


def leaves(metrics: RunMetrics) -> list[OpMetrics]:
    """Returns the rows of what the interpreter runs, without the operators inside XNNPACK's delegate."""
    return [op for op in metrics.ops if not op.operators]


def places(ops: Sequence[OpMetrics]) -> Counter[tuple[int, int]]:
    return Counter((place.subgraph, place.index) for op in ops for place in op.ops)


@pytest.mark.parametrize("mode", [CpuKernelMode.DELEGATE, CpuKernelMode.BUILTIN])
def test_each_op_is_in_one_row(load: Load, vendor: Any, mode: CpuKernelMode) -> None:
    model = load(cpu_around_npu(), options(mode=mode, profiling=True))
    metrics = measure(model, {"x": X})
    assert places(leaves(metrics)) == {(0, 0): 1, (0, 1): 1, (0, 2): 1}
    call = next(op for op in metrics.ops if op.kind is SpanKind.CALL)
    assert (call.name, call.ops[0].output, call.count) == ("double", "b", 3)
    assert {op.ops[0].name for op in metrics.ops if op.ops} == {"ADD", "DISPATCH_OP"}
    assert len(metrics.run_times_s) == 3 and not metrics.problems
    top = sum(op.times.total_s for op in metrics.ops if op.parent < 0)
    assert top <= sum(metrics.run_times_s)


def test_what_control_flow_runs_is_a_part_of_it(load: Load, vendor: Any) -> None:
    model = load(loop(adds_one=True), options(mode=CpuKernelMode.BUILTIN))
    metrics = measure(model, {"n": np.array(5, np.int32), "x": X}, runs=2)
    loops = [i for i, op in enumerate(metrics.ops) if op.name == "WHILE"]
    assert len(loops) == 1 and metrics.ops[loops[0]].parent == -1
    counts = {op.name: op.count for op in metrics.ops if op.parent == loops[0]}
    assert counts == {"GREATER": 12, "SUB": 10, "double": 10, "ADD": 10}
    assert set(places(metrics.ops).values()) == {1}
    inner = sum(op.times.total_s for op in metrics.ops if op.parent == loops[0])
    assert inner <= metrics.ops[loops[0]].times.total_s


def test_signatures_are_measured_together(load: Load, vendor: Any) -> None:
    builder = NpuModelBuilder()
    x = builder.input("x", FLOAT, SHAPE)
    builder.output(
        builder.npu(
            "double", [builder.op("NEG", [x], [("n", FLOAT, SHAPE)])], [("y", FLOAT, SHAPE)]
        )
    )
    builder.signature("main")
    other = builder.subgraph("other")
    x = other.input("x", FLOAT, SHAPE)
    other.output(other.op("ABS", [x], [("y", FLOAT, SHAPE)]))
    other.signature("other")
    model = load(builder.bytes(), options(profiling=True))
    model.start_metrics_collection(2)
    model.run({"x": X}, "main")
    model.run({"x": X}, "other")
    metrics = model.stop_metrics_collection()
    assert places(leaves(metrics)) == {(0, 0): 1, (0, 1): 1, (1, 0): 1}


def test_an_op_that_sleeps_is_the_longest(load: Load, vendor: Any) -> None:
    builder = NpuModelBuilder()
    x = builder.input("x", FLOAT, (4,))
    y = builder.npu("nap", [builder.op("NEG", [x], [("n", FLOAT, (4,))])], [("y", FLOAT, (4,))])
    builder.output(builder.op("ABS", [y], [("z", FLOAT, (4,))]))
    metrics = measure(load(builder.bytes(), options()), {"x": X[0]})
    longest = max(metrics.ops, key=lambda op: op.times.mean_s)
    assert longest.name == "nap" and longest.times.mean_s >= 0.001


def test_a_failing_run_is_not_counted_and_leaves_the_model_as_it_was(
    load: Load, vendor: Any
) -> None:
    model = load(cpu_around_npu(), options())
    model.run({"x": X})
    before = pointers(model)
    model.start_metrics_collection(2)
    assert pointers(model) != before
    model.run({"x": X})
    vendor.failing["double"] = LiteRtError(Status.RUNTIME_FAILURE, "planned")
    with pytest.raises(LiteRtError, match="planned"):
        model.run({"x": X})
    model.run({"x": X})
    metrics = model.stop_metrics_collection()
    assert pointers(model) == before
    assert len(metrics.run_times_s) == 2
    assert {op.count for op in metrics.ops if op.parent < 0} == {2}
    assert model.run({"x": X})["z"].tolist() == (6 * X).tolist()


def test_runs_that_nobody_waits_for_are_not_measured(load: Load, vendor: Any) -> None:
    model = load(one_call(), options())
    inputs, outputs = model.create_input_buffers(0), model.create_output_buffers(0)
    inputs[0].write(X)
    model.start_metrics_collection(2)
    model.run_async_by_index(0, inputs, outputs).wait()
    model.run_by_index(0, inputs, outputs)
    metrics = model.stop_metrics_collection()
    assert len(metrics.run_times_s) == 1 and {op.count for op in metrics.ops} == {1}


def test_a_collection_that_measures_no_ops_changes_no_pointer(load: Load, vendor: Any) -> None:
    model = load(cpu_around_npu(), options())
    before = pointers(model)
    model.start_metrics_collection(1)
    assert pointers(model) == before
    assert model.stop_metrics_collection().ops == []


def test_one_collection_follows_another(load: Load, vendor: Any) -> None:
    model = load(cpu_around_npu(), options())
    before = pointers(model)
    first, second = measure(model, {"x": X}), measure(model, {"x": X}, runs=5)
    assert pointers(model) == before
    assert [op.count for op in first.ops if op.parent < 0] == [3, 3, 3]
    assert [op.count for op in second.ops if op.parent < 0] == [5, 5, 5]


def test_a_resize_while_it_measures_is_measured(load: Load, vendor: Any) -> None:
    builder = NpuModelBuilder()
    x = builder.input("x", FLOAT, (1, 4), shape_signature=(-1, 4))
    y = builder.op("ADD", [x, x], [("y", FLOAT, (1, 4))])
    builder.output(builder.op("NEG", [y], [("z", FLOAT, (1, 4))]))
    model = load(builder.bytes(), options(profiling=True))
    before = pointers(model)
    model.start_metrics_collection(2)
    model.run({"x": X})
    found = model.run({"x": np.concatenate([X, X])})
    metrics = model.stop_metrics_collection()
    assert found["z"].tolist() == (-2 * np.concatenate([X, X])).tolist()
    assert pointers(model) == before
    assert {op.count for op in metrics.ops} == {2}


def test_a_closed_model_needs_no_stop(load: Load, vendor: Any) -> None:
    model = load(one_call(), options(profiling=True))
    model.start_metrics_collection(2)
    model.run({"x": X})
    model.close()


def test_two_models_measure_at_once(load: Load, vendor: Any) -> None:
    models = [load(cpu_around_npu(), options(profiling=True)) for _ in range(2)]
    found: list[RunMetrics] = []
    threads = [
        threading.Thread(target=lambda m=m: found.append(measure(m, {"x": X}, runs=200)))
        for m in models
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert [{op.count for op in metrics.ops} for metrics in found] == [{200}, {200}]


def test_copies_to_memory_that_suits_the_vendor_are_transfers(load: Load, vendor: Any) -> None:
    model = load(loop(adds_one=True, alignment=4096, padding=64), options())
    metrics = measure(model, {"n": np.array(5, np.int32), "x": X})
    index = next(i for i, op in enumerate(metrics.ops) if op.kind is SpanKind.CALL)
    call, parts = metrics.ops[index], [op for op in metrics.ops if op.parent == index]
    copies = {part.name: part.count for part in parts if part.kind is SpanKind.TRANSFER}
    assert copies == {"inputs": 15}  # the memory of the outputs suits the vendor
    assert sum(part.times.total_s for part in parts) == pytest.approx(call.times.total_s)


def test_medians_are_of_all_runs_or_of_some_where_there_are_many(load: Load, vendor: Any) -> None:
    model = load(cpu_around_npu(), options())
    few, many = measure(model, {"x": X}, runs=5), measure(model, {"x": X}, runs=700)
    for metrics, least, most in ((few, 5, 5), (many, 128, 256)):
        for op in metrics.ops:
            samples = op.times.samples_s
            assert least <= len(samples) <= most and all(samples)
            assert min(samples) <= op.times.median_s <= max(samples)
    assert {len(op.times.samples_s) for op in many.ops} == {175}  # every fourth run


def test_an_op_that_runs_in_few_runs_takes_no_time_in_most(load: Load, vendor: Any) -> None:
    model = load(loop(adds_one=True), options(mode=CpuKernelMode.BUILTIN))
    model.start_metrics_collection(2)
    for rounds in (0, 0, 3, 0, 0):
        model.run({"n": np.array(rounds, np.int32), "x": X})
    metrics = model.stop_metrics_collection()
    call = next(op for op in metrics.ops if op.kind is SpanKind.CALL)
    assert (call.count, call.times.runs, call.times.median_s) == (3, 5, 0)
    assert [time_s > 0 for time_s in call.times.samples_s] == [False, False, True, False, False]


def test_no_garbage_is_collected_in_a_run_that_is_measured(
    load: Load, vendor: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    seen: list[bool] = []
    functions = sys.modules[type(vendor).__module__].FUNCTIONS
    monkeypatch.setitem(functions, "nap", lambda *_: seen.append(gc.isenabled()))
    model = load(one_call("nap"), options())
    measure(model, {"x": X}, runs=1)
    assert seen == [False] and gc.isenabled()
    gc.disable()
    try:
        measure(model, {"x": X}, runs=1)
        assert not gc.isenabled()
    finally:
        gc.enable()


def test_without_profiling_xnnpack_s_part_is_one_row_and_said(load: Load, vendor: Any) -> None:
    builder = NpuModelBuilder()
    x = builder.input("x", FLOAT, (1, 4))
    y = builder.op("ADD", [x, x], [("y", FLOAT, (1, 4))])
    builder.output(builder.op("NEG", [y], [("z", FLOAT, (1, 4))]))
    data = builder.bytes()
    (part,) = measure(load(data, options()), {"x": X}).ops
    assert [place.name for place in part.ops] == ["ADD", "NEG"] and part.name.endswith(
        "XNNPackDelegate"
    )
    assert "enable_profiling" in measure(load(data, options()), {"x": X}).problems[0]
    whole, add, neg = measure(load(data, options(profiling=True)), {"x": X}).ops
    assert (add.name, neg.name, add.parent, neg.parent) == ("ADD", "NEG", 0, 0)
    assert whole.ops == part.ops


def test_a_recording_has_the_cpu_s_ops(load: Load, vendor: Any) -> None:
    model = load(cpu_around_npu(), options(profiling=True))
    with record() as recording:
        measure(model, {"x": X}, runs=1)
    spans = [span for span in recording.spans if span.kind is SpanKind.CPU_OP]
    assert len(spans) >= 2
    assert all(span.details.get("output", "") in ("a", "z", "") for span in spans)


def test_a_system_that_lets_no_new_code_run_has_fewer_rows_and_says_so(
    load: Load, vendor: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(*_: object) -> int:
        raise PermissionError("not here")

    model = load(cpu_around_npu(), options())
    before = pointers(model)
    monkeypatch.setattr("os.memfd_create", refuse)
    monkeypatch.setattr("tempfile.TemporaryFile", refuse)
    metrics = measure(model, {"x": X})
    assert "not here" in metrics.problems[0] and not metrics.ops
    assert len(metrics.run_times_s) == len(metrics.calls[0].times_s) == 3
    assert pointers(model) == before
    rows = profile_rows([metrics])
    assert {row.kind for row in rows} == {"npu_call", "rest"}
    assert sum(row.share for row in rows) == pytest.approx(1)


def test_a_run_of_more_ops_than_there_is_place_for_is_measured_as_far(
    load: Load, vendor: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("litert.runtime.timing_code.CAPACITY", 7)
    model = load(loop(adds_one=True), options(mode=CpuKernelMode.BUILTIN))
    metrics = measure(model, {"n": np.array(5, np.int32), "x": X}, runs=1)
    assert sum(op.count for op in metrics.ops if op.ops) == 7
    assert "15 op runs are missing" in metrics.problems[0]


def test_runs_to_warm_up_are_not_counted(load: Load, vendor: Any) -> None:
    model = load(cpu_around_npu(), options())
    model.start_metrics_collection(2, warm_up=2)
    for _ in range(5):
        model.run({"x": X})
    metrics = model.stop_metrics_collection()
    assert len(metrics.run_times_s) == len(metrics.calls[0].times_s) == 3
    assert {op.count for op in metrics.ops if op.parent < 0} == {3}


def test_what_a_vendor_tells_of_a_call_is_a_part_of_it(
    load: Load, vendor: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    def nap(*_: object) -> None:
        start_ns = time.perf_counter_ns()
        with span(SpanKind.WAIT, "queue", call="nap"):
            time.sleep(0.004)
        half_ns = (time.perf_counter_ns() - start_ns) // 2
        task: dict[str, str | int] = {"call": "nap", "task": 0}
        add(Span(SpanKind.TASK, "kernel", start_ns, half_ns, "NPU", task))
        add(Span(SpanKind.TASK, "another's", start_ns, half_ns, "NPU", {"call": "other"}))

    monkeypatch.setitem(sys.modules[type(vendor).__module__].FUNCTIONS, "nap", nap)
    builder = NpuModelBuilder()
    x = builder.input("x", FLOAT, (4,))
    builder.output(builder.npu("nap", [x], [("y", FLOAT, (4,))]))
    call, *parts = measure(load(builder.bytes(), options()), {"x": X[0]}).ops
    kinds = [SpanKind.TASK, SpanKind.WAIT, SpanKind.INVOKE, SpanKind.HOST]
    assert [(part.kind, part.parent) for part in parts] == [(kind, 0) for kind in kinds]
    task, wait, *_ = (part.times.mean_s for part in parts)
    assert task >= 0.002 and wait >= 0.001  # the wait does not include the task
    assert sum(part.times.total_s for part in parts) == pytest.approx(call.times.total_s)


def test_a_vendor_that_tells_nothing_has_its_function_and_ours_around_it(
    load: Load, vendor: Any
) -> None:
    call, *parts = measure(load(one_call(), options()), {"x": X}).ops
    assert [(part.kind, part.name) for part in parts] == [
        (SpanKind.INVOKE, "invoke"),
        (SpanKind.HOST, "runtime"),
    ]
    assert all(part.times.total_s > 0 and part.count == 3 for part in parts)
    assert sum(part.times.total_s for part in parts) == pytest.approx(call.times.total_s)

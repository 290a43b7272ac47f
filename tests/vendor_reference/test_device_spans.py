"""Tests the spans that show on the host's time line what a device does in a run."""

from __future__ import annotations

import threading
import time
from itertools import pairwise
from typing import Any

import numpy as np
import pyopencl as cl

from litert.core import tracing
from litert.core.tracing import Span, SpanKind
from tests.vendor_reference.executables import (
    DOUBLE,
    ddr,
    doubling,
    executable,
    floats,
    in_,
    out,
    task,
)  # fmt: skip
from tests.vendor_reference.runner import Runner, stop_measuring
from vendor_reference.executable.executable import ArgumentKind

SLOW = """__kernel void MyOp(__global const float* x, __global float* y) {
  float sum = 0;
  for (int i = 0; i < 100000; i++) sum = sum * 0.5f + x[get_global_id(0)];
  y[get_global_id(0)] = sum * 0 + 2 * x[get_global_id(0)];
}
"""


def end_ns(span: Span) -> int:
    return span.start_ns + span.duration_ns


def two_slow_tasks(device: Any) -> Runner:
    between = ddr(0, 16)
    tasks = [task("MyOp", [in_(), between], [4]), task("MyOp", [between, out()], [4])]
    made = executable(SLOW, tasks, [floats(4)], [floats(4)], ddr_size=64)
    return Runner(device, made, SLOW)


def test_tasks_follow_each_other_within_their_run(device: Any) -> None:
    run = two_slow_tasks(device)
    begin_ns = time.perf_counter_ns()
    with tracing.record() as recording:
        for _ in range(5):
            assert run([1, 2, 3, 4]).tolist() == [4, 8, 12, 16]
    now_ns = time.perf_counter_ns()
    tasks = [span for span in recording.spans if span.kind is SpanKind.TASK]
    assert [span.details["task"] for span in tasks] == [0, 1] * 5
    assert {(span.name, span.details["call"], span.details["op"]) for span in tasks} == {
        ("MyOp", "f", "MyOp")
    }
    assert begin_ns <= tasks[0].start_ns and end_ns(tasks[-1]) <= now_ns
    assert all(end_ns(before) <= after.start_ns for before, after in pairwise(tasks))
    waits = [span for span in recording.spans if span.kind is SpanKind.WAIT]
    assert len(waits) == 5 and waits[0].track != tasks[0].track
    for index, wait in enumerate(waits):  # the host waits for the longest task
        assert end_ns(tasks[2 * index + 1]) <= end_ns(wait)


def test_memory_that_is_copied_has_transfers(device: Any) -> None:
    run = Runner(device, doubling(), DOUBLE)
    size = run.inputs[0].size
    memory = np.zeros(size + 1, np.uint8)[1:]  # an odd address, which kernels cannot use
    odd = device.share(memory.ctypes.data, size)
    run.function.attach(ArgumentKind.INPUT, 0, odd)
    with tracing.record() as recording:
        run.function.run()
    transfers = [span for span in recording.spans if span.kind is SpanKind.TRANSFER]
    assert "input 0" in [span.name for span in transfers]
    (done,) = [span for span in recording.spans if span.kind is SpanKind.TASK]
    assert all(span.track == done.track for span in transfers)
    assert all(span.details["call"] == "f" for span in transfers)


def test_a_queue_has_times_only_while_somebody_asks(device: Any) -> None:
    run = Runner(device, doubling(), DOUBLE)

    def has_times() -> bool:
        properties = run.function._queue.properties
        return bool(properties & cl.command_queue_properties.PROFILING_ENABLE)

    run([1, 2, 3, 4])
    assert not has_times()
    with tracing.record():
        run([1, 2, 3, 4])
        assert has_times()
    run([1, 2, 3, 4])
    assert not has_times()
    with tracing.record():
        run([1, 2, 3, 4])
    run.function.start([]).wait(30)
    assert not has_times()
    run.function.start_measuring(with_tasks=False)
    run([1, 2, 3, 4])
    assert not has_times()


def test_a_thread_that_records_slows_no_other_one_down(device: Any) -> None:
    run = Runner(device, doubling(), DOUBLE)
    with tracing.record(own_thread=True) as recording:
        thread = threading.Thread(target=run, args=[[1, 2, 3, 4]])
        thread.start()
        thread.join()
        has_times = run.function._queue.properties
    assert not has_times & cl.command_queue_properties.PROFILING_ENABLE
    assert not recording.spans


def test_what_the_host_does_in_a_run_follows(device: Any) -> None:
    run = two_slow_tasks(device)
    with tracing.record() as recording:
        run([1, 2, 3, 4])
    host = [span for span in recording.spans if span.kind in (SpanKind.HOST, SpanKind.WAIT)]
    assert [(one.kind, one.name) for one in host] == [
        (SpanKind.HOST, "enqueue"),
        (SpanKind.WAIT, "NPU queue"),
    ]
    assert end_ns(host[0]) == host[1].start_ns
    assert {(one.track, one.details["call"]) for one in host} == {
        (threading.current_thread().name, "f")
    }


def test_metrics_and_spans_of_a_task_are_the_same_times(device: Any) -> None:
    run = two_slow_tasks(device)
    run.function.start_measuring(with_tasks=True)
    with tracing.record() as recording:
        for _ in range(3):
            run([1, 2, 3, 4])
    measured, names = stop_measuring(run.function)
    for index, name in enumerate(names):
        times = [s.duration_ns for s in recording.spans if s.details.get("task") == index]
        assert len(times) == 3
        assert measured[name] == sum(times) / 3 / 1e3


def test_a_run_that_is_started_has_its_tasks(device: Any) -> None:
    run = two_slow_tasks(device)
    with tracing.record() as recording:
        run.function.start([]).wait(30)
    assert [s.details["task"] for s in recording.spans if s.kind is SpanKind.TASK] == [0, 1]

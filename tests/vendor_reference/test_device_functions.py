"""Tests functions on each OpenCL device: arguments, memory, runs, events, times."""

from __future__ import annotations

import struct
import threading
from dataclasses import replace
from itertools import pairwise
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dispatch.event import Event
from dispatch.tensor_buffer import TensorBuffer
from litert.core.errors import LiteRtError
from litert.core.status import Status
from litert.model.blob import Blob
from tests.vendor_reference.executables import (
    DOUBLE,
    Array,
    cmx,
    const,
    constant,
    ddr,
    doubling,
    executable,
    floats,
    in_,
    local,
    out,
    scalar,
    task,
)
from tests.vendor_reference.runner import Runner, stop_measuring
from vendor_reference.device.opencl_memory import read_constant
from vendor_reference.executable.executable import ArgumentKind, Constant, Dequantization
from vendor_reference.programs.program_cache import ProgramCache
from vendor_reference.programs.program_text import compose_text


def test_a_kernel_runs_again_and_again(device: Any) -> None:
    run = Runner(device, doubling(), DOUBLE)
    for values in ([1, 2, 3, 4], [0, -1, 0.5, 1e9]):
        assert run(values).tolist() == [2.0 * v for v in values]


def test_all_kinds_of_arguments_reach_the_kernel(device: Any) -> None:
    text = """
    __kernel void all_of_them(__global const float* x, __global const float* w, float scale, uchar bias,
                              __local float* t, __global float* scratch, int2 pair, __global float* y) {
        const int i = get_global_id(0), l = get_local_id(0);
        t[l] = x[i] * w[i];
        barrier(CLK_LOCAL_MEM_FENCE);
        scratch[i] = t[(l + 1) % 2];
        y[i] = scale * scratch[i] + bias + pair.y;
    }"""
    arguments = [
        in_(),
        const(0),
        scalar(struct.pack("<f", 0.5)),
        scalar(b"\x07"),
        local(2 * 4),
        ddr(64, 16),
        scalar(struct.pack("<2i", -1, 100)),
        out(),
    ]
    weights = np.array([1, 2, 3, 4], np.float32)
    made = executable(
        text,
        [task("all_of_them", arguments, [4], [2])],
        [floats(4)],
        [floats(4)],
        [constant(weights)],
        ddr_size=128,
    )
    x = np.array([1, 10, 100, 1000], np.float32)
    expected = 0.5 * (x * weights)[[1, 0, 3, 2]] + 107
    assert Runner(device, made, text)(x).tolist() == expected.tolist()


def test_tasks_run_in_order_over_places_in_ddr_and_cmx(device: Any) -> None:
    text = """
    __kernel void add(__global const float* x, __global float* y) {
        const int i = get_global_id(0); y[i] = x[i] + 1; }
    __kernel void square(__global const float* x, __global float* y) {
        const int i = get_global_id(0); y[i] = x[i] * x[i]; }"""
    n, size = 100, 400
    tasks = [
        task("add", [in_(), ddr(0, size)], [n]),
        task("square", [ddr(0, size), cmx(448, size)], [n]),
        task("add", [cmx(448, size), ddr(448, size)], [n]),
        task("add", [ddr(448, size), ddr(0, size)], [n]),
        task("square", [ddr(0, size), out()], [n]),
    ]
    made = executable(
        text, tasks, [floats(n)], [floats(n)], ddr_size=448 + size, cmx_size=448 + size
    )
    x = np.arange(n, dtype=np.float32) / 10
    np.testing.assert_allclose(Runner(device, made, text)(x), ((x + 1) ** 2 + 2) ** 2, rtol=1e-6)


def test_one_input_may_be_read_by_several_tasks(device: Any) -> None:
    made = executable(
        DOUBLE,
        [task("MyOp", [in_(), out(0)], [4]), task("MyOp", [in_(), out(1)], [4])],
        [floats(4)],
        [floats(4), floats(4)],
    )
    run = Runner(device, made, DOUBLE)
    run([1, 2, 3, 4])
    assert run.outputs[1].array().tolist() == [2, 4, 6, 8]


def test_a_task_without_work_items_does_nothing(device: Any) -> None:
    made = executable(
        DOUBLE, [task("MyOp", [in_(), out()], [0, 5])], [floats(0, 5)], [floats(0, 5)]
    )
    assert Runner(device, made, DOUBLE)(np.zeros((0, 5))).shape == (0, 5)


@pytest.mark.parametrize(
    ("stored", "how", "expected"),
    [
        (np.array([0.5, -2], np.float16), Dequantization(), [0.5, -2]),
        (np.array([-128, 127], np.int8), Dequantization([0.5], [-1]), [-63.5, 64]),
        (np.array([[0, 255], [1, 2]], np.uint8), Dequantization([1, 2], [0, 1], 0), [[0, 255], [0, 2]]),
        (np.array([[1, 1], [1, 1]], np.int16), Dequantization([1, 2], [0, 0], 1), [[1, 2], [1, 2]]),
        (np.array([2**31 - 1], np.int32), Dequantization([1], [2**31 - 2]), [1]),
        (np.zeros((0, 3), np.int8), Dequantization([1.0], [3]), np.zeros((0, 3))),
    ],
    ids=["float16", "int8", "per row", "per column", "large int32", "empty"],
)  # fmt: skip
def test_constants_are_dequantized(stored: Array, how: Dequantization, expected: Any) -> None:
    memory = read_constant(constant(stored, how))
    assert not memory.size or memory.ctypes.data % 64 == 0
    numbers = memory.view(np.float32).reshape(stored.shape)
    assert numbers.tolist() == np.asarray(expected, np.float32).tolist()


@pytest.mark.parametrize(
    "how", [None, Dequantization([0.5, 1, 2], [1, 2, 3], 2)], ids=["stored", "int8"]
)
@pytest.mark.parametrize("order", [(0, 3, 1, 2), (2, 1, 3, 0)])
def test_a_constant_is_laid_out_as_kernels_want_it(
    how: Dequantization | None, order: tuple[int, ...]
) -> None:
    stored = np.arange(2 * 4 * 3 * 5).reshape(2, 4, 3, 5).astype(np.int8)
    rows = read_constant(constant(stored, how)).view(np.float32 if how else np.int8)
    ordered = read_constant(replace(constant(stored, how), order=order))
    assert ordered.ctypes.data % 64 == 0 and ordered.flags.c_contiguous
    expected = rows.reshape(stored.shape).transpose(order)
    np.testing.assert_array_equal(ordered.view(expected.dtype).reshape(expected.shape), expected)


def test_a_constant_is_used_where_it_lies() -> None:
    memory = TensorBuffer.allocate(floats(1000))
    data = read_constant(Constant(floats(1000), Blob(memory.view)))
    assert data.ctypes.data == memory.address
    moved = Constant(floats(999), Blob(memory.view[4:]))
    assert read_constant(moved).ctypes.data % 64 == 0


def test_memory_at_any_address_is_right(device: Any) -> None:
    text = """
    __kernel void vectors(__global const float8* x, __global float8* y) {
        y[get_global_id(0)] = x[get_global_id(0)] + 1; }"""
    made = executable(text, [task("vectors", [in_(), out()], [8])], [floats(64)], [floats(64)])
    run = Runner(device, made, text)
    memory = np.zeros(4096, np.uint8)
    for shift in (0, 4, 16, 32, 52):
        start = -memory.ctypes.data % 64 + shift
        x = memory[start : start + 256].view(np.float32)
        y = memory[start + 1024 : start + 1280].view(np.float32)
        x[:] = np.arange(64) + shift
        run.function.attach(ArgumentKind.INPUT, 0, device.share(x.ctypes.data, x.nbytes))
        run.function.attach(ArgumentKind.OUTPUT, 0, device.share(y.ctypes.data, y.nbytes))
        run.function.run()
        assert (y == x + 1).all()


def test_a_device_that_cannot_use_host_memory_gets_copies(
    device: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(device, "in_place", False)
    run = Runner(device, doubling(1000), DOUBLE)
    for step in range(3):
        x = np.arange(1000, dtype=np.float32) + step
        assert (run(x) == 2 * x).all()
        x += 1
        run.inputs[0].array()[:] = x
        run.function.start([]).wait()
        assert (run.outputs[0].array() == 2 * x).all()


def test_memory_in_place_is_not_copied(device: Any) -> None:
    if device.info.kind != "CPU":
        pytest.skip("only a CPU's kernels use host memory where it is")
    assert all(memory.host is None for memory in Runner(device, doubling(), DOUBLE).memory)


def test_a_run_without_memory_names_what_is_missing(device: Any) -> None:
    run = Runner(device, doubling(), DOUBLE)
    run.function.detach(ArgumentKind.OUTPUT, 0, run.memory[1])
    run.function.detach(ArgumentKind.OUTPUT, 0, run.memory[1])
    with pytest.raises(LiteRtError) as error:
        run.function.run()
    assert error.value.status is Status.MISSING_INPUT_TENSOR and "output 0" in error.value.what
    run.function.attach(ArgumentKind.OUTPUT, 0, run.memory[1])
    assert run([1, 2, 3, 4]).tolist() == [2, 4, 6, 8]


def test_detaching_what_was_replaced_changes_nothing(device: Any) -> None:
    run = Runner(device, doubling(), DOUBLE)
    other = TensorBuffer.allocate(floats(4))
    run.function.attach(ArgumentKind.OUTPUT, 0, device.share(other.address, other.size))
    run.function.detach(ArgumentKind.OUTPUT, 0, run.memory[1])
    run([1, 2, 3, 4])
    assert other.array().tolist() == [2, 4, 6, 8]


def test_memory_that_is_too_small_is_refused(device: Any) -> None:
    run = Runner(device, doubling(), DOUBLE)
    small = TensorBuffer.allocate(floats(3))
    with pytest.raises(LiteRtError) as error:
        run.function.attach(ArgumentKind.OUTPUT, 0, device.share(small.address, small.size))
    assert error.value.status is Status.INVALID_ARGUMENT
    assert "12 bytes" in error.value.what and "16" in error.value.what


MISFITS = [
    (
        "__global float* a",
        [in_(), out()],
        "the kernel declares 1 argument, but the layer binds 2 arguments",
    ),
    (
        "__global float* a, __global float* b, int c",
        [in_(), out()],
        "the kernel declares 3 arguments, but the layer binds 2 arguments",
    ),
    ("__global float* a, int n", [in_(), out()], "'int n' is declared by value"),
    ("float x, __global float* a", [in_(), out()], "'float x' is declared by value"),
    ("__local float* t, __global float* a", [in_(), out()], "'float* t' is declared __local"),
    ("__global float* t, __global float* a", [local(64), out()], "'float* t' is declared __global"),
    (
        "__global float* a, long n",
        [out(), scalar(b"1234")],
        "'long n' does not accept a value of 4 bytes",
    ),
    (
        "__global float* a, struct P n",
        [out(), scalar(b"1234")],
        "'struct P n' is a struct, but the bound value is a number of 4",
    ),
    (
        "__global float* a, Q n",
        [out(), scalar(b"1234")],
        "'struct Q n' is a struct, but the bound value is a number of 4 bytes",
    ),
    ("__global float* a, __local float* t", [out(), local(1 << 40)], "bytes of local memory"),
]


@pytest.mark.parametrize("index", range(len(MISFITS)), ids=[says for _, _, says in MISFITS])
def test_arguments_that_do_not_fit_are_named(device: Any, index: int) -> None:
    kernels = [
        f"__kernel void k{i}({signature}) {{}}\n" for i, (signature, _, _) in enumerate(MISFITS)
    ]
    _, arguments, says = MISFITS[index]
    text = "struct P { int a, b; };\ntypedef struct { int a; } Q;\n" + "".join(kernels)
    made = executable(text, [task(f"k{index}", arguments, [4])], [floats(4)], [floats(4)])
    with pytest.raises(LiteRtError) as error:
        Runner(device, made, text)
    assert says in error.value.what
    assert f"kernel 'k{index}' of op 'MyOp', MyOp.cl" in error.value.where


def test_a_group_that_is_too_large_is_refused(device: Any) -> None:
    items = 1 << 20
    made = executable(
        DOUBLE, [task("MyOp", [in_(), out()], [items], [items])], [floats(items)], [floats(items)]
    )
    with pytest.raises(LiteRtError) as error:
        Runner(device, made, DOUBLE)
    assert f"{items} work items" in error.value.what


def test_more_memory_than_there_is_is_an_error(device: Any) -> None:
    made = executable(
        DOUBLE, [task("MyOp", [in_(), ddr(0, 16)], [4])], [floats(4)], [floats(4)], ddr_size=1 << 60
    )
    with pytest.raises(LiteRtError) as error:
        Runner(device, made, DOUBLE)
    assert error.value.status is Status.MEMORY_ALLOCATION_FAILURE
    assert Runner(device, doubling(), DOUBLE)([1, 2, 3, 4]).tolist() == [2, 4, 6, 8]


def test_a_failed_run_names_its_kernel_and_the_next_one_is_good(
    device: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    import pyopencl as cl

    run = Runner(device, doubling(), DOUBLE)
    function: Any = run.function
    [launch] = function._tasks.launches.values()
    with monkeypatch.context() as patch:  # a local size that does not divide the global one
        patch.setattr(function._tasks, "launches", {0: replace(launch, local_size=(3,))})
        with pytest.raises(LiteRtError) as error:
            run([1, 2, 3, 4])
    assert isinstance(error.value.__cause__, cl.Error)
    assert error.value.status is Status.RUNTIME_FAILURE
    assert "kernel 'MyOp' of op 'MyOp'" in error.value.where and "'f'" in error.value.where
    assert run([1, 2, 3, 4]).tolist() == [2, 4, 6, 8]


def test_a_run_that_was_started_ends_with_its_event(device: Any) -> None:
    run = Runner(device, doubling(), DOUBLE)
    run.inputs[0].array()[:] = 3
    event = run.function.start([])
    event.wait(30)
    assert event.is_signaled() and run.outputs[0].array().tolist() == [6] * 4


def test_a_started_run_waits_for_the_hosts_events(device: Any) -> None:
    run = Runner(device, doubling(), DOUBLE)
    before = Event()
    event = run.function.start([before])
    assert not event.is_signaled()
    with pytest.raises(LiteRtError) as error:
        event.wait(0.01)
    assert error.value.status is Status.TIMEOUT_EXPIRED
    run.inputs[0].array()[:] = 5
    before.signal()
    event.wait(30)
    assert run.outputs[0].array().tolist() == [10] * 4


@pytest.mark.driver("pocl")  # other drivers compile everything at once
def test_what_is_compiled_for_started_runs_is_kept_in_the_end(device: Any) -> None:
    text = DOUBLE + "// started, and never run\n"
    run = Runner(device, doubling(text=text), text)
    run.function.start([]).wait()
    run.function.close()
    program = doubling(text=text).programs[0]
    built = ProgramCache(device.info.identity).find(
        compose_text(program, lambda _: memoryview(text.encode()))
    )
    assert built is not None and built.variants == {"MyOp [4] None"}


@pytest.mark.driver("pocl")
@pytest.mark.parametrize("splice", ["", "\\\n", "\\ \r\n", "??/\r", "\\\t\r"])
def test_a_text_that_may_read_a_file_is_not_compiled_here_again(device: Any, splice: str) -> None:
    """Checks directives that the sandboxed compiler skips; this process sees more files, so they may work here."""
    text = f"#if 0\n#inc{splice}lude </proc/self/fd/99>\n#endif\n{DOUBLE}"
    run = Runner(device, doubling(text=text), text)
    run([1, 2, 3, 4])
    run.function.close()
    program = doubling(text=text).programs[0]
    built = ProgramCache(device.info.identity).find(
        compose_text(program, lambda _: memoryview(text.encode()))
    )
    assert built is not None and not built.variants


def test_runs_follow_each_other_on_the_device(device: Any) -> None:
    first, second = (Runner(device, doubling(1 << 16), DOUBLE) for _ in range(2))
    middle = first.memory[1]
    second.function.attach(ArgumentKind.INPUT, 0, middle)
    for step in range(20):
        first.inputs[0].array()[:] = step
        second.function.start([first.function.start([])]).wait()
        assert (second.outputs[0].array() == 4 * step).all()


def test_an_event_that_failed_fails_the_run_that_waits_for_it(device: Any) -> None:
    run = Runner(device, doubling(), DOUBLE)
    failed, late = Event(), Event()
    failed.fail(LiteRtError(Status.CANCELLED, "the camera was closed"))
    with pytest.raises(LiteRtError, match="the camera was closed"):
        run.function.start([failed])
    event = run.function.start([late])
    late.fail(LiteRtError(Status.CANCELLED, "the camera was closed"))
    with pytest.raises(LiteRtError, match="the camera was closed"):
        event.wait(30)
    assert run([1, 2, 3, 4]).tolist() == [2, 4, 6, 8]


def test_runs_are_measured(device: Any) -> None:
    run = Runner(device, doubling(), DOUBLE)
    run.function.start_measuring(with_tasks=True)
    for _ in range(3):
        run([1, 2, 3, 4])
    run.function.start([]).wait()
    measured, tasks = stop_measuring(run.function)
    assert measured["runs"] == 4
    assert 0 < measured["best_us"] <= measured["mean_us"]
    assert tasks == ["task 0, kernel 'MyOp' of op 'MyOp', mean_us"]
    assert 0 < measured[tasks[0]] <= measured["mean_us"]
    run.function.start_measuring(with_tasks=False)
    assert stop_measuring(run.function)[1] == []
    with pytest.raises(LiteRtError):
        run.function.stop_measuring()


def test_functions_run_in_several_threads_at_once(device: Any) -> None:
    errors: list[BaseException] = []

    def work(seed: int) -> None:
        try:
            run = Runner(device, doubling(1000), DOUBLE)
            for step in range(50):
                x = np.arange(1000, dtype=np.float32) * (seed + step)
                assert (run(x) == 2 * x).all()
            run.function.close()
        except BaseException as error:
            errors.append(error)

    threads = [threading.Thread(target=work, args=(seed,)) for seed in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not errors


@given(data=st.data())
@settings(max_examples=20, deadline=None)
def test_places_in_ddr_do_not_overlap(data: st.DataObject) -> None:
    """Checks that separate places stay separate for any alignment of the device."""
    from vendor_reference.device.function_memory import spread_offset

    align = data.draw(st.sampled_from([1, 64, 128, 256, 4096]))
    sizes = data.draw(st.lists(st.integers(1, 1000), min_size=1, max_size=8))
    offsets, end = [], 0
    for size in sizes:
        offsets.append(end)
        end = (end + size + 63) // 64 * 64
    places = [
        (spread_offset(offset, align), size) for offset, size in zip(offsets, sizes, strict=True)
    ]
    assert all(start % align == 0 for start, _ in places)
    for (start, size), (following, _) in pairwise(places):
        assert start + size <= following
    assert places[-1][0] + places[-1][1] <= spread_offset(end, align)


def test_tasks_on_part_of_the_device_keep_their_order(device: Any) -> None:
    text = """
    __kernel void add(__global const float* x, __global float* y) {
        const int i = get_global_id(0); y[i] = x[i] + 1; }
    __kernel void square(__global const float* x, __global float* y) {
        const int i = get_global_id(0); y[i] = x[i] * x[i]; }"""
    n, size = 1000, 4000
    tasks = [
        task("add", [in_(), ddr(0, size)], [n], num_shaves=1),
        task("square", [ddr(0, size), ddr(4032, size)], [n]),
        task("add", [ddr(4032, size), ddr(0, size)], [n], num_shaves=1),
        task("square", [ddr(0, size), out()], [n], num_shaves=100),
    ]
    made = executable(text, tasks, [floats(n)], [floats(n)], ddr_size=4032 + size)
    run = Runner(device, made, text)
    x = np.arange(n, dtype=np.float32) / 10
    for _ in range(20):
        np.testing.assert_allclose(run(x), ((x + 1) ** 2 + 1) ** 2, rtol=1e-6)
    run.function.start_measuring(with_tasks=True)
    run(x)
    measured, timed = stop_measuring(run.function)
    assert len(timed) == 4 and all(measured[name] > 0 for name in timed)


@pytest.mark.parametrize(
    ("items", "group", "num_shaves", "is_apart"),
    [
        ([1], None, 1, False),
        ([8, 2], [8, 2], 1, False),
        ([8, 2], [8, 1], 1, True),
        ([8, 2], None, 1, True),
    ],
)
def test_a_task_is_kept_to_a_part_only_where_it_has_groups_for_more(
    device: Any,
    monkeypatch: pytest.MonkeyPatch,
    items: list[int],
    group: list[int] | None,
    num_shaves: int,
    is_apart: bool,
) -> None:
    from vendor_reference.device.kernel_launcher import KernelLaunch

    if device.create_part_queue(num_shaves) is None:
        pytest.skip("a device that cannot be split")
    parts = []
    run_launch = KernelLaunch.run

    def run(launch: KernelLaunch, queue: Any) -> Any:
        if launch.part is not None:
            parts.append(launch.part)
        return run_launch(launch, queue)

    monkeypatch.setattr(KernelLaunch, "run", run)
    made = executable(
        DOUBLE,
        [task("MyOp", [in_(), out()], items, group, num_shaves=num_shaves)],
        [floats(16)],
        [floats(16)],
    )
    x = np.arange(16, dtype=np.float32)
    made_of = Runner(device, made, DOUBLE)(x)
    assert made_of[0] == 2 * x[0] and bool(parts) is is_apart


def test_a_task_with_one_shave_runs_in_one_thread_at_a_time(device: Any) -> None:
    if device.info.compute_units < 2 or device.info.kind != "CPU":
        pytest.skip("a device that cannot be split")
    # Each group marks that it runs, computes, and checks whether another group runs too.
    text = """
    __kernel void watch(__global const float* x, __global int* running, __global float* y) {
        const int i = get_global_id(0);
        float seen = 0;
        float value = x[0];
        for (int j = 0; j < 400; ++j) {
            if (atomic_inc(running) > 0) seen = 1;
            for (int k = 0; k < 2000; ++k) value = value * 1.0001f + 0.1f;
            atomic_dec(running);
        }
        y[i] = seen + (value < 0 ? 1 : 0);
    }"""
    n = 64
    running = constant(np.zeros(1, np.int32))

    def overlaps(num_shaves: int) -> float:
        tasks = [task("watch", [in_(), const(0), out()], [n], [1], num_shaves=num_shaves)]
        made = executable(text, tasks, [floats(n)], [floats(n)], [running])
        return float(Runner(device, made, text)(np.ones(n, np.float32)).sum())

    assert overlaps(1) == 0

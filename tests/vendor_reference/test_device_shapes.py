"""Tests functions of dynamic shape on each OpenCL device: what sets a shape, its effects, the cost of changes."""

from __future__ import annotations

import threading
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from dispatch.event import Event
from dispatch.tensor_buffer import TensorBuffer
from litert.core.element_type import ElementType
from litert.core.errors import LiteRtError
from litert.core.sizes import Dimension, multiply
from litert.core.status import Status
from litert.core.tensor_type import RankedTensorType
from tests.vendor_reference.executables import (
    Array,
    assets,
    byte_code,
    ddr,
    floats,
    in_,
    out,
    shape,
    source,
    task,
)
from tests.vendor_reference.runner import stop_measuring
from vendor_reference.device.module import Module
from vendor_reference.executable.executable import (
    HOLE,
    ArgumentKind,
    DynamicOutput,
    Executable,
    Function,
    KernelTask,
    Program,
    ShapeKind,
    ShapeValue,
)

ROWS, KEPT = Dimension(0, 0), Dimension(1, 0)
X = ShapeValue("x", ShapeKind.INPUT, (-1, 3), (8, 3), 0)
TWICE = ShapeValue("y", ShapeKind.COMPUTED, (-1, 3), (16, 3), 64, sizes=(ROWS * 2, 3))
RANK_2 = RankedTensorType.of(ElementType.INT32, (2,))

TWICE_BY_BUFFER = """
__kernel void MyOp(__global const float* x, __global const uint* dims, __global float* y) {
    const uint i = get_global_id(0), n = dims[0] * dims[1];
    y[i] = x[i];
    y[n + i] = -x[i];
}
"""
TWICE_BY_TEXT = """
__kernel void MyOp(__global const float* x, __global float* y) {
    const uint i = get_global_id(0);
    y[i] = x[i];
    y[ELEMENTS + i] = -x[i];
}
"""
ONE_ARGUMENT_FOR_TWO_ROWS = """
#if ELEMENTS == 6
__kernel void MyOp(__global const float* x) {}
#else
__kernel void MyOp(__global const float* x, __global float* y) {
    const uint i = get_global_id(0);
    y[i] = x[i];
    y[ELEMENTS + i] = -x[i];
}
#endif
"""
POSITIVE_ROWS = """
__kernel void keep(__global const float* x, __global const uint* x_dims, __global float* kept,
                   __global uint* dims) {
    uint n = 0;
    for (uint row = 0; row < x_dims[0]; ++row)
        if (x[3 * row] > 0) {
            for (uint i = 0; i < 3; ++i) kept[3 * n + i] = x[3 * row + i];
            ++n;
        }
    dims[0] = n;
    dims[1] = 3;
}
__kernel void minus(__global const float* x, __global float* y) {
    y[get_global_id(0)] = -x[get_global_id(0)];
}
__kernel void silent(__global const float* x, __global const uint* x_dims, __global float* kept,
                     __global uint* dims) {
}
__kernel void above(__global const float* x, __global const uint* x_dims, __global float* kept,
                    __global uint* dims) {
    dims[0] = 9;
    dims[1] = 3;
}
"""


def executable(
    text: str,
    tasks: Sequence[KernelTask],
    result: ShapeValue,
    program: Mapping[str, Any] | None = None,
) -> Executable:
    function = Function(
        "f",
        [floats(8, 3)],
        [floats(*result.bound), RANK_2],
        tasks,
        1024,
        0,
        [X, result],
        [DynamicOutput(0, 1, 1)],
    )
    fields = {"prelude": "", **(program or {})}
    return Executable("EMU8", [function], [Program(sources=(source(text),), **fields)], [])


def by_buffer() -> tuple[Executable, str]:
    """Returns a function that doubles the number of rows; its kernel reads the shape from a buffer."""
    tasks = [task("MyOp", [in_(), shape(0), out()], [multiply([ROWS, 3])])]
    return executable(TWICE_BY_BUFFER, tasks, TWICE), TWICE_BY_BUFFER


def by_text(text: str = TWICE_BY_TEXT) -> tuple[Executable, str]:
    """Returns a function that doubles the number of rows; its kernel's text contains the shape."""
    tasks = [task("MyOp", [in_(), out()], [multiply([ROWS, 3])])]
    program = {"prelude": f"#define ELEMENTS {HOLE}\n", "holes": (ROWS * 3,)}
    return executable(text, tasks, TWICE, program), text


def rows_kept(first: str = "keep", items: int = 1) -> tuple[Executable, str]:
    """Returns a function that negates the rows with a positive first number; its first kernel counts them."""
    kept = ShapeValue("kept", ShapeKind.WRITTEN, (-1, 3), (8, 3), 64, index=0)
    tasks = [
        task(first, [in_(), shape(0), ddr(128, 96), shape(1)], [ROWS if items == 0 else items]),
        task("minus", [ddr(128, 96), out()], [KEPT * 3]),
    ]
    return executable(POSITIVE_ROWS, tasks, kept), POSITIVE_ROWS


class Runner:
    """A loaded function that runs repeatedly."""

    def __init__(self, device: Any, made: tuple[Executable, str]) -> None:
        self.device = device
        self.module = Module(device, byte_code(made[0]).view, assets(MyOp=made[1]))
        self.of = self.module.find_function("f")
        self.function = self.module.load(self.of)
        self.outputs = [TensorBuffer.allocate(t) for t in self.of.outputs]
        for index, buffer in enumerate(self.outputs):
            self.function.attach(
                ArgumentKind.OUTPUT, index, device.share(buffer.address, buffer.size)
            )

    def __call__(self, x: Array) -> Array:
        self.attach(x)
        self.function.run()
        return self.result()

    def attach(self, x: Array) -> None:
        self.function.set_input_shape(0, x.shape)
        self.input = TensorBuffer.allocate(floats(*x.shape))
        self.input.array()[...] = x
        self.function.attach(
            ArgumentKind.INPUT, 0, self.device.share(self.input.address, self.input.size)
        )

    def result(self) -> Array:
        found = tuple(self.outputs[1].array())
        flat: Array = self.outputs[0].array().reshape(-1)
        result: Array = flat[: int(np.prod(found))].reshape(found).copy()
        return result


def rows(number: int, seed: int = 0) -> Array:
    return np.random.default_rng(seed).normal(size=(number, 3)).astype(np.float32)


@contextmanager
def counted(monkeypatch: pytest.MonkeyPatch) -> Iterator[dict[str, int]]:
    """Counts allocations and builds on the device, except for buffers on the caller's memory."""
    import pyopencl as cl

    from vendor_reference.device.program_builder import ProgramBuilder

    counts: dict[str, int] = {}

    def count(owner: Any, name: str) -> None:
        original = getattr(owner, name)

        def counting(*args: Any, **kwargs: Any) -> Any:
            if "hostbuf" not in kwargs:
                counts[name] = counts.get(name, 0) + 1
            return original(*args, **kwargs)

        patch.setattr(owner, name, counting)

    with monkeypatch.context() as patch:
        for name in ("Buffer", "Kernel", "CommandQueue"):
            count(cl, name)
        for name in ("build", "load", "keep"):
            count(ProgramBuilder, name)
        yield counts


@pytest.mark.parametrize("made", [by_buffer(), by_text()], ids=["by buffer", "by text"])
def test_shapes_go_back_and_forth(device: Any, made: tuple[Executable, str]) -> None:
    run = Runner(device, made)
    for number in (4, 2, 8, 2, 4):
        x = rows(number, number)
        assert np.array_equal(run(x), np.concatenate([x, -x]))


def test_a_change_of_shape_allocates_and_builds_nothing_for_shapes_in_buffers(
    device: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    run = Runner(device, by_buffer())
    for number in (
        8,
        1,
    ):  # CPU drivers compile once for each work group size, of which there are few
        run(rows(number))
    with counted(monkeypatch) as counts:
        for number in (2, 8, 1, 5, 3, 7):
            run(rows(number))
    assert not counts or (
        device.info.kind != "CPU" and set(counts) == {"Buffer"}
    )  # copies of inputs


def test_a_text_with_shapes_is_built_once_for_each(
    device: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    run = Runner(device, by_text())
    run(rows(4))
    with counted(monkeypatch) as counts:
        for number in (2, 8, 2, 8, 4, 2):
            run(rows(number))
    assert counts["build"] == counts["Kernel"] == 2


def test_another_process_finds_what_was_built_for_a_shape(
    device: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    from vendor_reference.device.opencl_device import OpenClDevice
    from vendor_reference.device.program_builder import ProgramBuilder

    Runner(device, by_text())(rows(4))

    def fail(*args: object) -> None:
        raise AssertionError("compiled again")

    monkeypatch.setattr(ProgramBuilder, "_compile", lambda self, texts: fail() if texts else [])
    other = OpenClDevice(device.cl_device, device.library)
    x = rows(4)
    assert np.array_equal(Runner(other, by_text())(x), np.concatenate([x, -x]))


def test_a_kernel_tells_the_shape_of_its_result(device: Any) -> None:
    run = Runner(device, rows_kept())
    for number in (8, 3, 8, 1):
        x = rows(number, number)
        assert np.array_equal(run(x), -x[x[:, 0] > 0])
    assert run(-np.abs(rows(4))).shape == (0, 3)


@pytest.mark.parametrize(
    ("first", "what"),
    [
        ("silent", "the kernel has not written the shape of tensor 'kept'"),
        (
            "above",
            "the shape 9x3 that the kernel has written for tensor 'kept' exceeds the largest shape 8x3",
        ),
    ],
)
def test_a_shape_that_cannot_be_is_an_error_and_the_next_run_is_good(
    device: Any, first: str, what: str
) -> None:
    run = Runner(device, rows_kept(first))
    for _ in range(2):
        with pytest.raises(LiteRtError) as error:
            run(rows(4))
        assert error.value.status is Status.RUNTIME_FAILURE
        assert what in error.value.what and f"kernel '{first}' of op 'MyOp'" in error.value.where


def test_a_kernel_that_does_not_run_cannot_tell_a_shape(device: Any) -> None:
    run = Runner(device, rows_kept(items=0))
    with pytest.raises(LiteRtError) as error:
        run(rows(0))
    assert (
        "the kernel must write the shape of tensor 'kept', but has no work items"
        in error.value.what
    )
    assert run(np.abs(rows(1))).shape == (1, 3)


def test_a_shape_above_the_bound_is_an_error_before_anything_runs(device: Any) -> None:
    run = Runner(device, by_buffer())
    x = rows(2)
    before = run(x)
    with pytest.raises(LiteRtError) as error:
        run(rows(9))
    assert error.value.status is Status.INVALID_ARGUMENT
    assert (
        error.value.what
        == "input 0 'x' of shape 9x3 exceeds the largest shape 8x3 for which the model was compiled"
    )
    assert "--shape_bounds=x:9x3" in error.value.hint
    run.function.run()
    assert np.array_equal(run.result(), before)


def test_a_shape_without_a_kernel_that_fits_is_an_error_and_the_one_before_still_runs(
    device: Any,
) -> None:
    run = Runner(device, by_text(ONE_ARGUMENT_FOR_TWO_ROWS))
    x = rows(4)
    for _ in range(2):
        assert np.array_equal(run(x), np.concatenate([x, -x]))
        with pytest.raises(LiteRtError) as error:
            run(rows(2))
        assert error.value.what == "the kernel declares 1 argument, but the layer binds 2 arguments"


@pytest.mark.parametrize("wrong", [(2, 4), (6,), (2, 3, 1), ()])
def test_a_shape_that_the_model_does_not_foresee_is_an_error(
    device: Any, wrong: tuple[int, ...]
) -> None:
    run = Runner(device, by_buffer())
    with pytest.raises(LiteRtError) as error:
        run.function.set_input_shape(0, wrong)
    assert "does not fit the shape ?x3 in the compiled model" in error.value.what


def test_memory_for_a_smaller_shape_is_not_used_for_a_larger_one(device: Any) -> None:
    run = Runner(device, by_buffer())
    run(rows(2))
    run.function.set_input_shape(0, (8, 3))
    with pytest.raises(LiteRtError) as error:
        run.function.run()
    assert "has 24 bytes, but" in error.value.what


def test_a_batch_of_none_runs(device: Any) -> None:
    run = Runner(device, by_buffer())
    assert run(rows(0)).shape == (0, 3)
    assert run(rows(1)).shape == (2, 3)


def test_runs_that_nobody_waits_for_have_their_shapes(device: Any) -> None:
    for made in (by_buffer(), rows_kept()):
        run = Runner(device, made)
        for number in (1, 6):
            gate = Event()
            x = np.abs(rows(number))
            run.attach(x)
            ended = run.function.start([gate])
            gate.signal()
            ended.wait()
            assert np.array_equal(np.abs(run.result()[:number]), x)


def test_a_function_that_is_kept_is_measured_no_longer(device: Any) -> None:
    run = Runner(device, by_buffer())
    run.function.start_measuring(with_tasks=True)
    run.module.give_back(run.of, run.function)
    assert run.module.load(run.of) is run.function
    with pytest.raises(LiteRtError) as error:
        run.function.stop_measuring()
    assert error.value.what == "the measurement was stopped, but had not been started"


def test_a_run_behind_another_on_the_device_is_not_waited_for(device: Any) -> None:
    import pyopencl as cl

    from vendor_reference.device.opencl_function import OpenClEvent

    run = Runner(device, by_buffer())
    x = rows(4)
    run(x)
    run.attach(-x)
    other = cl.UserEvent(device.cl_context)
    ended: list[Event] = []
    after = OpenClEvent(
        device.cl_context, other, lambda error: LiteRtError(Status.UNKNOWN, str(error))
    )
    starting = threading.Thread(target=lambda: ended.append(run.function.start([after])))
    starting.start()
    starting.join(10)
    has_returned = not starting.is_alive()
    other.set_status(cl.command_execution_status.COMPLETE)
    starting.join()
    ended[0].wait()
    assert has_returned
    assert np.array_equal(run.result(), np.concatenate([-x, x]))


def test_a_function_is_kept_for_the_next_shape(device: Any) -> None:
    run = Runner(device, by_buffer())
    run(rows(4))
    run.module.give_back(run.of, run.function)
    with pytest.raises(LiteRtError):
        run.function.run()  # no buffers are attached any more
    again = run.module.load(run.of)
    assert again is run.function
    run.module.give_back(run.of, again)
    run.module.close()
    assert run.module.load(run.of) is not again


def test_tasks_are_measured_by_their_own_times(device: Any) -> None:
    run = Runner(device, rows_kept())
    run.function.start_measuring(with_tasks=True)
    run(-np.abs(rows(4)))
    run(np.abs(rows(4)))
    measured, tasks = stop_measuring(run.function)
    kernels = [name.split("'")[1] for name in tasks]
    assert measured["runs"] == 2 and kernels == ["keep", "minus"]


@settings(
    max_examples=25, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
@given(numbers=st.lists(st.integers(0, 8), min_size=2, max_size=6), seed=st.integers(0, 99))
def test_any_sequence_of_shapes_gives_what_numpy_does(
    device: Any, numbers: list[int], seed: int
) -> None:
    run = Runner(device, rows_kept())
    for step, number in enumerate(numbers):
        x = rows(number, seed + step)
        assert np.array_equal(run(x), -x[x[:, 0] > 0])


@pytest.mark.parametrize(
    ("sizes", "global_size", "group"),
    [
        ([ROWS], [640], (16,)),
        ([ROWS], [24], (1,)),
        ([3, ROWS], [3, 128], (3, 16)),
        ([ROWS, 200], [64, 200], (1, 200)),
        ([ROWS, KEPT], [64, 64], (16, 1)),
        ([512, ROWS], [512, 16], (1, 16)),
        ([512, ROWS], [512, 7], (256, 1)),
        ([1, 1000], [1, 1000], (1, 250)),
        ([1, 1009], [1, 1009], (1, 1)),
    ],
)
def test_groups_are_of_few_sizes_whatever_the_shape(
    sizes: Sequence[Any], global_size: Sequence[int], group: tuple[int, ...]
) -> None:
    from vendor_reference.device.kernel_launcher import choose_group

    assert choose_group(sizes, global_size) == group
    assert all(g % k == 0 for g, k in zip(global_size, group, strict=True))

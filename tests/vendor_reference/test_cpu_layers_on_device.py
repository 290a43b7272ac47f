"""Tests CPU layers as tasks of an executable, between kernels, on each OpenCL device."""

from __future__ import annotations

import hashlib
import threading
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from dispatch.event import Event
from dispatch.mem_buffer import MemBuffer
from dispatch.session import Session
from dispatch.tensor_buffer import TensorBuffer
from litert.core.element_type import ElementType
from litert.core.environment_options import EnvironmentOptions
from litert.core.errors import LiteRtError
from litert.core.status import Status
from litert.core.tensor_type import RankedTensorType
from tests.vendor_reference.cpu_layers import library, prelu
from tests.vendor_reference.executables import (
    Array,
    byte_code,
    cmx,
    const,
    constant,
    ddr,
    floats,
    in_,
    out,
    source,
    task,
)
from tests.vendor_reference.runner import stop_measuring
from vendor_reference.cpu_layer.library import CpuLayerLibrary
from vendor_reference.cpu_layer.marshal import simplest_config
from vendor_reference.device.module import Module
from vendor_reference.dispatch import DISPATCH
from vendor_reference.executable.cpu_op import CpuOp, CpuOperand
from vendor_reference.executable.executable import (
    Argument,
    ArgumentKind,
    CpuPlace,
    CpuTask,
    Dequantization,
    Executable,
    Function,
    Program,
    Source,
)

KERNEL = """
__kernel void add_one(__global const float* x, __global float* y) {
    const int i = get_global_id(0); y[i] = x[i] + 1; }
"""
LIBRARY = "Double"
SIZE = 4


def cpu_task(path: Path, *arguments: Argument, size: int = SIZE, **changes: Any) -> CpuTask:
    """Returns a task of the library's layer, which reads all arguments except the last and writes the last."""
    operand = CpuOperand(floats(size))
    op = CpuOp("Double", "y", (operand,) * (len(arguments) - 1), (operand,))
    digest = hashlib.sha256(path.read_bytes()).hexdigest()
    made = CpuTask(
        "Double",
        Source(LIBRARY, path.name, digest),
        op,
        0,
        simplest_config(op),
        tuple(CpuPlace(argument) for argument in arguments[:-1]),
        (CpuPlace(arguments[-1]),),
    )
    return replace(made, **changes)


def executable(*tasks: Any, size: int = SIZE, constants: Any = (), ddr_size: int = 0) -> Executable:
    function = Function("f", [floats(size)], [floats(size)], tasks, ddr_size, cmx_size=64)
    program = Program("", [source(KERNEL, "add_one")])
    return Executable("EMU8", [function], [program], constants)


def registered(path: Path) -> dict[str, MemBuffer]:
    return {
        LIBRARY: MemBuffer.from_memory(path.read_bytes()),
        "add_one": MemBuffer.from_memory(KERNEL.encode()),
    }


class Runner:
    """A loaded function with its own memory."""

    def __init__(self, device: Any, made: Executable, path: Path) -> None:
        module = Module(device, byte_code(made).view, registered(path), allow_native_assets=True)
        function = module.find_function("f")
        self.function = module.load(function)
        self.x, self.y = (TensorBuffer.allocate(t) for t in (*function.inputs, *function.outputs))
        self.memory = [device.share(b.address, b.size) for b in (self.x, self.y)]
        self.function.attach(ArgumentKind.INPUT, 0, self.memory[0])
        self.function.attach(ArgumentKind.OUTPUT, 0, self.memory[1])

    def __call__(self, values: Any) -> Array:
        self.x.array()[...] = values
        self.function.run()
        return self.y.array()


def test_a_layer_runs_between_kernels_in_their_order(device: Any, tmp_path: Path) -> None:
    path = library(tmp_path)
    add_one = task("add_one", [in_(), ddr(0, 16)], [SIZE])
    made = executable(
        add_one,
        cpu_task(path, ddr(0, 16), cmx(0, 16)),
        task("add_one", [cmx(0, 16), ddr(0, 16)], [SIZE]),
        cpu_task(path, ddr(0, 16), out()),
        ddr_size=64,
    )
    run = Runner(device, made, path)
    for values in ([1, 2, 3, 4], [0, -1, 0.5, 1e6]):
        assert run(values).tolist() == [2 * (2 * (v + 1) + 1) for v in values]


def test_a_layer_alone_reads_inputs_and_writes_outputs(device: Any, tmp_path: Path) -> None:
    path = library(tmp_path)
    run = Runner(device, executable(cpu_task(path, in_(), out())), path)
    assert run([1, 2, 3, 4]).tolist() == [2, 4, 6, 8]


def test_an_output_can_lie_in_place_of_an_input(device: Any, tmp_path: Path) -> None:
    path = library(
        tmp_path,
        execute="""if (inputs[0].data != outputs[0].data) return kLiteRtNpuError;
            for (int i = 0; i < 4; ++i) ((float*)outputs[0].data)[i] *= 3;
            return kLiteRtNpuOk;""",
    )
    place = ddr(0, 16)
    first = task("add_one", [in_(), place], [SIZE])
    last = task("add_one", [place, out()], [SIZE])
    run = Runner(device, executable(first, cpu_task(path, place, place), last, ddr_size=64), path)
    assert run([1, 2, 3, 4]).tolist() == [7, 10, 13, 16]


def test_constants_are_seen_by_init_and_dequantized(device: Any, tmp_path: Path) -> None:
    path = library(
        tmp_path,
        init="""static float kept; if (!inputs[1].data || inputs[0].data) return kLiteRtNpuError;
            kept = ((const float*)inputs[1].data)[3]; *kernel = &kept; return kLiteRtNpuOk;""",
        execute="""const float* x = inputs[0].data; const float* w = inputs[1].data; float* y = outputs[0].data;
            for (int i = 0; i < 4; ++i) y[i] = x[i] * w[i] + *(const float*)kernel;
            return kLiteRtNpuOk;""",
    )
    stored = constant(np.array([1, 2, 3, 4], np.int8), Dequantization([0.5], [1]))
    weights = 0.5 * (np.array([1, 2, 3, 4]) - 1)
    run = Runner(
        device, executable(cpu_task(path, in_(), const(0), out()), constants=[stored]), path
    )
    x = np.array([1, 10, 100, 1000], np.float32)
    assert run(x).tolist() == (x * weights + weights[3]).tolist()


def test_a_view_has_its_strides(device: Any, tmp_path: Path) -> None:
    path = library(
        tmp_path,
        execute="""for (int i = 0; i < 2; ++i)
              ((float*)outputs[0].data)[outputs[0].offset + i * outputs[0].strides[0]] =
                  ((const float*)inputs[0].data)[inputs[0].offset + i * inputs[0].strides[0]];
            return kLiteRtNpuOk;""",
    )
    made = cpu_task(path, in_(), out(), size=2)
    made = replace(made, inputs=(CpuPlace(in_(), (2,), 1),), outputs=(CpuPlace(out(), (3,), 0),))
    run = Runner(device, executable(made), path)
    run.y.array()[:] = [9, 8, 7, 6]
    assert run([1, 2, 3, 4]).tolist() == [2, 8, 7, 4]


def test_a_blocked_layer_runs_on_blocked_memory(device: Any, tmp_path: Path) -> None:
    path = prelu(tmp_path)
    shape, memory = (1, 2, 3, 10), 2 * 2 * 3 * 8
    x_type = CpuOperand(RankedTensorType.of(ElementType.FLOAT32, shape))
    slopes = CpuOperand(floats(10), is_constant=True)
    op = CpuOp("PReLU", "y", (x_type, slopes), (x_type,))
    asked = CpuLayerLibrary(memoryview(path.read_bytes()), path.name)
    (config,) = asked.configurations(op, 1)
    values = np.linspace(-1, 1, 10, dtype=np.float32)
    made = CpuTask(
        "PReLU",
        Source(LIBRARY, path.name, hashlib.sha256(path.read_bytes()).hexdigest()),
        op,
        1,
        config,
        (CpuPlace(ddr(0, memory * 4)), CpuPlace(const(0))),
        (CpuPlace(out()),),
    )
    copy = task("add_one", [in_(), ddr(0, memory * 4)], [memory])
    run = Runner(
        device,
        executable(copy, made, size=memory, constants=[constant(values)], ddr_size=memory * 4),
        path,
    )
    x = np.random.default_rng(2).standard_normal((1, 2, 2, 3, 8), np.float32)
    padded = np.pad(values, (0, 6)).reshape(1, 2, 1, 1, 8)
    y = run(x.reshape(-1)).reshape(x.shape)
    assert np.allclose(y, np.where(x + 1 > 0, x + 1, padded * (x + 1)), rtol=0, atol=0)


def test_a_failure_has_the_library_s_words_and_the_next_run_is_good(
    device: Any, tmp_path: Path
) -> None:
    path = library(
        tmp_path,
        execute="""const float* x = inputs[0].data;
            if (x[0] < 0) return LiteRtNpuFail(message, kLiteRtNpuError, "a negative input");
            memcpy(outputs[0].data, x, 16); return kLiteRtNpuOk;""",
    )
    run = Runner(device, executable(cpu_task(path, in_(), out())), path)
    with pytest.raises(
        LiteRtError,
        match=r"'test layers' \(version 0.5\) reports an error in its function execute: a negative input",
    ):
        run([-1, 0, 0, 0])
    assert run([1, 2, 3, 4]).tolist() == [1, 2, 3, 4]


def test_runs_wait_for_events_and_follow_each_other(device: Any, tmp_path: Path) -> None:
    path = library(tmp_path)
    run = Runner(device, executable(cpu_task(path, in_(), out())), path)
    run.x.array()[:] = [1, 2, 3, 4]
    go = Event()
    ended = run.function.start([go])
    assert not ended.is_signaled()
    run.x.array()[:] = [5, 6, 7, 8]
    go.signal()
    ended.wait(30)
    assert run.y.array().tolist() == [10, 12, 14, 16]


def test_functions_run_in_several_threads(device: Any, tmp_path: Path) -> None:
    path = library(tmp_path)
    made = executable(
        task("add_one", [in_(), ddr(0, 16)], [SIZE]), cpu_task(path, ddr(0, 16), out()), ddr_size=64
    )
    runs = [Runner(device, made, path) for _ in range(4)]
    wrong: list[object] = []

    def work(index: int) -> None:
        for step in range(20):
            if runs[index]([index, step, 0, 1]).tolist() != [2 * index + 2, 2 * step + 2, 2, 4]:
                wrong.append((index, step))

    threads = [threading.Thread(target=work, args=(i,)) for i in range(len(runs))]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not wrong


def test_tasks_are_measured_with_the_others(device: Any, tmp_path: Path) -> None:
    path = library(tmp_path)
    made = executable(
        task("add_one", [in_(), ddr(0, 16)], [SIZE]), cpu_task(path, ddr(0, 16), out()), ddr_size=64
    )
    run = Runner(device, made, path)
    run.function.start_measuring(with_tasks=True)
    run([1, 2, 3, 4])
    measured, tasks = stop_measuring(run.function)
    kernels = [name.split("'")[1] for name in tasks]
    assert kernels == ["add_one", "Double"]
    assert all(measured[name] > 0 for name in tasks) and measured["runs"] == 1


def test_a_library_that_changed_its_mind_is_refused(device: Any, tmp_path: Path) -> None:
    path = library(tmp_path, init='return LiteRtNpuFail(message, kLiteRtNpuNotImplemented, "no");')
    with pytest.raises(LiteRtError) as error:
        Runner(device, executable(cpu_task(path, in_(), out())), path)
    assert (
        "no longer accepts the configuration that it accepted when the model was compiled"
        in error.value.what
    )
    assert error.value.hint == "Compile the model again."


@pytest.fixture
def opened(device: Any, monkeypatch: pytest.MonkeyPatch) -> Any:
    """The device that the dispatch table opens."""
    import vendor_reference.dispatch

    monkeypatch.setattr(vendor_reference.dispatch, "open_device", lambda _: device)
    return device


def open_session(path: Path, options: dict[str, str]) -> Session:
    assets = list(registered(path).items())
    return Session(
        DISPATCH, environment_options=EnvironmentOptions(), options=options, assets=assets
    )


@pytest.mark.usefixtures("opened")
@pytest.mark.parametrize("options", [{}, {"allow_native_assets": "false"}])
def test_machine_code_is_refused_unless_it_is_allowed(
    tmp_path: Path, options: dict[str, str]
) -> None:
    marker = tmp_path / "loaded"
    path = library(
        tmp_path,
        top=f'static __attribute__((constructor)) void Load(void) {{ fclose(fopen("{marker}", "w")); }}',
    )
    code = byte_code(executable(cpu_task(path, in_(), out())))
    with open_session(path, options) as session, pytest.raises(LiteRtError) as error:
        session.open_call(code, "f", [floats(SIZE)], [floats(SIZE)])
    assert error.value.status is Status.UNSUPPORTED and path.name in error.value.what
    assert "allow_native_assets=True" in error.value.hint
    assert not marker.exists()


@pytest.mark.usefixtures("opened")
def test_machine_code_runs_where_it_is_allowed(tmp_path: Path) -> None:
    path = library(tmp_path)
    code = byte_code(executable(cpu_task(path, in_(), out())))
    with open_session(path, {"allow_native_assets": "true"}) as session:
        call = session.open_call(code, "f", [floats(SIZE)], [floats(SIZE)])
        x, y = TensorBuffer.allocate(floats(SIZE)), TensorBuffer.allocate(floats(SIZE))
        call.bind_input(0, x)
        call.bind_output(0, y)
        x.array()[:] = [1, 2, 3, 4]
        (ended,) = call.invoke_async()
        ended.wait(30)
        assert y.array().tolist() == [2, 4, 6, 8]


@pytest.mark.usefixtures("opened")
def test_the_option_is_true_or_false(tmp_path: Path) -> None:
    with pytest.raises(LiteRtError, match="option 'allow_native_assets' is 'yes'"):
        open_session(library(tmp_path), {"allow_native_assets": "yes"}).close()


@pytest.mark.usefixtures("opened")
def test_another_library_than_the_compiled_one_is_not_loaded(tmp_path: Path) -> None:
    path, other = library(tmp_path), library(tmp_path, types='"Other"')
    code = byte_code(executable(cpu_task(path, in_(), out())))
    with (
        open_session(other, {"allow_native_assets": "true"}) as session,
        pytest.raises(LiteRtError, match="differs from the asset that the model was compiled with"),
    ):
        session.open_call(code, "f", [floats(SIZE)], [floats(SIZE)])

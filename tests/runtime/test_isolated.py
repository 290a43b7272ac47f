"""Tests devices in child processes: results, memory, crashes and hangs, and that no resources are left."""

from __future__ import annotations

import gc
import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from dispatch.scheduling import SchedulingInfo
from litert.compiled_model import CompiledModel
from litert.core.errors import LiteRtError
from litert.core.status import Status
from litert.core.tracing import SpanKind, record
from litert.environment import Environment
from litert.host.sandbox import why_missing
from litert.model.assets import Asset
from litert.model.blob import Blob
from litert.options import HardwareAccelerator, Options
from litert.tensor_buffer import TensorBuffer
from tests.runtime.npu_models import FLOAT, VENDORS, NpuModelBuilder, cpu_around_npu, one_call

X = np.array([[1, 2, 3, 4]], np.float32)
LEAVES, HANGS, GROWS = 1001, 1002, 1003

Load = Callable[..., CompiledModel]


def isolated(**options: Any) -> Options:
    both = HardwareAccelerator.NPU | HardwareAccelerator.CPU
    return Options(both, isolated=True, **options)


@pytest.fixture
def load(environment: Environment) -> Iterator[Load]:
    """Loads models whose device is in a child process; checks after the test that nothing is left of them."""
    gc.collect()
    before = set(os.listdir("/proc/self/fd"))
    models: list[CompiledModel] = []

    def make(source: bytes | Path, **options: Any) -> CompiledModel:
        chosen = isolated(**options)
        if isinstance(source, Path):
            model = CompiledModel.from_file(str(source), environment=environment, options=chosen)
        else:
            model = CompiledModel.from_buffer(source, environment=environment, options=chosen)
        models.append(model)
        return model

    yield make
    processes = [pid for model in models for pid in pids_of(model)]
    for model in models:
        model.close()
    models.clear()
    gc.collect()
    assert not any(map(is_alive, processes))
    assert not set(os.listdir("/proc/self/fd")) - before


def pids_of(model: CompiledModel) -> list[int]:
    table = table_of(model)
    return [table._process.service._child.pid] if table else []


def inside(model: CompiledModel) -> Any:
    return model._loaded


def table_of(model: CompiledModel) -> Any:
    kernels = inside(model)._kernels
    return kernels[0].call._vendor.dispatch if kernels else None


def is_alive(pid: int) -> bool:
    return os.path.exists(f"/proc/{pid}")


def run(model: CompiledModel, value: Any) -> Any:
    (found,) = model.run({"x": np.asarray(value, np.float32)}).values()
    return found


def first_is(value: float) -> Any:
    return np.array([[value, 2, 3, 4]], np.float32)


def fragile() -> bytes:
    return one_call("fragile")


def fails(model: CompiledModel, value: float) -> LiteRtError:
    with pytest.raises(LiteRtError) as error:
        run(model, first_is(value))
    return error.value


@pytest.mark.parametrize("make, factor", [(one_call, 2), (cpu_around_npu, 6)])
def test_results_are_those_of_this_process(load: Load, make: Any, factor: int) -> None:
    model = load(make())
    for value in (X, -X, 3 * X):
        np.testing.assert_array_equal(run(model, value), factor * value)
    (pid,) = run(load(one_call("process")), X)[0, :1]
    assert int(pid) != os.getpid()


def test_the_vendor_is_not_imported_here(tmp_path: Path) -> None:
    path = tmp_path / "model.tflite"
    path.write_bytes(one_call())
    script = (
        "import sys, numpy as np\n"
        "from litert import CompiledModel, Options\n"
        "from litert.environment import Environment\n"
        f"environment = Environment.create(dispatch_library_path={str(VENDORS)!r})\n"
        f"model = CompiledModel.from_file({str(path)!r}, environment=environment, "
        "options=Options(3, isolated=True))\n"
        "print(model.run({'x': np.ones((1, 4), np.float32)})['y'])\n"
        "print([m for m in sys.modules if 'LiteRtDispatch' in m or 'pyopencl' in m])\n"
    )
    ended = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, check=True, timeout=60
    )
    assert ended.stdout == "[[2. 2. 2. 2.]]\n[]\n"


def test_a_model_in_a_file_is_mapped_by_its_descriptor(load: Load, tmp_path: Path) -> None:
    builder = NpuModelBuilder()
    builder.assets = [Asset("MyOp", "", Blob(b"asset"))]
    x = builder.input("x", FLOAT, (1, 4))
    builder.output(builder.npu("double", [x], [("y", FLOAT, (1, 4))]))
    path = tmp_path / "model.tflite"
    path.write_bytes(builder.bytes())
    model = load(path)
    path.unlink()
    np.testing.assert_array_equal(run(model, X), 2 * X)
    np.testing.assert_array_equal(run(load(builder.bytes()), X), 2 * X)


def test_tensors_of_the_model_are_not_copied(load: Load) -> None:
    """The model's buffers and the tensors between the CPU and the NPU lie in memory that both processes share."""
    model = load(cpu_around_npu())
    inputs, outputs = model.create_input_buffers(0), model.create_output_buffers(0)
    inputs[0].write(X)
    model.run_by_index(0, inputs, outputs)
    np.testing.assert_array_equal(outputs[0].array(), 6 * X)
    alone = load(one_call())
    inputs, outputs = alone.create_input_buffers(0), alone.create_output_buffers(0)
    inputs[0].write(X)
    alone.run_by_index(0, inputs, outputs)
    shared = table_of(alone).shared_memory
    assert shared.find(inputs[0]._buffer) is not None
    for loaded in (model, alone):
        for kernel in inside(loaded)._kernels:
            assert not kernel._copies_in and not kernel._copies_out
            for port in kernel._ports:
                assert port.staging is None
                assert table_of(loaded).shared_memory.find(port.buffer) is not None


def test_memory_of_the_callers_is_copied(load: Load) -> None:
    model = load(one_call())
    for value in (X, 3 * X):
        result = np.zeros_like(X)
        given = [TensorBuffer.create_from_host_memory(value.copy())]
        model.run_by_index(0, given, [TensorBuffer.create_from_host_memory(result)])
        np.testing.assert_array_equal(result, 2 * value)


def test_an_output_of_one_model_is_an_input_of_another(load: Load) -> None:
    first, second = load(one_call()), load(one_call())
    inputs, between = first.create_input_buffers(0), first.create_output_buffers(0)
    results = second.create_output_buffers(0)
    inputs[0].write(X)
    first.run_by_index(0, inputs, between)
    second.run_by_index(0, between, results)
    np.testing.assert_array_equal(results[0].array(), 4 * X)


@pytest.mark.parametrize("number", ["SIGSEGV", "SIGABRT", "SIGILL", "SIGBUS", "SIGFPE", "SIGKILL"])
def test_a_crash_fails_one_run_and_names_it(load: Load, number: str) -> None:
    model, other = load(fragile()), load(fragile())
    assert (run(model, X) == 2 * X).all() and (run(other, X) == 2 * X).all()
    (pid,), (others,) = pids_of(model), pids_of(other)
    error = fails(model, -getattr(signal, number))
    assert error.status is Status.RUNTIME_FAILURE
    assert f"crashed in invoke of 'fragile', function 'fragile' ({number}" in error.what
    assert error.where == "vendor 'Test'"
    assert not is_alive(pid) and is_alive(others)
    for value in (X, 5 * X):
        np.testing.assert_array_equal(run(model, value), 2 * value)
        np.testing.assert_array_equal(run(other, value), 2 * value)
    assert pids_of(other) == [others]


def test_an_exit_is_an_error(load: Load) -> None:
    model = load(fragile())
    said = fails(model, LEAVES).what
    assert "ended with status 0 in invoke of 'fragile'" in said and said.endswith(
        ", before it had sent its reply"
    )
    np.testing.assert_array_equal(run(model, X), 2 * X)


def test_a_hang_ends_after_a_time(load: Load) -> None:
    model = load(fragile(), call_timeout_s=0.5)
    run(model, X)
    error = fails(model, HANGS)
    assert error.status is Status.TIMEOUT_EXPIRED
    assert (
        "did not finish within 0.5 s, and was stopped in invoke of 'fragile', function 'fragile'"
        in error.what
    )
    np.testing.assert_array_equal(run(model, X), 2 * X)


def test_the_first_run_may_take_as_long_as_a_build(load: Load) -> None:
    model = load(fragile(), build_timeout_s=0.7, call_timeout_s=30)
    assert "within 0.7 s" in fails(model, HANGS).what


def test_memory_is_limited(load: Load) -> None:
    model = load(fragile(), device_memory_bytes=1 << 30)
    error = fails(model, GROWS)
    assert error.status is Status.MEMORY_ALLOCATION_FAILURE or "crashed" in error.what
    assert "only 1024 MiB of memory" in error.hint and "--device_memory" in error.hint
    np.testing.assert_array_equal(run(model, X), 2 * X)


@pytest.mark.parametrize("value", [LEAVES, -signal.SIGSEGV])
def test_a_crash_is_not_blamed_on_a_limit_that_the_user_has_not_set(load: Load, value: int) -> None:
    assert "memory" not in fails(load(fragile()), value).hint


def test_a_limit_in_which_no_process_starts_is_refused(load: Load) -> None:
    with pytest.raises(LiteRtError, match="--device_memory") as error:
        load(one_call(), device_memory_bytes=(32 << 20) - 1)
    assert error.value.status is Status.INVALID_ARGUMENT and "32 MiB" in error.value.what


def test_tensors_that_do_not_fit_are_refused(environment: Environment) -> None:
    with pytest.raises(LiteRtError, match="cannot allocate") as error:
        CompiledModel.from_buffer(
            one_call(shape=(1 << 28,)),
            environment=environment,
            options=isolated(device_memory_bytes=512 << 20),
        )
    assert error.value.status is Status.MEMORY_ALLOCATION_FAILURE


@pytest.mark.parametrize(
    ("limits", "says"),
    [
        ({"call_timeout_s": 0}, ": call_timeout_s is 0, but must be greater than 0 "),
        ({"device_memory_bytes": -1}, ": device_memory_bytes is -1, but must be 0 or more "),
    ],
)
def test_limits_that_cannot_be_are_refused(load: Load, limits: Any, says: str) -> None:
    with pytest.raises(LiteRtError, match=says):
        load(one_call(), **limits)


def test_a_crash_while_another_thread_waits_is_for_all(load: Load) -> None:
    model = load(fragile())
    buffers = [(model.create_input_buffers(0), model.create_output_buffers(0)) for _ in range(3)]
    for (inputs, _), value in zip(buffers, (1, -signal.SIGSEGV, 7), strict=True):
        inputs[0].write(first_is(value))
    events = [model.run_async_by_index(0, *pair) for pair in buffers]
    events[0].wait(30)
    with pytest.raises(LiteRtError, match="SIGSEGV"):
        events[1].wait(30)
    events[2].wait(30)
    np.testing.assert_array_equal(buffers[2][1][0].array(), 2 * first_is(7))


def test_a_function_that_the_vendor_refuses_is_refused_as_here(
    load: Load, environment: Environment
) -> None:
    errors = []
    for chosen in (isolated(), Options(HardwareAccelerator.NPU)):
        with pytest.raises(LiteRtError) as error:
            CompiledModel.from_buffer(one_call("nothing"), environment=environment, options=chosen)
        errors.append(str(error.value))
    assert errors[0] == errors[1]


def double_any(**settings: int) -> bytes:
    """Returns a model of `y = 2x` for any shape; a second output of the NPU call holds the shape of `y`."""
    builder = NpuModelBuilder({"max_bytes": 1 << 16, **settings})
    x = builder.input("x", FLOAT, (1, 4), shape_signature=(-1, 4))
    y = builder.tensor("y", FLOAT, (1, 4), shape_signature=(-1, 4))
    shape = builder.tensor("shape", "int32", (2,))
    builder.npu("double_any", [x], [y, shape], shape_outputs={0: 1})
    builder.output(y)
    return builder.bytes()


@pytest.mark.parametrize("settings", [{}, {"tells": 1}], ids=["told by a run", "told before"])
def test_shapes_may_change_also_behind_a_crash(load: Load, settings: Any) -> None:
    model = load(double_any(**settings))
    for rows in (1, 3, 500, 2):
        value = np.arange(4 * rows, dtype=np.float32).reshape(rows, 4)
        np.testing.assert_array_equal(run(model, value), 2 * value)
        os.kill(pids_of(model)[0], signal.SIGKILL)
        with pytest.raises(LiteRtError, match="SIGKILL"):
            run(model, value)
        np.testing.assert_array_equal(run(model, value), 2 * value)


def test_metrics_and_spans_come_from_the_process(load: Load) -> None:
    model = load(one_call(metrics=1))
    model.start_metrics_collection(1)
    for _ in range(3):
        run(model, X)
    (call,) = model.stop_metrics_collection().calls
    assert [(m.name, m.value) for m in call.vendor] == [("runs", 3)]
    with record() as recording:
        run(model, X)
    assert [s.name for s in recording.spans if s.kind is SpanKind.CALL] == ["double"]


def test_taps_come_from_the_process(load: Load) -> None:
    model = load(one_call())
    shown: list[tuple[str, Any]] = []

    def receive(call: str, name: str, tensor_type: Any, data: memoryview) -> None:
        shown.append((f"{call}, {name}", np.frombuffer(data, np.float32).tolist()))

    with inside(model).tapped(receive):
        run(model, X)
    assert shown == [("double, input 0", X[0].tolist())]

    def refuse(*_: Any) -> None:
        raise ZeroDivisionError("enough")

    with (
        inside(model).tapped(refuse),
        pytest.raises(LiteRtError, match="ZeroDivisionError: enough"),
    ):
        run(model, X)
    np.testing.assert_array_equal(run(model, X), 2 * X)


def test_a_forked_process_is_refused(load: Load) -> None:
    model = load(one_call())
    run(model, X)
    read, write = os.pipe()
    pid = os.fork()
    if not pid:
        try:
            run(model, X)
        except LiteRtError as error:
            os.write(write, error.what.encode())
        finally:
            os._exit(0)
    os.close(write)
    os.waitpid(pid, 0)
    with os.fdopen(read) as stream:
        assert "this forked process cannot use the device's process" in stream.read()
    np.testing.assert_array_equal(run(model, X), 2 * X)


SCRIPT = """
import os, sys, numpy as np
from litert import CompiledModel, Options
from litert.environment import Environment
from litert.host.sandbox import why_missing
from tests.runtime.npu_models import VENDORS, one_call
environment = Environment.create(dispatch_library_path=str(VENDORS))
model = CompiledModel.from_buffer(
    one_call("fragile"), environment=environment, options=Options(3, isolated=True))
model.run({"x": np.ones((1, 4), np.float32)})
print(model._loaded._kernels[0].call._vendor.dispatch._process.service._child.pid, flush=True)
"""


@pytest.mark.parametrize(
    "end, status",
    [
        ("", 0),
        ("del model", 0),
        ("os._exit(3)", 3),
        ("os.kill(os.getpid(), 9)", -9),
        ("model.run({'x': np.full((1, 4), 1002, np.float32)})", 1),
    ],
    ids=["exit", "forgotten", "os._exit", "SIGKILL", "Ctrl-C in a run"],
)
def test_the_process_ends_with_this_one(end: str, status: int) -> None:
    root = str(Path(__file__).parents[2])
    program = subprocess.Popen(
        [sys.executable, "-c", SCRIPT + end],
        cwd=root,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    assert program.stdout is not None and program.stderr is not None
    pid = int(program.stdout.readline())
    if "1002" in end:
        time.sleep(0.5)
        program.send_signal(signal.SIGINT)
    _, errors = program.communicate(timeout=60)
    assert program.returncode in (status, -signal.SIGINT)
    assert ("KeyboardInterrupt" in errors) is ("1002" in end), errors
    deadline = time.monotonic() + 20
    while is_alive(pid) and time.monotonic() < deadline:
        time.sleep(0.02)
    assert not is_alive(pid)


IN_A_THREAD = """
import threading, time
def work():
    while True:
        model.run({"x": np.full((1, 4), int(sys.argv[1]), np.float32)})
threading.Thread(target=work, daemon=True).start()
time.sleep(0.3)
"""


@pytest.mark.parametrize("first", ["1", "1002"], ids=["short runs", "a run that hangs"])
def test_a_daemon_thread_in_a_run_ends_without_a_word_at_exit(first: str) -> None:
    program = subprocess.run(
        [sys.executable, "-c", SCRIPT + IN_A_THREAD, first],
        cwd=str(Path(__file__).parents[2]),
        capture_output=True,
        text=True,
        timeout=60,
    )
    assert program.returncode == 0
    assert not re.search("exception|error", program.stderr, re.IGNORECASE), program.stderr


SEALS = """
import fcntl

def _seal(inputs, outputs):
    names = {fd: os.readlink(f"/proc/self/fd/{fd}") for fd in os.listdir("/proc/self/fd") if int(fd) > 9}
    for fd in [int(fd) for fd, name in names.items() if name.startswith("/memfd:")]:
        try:
            fcntl.fcntl(fd, fcntl.F_ADD_SEALS, 0x10)  # F_SEAL_FUTURE_WRITE
        except PermissionError:
            outputs[0].fill(1)
    if inputs[0][0, 0] < 0:
        os._exit(1)
"""


def test_a_device_closes_no_memory_to_the_next_process(tmp_path: Path) -> None:
    vendor = (VENDORS / "LiteRtDispatch_Test.py").read_text()
    (tmp_path / "LiteRtDispatch_Test.py").write_text(
        vendor.replace("\nclass ", f"{SEALS}\n\nclass ", 1).replace(
            '    "nap": _nap,\n', '    "nap": _nap,\n    "seals": _seal,\n'
        )
    )
    model = CompiledModel.from_buffer(
        one_call("seals"),
        environment=Environment.create(dispatch_library_path=str(tmp_path)),
        options=isolated(),
    )
    with model:
        assert "ended with status 1" in fails(model, -1).what
        assert (run(model, X) == 1).all()


@pytest.mark.skipif(bool(why_missing()), reason="this system has no sandbox")
@pytest.mark.parametrize("sandbox", ["require", "try", "off"])
def test_a_vendor_in_a_sandbox_reads_no_file(load: Load, tmp_path: Path, sandbox: str) -> None:
    (tmp_path / "secret").write_text("42")
    (tmp_path / "vendor").mkdir()
    vendor = (VENDORS / "LiteRtDispatch_Test.py").read_text()
    reads = (
        f"lambda inputs, outputs: outputs[0].fill(float(open({str(tmp_path / 'secret')!r}).read()))"
    )
    path = tmp_path / "vendor" / "LiteRtDispatch_Test.py"
    path.write_text(
        vendor.replace('    "nap": _nap,\n', f'    "nap": _nap,\n    "reads": {reads},\n')
    )
    model = CompiledModel.from_buffer(
        one_call("reads"),
        environment=Environment.create(dispatch_library_path=str(path.parent)),
        options=isolated(sandbox=sandbox),
    )
    with model:
        if sandbox == "off":
            assert (run(model, X) == 42).all()
        else:
            with pytest.raises(LiteRtError, match="PermissionError"):
                run(model, X)


def test_another_word_for_a_sandbox_is_refused(load: Load) -> None:
    with pytest.raises(LiteRtError, match="'yes' is not a sandbox mode") as error:
        load(one_call(), sandbox="yes")
    assert error.value.status is Status.INVALID_ARGUMENT


SETTINGS = """
class Told(TestDispatch):
    def set_options(self, call, run_options):
        call.told = [float((run_options or {}).get("scale", 0))]

    def set_scheduling_info(self, call, scheduling_info):
        call.priority = scheduling_info.priority

    def invoke(self, call):
        call.outputs[0].array()[...] = call.told.pop() + 100 * call.priority


DISPATCH = Told()
"""


def test_settings_of_runs_are_told_before_each_run(load: Load, tmp_path: Path) -> None:
    vendor = (VENDORS / "LiteRtDispatch_Test.py").read_text()
    (tmp_path / "LiteRtDispatch_Test.py").write_text(vendor + SETTINGS)
    environment = Environment.create(dispatch_library_path=str(tmp_path))
    with CompiledModel.from_buffer(
        one_call(), environment=environment, options=isolated()
    ) as model:
        (kernel,) = inside(model)._kernels
        assert (run(model, X) == 0).all()
        kernel.call.set_options({"scale": "3"})
        kernel.call.set_scheduling_info(SchedulingInfo(priority=7))
        for _ in range(2):
            assert (run(model, X) == 703).all()
        os.kill(pids_of(model)[0], signal.SIGKILL)
        with pytest.raises(LiteRtError, match="SIGKILL"):
            run(model, X)
        assert (run(model, X) == 703).all()
        kernel.call.set_options(None)
        assert (run(model, X) == 700).all()

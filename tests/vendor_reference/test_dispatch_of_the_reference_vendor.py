"""Tests the reference vendor's dispatch table, called as the host calls it."""

from __future__ import annotations

import gc
import os
import subprocess
import sys
import threading
from collections.abc import Iterator, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from dispatch.api import Capability, ExecutableType, MemBuffer
from dispatch.call import Call
from dispatch.session import Session
from dispatch.tensor_buffer import TensorBuffer
from litert.core.environment_options import EnvironmentOptions
from litert.core.errors import LiteRtError
from litert.core.status import Status
from litert.model.blob import MappedFile
from tests.vendor_reference.executables import (
    DOUBLE,
    Array,
    assets,
    byte_code,
    const,
    constant,
    doubling,
    executable,
    floats,
    in_,
    out,
    source,
    task,
)
from vendor_reference.device.opencl_memory import read_constant
from vendor_reference.dispatch import DISPATCH
from vendor_reference.executable.byte_code import write_executable
from vendor_reference.executable.executable import Constant, Dequantization, Executable, Program

FLOATS = floats(4)


@pytest.fixture(autouse=True)
def opened(device: Any, monkeypatch: pytest.MonkeyPatch) -> Any:
    """The device that the dispatch table opens."""
    import vendor_reference.dispatch

    monkeypatch.setattr(vendor_reference.dispatch, "open_device", lambda _: device)
    return device


def open_session(
    registered: Mapping[str, MemBuffer] | None = None, options: Mapping[str, str] | None = None
) -> Session:
    return Session(
        DISPATCH,
        environment_options=EnvironmentOptions(),
        options=options or {},
        assets=list((assets(MyOp=DOUBLE) if registered is None else registered).items()),
    )


def open_call(session: Session, made: Executable | MemBuffer | None = None, size: int = 4) -> Call:
    if made is None:
        made = doubling(size)
    code = made if isinstance(made, MemBuffer) else byte_code(made)
    return session.open_call(code, "f", [floats(size)], [floats(size)])


def bind(call: Call, size: int = 4) -> tuple[TensorBuffer, TensorBuffer]:
    x, y = TensorBuffer.allocate(floats(size)), TensorBuffer.allocate(floats(size))
    call.bind_input(0, x)
    call.bind_output(0, y)
    return x, y


def fails(made: Executable, registered: Mapping[str, MemBuffer]) -> LiteRtError:
    with open_session(registered) as session, pytest.raises(LiteRtError) as error:
        open_call(session, made)
    return error.value


def test_a_call_runs() -> None:
    with open_session() as session:
        call = open_call(session)
        x, y = bind(call)
        for values in ([1, 2, 3, 4], [5, 6, 7, 8]):
            x.array()[:] = values
            call.invoke()
            assert y.array().tolist() == [2 * v for v in values]


def test_a_call_runs_asynchronously() -> None:
    assert DISPATCH.capabilities == Capability.BASIC | Capability.ASYNC
    with open_session() as session:
        first, second = open_call(session), open_call(session)
        x, middle = bind(first)
        y = TensorBuffer.allocate(FLOATS)
        second.bind_input(0, middle)
        second.bind_output(0, y)
        x.array()[:] = [1, 2, 3, 4]
        first.invoke_async()
        (ended,) = second.invoke_async()
        ended.wait(30)
        assert y.array().tolist() == [4, 8, 12, 16]


def test_a_buffer_may_be_anywhere() -> None:
    memory = np.zeros(64, np.float32)
    with open_session() as session:
        call = open_call(session)
        _, y = bind(call)
        for start in range(5):
            x = memory[start : start + 4]
            x[:] = start
            call.bind_input(0, TensorBuffer.wrap(x))
            call.invoke()
            assert y.array().tolist() == [2 * start] * 4


def test_runs_are_measured_task_by_task() -> None:
    with open_session() as session:
        call = open_call(session)
        bind(call)
        call.start_metrics(1)
        call.invoke()
        call.invoke()
        metrics = {metric.name: metric.value for metric in call.stop_metrics()}
    assert metrics["runs"] == 2
    task_name = "task 0, kernel 'MyOp' of op 'MyOp', mean_us"
    task_us, best_us, mean_us = (metrics[name] for name in (task_name, "best_us", "mean_us"))
    assert isinstance(task_us, float) and isinstance(best_us, float) and isinstance(mean_us, float)
    assert 0 < task_us <= mean_us and 0 < best_us <= mean_us


def test_an_asset_that_was_not_registered_is_named() -> None:
    error = fails(doubling(), assets(OtherOp=DOUBLE))
    assert error.status is Status.NOT_FOUND and "lacks asset 'MyOp'" in error.what
    assert "vendor 'Reference', in invocation_context_create" in error.where


def test_an_asset_that_is_not_the_compiled_one_is_refused() -> None:
    error = fails(doubling(), assets(MyOp=DOUBLE + " "))
    assert (
        error.status is Status.INVALID_ARGUMENT
        and "differs from the asset that the model was compiled with" in error.what
    )


def test_assets_that_no_function_uses_are_never_read() -> None:
    class Unreadable:
        def __getattribute__(self, name: str) -> Any:
            raise AssertionError("read")

    other: Any = Unreadable()
    registered = {**assets(MyOp=DOUBLE), "Other": MemBuffer(-1, 0, 0, 1 << 30, other)}
    with open_session(registered) as session:
        call = open_call(session)
        bind(call)
        call.invoke()


def test_companions_are_sources_and_headers() -> None:
    header = "#define TWICE(x) ((x) + (x))\n"
    text = (
        '#include "lib/twice.h"\n'
        "__kernel void MyOp(__global const float* x, __global float* y) {\n"
        "    y[get_global_id(0)] = TWICE(x[get_global_id(0)]);\n}\n"
    )
    program = Program("", [source(text)], "", [source(header, "MyOp/lib/twice.h", "lib/twice.h")])
    made = replace(doubling(text=text), programs=[program])
    registered = {**assets(MyOp=text), **assets(**{"MyOp/lib/twice.h": header})}
    with open_session(registered) as session:
        call = open_call(session, made)
        x, y = bind(call)
        x.array()[:] = 21
        call.invoke()
        assert y.array().tolist() == [42] * 4


def test_a_kernel_that_does_not_build_is_an_error_with_file_and_line() -> None:
    text = "\n\n__kernel void MyOp(__global float* x) { nonsense }\n"
    error = fails(doubling(text=text), assets(MyOp=text))
    assert error.status is Status.COMPILATION
    assert "MyOp.cl, line 3" in error.where and "nonsense" in error.what


def test_a_function_that_is_not_there_is_an_error_with_those_that_are() -> None:
    with open_session() as session, pytest.raises(LiteRtError) as error:
        session.open_call(byte_code(doubling()), "g", [FLOATS], [FLOATS])
    assert error.value.status is Status.NOT_FOUND
    assert "the byte code has no function 'g'" in error.value.what


def test_a_module_is_checked_without_a_driver() -> None:
    module = bytes(byte_code(doubling()).view)
    table = DISPATCH
    table.check_byte_code(memoryview(module), ["f"])
    for damaged, name, status in [
        (module, "g", Status.NOT_FOUND),
        (module[:8] + b"\2" + module[9:], "f", Status.INCOMPATIBLE_BYTE_CODE_VERSION),
        (module[:-1], "f", Status.SERIALIZATION),
    ]:
        with pytest.raises(LiteRtError) as error:
            table.check_byte_code(memoryview(damaged), [name])
        assert error.value.status is status


def test_another_number_of_inputs_is_refused() -> None:
    with open_session() as session, pytest.raises(LiteRtError) as error:
        session.open_call(byte_code(doubling()), "f", [FLOATS, FLOATS], [FLOATS])
    assert "the call passes 2 inputs, but function 'f' of the byte code has 1" in error.value.what


@pytest.mark.parametrize("data", [b"", b"LRT-REF\n", bytes(100)])
def test_byte_code_of_another_kind_is_refused(data: bytes) -> None:
    with open_session() as session, pytest.raises(LiteRtError) as error:
        open_call(session, MemBuffer.from_memory(data))
    assert error.value.status is Status.SERIALIZATION


def test_shapes_other_than_the_compiled_are_refused() -> None:
    with open_session() as session, pytest.raises(LiteRtError) as error:
        session.open_call(byte_code(doubling(4)), "f", [floats(5)], [floats(4)])
    assert (
        "the program passes input 0 as tensor<5xf32>, but the model was compiled for tensor<4xf32>"
        in error.value.what
    )


def test_a_buffer_of_the_wrong_size_is_refused() -> None:
    context = DISPATCH.device_context_create({})
    context.assets.update(assets(MyOp=DOUBLE))
    call = DISPATCH.invocation_context_create(
        context, ExecutableType.ML_MODEL, byte_code(doubling()), "f", 1, 1
    )
    handle = DISPATCH.register_tensor_buffer(context, TensorBuffer.allocate(floats(3)))
    with pytest.raises(LiteRtError) as error:
        DISPATCH.attach_input(call, 0, handle)
    assert "12 bytes" in error.value.what


def test_an_option_that_it_has_not_is_refused() -> None:
    with pytest.raises(LiteRtError) as error:
        open_session(options={"fast": "1"})
    assert error.value.status is Status.INVALID_ARGUMENT and "'fast'" in error.value.what


def test_contexts_have_assets_of_their_own(opened: Any) -> None:
    triple = DOUBLE.replace("2.0f", "3.0f")
    with open_session() as two, open_session(assets(MyOp=triple)) as three:
        calls = [open_call(two), open_call(three, doubling(text=triple))]
        results = []
        for call in calls:
            x, y = bind(call)
            x.array()[:] = 1
            call.invoke()
            results.append(y.array().tolist())
    assert results == [[2] * 4, [3] * 4]


def test_calls_with_one_module_share_what_is_in_it(monkeypatch: pytest.MonkeyPatch) -> None:
    read: list[Constant] = []

    def note(constant: Constant) -> Array:
        read.append(constant)
        return read_constant(constant)

    monkeypatch.setattr("vendor_reference.device.opencl_device.read_constant", note)
    text = """
    __kernel void MyOp(__global const float* x, __global const float* w, __global float* y) {
        y[get_global_id(0)] = x[get_global_id(0)] * w[get_global_id(0)]; }"""
    made = executable(
        text,
        [task("MyOp", [in_(), const(0), out()], [4])],
        [FLOATS],
        [FLOATS],
        [
            constant(np.array([1, 2, 3, 4], np.int8), Dequantization([0.5], [0])),
            constant(np.zeros(4, np.float32)),
        ],
    )
    code = byte_code(made)
    with open_session(assets(MyOp=text)) as session:
        for call in (open_call(session, code), open_call(session, code)):
            x, y = bind(call)
            x.array()[:] = 2
            call.invoke()
            assert y.array().tolist() == [1, 2, 3, 4]
    assert len(read) == 1, "one for two calls, and none that nobody uses"


def test_constants_may_lie_in_a_file_that_nobody_may_write(tmp_path: Path) -> None:
    text = """
    __kernel void MyOp(__global const float* x, __global const float* w, __global float* y) {
        y[get_global_id(0)] = x[get_global_id(0)] + w[get_global_id(0) + 1000000]; }"""
    weights = np.arange(1000004, dtype=np.float32)
    made = executable(
        text,
        [task("MyOp", [in_(), const(0), out()], [4])],
        [FLOATS],
        [FLOATS],
        [constant(weights)],
    )
    (tmp_path / "module").write_bytes(write_executable(made).view)
    with MappedFile(tmp_path / "module") as file, open_session(assets(MyOp=text)) as session:
        call = open_call(session, MemBuffer.from_blob(file.blob()))
        x, y = bind(call)
        x.array()[:] = 0.5
        call.invoke()
        assert y.array().tolist() == (weights[-4:] + 0.5).tolist()


def test_contexts_run_in_several_threads() -> None:
    errors: list[BaseException] = []

    def work(seed: int) -> None:
        try:
            for step in range(5):
                with open_session() as session:
                    call = open_call(session, size=1000)
                    x, y = bind(call, 1000)
                    for run in range(10):
                        x.array()[:] = seed * 100 + step * 10 + run
                        call.invoke()
                        assert (y.array() == 2 * x.array()).all()
        except BaseException as error:
            errors.append(error)

    threads = [threading.Thread(target=work, args=(seed,)) for seed in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not errors


def load_and_run(code: MemBuffer) -> None:
    with open_session() as session:
        call = open_call(session, code)
        bind(call)
        call.invoke()


@pytest.fixture
def code() -> Iterator[MemBuffer]:
    yield byte_code(doubling())


def test_a_thousand_loads_leak_nothing(opened: Any, code: MemBuffer) -> None:
    def in_use() -> tuple[int, int, int]:
        gc.collect()
        # PoCL's context counts its buffers, queues and programs; Intel's counts nothing.
        return opened.cl_context.reference_count, num_open_files(), resident_bytes()

    for _ in range(100):
        load_and_run(code)
    objects, files, resident = in_use()
    with open_session() as session:
        bind(open_call(session))
        assert in_use()[0] > objects or opened.info.platform.startswith("Intel")
    for _ in range(1000):
        load_and_run(code)
    more_objects, more_files, more_resident = in_use()
    assert (more_objects, more_files) == (objects, files)
    assert more_resident - resident < 8 << 20, "a load that leaks its pages would show"


def num_open_files() -> int:
    return len(os.listdir("/proc/self/fd"))


def resident_bytes() -> int:
    pages = int(Path("/proc/self/statm").read_text().split()[1])
    return pages * os.sysconf("SC_PAGE_SIZE")


FORKS = """import os, sys
from litert.core.errors import LiteRtError
from tests.vendor_reference.test_dispatch_of_the_reference_vendor import bind, open_call, open_session
session = open_session()
call = open_call(session)
bind(call)
call.invoke()
child = os.fork()
for use in () if child else (call.invoke, lambda: call.invoke_async(), open_session):
    try:
        use()
    except LiteRtError as error:
        print(error, flush=True)
if child:
    assert os.waitpid(child, 0)[1] == 0
    call.invoke()
session.close()
"""


def test_a_forked_process_is_told_that_it_cannot_use_the_device() -> None:
    process = subprocess.run(
        [sys.executable, "-c", FORKS], capture_output=True, text=True, timeout=60, check=True
    )
    told = process.stdout.splitlines()
    assert len(told) == 3
    assert all(
        "this process was forked after the OpenCL device had been opened" in line for line in told
    )


POOL = """import sys
from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context
from tests.vendor_reference.test_dispatch_of_the_reference_vendor import bind, double, open_call, open_session
with open_session() as session:
    call = open_call(session)
    bind(call)
    call.invoke()
    with ProcessPoolExecutor(2, get_context(sys.argv[1])) as pool:
        print(*pool.map(double, range(4)))
    call.invoke()
"""


def double(value: int) -> int:
    """Doubles a value in a process of the pool, which opens the device itself."""
    with open_session() as session:
        call = open_call(session)
        x, y = bind(call)
        x.array()[:] = value
        call.invoke()
        return int(y.array()[0])


# Since Python 3.14, forkserver is the default start method of processes.
@pytest.mark.parametrize("method", ["spawn", "forkserver"])
def test_processes_that_are_no_forks_of_this_one_use_the_device_too(method: str) -> None:
    process = subprocess.run(
        [sys.executable, "-c", POOL, method], capture_output=True, text=True, timeout=120
    )
    assert process.stdout.split() == ["0", "2", "4", "6"], process.stderr

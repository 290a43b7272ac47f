"""Tests models that run entirely in a child process: same results; a crash or a hang is an error here."""

from __future__ import annotations

import gc
import os
import platform
import signal
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from litert import isolated_model
from litert.compiled_model import CompiledModel
from litert.core.errors import LiteRtError
from litert.core.status import Status
from litert.core.tracing import SpanKind, record
from litert.environment import Environment
from litert.host.sandbox import why_missing
from litert.isolated_model import IsolatedModel
from litert.model.blob import MappedFile
from litert.options import HardwareAccelerator, Options
from tests.runtime.npu_models import FLOAT, VENDORS, NpuModelBuilder, cpu_around_npu, one_call
from tests.runtime.test_control_flow import loop
from tests.runtime.test_isolated import GROWS, HANGS, LEAVES, X, double_any, first_is, is_alive

BOTH = HardwareAccelerator.NPU | HardwareAccelerator.CPU
ROWS = 5 << 18
"""Rows of a constant that is larger than the part of a file that is read before it is used."""

Load = Callable[..., IsolatedModel]
Arrays = dict[str, Any]


@pytest.fixture
def load(environment: Environment, tmp_path: Path) -> Iterator[Load]:
    """Loads models, and checks after the test that nothing is left of them."""
    gc.collect()
    before = set(os.listdir("/proc/self/fd"))
    models: list[IsolatedModel] = []

    def make(data: bytes, run_timeout_s: float = 60, **options: Any) -> IsolatedModel:
        (tmp_path / "model.tflite").write_bytes(data)
        with MappedFile(tmp_path / "model.tflite") as file:
            chosen = Options(BOTH, **options)
            model = IsolatedModel(file, "Test", environment.options, chosen, run_timeout_s)
        models.append(model)
        return model

    yield make
    processes = [pid_of(model) for model in models]
    while models:
        models.pop().close()
    gc.collect()
    assert not any(map(is_alive, processes))
    assert not set(os.listdir("/proc/self/fd")) - before


def pid_of(model: IsolatedModel) -> int:
    return model._process.service._child.pid


def two_inputs_two_outputs() -> bytes:
    """Returns a model with CPU ops before, beside and after an NPU call."""
    builder = NpuModelBuilder()
    x, y = builder.input("x", FLOAT, (1, 4)), builder.input("y", "int32", (2, 3))
    a = builder.op("ADD", [x, x], [("a", FLOAT, (1, 4))])
    b = builder.npu("double", [a], [("b", FLOAT, (1, 4))])
    builder.output(builder.op("ADD", [a, b], [("c", FLOAT, (1, 4))]))
    builder.output(builder.op("ADD", [y, y], [("d", "int32", (2, 3))]))
    return builder.bytes()


def shape_of_a_run() -> bytes:
    """Returns a model that selects the positive elements; only a run determines how many there are."""
    builder = NpuModelBuilder({"max_bytes": 64})
    x = builder.input("x", FLOAT, (1, 4))
    y = builder.tensor("y", FLOAT, (4,), shape_signature=(-1,))
    shape = builder.tensor("shape", "int32", (1,))
    builder.npu("positive", [x], [y, shape], shape_outputs={0: 1})
    builder.output(builder.op("ADD", [y, y], [("z", FLOAT, (4,))]))
    return builder.bytes()


def large_weights() -> bytes:
    """Returns a model whose file is large enough to be mapped, and whose output is as large."""
    builder = NpuModelBuilder()
    x = builder.input("x", FLOAT, (1, 4))
    builder.output(builder.npu("double", [x], [("d", FLOAT, (1, 4))]))
    weights = builder.constant("w", np.arange(4 * ROWS, dtype=np.float32).reshape(ROWS, 4))
    builder.output(builder.op("MUL", [weights, x], [("large", FLOAT, (ROWS, 4))]))
    return builder.bytes()


def modulus(function: str = "fragile") -> bytes:
    """Returns a model that computes `i % j` on the CPU, independently of an NPU call."""
    builder = NpuModelBuilder()
    x = builder.input("x", FLOAT, (1, 4))
    i, j = builder.input("i", "int32", (1,)), builder.input("j", "int32", (1,))
    builder.output(builder.npu(function, [x], [("y", FLOAT, (1, 4))]))
    builder.output(builder.op("FLOOR_MOD", [i, j], [("m", "int32", (1,))]))
    return builder.bytes()


def fails(model: IsolatedModel, inputs: Arrays) -> LiteRtError:
    with pytest.raises(LiteRtError) as error:
        model.run(inputs)
    return error.value


@pytest.mark.parametrize(
    "data, runs",
    [
        (one_call(), [{"x": X}, {"x": -X}]),
        (cpu_around_npu(), [{"x": X}, {"x": 3 * X}]),
        (two_inputs_two_outputs(), [{"x": X, "y": np.arange(6, dtype=np.int32).reshape(2, 3)}]),
        (double_any(), [{"x": np.ones((rows, 4), np.float32)} for rows in (1, 3, 500, 2)]),
        (loop(adds_one=True), [{"n": np.array(n, np.int32), "x": X} for n in (3, 0, 5)]),
        (shape_of_a_run(), [{"x": X}, {"x": -X}, {"x": X - 2}]),
        (large_weights(), [{"x": X}, {"x": -X}]),
    ],
    ids=["a call", "CPU around", "several", "dynamic", "a loop", "told by a run", "large"],
)
def test_all_is_as_in_this_process(
    load: Load, environment: Environment, data: bytes, runs: list[Arrays]
) -> None:
    model = load(data)
    here = CompiledModel.from_buffer(data, environment=environment, options=Options(BOTH))
    with here:
        assert model.get_signature_list() == here.get_signature_list()
        (signature,) = here.get_signature_list()
        for inputs in runs:
            given, found = here.run(inputs, signature), model.run(inputs, signature)
            assert list(given) == list(found)
            for name, array in given.items():
                assert found[name].dtype == array.dtype and found[name].shape == array.shape
                assert found[name].tobytes() == array.tobytes()
            for details in ("get_input_tensor_details", "get_output_tensor_details"):
                assert getattr(model, details)(signature) == getattr(here, details)(signature)


def test_calls_and_ops_are_in_the_one_process(load: Load) -> None:
    model = load(one_call("process"))
    assert int(model.run({"x": X})["y"][0, 0]) == pid_of(model) != os.getpid()


def test_errors_are_those_of_this_process(load: Load, environment: Environment) -> None:
    model = load(cpu_around_npu())
    with CompiledModel.from_buffer(
        cpu_around_npu(), environment=environment, options=Options(BOTH)
    ) as here:
        for inputs in ({}, {"y": X}, {"x": X.astype(np.int32)}, {"x": X[0]}):
            texts = []
            for loaded in (model, here):
                with pytest.raises(LiteRtError) as error:
                    loaded.run(inputs)
                texts.append(str(error.value))
            assert texts[0] == texts[1]
    np.testing.assert_array_equal(model.run({"x": X})["z"], 6 * X)


@pytest.mark.skipif(platform.machine() != "x86_64", reason="where that division crashes")
def test_a_crash_in_an_op_of_the_cpu_is_named(load: Load) -> None:
    model = load(modulus())
    least, good = np.array([-(2**31)], np.int32), np.array([7], np.int32)
    found = model.run({"x": X, "i": good, "j": good - 2})
    assert found["m"] == 2 and (found["y"] == 2 * X).all()
    error = fails(model, {"x": X, "i": least, "j": np.array([-1], np.int32)})
    assert error.status is Status.RUNTIME_FAILURE and error.where.endswith("model.tflite")
    assert "crashed in stock LiteRT's interpreter, op 1, FLOOR_MOD (SIGFPE" in error.what
    assert "get the file again from its source" in error.hint
    assert not is_alive(pid_of(model))
    assert fails(model, {"x": X, "i": good, "j": good}).what == error.what


@pytest.mark.parametrize("number", ["SIGSEGV", "SIGABRT", "SIGKILL"])
def test_a_crash_in_an_npu_call_is_named(load: Load, number: str) -> None:
    model = load(one_call("fragile"))
    error = fails(model, {"x": first_is(-getattr(signal, number))})
    assert f"crashed in invoke of 'fragile', function 'fragile' ({number}" in error.what


def test_an_exit_is_an_error(load: Load) -> None:
    model = load(one_call("fragile"))
    said = fails(model, {"x": first_is(LEAVES)}).what
    assert "ended with status 0 in invoke of" in said and "before it had sent its reply" in said


def test_a_hang_in_an_npu_call_has_its_own_limits(load: Load) -> None:
    first = load(one_call("fragile"), build_timeout_s=3, call_timeout_s=30)
    error = fails(first, {"x": first_is(HANGS)})
    assert error.status is Status.TIMEOUT_EXPIRED
    assert (
        "did not finish within 3 s, and was stopped in invoke of 'fragile', function 'fragile'"
        in error.what
    )
    assert "--run_timeout" in error.hint
    later = load(one_call("fragile"), call_timeout_s=0.5)
    later.run({"x": X})
    assert (
        "within 0.5 s, and was stopped in invoke of 'fragile'"
        in fails(later, {"x": first_is(HANGS)}).what
    )


def test_a_run_that_does_not_end_has_a_limit(load: Load) -> None:
    """The model is a loop: each op and each call takes little time, but the loop does not end."""
    model = load(loop(adds_one=True), run_timeout_s=1)
    model.run({"n": np.array(3, np.int32), "x": X})
    error = fails(model, {"n": np.array(2**31 - 1, np.int32), "x": X})
    assert error.status is Status.TIMEOUT_EXPIRED and "within 1 s" in error.what


def test_memory_is_limited(load: Load) -> None:
    model = load(one_call("fragile"), device_memory_bytes=1 << 30)
    error = fails(model, {"x": first_is(GROWS)})
    assert error.status is Status.MEMORY_ALLOCATION_FAILURE or "crashed" in error.what
    assert "only 1024 MiB of memory" in error.hint and "--device_memory" in error.hint


def test_arrays_that_do_not_fit_are_refused(load: Load) -> None:
    model = load(large_weights(), device_memory_bytes=256 << 20)
    error = fails(model, {"x": np.broadcast_to(X, (1 << 25, 1, 4))})
    assert error.status is Status.MEMORY_ALLOCATION_FAILURE and "--device_memory" in error.hint


@pytest.mark.parametrize("data", [cpu_around_npu(), large_weights()], ids=["small", "large"])
def test_a_file_that_was_replaced_is_the_one_that_was_opened(
    environment: Environment, tmp_path: Path, data: bytes
) -> None:
    path = tmp_path / "model.tflite"
    path.write_bytes(data)
    with MappedFile(path) as file:
        (tmp_path / "other").write_bytes(one_call())
        os.replace(tmp_path / "other", path)
        model = IsolatedModel(file, "Test", environment.options, Options(BOTH), 60)
    with model:
        assert model.run({"x": X}).keys() in ({"z"}, {"d", "large"})


def test_spans_come_from_the_process(load: Load) -> None:
    model = load(cpu_around_npu())
    with record() as recording:
        model.run({"x": X})
    assert [s.name for s in recording.spans if s.kind is SpanKind.CALL] == ["double"]


@pytest.mark.skipif(bool(why_missing()), reason="this system has no sandbox")
@pytest.mark.parametrize("sandbox", ["require", "try", "off"])
def test_the_process_reads_no_file(tmp_path: Path, sandbox: str) -> None:
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
    (tmp_path / "model.tflite").write_bytes(one_call("reads"))
    environment = Environment.create(dispatch_library_path=str(path.parent)).options
    with (
        MappedFile(tmp_path / "model.tflite") as file,
        IsolatedModel(file, "Test", environment, Options(BOTH, sandbox=sandbox), 60) as model,
    ):
        if sandbox == "off":
            assert (model.run({"x": X})["y"] == 42).all()
        else:
            with pytest.raises(LiteRtError, match="PermissionError"):
                model.run({"x": X})


def test_a_vendor_that_crashes_as_it_opens_a_call_is_named(tmp_path: Path) -> None:
    vendor = (VENDORS / "LiteRtDispatch_Test.py").read_text()
    path = tmp_path / "LiteRtDispatch_Test.py"
    path.write_text(vendor.replace("call.input_shape = tensor_type.shape\n", "os.abort()\n", 1))
    (tmp_path / "model.tflite").write_bytes(one_call())
    environment = Environment.create(dispatch_library_path=str(tmp_path)).options
    what = r"crashed in get_input_requirements of input 0 of 'double' \(SIGABRT"
    with (
        MappedFile(tmp_path / "model.tflite") as file,
        pytest.raises(LiteRtError, match=what),
    ):
        IsolatedModel(file, "Test", environment, Options(BOTH), 60)


LIES = """
import time
from litert.host.serving import ask_host

GOOD = {"name": "x", "index": 0, "dtype": "float32", "shape": [1, 4]}
DETAILS = {
    "of objects": {**GOOD, "dtype": "object"}, "no type": {**GOOD, "dtype": 7}, "no shape": {**GOOD, "shape": 7},
    "a name": {**GOOD, "name": ["x"]}, "nothing": None,
}

def serve(fd):
    state = {}

    def open(argument):
        return {"main": {"inputs": ["x"], "outputs": ["y"]}}

    def details(argument):
        return {"x": DETAILS[argument[1]]}

    def run(argument):
        lie = argument[0]
        types = {
            "of objects": [[99, [4], None]], "negative": [[1, [-4], None]], "fractions": [[1, [0.5], None]],
            "no list": 7, "a text": "text", "endless": [[1, [1 << 40], None]],
        }
        if lie in types:
            ask_host("room", types[lie])
        if lie == "too many":
            ask_host("room", [[1, [4], None]])
            return ["y", "z"]
        if lie == "no name":
            ask_host("room", [[1, [4], None]])
            return [7]
        if lie == "ops":
            ask_host("ops", 7)
        if lie == "tasks":
            ask_host("tasks", [[], 1, 2, 3])
        return []

    return {"load": lambda argument: "", "open": open, "details": details, "run": run}
"""


@pytest.fixture
def lying(
    load: Load, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> Callable[[], IsolatedModel]:
    """Returns a function that loads a model whose child process sends malicious replies."""
    (tmp_path / "lies_of_a_model.py").write_text(LIES)
    monkeypatch.syspath_prepend(str(tmp_path))
    monkeypatch.setattr(isolated_model, "_TARGET", "lies_of_a_model:serve")
    return lambda: load(one_call(), sandbox="off")


@pytest.mark.parametrize(
    "lie",
    [
        "of objects",
        "negative",
        "fractions",
        "no list",
        "a text",
        "endless",
        "too many",
        "no name",
        "ops",
        "tasks",
    ],
)
def test_lies_about_outputs_are_errors(lying: Callable[[], IsolatedModel], lie: str) -> None:
    with pytest.raises(LiteRtError) as error:
        lying().run({"x": X}, lie)
    assert "sent a reply that cannot be read" in error.value.what or lie == "endless"


@pytest.mark.parametrize("lie", ["of objects", "no type", "no shape", "a name", "nothing"])
def test_lies_about_tensors_are_errors(lying: Callable[[], IsolatedModel], lie: str) -> None:
    with pytest.raises(LiteRtError, match="sent a reply that cannot be read"):
        lying().get_input_tensor_details(lie)


def test_the_limit_of_an_npu_call_is_not_that_of_its_programs(load: Load) -> None:
    """The time that the host takes to answer requests of the call does not count."""
    model = load(one_call("nap"), call_timeout_s=0.4, build_timeout_s=20)
    table = model._process
    table._seen = (1, 2)
    table._seen_s = time.monotonic() - 10
    words = table.service.words
    words[66], words[67] = table._seen
    assert table._find_limit()[0] < 0
    table._answers["slow"] = lambda _: time.sleep(0.2)
    before = table._find_limit()[0]
    table._answer("slow", None)
    assert abs(table._find_limit()[0] - before) < 0.1


def test_a_file_that_becomes_shorter_is_an_error_with_its_name(load: Load, tmp_path: Path) -> None:
    model = load(large_weights())
    os.truncate(tmp_path / "model.tflite", 100)
    error = fails(model, {"x": X})
    assert error.status is Status.FILE_IO
    assert error.what == "the file became shorter while it was read"
    assert error.where == str(tmp_path / "model.tflite")

"""Tests that `litert.Interpreter` runs NPU calls in programs that were written for TensorFlow Lite."""

from __future__ import annotations

import gc
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

from litert.core.errors import LiteRtError
from litert.core.quantization import Quantization
from litert.core.status import Status
from litert.environment import Environment
from litert.hardware_accelerator import HardwareAccelerator
from litert.interpreter import Interpreter
from litert.model.builder import ModelBuilder
from litert.model.writer import to_bytes
from litert.options import Options
from tests.native_probe import MakeProbe
from tests.runtime.npu_models import FLOAT, VENDORS, NpuModelBuilder, cpu_around_npu, one_call
from tests.runtime.test_own_memory import KINDS, MODELS
from tests.runtime.test_shapes import VECTORS, doubled, positives, static_call

X = np.array([[1, 2, 3, 4]], np.float32)


@pytest.fixture(autouse=True)
def nothing_stays(vendor: Any) -> Iterator[None]:
    """Checks after each test that the vendor has no open device and no registered buffers."""
    yield
    gc.collect()
    assert not vendor.devices
    assert not vendor.registered


def load(environment: Environment, data: bytes) -> Interpreter:
    interpreter = Interpreter(model_content=data, environment=environment)
    interpreter.allocate_tensors()
    return interpreter


def run(interpreter: Interpreter, *values: Any) -> list[Any]:
    for details, value in zip(interpreter.get_input_details(), values, strict=True):
        interpreter.set_tensor(details["index"], value)
    interpreter.invoke()
    return [interpreter.get_tensor(d["index"]) for d in interpreter.get_output_details()]


@pytest.mark.parametrize(
    "settings", [{}, {"alignment": 4096}, {"padding": 100}], ids=["host memory", "aligned", "more"]
)
def test_npu_calls_run(environment: Environment, settings: Any) -> None:
    interpreter = load(environment, cpu_around_npu(**settings))
    for value in (X, -X, 3 * X):
        np.testing.assert_array_equal(run(interpreter, value), [6 * value])


def test_details_are_those_of_the_file(environment: Environment) -> None:
    builder = NpuModelBuilder()
    scale = Quantization((0.5,), (-3,))
    x = builder.input("x", "int8", (1, 4), shape_signature=(-1, 4), quantization=scale)
    builder.output(builder.npu("double", [x], [("y", "int8", (1, 4))]))
    builder.signature("double", {"given": x}, {"got": builder.graph.outputs[0]})
    interpreter = load(environment, builder.bytes())
    (details,) = interpreter.get_input_details()
    assert (details["name"], details["index"], details["dtype"]) == ("x", 0, np.int8)
    assert details["quantization"] == (0.5, -3)
    assert details["shape"].tolist() == [1, 4]
    assert details["shape_signature"].tolist() == [-1, 4]
    assert interpreter.get_signature_list() == {"double": {"inputs": ["given"], "outputs": ["got"]}}
    found = interpreter.get_signature_runner()(given=X.astype(np.int8))
    np.testing.assert_array_equal(found["got"], 2 * X)


def test_views_show_the_memory_that_the_npu_uses(environment: Environment) -> None:
    interpreter = load(environment, one_call(alignment=4096))
    x, y = interpreter.tensor(0), interpreter.tensor(1)
    for value in (1, 2):
        x().fill(value)
        interpreter.invoke()
        np.testing.assert_array_equal(y(), np.full((1, 4), 2 * value))


def test_a_view_keeps_the_vendor_s_memory(environment: Environment, vendor: Any) -> None:
    interpreter = load(environment, one_call(alignment=4096))
    run(interpreter, X)
    view = interpreter.tensor(1)()
    del interpreter
    gc.collect()
    assert vendor.devices
    np.testing.assert_array_equal(view, 2 * X)


@pytest.mark.parametrize("adds", [False, True], ids=["output", "read by the CPU"])
def test_a_shape_is_known_after_the_run(environment: Environment, adds: bool) -> None:
    interpreter = load(environment, positives(adds=adds))
    for x in [*VECTORS[:2], *VECTORS[3:]]:  # stock cannot make an array without elements
        interpreter.resize_tensor_input(0, x.shape)
        interpreter.allocate_tensors()
        np.testing.assert_array_equal(run(interpreter, x)[0], x[x > 0] * (1 + adds))


def test_a_shape_that_the_vendor_tells_is_there_after_allocation(environment: Environment) -> None:
    interpreter = load(environment, doubled(adds=True))
    for rows in (7, 8, 1):
        interpreter.resize_tensor_input(0, [rows, 4])
        interpreter.allocate_tensors()
        assert interpreter.get_output_details()[0]["shape"].tolist() == [rows, 4]
        ones = np.ones((rows, 4), np.float32)
        np.testing.assert_array_equal(run(interpreter, ones)[0], 4 * ones)


def test_a_resize_moves_the_memory_of_a_call(environment: Environment) -> None:
    builder = NpuModelBuilder({"alignment": 4096})
    x = builder.input("x", FLOAT, (2, 4), shape_signature=(-1, 4))
    axis = builder.constant("axis", np.array([0], np.int32))
    total = builder.op("SUM", [x, axis], [("total", FLOAT, (4,))])
    builder.output(builder.npu("double", [total], [("y", FLOAT, (4,))]))
    interpreter = load(environment, builder.bytes())
    for rows in (2, 500, 500, 3):
        interpreter.resize_tensor_input(0, [rows, 4])
        interpreter.allocate_tensors()
        ones = np.ones((rows, 4), np.float32)
        np.testing.assert_array_equal(run(interpreter, ones), [[2 * rows] * 4])


def test_a_shape_that_a_call_is_not_for_is_its_vendor_s_error(environment: Environment) -> None:
    interpreter = load(environment, static_call())
    four = np.arange(4, dtype=np.float32)
    interpreter.resize_tensor_input(0, [6])
    with pytest.raises(LiteRtError, match="6xf32>, but the call was compiled for tensor<4xf32>"):
        interpreter.allocate_tensors()
    interpreter.resize_tensor_input(0, [4])
    interpreter.allocate_tensors()
    np.testing.assert_array_equal(run(interpreter, four, four)[0], 2 * four)


def test_a_call_that_fails_raises_the_vendor_s_error_and_can_run_again(
    environment: Environment, vendor: Any
) -> None:
    interpreter = load(environment, cpu_around_npu())
    runner = interpreter.get_signature_runner  # raises, as the model has no signatures
    vendor.failing["double"] = LiteRtError(Status.TIMEOUT_EXPIRED, "no answer")
    with pytest.raises(LiteRtError, match="no answer") as error:
        run(interpreter, X)
    assert error.value.status is Status.TIMEOUT_EXPIRED
    np.testing.assert_array_equal(run(interpreter, X), [6 * X])
    with pytest.raises(ValueError, match="signature_key"):
        runner()


def test_a_model_is_compiled_when_it_is_loaded(vendor: Any) -> None:
    builder = ModelBuilder()
    x = builder.input("x", FLOAT, (1, 4))
    builder.output(builder.custom("double", [x], [("y", FLOAT, (1, 4))]))
    environment = Environment.create(
        compiler_plugin_path=str(VENDORS), dispatch_library_path=str(VENDORS)
    )
    accelerators = HardwareAccelerator.NPU | HardwareAccelerator.CPU
    interpreter = Interpreter(
        model_content=to_bytes(builder.build()),
        environment=environment,
        options=Options(accelerators, soc_manufacturer="Test"),
    )
    interpreter.allocate_tensors()
    np.testing.assert_array_equal(run(interpreter, X)[0], 2 * X)
    assert len(vendor.calls) == 1


def test_a_vendor_that_is_not_there_is_named() -> None:
    with pytest.raises(ValueError, match="'Test'") as error:
        Interpreter(model_content=one_call())
    assert isinstance(error.value.__cause__, LiteRtError)


@pytest.mark.parametrize("words", KINDS.values(), ids=KINDS)
@pytest.mark.parametrize("model", MODELS)
def test_memory_of_a_vendor_s_own_changes_hands(
    make_probe: MakeProbe, model: str, words: Any
) -> None:
    probe = make_probe()
    make, expected = MODELS[model]
    environment = Environment.create(dispatch_library_path=str(probe.path.parent))
    interpreter = load(environment, make(**words))
    for value in (X, X * 3, -X):
        for found, wanted in zip(run(interpreter, value), expected(value), strict=True):
            np.testing.assert_array_equal(found, wanted)
    interpreter.tensor(0)()[:] = X
    interpreter.invoke()
    output = interpreter.get_output_details()[0]["index"]
    np.testing.assert_array_equal(interpreter.tensor(output)(), expected(X)[0])
    del interpreter
    gc.collect()
    assert not probe.broken
    assert probe.num_memories == 0

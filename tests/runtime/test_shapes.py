"""Tests shapes that change between runs, and shapes that only a run determines."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from litert.compiled_model import CompiledModel
from litert.core.errors import LiteRtError
from litert.core.status import Status
from litert.model.builder import ModelBuilder
from litert.model.writer import write_model
from litert.tensor_buffer import TensorBuffer
from tests.runtime.conftest import Load
from tests.runtime.npu_models import FLOAT, NpuModelBuilder

KEY = "<placeholder signature>"
UNKNOWN = (-1,)
ROWS = (-1, 4)


def positives(*, adds: bool, function: str = "positive", max_bytes: int = 256) -> bytes:
    """Returns a model that selects the positive elements of `x` on the NPU; with `adds`, the CPU doubles them."""
    builder = NpuModelBuilder({"max_bytes": max_bytes})
    x = builder.input("x", FLOAT, (8,), shape_signature=UNKNOWN)
    found, shape = (
        builder.tensor("found", FLOAT, (1,), shape_signature=UNKNOWN),
        ("shape", "int32", (1,)),
    )
    builder.npu(function, [x], [found, shape], shape_outputs={0: 1})
    if adds:
        found = builder.op("ADD", [found, found], [("y", FLOAT, (1,))])
    builder.output(found)
    return builder.bytes()


def doubled(*, adds: bool) -> bytes:
    """Returns `y = 2x` for up to 8 rows; the vendor gives its shape before a run. With `adds`, doubles again."""
    builder = NpuModelBuilder({"max_bytes": 128, "tells": 1})
    x = builder.input("x", FLOAT, (1, 4), shape_signature=ROWS)
    y = builder.tensor("between" if adds else "y", FLOAT, (1, 4), shape_signature=ROWS)
    builder.npu("double_any", [x], [y, ("shape", "int32", (2,))], shape_outputs={0: 1})
    if adds:
        last = builder.tensor("y", FLOAT, (1, 4), shape_signature=ROWS)
        y = builder.op("ADD", [y, y], [last])
    builder.output(y)
    return builder.bytes()


def static_call(**input_options: Any) -> bytes:
    """Returns a model with an NPU call on four elements, and a separate ADD on any number of elements."""
    builder = NpuModelBuilder()
    x = builder.input("x", FLOAT, (4,), **input_options)
    free = builder.input("free", FLOAT, (4,), shape_signature=UNKNOWN)
    y = builder.npu("double", [x], [("y", FLOAT, (4,))])
    builder.output(y, builder.op("ADD", [free, free], [("sum", FLOAT, (4,))]))
    return builder.bytes()


def vector(*values: float) -> np.ndarray[Any, Any]:
    return np.array(values, np.float32)


VECTORS = [
    vector(1, -1, 2, -2, 3, -3, 4, 5),
    vector(1, -1, -2, -2, -3, -3, -4, -5),
    vector(-1, -1, -2, -2, -3, -3, -4, -5),
    vector(1, 2, 3, 4, 5, 6, 7, 8),
    vector(1, -1, 2),
    np.arange(-20, 20, dtype=np.float32),
]


@pytest.mark.parametrize("adds", [False, True], ids=["output", "read by the CPU"])
def test_a_shape_is_known_only_after_the_call(load: Load, adds: bool) -> None:
    model = load(positives(adds=adds))
    for x in [*VECTORS, *reversed(VECTORS)]:
        (found,) = model.run({"x": x}).values()
        np.testing.assert_array_equal(found, x[x > 0] * (1 + adds))


@pytest.mark.parametrize("adds", [False, True], ids=["output", "read by the CPU"])
def test_a_large_enough_buffer_takes_a_dynamic_output(load: Load, adds: bool) -> None:
    model = load(positives(adds=adds))
    result = np.zeros(8, np.float32)
    outputs = [TensorBuffer.create_from_host_memory(result)]
    inputs = model.create_input_buffers(0)
    inputs[0].write(VECTORS[0])
    model.run_by_index(0, inputs, outputs)
    np.testing.assert_array_equal(outputs[0].array(), vector(1, 2, 3, 4, 5) * (1 + adds))
    (details,) = model.get_output_tensor_details("<placeholder signature>").values()
    assert details["shape"] == [5]


def test_a_buffer_for_a_dynamic_output_has_the_largest_size(load: Load) -> None:
    model = load(positives(adds=False))
    assert model.get_output_buffer_requirements(0)["buffer_size"] == 256
    inputs, outputs = model.create_input_buffers(0), model.create_output_buffers(0)
    inputs[0].write(VECTORS[3])
    model.run_by_index(0, inputs, outputs)
    np.testing.assert_array_equal(outputs[0].array(), VECTORS[3])


@pytest.mark.parametrize("adds", [False, True], ids=["output", "read by the CPU"])
@pytest.mark.parametrize("memory", ["the model's", "the caller's"])
@pytest.mark.parametrize("can_reshape", [False, True])
def test_a_shape_that_the_vendor_tells_is_there_after_a_resize(
    load: Load,
    vendor: Any,
    adds: bool,
    memory: str,
    can_reshape: bool,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(vendor, "can_reshape", can_reshape)
    model = load(doubled(adds=adds))
    (first,) = vendor.calls
    for rows in (1, 7, 8, 3, 3, 8):
        model.resize_input_tensor(0, [rows, 4])
        (details,) = model.get_output_tensor_details(KEY).values()
        assert details["shape"] == [rows, 4]
        assert model.get_output_buffer_requirements(0)["buffer_size"] == rows * 16
        inputs, outputs = model.create_input_buffers(0), model.create_output_buffers(0)
        assert outputs[0].get_tensor_details()["shape"] == [rows, 4]
        if memory == "the caller's":
            outputs = [TensorBuffer.create_from_host_memory(np.zeros((rows, 4), np.float32))]
        x = np.random.default_rng(rows).random((rows, 4), np.float32)
        inputs[0].write(x)
        model.run_by_index(0, inputs, outputs)
        np.testing.assert_array_equal(outputs[0].array(), x * (4 if adds else 2))
        np.testing.assert_array_equal(model.run({"x": x})["y"], x * (4 if adds else 2))
        if memory == "the model's" and not adds:  # nothing is copied
            (call,) = vendor.calls
            model.run_by_index(0, inputs, outputs)
            assert call.outputs[0].address == outputs[0].array().ctypes.data
    assert (vendor.calls == [first]) is can_reshape


def test_buffers_stay_registered_with_a_call_that_can_be_reshaped(
    load: Load, vendor: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(vendor, "can_reshape", True)
    model = load(doubled(adds=False))
    model.run({"x": np.ones((1, 4), np.float32)})
    before = list(vendor.registered)
    for rows in (3, 8, 1):  # the vendor has given the largest size of the input
        x = np.random.default_rng(rows).random((rows, 4), np.float32)
        np.testing.assert_array_equal(model.run({"x": x})["y"], 2 * x)
    assert vendor.registered == before


def test_a_call_that_refused_a_shape_takes_the_next(
    load: Load, vendor: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(vendor, "can_reshape", True)
    model = load(doubled(adds=False))
    model.run({"x": np.ones((2, 4), np.float32)})
    with pytest.raises(LiteRtError, match="the returned size is 128 bytes"):
        model.run({"x": np.ones((9, 4), np.float32)})
    for rows in (2, 8):
        x = np.random.default_rng(rows).random((rows, 4), np.float32)
        np.testing.assert_array_equal(model.run({"x": x})["y"], 2 * x)


def test_a_tensor_that_the_next_signature_has_not_gets_memory_after_a_resize(load: Load) -> None:
    builder = NpuModelBuilder({"max_bytes": 128, "tells": 1})
    x = builder.input("x", FLOAT, (1, 4), shape_signature=ROWS)
    fixed = builder.input("fixed", FLOAT, (4,))
    y = builder.tensor("y", FLOAT, (1, 4), shape_signature=ROWS)
    builder.npu("double_any", [x], [y, ("shape", "int32", (2,))], shape_outputs={0: 1})
    twice = builder.npu("double", [fixed], [("twice", FLOAT, (4,))])
    less = builder.npu("subtract", [twice, fixed], [("less", FLOAT, (4,))])
    builder.output(y, twice, less)
    inputs = {"x": x, "fixed": fixed}
    builder.signature("all", inputs, {"y": y, "twice": twice, "less": less})
    builder.signature("some", inputs, {"y": y, "less": less})
    model = load(builder.bytes())
    four = vector(1, 2, 3, 4)
    for rows in (4, 2, 8, 7):
        for key, count in (("all", rows), ("some", 9 - rows)):
            data = np.random.default_rng(rows).random((count, 4), np.float32)
            found = model.run({"x": data, "fixed": four}, key)
            np.testing.assert_array_equal(found["y"], 2 * data)
            np.testing.assert_array_equal(found["less"], four)


@pytest.mark.parametrize("memory", ["the model's", "the caller's"])
def test_a_buffer_that_was_made_before_gets_the_shape_of_each_run(load: Load, memory: str) -> None:
    model = load(doubled(adds=False))
    outputs = model.create_output_buffers(0)
    if memory == "the caller's":
        outputs = [TensorBuffer.create_from_host_memory(np.zeros((8, 4), np.float32))]
    for rows in (2, 8, 5):
        x = np.random.default_rng(rows).random((rows, 4), np.float32)
        model.run_by_index(0, [TensorBuffer.create_from_host_memory(x)], outputs)
        np.testing.assert_array_equal(outputs[0].array(), 2 * x)


def test_an_output_says_that_only_a_run_tells_its_shape(load: Load) -> None:
    model = load(positives(adds=False))

    def shape() -> Any:
        (details,) = model.get_output_tensor_details(KEY).values()
        return details["shape"]

    assert shape() == [-1]
    outputs = model.create_output_buffers(0)
    assert outputs[0].get_tensor_details()["shape"] == [64]  # the largest possible
    for x in (VECTORS[0], VECTORS[4]):
        model.resize_input_tensor(0, x.shape)
        assert shape() == [-1]
        assert model.get_output_buffer_requirements(0)["buffer_size"] == 256
        inputs = model.create_input_buffers(0)
        inputs[0].write(x)
        model.run_by_index(0, inputs, outputs)
        expected = x[x > 0]
        np.testing.assert_array_equal(outputs[0].array(), expected)
        assert shape() == [expected.size]
    assert model.create_output_buffers(0)[0].get_tensor_details()["shape"] == [64]


def test_an_output_that_nothing_bounds_has_no_buffer_before_a_run(load: Load) -> None:
    builder = NpuModelBuilder({"max_bytes": 256})
    x = builder.input("x", FLOAT, (8,), shape_signature=UNKNOWN)
    found = builder.tensor("found", FLOAT, (1,), shape_signature=UNKNOWN)
    builder.npu("positive", [x], [found, ("shape", "int32", (1,))], shape_outputs={0: 1})
    y = builder.tensor("y", FLOAT, (1,), shape_signature=UNKNOWN)
    builder.output(builder.op("ADD", [found, found], [y]))
    model = load(builder.bytes())
    for call in (model.create_output_buffers, model.get_output_buffer_requirements):
        with pytest.raises(
            LiteRtError, match=r"the shape of tensor<\?xf32> is known only after a run"
        ) as error:
            call(0)
        assert error.value.where == "output 'y' of the main subgraph"
        assert "own buffer that is large enough" in error.value.hint
    np.testing.assert_array_equal(model.run({"x": VECTORS[0]})["y"], 2 * vector(1, 2, 3, 4, 5))
    assert model.get_output_buffer_requirements(0)["buffer_size"] == 20


def test_a_buffer_too_small_for_a_dynamic_output_is_refused(load: Load) -> None:
    model = load(positives(adds=True))
    inputs = model.create_input_buffers(0)
    inputs[0].write(VECTORS[3])
    outputs = [TensorBuffer.create_from_host_memory(np.zeros(2, np.float32))]
    with pytest.raises(LiteRtError, match="32 bytes, but its buffer has only 8") as error:
        model.run_by_index(0, inputs, outputs)
    assert error.value.status is Status.INVALID_ARGUMENT


def test_a_vendor_s_impossible_shape_is_refused(load: Load) -> None:
    model = load(positives(adds=True, function="lie"))
    with pytest.raises(LiteRtError, match=r"shape \[1073741824\].*'lie'"):
        model.run({"x": VECTORS[0]})


def test_a_call_for_one_shape_refuses_another_and_goes_on(load: Load) -> None:
    model = load(static_call())
    four = vector(1, 2, 3, 4)
    model.resize_input_tensor(0, [6], strict=False)
    with pytest.raises(LiteRtError, match="6xf32>, but the call was compiled for tensor<4xf32>"):
        model.create_output_buffers(0)
    model.resize_input_tensor(0, [4], strict=False)
    np.testing.assert_array_equal(model.run({"x": four, "free": four})["y"], 2 * four)


def test_a_call_whose_output_s_shape_nobody_tells_is_refused(load: Load) -> None:
    builder = NpuModelBuilder({"max_bytes": 64})
    x = builder.input("x", FLOAT, (4,), shape_signature=UNKNOWN)
    y = builder.tensor("y", FLOAT, (4,), shape_signature=UNKNOWN)
    builder.output(builder.npu("double", [x], [y]))
    model = load(builder.bytes())
    four = vector(1, 2, 3, 4)
    np.testing.assert_array_equal(model.run({"x": four})["y"], 2 * four)
    with pytest.raises(LiteRtError, match="output 0 has unknown dimensions"):
        model.run({"x": vector(1, 2, 3)})
    np.testing.assert_array_equal(model.run({"x": four})["y"], 2 * four)


def test_an_input_of_fixed_shape_is_not_said_to_have_unknown_dimensions(load: Load) -> None:
    model = load(static_call())
    with pytest.raises(
        LiteRtError, match=r"the given shape is \[6\], but the model's input has type tensor<4xf32>"
    ) as error:
        model.resize_input_tensor(0, [6])
    assert "the model's fixed shape" in error.value.hint and "?" not in error.value.hint
    with pytest.raises(LiteRtError) as error:
        model.resize_input_tensor(1, [6, 2])
    assert "each unknown dimension (?)" in error.value.hint


def test_a_shape_without_elements_is_refused_by_that_name(load: Load) -> None:
    model = load(static_call())
    with pytest.raises(LiteRtError, match="each dimension must be at least 1"):
        model.resize_input_tensor(1, [0])


def test_an_input_beside_a_call_may_change(load: Load) -> None:
    model = load(static_call())
    four = vector(1, 2, 3, 4)
    for size in (4, 9, 2, 4):
        free = np.arange(size, dtype=np.float32)
        found = model.run({"x": four, "free": free})
        np.testing.assert_array_equal(found["y"], 2 * four)
        np.testing.assert_array_equal(found["sum"], 2 * free)


def test_a_resize_moves_memory_and_the_vendor_is_told(load: Load, vendor: Any) -> None:
    builder = NpuModelBuilder()
    x = builder.input("x", FLOAT, (2, 4), shape_signature=(-1, 4))
    axis = builder.constant("axis", np.array([0], np.int32))
    total = builder.op("SUM", [x, axis], [("total", FLOAT, (4,))])
    builder.output(builder.npu("double", [total], [("y", FLOAT, (4,))]))
    model = load(builder.bytes())
    for rows in (2, 500, 3):
        value = np.ones((rows, 4), np.float32)
        np.testing.assert_array_equal(model.run({"x": value})["y"], np.full(4, 2 * rows))
    assert len(vendor.registered) == 2


@pytest.mark.parametrize("way", ["buffers", "arrays"])
def test_inputs_of_another_shape_resize_the_model(load: Load, way: str) -> None:
    model = load(positives(adds=True))
    for x in VECTORS:
        if way == "arrays":
            (found,) = model.run({"x": x}).values()
        else:
            found = run_over_memory(model, x)
        np.testing.assert_array_equal(found, 2 * x[x > 0])


def run_over_memory(model: CompiledModel, x: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
    outputs = [TensorBuffer.create_from_host_memory(np.zeros(64, np.float32))]
    model.run_by_index(0, [TensorBuffer.create_from_host_memory(x)], outputs)
    return outputs[0].array()


def test_outputs_behind_a_shape_that_xnnpack_hides_are_those_of_the_run(tmp_path: Path) -> None:
    b = ModelBuilder()
    x = b.input("x", "float32", (2, 3, 4), shape_signature=(-1, 3, 4))
    shape = b.op("SHAPE", [x], [("shape", "int32", (3,))], out_type="INT32")
    ends = [b.constant(name, np.array([value], np.int32)) for name, value in (("b", 0), ("s", 1))]
    first = b.op("SLICE", [shape, *ends], [("first", "int32", (1,))])
    rest = b.constant("rest", np.array([-1], np.int32))
    product = b.op("REDUCE_PROD", [first, ends[0]], [("rows", "int32", (1,))], keep_dims=True)
    size = b.op("CONCATENATION", [product, rest], [("size", "int32", (2,))], axis=0)
    flat = b.op(
        "RELU6",
        [b.op("RESHAPE", [x, size], [("flat", "float32", (2, 12))])],
        [("r", "float32", (2, 12))],
    )
    best = [("values", "float32", (2, 3)), ("indices", "int32", (2, 3))]
    b.output(*b.op("TOPK_V2", [flat, b.constant("k", 3, "int32")], best))
    b.signature("main")
    path = tmp_path / "hidden.tflite"
    write_model(b.build(), path)
    value = np.random.default_rng(3).normal(2, 3, (2, 3, 4)).astype(np.float32)
    expected = np.sort(value.clip(0, 6).reshape(2, 12))[:, ::-1][:, :3]
    with CompiledModel.from_file(str(path)) as model:
        inputs, outputs = model.create_input_buffers(0), model.create_output_buffers(0)
        inputs[0].write(value)
        for _ in range(2):
            model.run_by_index(0, inputs, outputs)
            np.testing.assert_array_equal(outputs[0].read(6, np.float32).reshape(2, 3), expected)
            outputs[0].write(np.zeros(6, np.float32))
    with CompiledModel.from_file(str(path)) as model:
        for _ in range(2):
            np.testing.assert_array_equal(model.run({"x": value})["values"], expected)
            double = model.run({"x": np.concatenate([value, value])})["values"]
            np.testing.assert_array_equal(double, np.concatenate([expected, expected]))

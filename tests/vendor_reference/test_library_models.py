"""Tests models whose builtin ops run on the NPU because the user asks for it."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st

from compiler_plugin.pipeline import ApplyOptions, apply_plugin
from compiler_plugin.report import Report
from litert import CompiledModel
from litert.core.compiler_options import CompilerOptions, CustomOpInfo
from litert.core.quantization import Quantization
from litert.model.builder import ModelBuilder
from litert.model.expected_time import read_expected_times
from litert.model.graph import Model, Tensor
from litert.model.reader import read_model
from litert.model.writer import write_model
from tests.compiler_plugin.transformations.builtin.test_fold_densify import densified
from tests.vendor_reference.executables import Array
from tests.vendor_reference.library_runs import run_stock

pytestmark = pytest.mark.each_driver

SOFTSIGN = """
__kernel void Softsign(const __global float* x, __global float* y) {
  const size_t i = get_global_id(0);
  y[i] = x[i] / (1.0f + fabs(x[i]));
}
"""
SHAPE = (1, 6, 5, 4)


def apply(folder: Path, model: Model, ops: str = "all", asset: str = "") -> Report:
    """Compiles the model to `compiled.tflite`."""
    write_model(model, folder / "model.tflite")
    infos = []
    if asset:
        (folder / "Softsign.cl").write_text(asset)
        infos.append(CustomOpInfo("Softsign", str(folder / "Softsign.cl")))
    compiler = CompilerOptions(infos, vendor_options={"reference_ops": ops} if ops else {})
    return apply_plugin(
        folder / "model.tflite", folder / "compiled.tflite", ApplyOptions(compiler=compiler)
    )


def run(folder: Path, inputs: list[Array], shape: tuple[int, ...], dtype: str = "float32") -> Array:
    model = CompiledModel.from_file(str(folder / "compiled.tflite"))
    input_buffers, output_buffers = model.create_input_buffers(0), model.create_output_buffers(0)
    for buffer, array in zip(input_buffers, inputs, strict=True):
        buffer.write(np.ascontiguousarray(array))
    model.run_by_index(0, input_buffers, output_buffers)
    size = int(np.prod(shape))
    return np.array(output_buffers[0].read(size, np.dtype(dtype))).reshape(shape)


def on_npu(report: Report) -> list[str]:
    return [op.name for op in report.ops if op.call]


def mixed() -> Model:
    """Returns a model with a custom op between builtin ones, float16 weights, reshapes and joined parts."""
    b = ModelBuilder()
    x = b.input("x", "float32", SHAPE)
    half = b.constant("half", np.linspace(-2, 2, 4).astype(np.float16))
    slope = b.op("DEQUANTIZE", [half], [("slope", "float32", (4,))])
    scaled = b.op("MUL", [x, slope], [("scaled", "float32", SHAPE)])
    soft = b.custom("Softsign", [scaled], [("soft", "float32", SHAPE)])
    turned = b.op(
        "TRANSPOSE", [soft, b.constant("order", np.array([0, 3, 1, 2], np.int32))],
        [("turned", "float32", (1, 4, 6, 5))],
    )  # fmt: skip
    rows = b.op("RESHAPE", [turned], [("rows", "float32", (4, 30))], new_shape=[4, 30])
    sides = b.constant("sides", np.array([[0, 0], [1, 2]], np.int32))
    wide = b.op("PAD", [rows, sides], [("wide", "float32", (4, 33))])
    joined = b.op("CONCATENATION", [rows, wide], [("joined", "float32", (4, 63))], axis=1)
    b.output(b.op("LOGISTIC", [joined], [("y", "float32", (4, 63))]))
    return b.build()


def expected_of_mixed(x: Array) -> Array:
    scaled = x * np.linspace(-2, 2, 4).astype(np.float16).astype(np.float32)
    rows = (scaled / (1 + np.abs(scaled))).transpose(0, 3, 1, 2).reshape(4, 30)
    joined = np.concatenate([rows, np.pad(rows, [(0, 0), (1, 2)])], 1)
    result: Array = 1 / (1 + np.exp(-joined))
    return result


def test_a_custom_op_and_builtin_ones_are_one_call(tmp_path: Path) -> None:
    report = apply(tmp_path, mixed(), asset=SOFTSIGN)
    assert len(on_npu(report)) == len(report.ops) and len({op.call for op in report.ops}) == 1
    x = np.random.default_rng(0).normal(size=SHAPE).astype(np.float32)
    np.testing.assert_allclose(run(tmp_path, [x], (4, 63)), expected_of_mixed(x), rtol=1e-6)


def test_builtin_ops_stay_on_the_cpu_unless_they_are_asked_for(tmp_path: Path) -> None:
    assert on_npu(apply(tmp_path, mixed(), ops="", asset=SOFTSIGN)) == ["Softsign"]
    report = apply(tmp_path, mixed(), ops="MUL,LOGISTIC", asset=SOFTSIGN)
    assert on_npu(report) == ["DEQUANTIZE", "MUL", "Softsign", "LOGISTIC"]
    x = np.random.default_rng(0).normal(size=SHAPE).astype(np.float32)
    np.testing.assert_allclose(run(tmp_path, [x], (4, 63)), expected_of_mixed(x), rtol=1e-6)


def test_what_joins_a_custom_op_goes_by_itself(tmp_path: Path) -> None:
    """Tests that `auto` takes an op between two calls, which saves a call, and no op that would add a call."""
    b = ModelBuilder()
    x = b.input("x", "float32", SHAPE)
    lone = b.op("LOCAL_RESPONSE_NORMALIZATION", [x], [("norm", "float32", SHAPE)])
    first = b.custom("Softsign", [lone], [("first", "float32", SHAPE)])
    middle = b.op("ABS", [first], [("middle", "float32", SHAPE)])
    second = b.custom("Softsign", [middle], [("second", "float32", SHAPE)])
    other = b.op("EXP", [x], [("other", "float32", SHAPE)])
    b.output(second, other)
    report = apply(tmp_path, b.build(), ops="auto", asset=SOFTSIGN)
    assert on_npu(report) == ["Softsign", "ABS", "Softsign"]
    (call,) = report.expected_times
    assert call.time.num_unknown == 2 and call.time.transfers_ns > 0
    assert "expected time of Partition_0: " in report.to_text()
    with read_model(tmp_path / "compiled.tflite") as model:
        assert read_expected_times(model) == [call]


def test_what_the_library_cannot_do_is_in_the_report_with_a_reason(tmp_path: Path) -> None:
    b = ModelBuilder()
    x = b.input("x", "int32", (4,))
    y = b.op("DIV", [x, x], [("y", "int32", (4,))])
    b.output(
        b.op("ADD", [y, x], [("z", "int32", (4,))]), b.op("SQUARE", [x], [("w", "int32", (4,))])
    )
    ops = {op.name: op for op in apply(tmp_path, b.build()).ops}
    assert ops["ADD"].call
    assert ops["DIV"].reason.startswith(
        "the tensors have type INT32, but the library supports DIV only for FLOAT32"
    )
    assert ops["SQUARE"].reason.startswith("the tensors have type INT32")


def test_a_quantized_model_is_stocks_within_one(tmp_path: Path) -> None:
    b = ModelBuilder()
    scale, wider = Quantization([0.05], [3]), Quantization([0.1], [-5])
    x = b.input("x", "float32", SHAPE)
    bytes_ = b.tensor("bytes", "int8", SHAPE, quantization=scale)
    b.op("QUANTIZE", [x], [bytes_])
    bias = b.constant("bias", np.array([1, -20, 30, 90], np.int8), quantization=wider)
    summed = b.tensor("summed", "int8", SHAPE, quantization=wider)
    b.op("ADD", [bytes_, bias], [summed], fused_activation_function="RELU")
    swish = b.tensor("swish", "int8", SHAPE, quantization=wider)
    b.op("HARD_SWISH", [summed], [swish])
    b.output(b.op("DEQUANTIZE", [swish], [("y", "float32", SHAPE)]))
    model = b.build()
    x_values = np.random.default_rng(0).normal(size=SHAPE).astype(np.float32) * 5
    (expected,) = run_stock(model, [x_values])
    assert len(on_npu(apply(tmp_path, model))) == 4
    difference = np.abs(run(tmp_path, [x_values], SHAPE) - expected)
    assert difference.max() <= 2.01 * 0.1  # one step from the sum, one from the op after it


def test_results_written_in_place_and_read_again_are_right(tmp_path: Path) -> None:
    b = ModelBuilder()
    x = b.input("x", "float32", (40, 3))
    first = b.op("SQUARE", [x], [("first", "float32", (40, 3))])
    turned = b.op("RESHAPE", [first], [("turned", "float32", (3, 40))])
    ones = b.op("RESHAPE", [first], [("again", "float32", (40, 3))])
    second = b.op("NEG", [first], [("second", "float32", (40, 3))])
    third = b.op("SUB", [second, ones], [("third", "float32", (40, 3))])
    flat = b.op("RESHAPE", [third], [("flat", "float32", (3, 40))])
    b.output(b.op("ADD", [turned, flat], [("y", "float32", (3, 40))]))
    values = np.random.default_rng(0).normal(size=(40, 3)).astype(np.float32)
    report = apply(tmp_path, b.build())
    assert len({op.call for op in report.ops}) == 1
    expected = (values**2 - 2 * values**2).reshape(3, 40)
    np.testing.assert_allclose(run(tmp_path, [values], (3, 40)), expected, rtol=1e-6)


@given(data=st.data())
@settings(
    max_examples=2,
    phases=[Phase.generate],
    suppress_health_check=[HealthCheck.function_scoped_fixture],
)
def test_random_graphs_of_joins_are_numpys(tmp_path: Path, data: st.DataObject) -> None:
    b = ModelBuilder()
    values = np.random.default_rng(0).normal(size=(2, 3)).astype(np.float32)
    known = [(b.input("x", "float32", (2, 3)), values)]
    for index in range(data.draw(st.integers(4, 14))):
        tensor, array = known[data.draw(st.integers(0, len(known) - 1))]
        kind = data.draw(st.sampled_from(["NEG", "PAD", "CONCATENATION", "CONCATENATION"]))
        inputs, options, result = [tensor], {}, -array
        if kind == "PAD":
            sides = data.draw(st.lists(st.integers(0, 2), min_size=4, max_size=4))
            paddings = np.array(sides, np.int32).reshape(2, 2)
            inputs.append(b.constant(f"c{index}", paddings))
            result = np.pad(array, paddings)
        elif kind == "CONCATENATION":
            axis = data.draw(st.integers(0, 1))
            fits = [k for k in known if k[1].shape[1 - axis] == array.shape[1 - axis]]
            other = fits[data.draw(st.integers(0, len(fits) - 1))]
            inputs, options = [tensor, other[0]], {"axis": axis}
            result = np.concatenate([array, other[1]], axis)
        if result.size <= 4000:
            output = b.op(kind, inputs, [(f"t{index}", "float32", result.shape)], **options)
            known.append((output, result))
    last, expected = known[-1]
    whole = b.op("ABS", [last], [("y", "float32", expected.shape)])
    b.output(whole)
    assert all(op.call for op in apply(tmp_path, b.build()).ops)
    np.testing.assert_array_equal(run(tmp_path, [values], expected.shape), np.abs(expected))


CHAINED: dict[str, Callable[..., Array]] = {
    "ADD": np.add, "SUB": np.subtract, "MUL": np.multiply, "MAXIMUM": np.maximum, "ABS": np.abs,
    "NEG": np.negative, "LESS": np.less, "SELECT_V2": np.where, "LOGICAL_NOT": np.logical_not,
    "CAST": lambda a: a.astype(np.float32),
}  # fmt: skip


@given(data=st.data())
@settings(
    max_examples=6,
    phases=[Phase.generate],
    suppress_health_check=[HealthCheck.function_scoped_fixture],
)
def test_random_chains_of_element_wise_ops_are_numpys(tmp_path: Path, data: st.DataObject) -> None:
    b = ModelBuilder()
    shapes = [(4, 5, 6), (1, 1, 6), (6,), (4, 1, 1), (4, 5, 6)]
    inputs = [
        np.random.default_rng(i).normal(size=s).astype(np.float32) for i, s in enumerate(shapes)
    ]
    known = [(b.input(f"x{i}", "float32", a.shape), a) for i, a in enumerate(inputs)]
    for index in range(data.draw(st.integers(5, 25))):
        name = data.draw(st.sampled_from(list(CHAINED)))
        wanted = {"SELECT_V2": "bff", "LOGICAL_NOT": "b", "CAST": "b", "ABS": "f", "NEG": "f"}
        kinds = [[k for k in known if k[1].dtype.kind == kind] for kind in wanted.get(name, "ff")]
        if not all(kinds):
            continue
        chosen = [data.draw(st.sampled_from(kind[-4:])) for kind in kinds]
        result = CHAINED[name](*(a for _, a in chosen))
        kind = "bool" if result.dtype.kind == "b" else "float32"
        if kind == "float32" and np.abs(result).max() >= 1e6:
            continue
        tensor = b.op(name, [t for t, _ in chosen], [(f"t{index}", kind, result.shape)])
        known.append((tensor, result))
    last, expected = next(k for k in reversed(known) if k[1].dtype.kind == "f")
    total = expected + inputs[0]
    b.output(b.op("ADD", [last, known[0][0]], [("y", "float32", total.shape)]))
    refused = {f"{op.name}: {op.reason}" for op in apply(tmp_path, b.build()).ops if not op.call}
    assert not refused
    np.testing.assert_array_equal(run(tmp_path, inputs, total.shape), total)


def test_a_bias_that_is_added_is_stocks(tmp_path: Path) -> None:
    """Tests added biases after a product and a transposed convolution, as converters leave them."""
    b, random = ModelBuilder(), np.random.default_rng(0)
    shape, image = (1, 5, 7, 4), (1, 10, 14, 21)

    def numbers(name: str, *size: int) -> Tensor:
        return b.constant(name, random.normal(size=size).astype(np.float32))

    x = b.input("x", "float32", shape)
    product = b.op(
        "FULLY_CONNECTED",
        [x, numbers("w", 4, 4), None],
        [("p", "float32", shape)],
        keep_num_dims=True,
    )
    summed = b.op("ADD", [product, numbers("pb", 1, 4)], [("ps", "float32", shape)])
    sizes = b.constant("sizes", np.array(image, np.int32))
    operands = [sizes, numbers("k", 21, 3, 3, 4), summed]
    strides: dict[str, Any] = {"stride_h": 2, "stride_w": 2, "padding": "SAME"}
    wide = b.op("TRANSPOSE_CONV", operands, [("t", "float32", image)], **strides)
    options: dict[str, Any] = {"fused_activation_function": "RELU"}
    b.output(b.op("ADD", [numbers("tb", 21), wide], [("y", "float32", image)], **options))
    model, values = b.build(), random.normal(size=shape).astype(np.float32)
    (expected,) = run_stock(model, [values])
    assert all(op.call for op in apply(tmp_path, model).ops)
    np.testing.assert_allclose(run(tmp_path, [values], image), expected, atol=1e-5)


@pytest.mark.parametrize("dtype", ["float32", "float16"])
def test_weights_of_halves_need_no_dequantize(tmp_path: Path, dtype: str) -> None:
    """Tests sparse weights and a constant that two layers read, with operands of float32 and of float16."""
    b = ModelBuilder()
    x = b.input("x", dtype, (3, 4))
    half = b.constant("half", np.array([[1, -2], [3, 0.5]], np.float16))
    y = b.op("FULLY_CONNECTED", [x, densified(b)], [("y", dtype, (3, 2))])
    b.output(b.op("BATCH_MATMUL", [y, half], [("z", dtype, (3, 2))]))
    b.output(b.op("ADD", [b.input("h", "float16", (2, 2)), half], [("sum", "float16", (2, 2))]))
    given = {"x": np.arange(12).reshape(3, 4).astype(dtype), "h": np.ones((2, 2), np.float16)}
    assert all(op.call for op in apply(tmp_path, b.build()).ops)
    with CompiledModel.from_file(str(tmp_path / "compiled.tflite")) as model:
        results = model.run(given)
    expected = given["x"] @ np.array([[0, 1, 0, 2], [0, 0, 3, 0]]).T @ [[1, -2], [3, 0.5]]
    np.testing.assert_array_equal(results["z"], expected.astype(dtype))
    np.testing.assert_array_equal(results["sum"], [[2, -1], [4, 1.5]])


@pytest.mark.parametrize("dtype", ["int8", "uint8"])
@pytest.mark.parametrize("shape", [(6, 7, 21), (2, 5000)])
def test_a_softmax_of_integers_is_stocks(
    tmp_path: Path, dtype: str, shape: tuple[int, ...]
) -> None:
    """Tests that results differ by one step at most, also in rows that several workers share."""
    low = np.iinfo(dtype).min
    b = ModelBuilder()
    x = b.input("x", dtype, shape, quantization=Quantization([0.07], [low + 100]))
    y = b.tensor("y", dtype, shape, quantization=Quantization([1 / 256], [low]))
    b.op("SOFTMAX", [x], [y], beta=0.5)
    b.output(y)
    model = b.build()
    assert all(op.call for op in apply(tmp_path, model).ops)
    values = np.random.default_rng(0).integers(low, low + 60, shape).astype(dtype)
    values[..., ::997] = low + 255
    (expected,) = run_stock(model, [values])
    found = run(tmp_path, [values], shape, dtype)
    assert np.abs(found.astype(int) - expected).max() <= 1
    assert found.astype(int).max() > low + 20


def test_a_real_network_is_stocks(networks: Path, tmp_path: Path) -> None:
    model = read_model(networks / "selfie_segmentation.tflite")
    report = apply(tmp_path, model)
    assert len(on_npu(report)) >= 60
    picture = np.random.default_rng(0).random((1, 256, 256, 3)).astype(np.float32)
    (expected,) = run_stock(model, [picture])
    np.testing.assert_allclose(run(tmp_path, [picture], expected.shape), expected, atol=1e-5)


def test_a_network_with_sparse_weights_is_one_call(networks: Path, tmp_path: Path) -> None:
    model = read_model(networks / "face_detection_full_range_sparse.tflite")
    report = apply(tmp_path, model)
    assert len(on_npu(report)) == len(report.ops) and len({op.call for op in report.ops}) == 1
    picture = np.random.default_rng(0).random((1, 192, 192, 3)).astype(np.float32)
    expected = run_stock(model, [picture])[0]
    found = run(tmp_path, [picture], expected.shape)
    np.testing.assert_allclose(found, expected, atol=1e-5 * np.abs(expected).max())

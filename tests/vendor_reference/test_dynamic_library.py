"""Tests the library's builtin ops on dynamic shapes against stock LiteRT's interpreter."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest

from compiler_plugin.pipeline import ApplyOptions, apply_plugin
from compiler_plugin.report import Report
from litert import CompiledModel
from litert.core.compiler_options import CompilerOptions, CustomOpInfo
from litert.core.errors import LiteRtError
from litert.model.builder import ModelBuilder
from litert.model.graph import Tensor
from litert.model.writer import write_model
from tests.vendor_reference.test_dynamic_shapes import POSITIVE, SQUARE

pytestmark = pytest.mark.each_driver

Array = npt.NDArray[Any]
F32 = "float32"
BOUND = (3, 7, 6, 2)
SHAPES = [(2, 7, 4, 2), (1, 1, 1, 2), (3, 2, 6, 2), (1, 5, 3, 2), (2, 7, 4, 2)]

FINDS_ITS_SHAPE = {
    "version": 1,
    "sources": ["k.cl"],
    "arguments": [{"input": 0}, {"shape": {"input": 0}}, {"output": 0}, {"shape": {"output": 0}}],
    "work_sizes": {"global": [1]},
    "output_shapes": [["B"]],
}


class Network:
    """Builds a model whose tensors have dynamic sizes."""

    def __init__(self) -> None:
        self.builder = ModelBuilder()
        self._num_made = 0

    def input(self, name: str, *pattern: int, dtype: str = F32) -> Tensor:
        shape = [max(size, 1) for size in pattern]
        return self.builder.input(name, dtype, shape, shape_signature=pattern)

    def op(self, name: str, inputs: Sequence[Tensor], *pattern: int, **options: Any) -> Tensor:
        """Adds an op with one result, of float32 unless `dtype` names another type."""
        result = self._result(pattern, options.pop("dtype", F32))
        made: Tensor = self.builder.op(name, inputs, [result], **options)
        return made

    def parts(
        self, name: str, inputs: Sequence[Tensor], patterns: Sequence[Sequence[int]], **options: Any
    ) -> Sequence[Tensor]:
        """Adds an op with several results."""
        results = [self._result(pattern) for pattern in patterns]
        self.builder.op(name, inputs, results, **options)
        return results

    def ints(self, *values: Any) -> Tensor:
        """Adds an int32 constant."""
        self._num_made += 1
        return self.builder.constant(f"c{self._num_made}", np.array(values, np.int32))

    def custom(self, name: str, inputs: Sequence[Tensor], *pattern: int) -> Tensor:
        made: Tensor = self.builder.custom(name, inputs, [self._result(pattern)])
        return made

    def _result(self, pattern: Sequence[int], dtype: str = F32) -> Tensor:
        shape = [max(size, 1) for size in pattern]
        self._num_made += 1
        name = f"t{self._num_made}"
        return self.builder.tensor(name, dtype, shape, shape_signature=pattern)

    def compile(
        self,
        folder: Path,
        bounds: Mapping[str, Sequence[int]],
        *outputs: Tensor,
        **assets: tuple[str, str],
    ) -> Report:
        """Writes `in.tflite` and compiles it to `out.tflite`; `assets` maps ops to (file name suffix, text)."""
        self.builder.output(*outputs)
        write_model(self.builder.build(), folder / "in.tflite")
        infos = []
        for op, (suffix, text) in assets.items():
            (folder / f"{op}{suffix}").write_text(text)
            infos.append(CustomOpInfo(op, str(folder / f"{op}{suffix}")))
        options = CompilerOptions(
            infos, shape_bounds=bounds, vendor_options={"reference_ops": "all"}
        )
        return apply_plugin(
            folder / "in.tflite", folder / "out.tflite", ApplyOptions(compiler=options)
        )


class Stock:
    """Stock LiteRT's plain kernels, which are resized for each run."""

    def __init__(self, path: Path) -> None:
        from ai_edge_litert.interpreter import Interpreter, OpResolverType

        plain = OpResolverType.BUILTIN_WITHOUT_DEFAULT_DELEGATES
        self._interpreter = Interpreter(str(path), experimental_op_resolver_type=plain)

    def run(self, inputs: Mapping[str, Array]) -> list[Array]:
        found = {
            detail["name"]: detail["index"] for detail in self._interpreter.get_input_details()
        }
        for name, array in inputs.items():
            self._interpreter.resize_tensor_input(found[name], array.shape)
        self._interpreter.allocate_tensors()
        for name, array in inputs.items():
            self._interpreter.set_tensor(found[name], array)
        self._interpreter.invoke()
        outputs = self._interpreter.get_output_details()
        return [self._interpreter.get_tensor(detail["index"]).copy() for detail in outputs]


def random(*shape: int) -> Array:
    return np.random.default_rng(sum(shape)).normal(size=shape).astype(np.float32)


def check_runs(folder: Path, runs: Sequence[Mapping[str, Array]], one_call: Report) -> None:
    """Checks that the compiled model has one NPU call, and that its runs match those of stock LiteRT."""
    assert [op.reason for op in one_call.ops if not op.call] == []
    assert len(one_call.calls) == 1
    stock = Stock(folder / "in.tflite")
    with CompiledModel.from_file(str(folder / "out.tflite")) as model:
        for inputs in runs:
            expected = stock.run(inputs)
            for array, found in zip(expected, model.run(inputs).values(), strict=True):
                assert found.shape == array.shape
                np.testing.assert_allclose(found, array, rtol=1e-5, atol=1e-6)


def test_an_op_between_dynamic_custom_ops_stays_on_the_npu(tmp_path: Path) -> None:
    network = Network()
    x = network.input("x", -1, 3)
    first = network.custom("Square", [x], -1, 3)
    shifted = network.op(
        "SUB", [first, network.builder.constant("c", np.arange(1, 4, dtype=np.float32))], -1, 3
    )
    relu = network.op("RELU", [shifted], -1, 3)
    last = network.custom("Square", [relu], -1, 3)
    report = network.compile(tmp_path, {"x": (100, 3)}, last, Square=(".cl", SQUARE))
    assert len(report.calls) == 1
    with CompiledModel.from_file(str(tmp_path / "out.tflite")) as model:
        for number in (1, 8, 100, 8, 99):
            x_value = random(number, 3)
            wanted = np.maximum(x_value * x_value - np.arange(1, 4, dtype=np.float32), 0) ** 2
            (found,) = model.run({"x": x_value}).values()
            np.testing.assert_allclose(found, wanted, rtol=1e-6)


def test_an_op_goes_by_a_shape_that_a_kernel_has_found(tmp_path: Path) -> None:
    network = Network()
    x = network.input("x", -1)
    found = network.custom("Positive", [x], -1)
    result = network.op("SQRT", [network.op("ADD", [found, found], -1)], -1)
    (tmp_path / "k.cl").write_text(POSITIVE)
    asset = (".json", json.dumps(FINDS_ITS_SHAPE))
    report = network.compile(tmp_path, {"x": (50,)}, result, Positive=asset)
    assert len(report.calls) == 1 and all(op.call for op in report.ops)
    with CompiledModel.from_file(str(tmp_path / "out.tflite")) as model:
        for data in (random(50), random(3), -np.ones(4, np.float32), random(17)):
            (array,) = model.run({"x": data}).values()
            np.testing.assert_allclose(array, np.sqrt(2 * data[data > 0]), rtol=1e-6)


def test_elementwise_ops_go_by_the_shapes_of_a_run(tmp_path: Path) -> None:
    network = Network()
    open_shape = (-1, -1, -1, 2)
    x = network.input("x", *open_shape)
    a = network.op("TANH", [x], *open_shape)
    b = network.op("ADD", [a, x], *open_shape)
    c = network.op(
        "MUL", [network.builder.constant("c", np.arange(2, 4, dtype=np.float32)), b], *open_shape
    )
    report = network.compile(tmp_path, {"x": BOUND}, c, a)
    check_runs(tmp_path, [{"x": random(*shape)} for shape in SHAPES], report)


def small_network(image: Sequence[int], *, batch: int = -1) -> tuple[Network, Tensor, Tensor]:
    """Builds a network of convolutions, a residual, a pool and a product; the image's sizes may be dynamic."""
    network, (height, width) = Network(), image
    opened = [batch, *(-1 if size < 0 else (size + 1) // 2 for size in image), 8]

    def weights(*shape: int) -> Tensor:
        values = random(*shape) / np.sqrt(np.prod(shape[1:], dtype=np.float32))
        return network.builder.constant(f"c{len(network.builder.graph.tensors)}", values)

    def windows(op: str, x: Tensor, shape: Sequence[int], stride: int = 1, **own: Any) -> Tensor:
        strides = {"padding": "SAME", "stride_h": stride, "stride_w": stride}
        return network.op(op, [x, weights(*shape), weights(8)], *opened, **strides, **own)

    x = network.input("x", batch, height, width, 3)
    first = windows("CONV_2D", x, (8, 3, 3, 3), stride=2)
    first = network.op("PRELU", [first, weights(1, 1, 8)], *opened)
    apart = windows("DEPTHWISE_CONV_2D", first, (1, 5, 3, 8), fused_activation_function="RELU6")
    mixed = windows("CONV_2D", apart, (8, 1, 1, 8))
    joined = network.op("RELU", [network.op("ADD", [mixed, first], *opened)], *opened)
    pool = {"padding": "VALID", "stride_h": 2, "stride_w": 2, "filter_height": 2, "filter_width": 2}
    pooled = network.op("AVERAGE_POOL_2D", [joined], batch, -1, -1, 8, **pool)
    axes = network.builder.constant("axes", np.array([1, 2], np.int32))
    mean = network.op("REDUCE_MAX", [pooled, axes], batch, 8, keep_dims=False)
    scores = network.op("FULLY_CONNECTED", [mean, weights(5, 8), weights(5)], batch, 5)
    return network, joined, network.op("SOFTMAX", [scores], batch, 5, beta=1.0)


def test_a_network_goes_by_the_batch_of_a_run(tmp_path: Path) -> None:
    network, image, scores = small_network((20, 17))
    report = network.compile(tmp_path, {"x": (6, 20, 17, 3)}, image, scores)
    check_runs(tmp_path, [{"x": random(n, 20, 17, 3)} for n in (6, 1, 4, 4, 2, 6)], report)
    with (
        CompiledModel.from_file(str(tmp_path / "out.tflite")) as model,
        pytest.raises(
            LiteRtError, match=r"exceeds the largest shape 6x20x17x3.*--shape_bounds=x:7x20x17x3"
        ),
    ):
        model.run({"x": random(7, 20, 17, 3)})


def test_a_network_goes_by_the_image_of_a_run(tmp_path: Path) -> None:
    network, image, scores = small_network((-1, -1))
    report = network.compile(tmp_path, {"x": (2, 20, 17, 3)}, image, scores)
    shapes = [(2, 20, 17, 3), (1, 3, 3, 3), (1, 19, 17, 3), (2, 8, 5, 3), (1, 20, 4, 3)]
    check_runs(tmp_path, [{"x": random(*shape)} for shape in shapes], report)


def test_an_image_that_windows_do_not_fit_in_is_refused_in_words(tmp_path: Path) -> None:
    network = Network()
    x = network.input("x", 1, -1, -1, 2)
    options = {"stride_h": 1, "stride_w": 1, "filter_height": 5, "filter_width": 2}
    y = network.op("MAX_POOL_2D", [x], 1, -1, -1, 2, padding="VALID", **options)
    report = network.compile(tmp_path, {"x": (1, 9, 9, 2)}, y)
    check_runs(tmp_path, [{"x": random(1, *size, 2)} for size in ((9, 9), (5, 2), (4, 3))], report)
    with (
        CompiledModel.from_file(str(tmp_path / "out.tflite")) as model,
        pytest.raises(
            LiteRtError, match=r"the size \(s0\[1\]-4\) is -3, which is below 0; s0\[1\] .* is 1"
        ),
    ):
        model.run({"x": random(1, 1, 9, 2)})


def test_what_a_run_repeats_is_added_behind_a_convolution(tmp_path: Path) -> None:
    network, open_shape = Network(), (-1, -1, -1, 3)
    x, y = network.input("x", *open_shape), network.input("y", *open_shape)
    weights = network.builder.constant("w", random(3, 3, 3, 3))
    options = {"padding": "SAME", "stride_h": 1, "stride_w": 1}
    made = network.op(
        "CONV_2D", [x, weights, network.builder.constant("b", random(3))], *open_shape, **options
    )
    total = network.op("ADD", [made, y], *open_shape)
    report = network.compile(tmp_path, {"x": (3, 6, 7, 3), "y": (3, 6, 7, 3)}, total)
    shapes = [
        ((3, 6, 7, 3), (3, 6, 7, 3)),
        ((2, 5, 4, 3), (1, 5, 1, 3)),
        ((1, 1, 7, 3), (3, 6, 7, 3)),
    ]
    runs = [{"x": random(*one), "y": random(*other)} for one, other in shapes]
    check_runs(tmp_path, runs, report)


def test_an_op_that_says_no_shape_is_refused_in_words(tmp_path: Path) -> None:
    network = Network()
    x = network.input("x", -1, 3)
    made = network.op("RESHAPE", [x, network.ints(2, 3)], 2, 3)
    report = network.compile(tmp_path, {"x": (4, 3)}, made)
    (op,) = report.ops
    assert not op.call and "[INPUT0_SHAPE[0], 3]" in str(op.reason)


@pytest.mark.parametrize("behind", ["", "TANH"])
def test_operands_are_repeated_where_a_run_says_so(tmp_path: Path, behind: str) -> None:
    network = Network()
    x, y = network.input("x", -1, -1, 3), network.input("y", -1, 3)
    result = network.op("ADD", [x, y], -1, -1, 3)
    if behind:
        result = network.op(behind, [result], -1, -1, 3)
    report = network.compile(tmp_path, {"x": (4, 5, 3), "y": (5, 3)}, result)
    shapes = [((4, 5, 3), (5, 3)), ((2, 5, 3), (1, 3)), ((3, 1, 3), (4, 3)), ((1, 1, 3), (1, 3))]
    runs = [{"x": random(*one), "y": random(*other)} for one, other in shapes]
    check_runs(tmp_path, runs, report)
    with (
        CompiledModel.from_file(str(tmp_path / "out.tflite")) as model,
        pytest.raises(LiteRtError, match="must be equal, or one of them must be 1"),
    ):
        model.run({"x": random(2, 3, 3), "y": random(2, 3)})


def test_halves_of_every_shape_are_converted_for_an_op_of_floats(tmp_path: Path) -> None:
    network, open_shape = Network(), (-1, -1, -1, 3)
    x = network.input("x", *open_shape, dtype="float16")
    options = {"stride_h": 1, "stride_w": 1, "filter_height": 1, "filter_width": 1}
    y = network.op("AVERAGE_POOL_2D", [x], *open_shape, dtype="float16", padding="VALID", **options)
    report = network.compile(tmp_path, {"x": (3, 6, 7, 3)}, y)
    assert len(report.calls) == 1
    with CompiledModel.from_file(str(tmp_path / "out.tflite")) as model:
        for shape in ((3, 6, 7, 3), (1, 1, 1, 3), (2, 5, 3, 3)):
            halves = random(*shape).astype(np.float16)
            (found,) = model.run({"x": halves}).values()
            np.testing.assert_array_equal(found, halves)


def test_products_of_batches_that_a_run_tells(tmp_path: Path) -> None:
    network = Network()
    x, y = network.input("x", -1, 2, -1, 8), network.input("y", -1, 2, -1, 8)
    scores = network.op("BATCH_MATMUL", [x, y], -1, 2, -1, -1, adj_y=True)
    shares = network.op("SOFTMAX", [scores], -1, 2, -1, -1, beta=1.0)
    mixed = network.op("BATCH_MATMUL", [shares, y], -1, 2, -1, 8)
    report = network.compile(tmp_path, {"x": (3, 2, 40, 8), "y": (3, 2, 40, 8)}, mixed)
    shapes = [((3, 40), (3, 40)), ((1, 1), (1, 1)), ((2, 7), (1, 33)), ((1, 39), (3, 2))]
    runs = [
        {"x": random(batch, 2, rows, 8), "y": random(batches, 2, columns, 8)}
        for (batch, rows), (batches, columns) in shapes
    ]
    check_runs(tmp_path, runs, report)


def test_padding_around_an_open_image_is_a_part_of_a_convolution(tmp_path: Path) -> None:
    network, open_shape = Network(), (-1, -1, -1, 3)
    x = network.input("x", *open_shape)
    sides = network.builder.constant("sides", np.array([[0, 0], [1, 2], [0, 1], [0, 0]], np.int32))
    padded = network.op("PAD", [x, sides], *open_shape)
    given = [network.builder.constant(n, random(*s)) for n, s in (("w", (3, 3, 3, 3)), ("b", (3,)))]
    strides = {"padding": "SAME", "stride_h": 2, "stride_w": 3}
    made = network.op("CONV_2D", [padded, *given], *open_shape, **strides)
    report = network.compile(tmp_path, {"x": (3, 9, 8, 3)}, made)
    shapes = [(3, 9, 8, 3), (1, 1, 1, 3), (2, 4, 7, 3), (1, 9, 5, 3), (3, 6, 6, 3)]
    check_runs(tmp_path, [{"x": random(*shape)} for shape in shapes], report)

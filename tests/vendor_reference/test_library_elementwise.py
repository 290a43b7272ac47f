"""Tests the library's element-wise ops against stock LiteRT, or against NumPy where stock LiteRT deviates."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from litert.core.quantization import Quantization
from litert.model.builder import ModelBuilder
from litert.model.graph import Model
from tests.vendor_reference.executables import Array
from tests.vendor_reference.library_runs import Case, run_library, run_stock
from vendor_reference.compiler.library.views import View

BINARY = ["ADD", "SUB", "MUL", "DIV", "MAXIMUM", "MINIMUM", "SQUARED_DIFFERENCE", "PRELU"]
UNARY = [
    "NEG", "ABS", "SQUARE", "SQRT", "RSQRT", "EXP", "LOG", "SIN", "COS", "FLOOR", "CEIL", "ROUND", "RELU",
    "RELU6", "RELU_N1_TO_1", "RELU_0_TO_1", "ELU", "HARD_SWISH", "LOGISTIC", "TANH", "LEAKY_RELU", "GELU",
]  # fmt: skip
BYTE_UNARY = ["ABS", "EXP", "LOG", "RELU_N1_TO_1", "ELU", "HARD_SWISH", "LOGISTIC", "TANH", "GELU"]
"""Functions that stock LiteRT supports on int8, except those that are tested on all quantized types."""

OPTIONS: dict[str, dict[str, Any]] = {"LEAKY_RELU": {"alpha": 0.25}}
SHAPE = (2, 3, 5, 7)


def made(
    name: str,
    inputs: Sequence[Array],
    quantization: Sequence[Quantization | None] = (),
    result: str = "",
    **options: Any,
) -> tuple[Case, Model]:
    """Builds a model of one op on these inputs; the last quantization is the result's."""
    b = ModelBuilder()
    scales = quantization or [None] * (len(inputs) + 1)
    tensors = [
        b.input(f"x{i}", a.dtype, a.shape, quantization=q)
        for i, (a, q) in enumerate(zip(inputs, scales, strict=False))
    ]
    shape = np.broadcast_shapes(*(a.shape for a in inputs))
    output = b.tensor("y", result or inputs[0].dtype, shape, quantization=scales[-1])
    b.output(b.op(name, tensors, [output], **options))
    model = b.build()
    return Case(model.subgraphs[0].ops[0], inputs), model


def compare(device: Any, runs: Sequence[tuple[Case, Model]], atol: float) -> None:
    """Compares results with stock LiteRT's: they may differ by `atol`, and floats by another 1e-6 of the value."""
    results = run_library(device, [case for case, _ in runs])
    for result, (case, model) in zip(results, runs, strict=True):
        (expected,) = run_stock(model, case.inputs)
        assert result.dtype == expected.dtype and result.shape == expected.shape
        difference = np.abs(result.astype(np.float64) - expected.astype(np.float64))
        allowed = atol + (1e-6 * np.abs(expected) if expected.dtype.kind == "f" else 0)
        assert (difference <= allowed).all(), (case.op.name, expected.dtype, difference.max())


def numbers(seed: int, shape: Sequence[int], dtype: str = "float32") -> Array:
    values = np.random.default_rng(seed).normal(size=tuple(shape)) * 3
    return np.asarray(values).astype(dtype)


def positive_where_needed(name: str, values: Array) -> Array:
    needed = name in ("SQRT", "RSQRT", "LOG")
    return (np.abs(values) + 0.125).astype(values.dtype) if needed else values


def test_floats_are_stocks(device: Any) -> None:
    runs = [made(name, [numbers(0, SHAPE), numbers(1, SHAPE)]) for name in BINARY]
    runs += [
        made(name, [positive_where_needed(name, numbers(2, SHAPE))], **OPTIONS.get(name, {}))
        for name in UNARY
    ]
    runs.append(made("GELU", [numbers(2, SHAPE)], approximate=True))
    runs += [
        made(name, [numbers(3, SHAPE), numbers(4, SHAPE)], fused_activation_function=activation)
        for name in ("ADD", "SUB", "MUL", "DIV")
        for activation in (("RELU", "RELU6", "RELU_N1_TO_1") if name == "ADD" else ("RELU6",))
    ]
    # `atol` serves results near zero, where the last bit of an input determines the whole result.
    compare(device, runs, atol=1e-6)


def test_integers_are_stocks_exactly(device: Any) -> None:
    random = np.random.default_rng(0)
    runs = []
    for dtype in ("int32", "int64"):
        x, y = (random.integers(-(2**31), 2**31, 37).astype(dtype) for _ in range(2))
        for name in ("ADD", "SUB", "MUL", "MAXIMUM", "MINIMUM"):
            runs.append(made(name, [x, y]))
        runs.append(made("ADD", [x // 4, y // 4], fused_activation_function="RELU6"))
        runs.append(made("NEG", [x]))
    runs.append(made("ABS", [random.integers(-99, 99, 37).astype(np.int32)]))
    compare(device, runs, atol=0)


def test_quantized_integers_are_stocks_within_one(device: Any) -> None:
    random = np.random.default_rng(0)
    scales = [Quantization([0.05], [3]), Quantization([0.03], [-7]), Quantization([0.1], [1])]
    unsigned = [Quantization([0.05], [120]), Quantization([0.03], [0]), Quantization([0.1], [255])]
    shorts = [Quantization([s], [0]) for s in (0.0005, 0.0003, 0.001)]
    runs = []
    for dtype, quantization in (("int8", scales), ("uint8", unsigned), ("int16", shorts)):
        limits = np.iinfo(dtype)
        x, y = (random.integers(limits.min, limits.max + 1, SHAPE).astype(dtype) for _ in range(2))
        names = ["ADD", "SUB", "MUL"] + ["PRELU"] * (dtype != "int16")
        runs += [made(name, [x, y], quantization) for name in names]
        one = [quantization[0]] * 3
        runs += [made(name, [x, y], one) for name in ("MAXIMUM", "MINIMUM")]
        runs += [
            made(name, [x], quantization[1:], **OPTIONS.get(name, {}))
            for name in ("RELU", "RELU6", "LEAKY_RELU")
        ]
    bytes_ = np.arange(-128, 128).astype(np.int8)
    for name in BYTE_UNARY:
        source = Quantization([0.05], [-128 if name == "LOG" else 3])
        target = {
            "LOGISTIC": Quantization([1 / 256], [-128]),
            "TANH": Quantization([1 / 128], [0]),
            "EXP": Quantization([2.5], [-128]),
        }.get(name, Quantization([0.06], [-20]))
        values = bytes_[1:] if name == "LOG" else bytes_
        runs.append(made(name, [values], [source, target], **OPTIONS.get(name, {})))
    runs.append(made("SQUARED_DIFFERENCE", [bytes_, bytes_[::-1].copy()], scales))
    compare(device, runs, atol=1)


def test_casts_are_stocks(device: Any) -> None:
    types = ["float32", "float16", "int8", "uint8", "int16", "int32", "int64", "bool"]
    runs = []
    for index, source in enumerate(types):
        values = (np.random.default_rng(0).normal(size=21) * 40).astype(source)
        targets = [types[(index + distance) % len(types)] for distance in (1, 3, 6)]
        runs += [made("CAST", [values], result=target) for target in targets]
    compare(device, runs, atol=0)


def test_casts_of_floats_to_integers_saturate_as_stocks_do(device: Any) -> None:
    values = np.array(
        [-1e30, -40000, -129, -0.5, 0.5, 200.9, 70000, 1e30, np.inf, np.nan], np.float32
    )
    compare(device, [made("CAST", [values], result=t) for t in ("int8", "uint8", "int16")], atol=0)


def test_quantizing_is_stocks(device: Any) -> None:
    values = numbers(0, SHAPE) * 20
    scales = {
        "int8": Quantization([0.5], [3]),
        "uint8": Quantization([0.25], [77]),
        "int16": Quantization([0.01], [0]),
    }
    per_channel = Quantization([0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7], [0] * 7, quantized_dimension=3)
    runs, stored = [], {}
    for dtype, scale in scales.items():
        limits = np.iinfo(dtype)
        stored[dtype] = (
            np.random.default_rng(0).integers(limits.min, limits.max, SHAPE).astype(dtype)
        )
        runs.append(made("QUANTIZE", [values], [None, scale], dtype))
        runs.append(made("DEQUANTIZE", [stored[dtype]], [scale, None], "float32"))
    runs += [
        made("QUANTIZE", [values], [None, per_channel], "int8"),
        made("DEQUANTIZE", [stored["int8"]], [per_channel, None], "float32"),
        made("DEQUANTIZE", [values.astype(np.float16)], result="float32"),
        made("QUANTIZE", [stored["int8"]], [scales["int8"], scales["uint8"]], "uint8"),
        made("QUANTIZE", [stored["int16"]], [scales["int16"], scales["int8"]], "int8"),
    ]
    compare(device, runs, atol=1)


EDGES = np.array([np.nan, np.inf, -np.inf, 0.0, -0.0, 1e-3, 100, -100, 3e38, -3e38], np.float32)


@np.errstate(all="ignore")
def test_what_is_no_number_and_what_is_infinite_is_numpys(device: Any) -> None:
    # Stock LiteRT gives 0 for EXP(nan), nan for RSQRT(0) and HARD_SWISH(-inf); the library follows IEEE.
    expected: dict[str, Callable[[Array], Array]] = {
        "NEG": np.negative, "ABS": np.abs, "SQRT": np.sqrt, "RSQRT": lambda x: 1 / np.sqrt(x), "EXP": np.exp,
        "LOG": np.log, "FLOOR": np.floor, "TANH": np.tanh, "LOGISTIC": lambda x: 1 / (1 + np.exp(-x)),
        "RELU": lambda x: np.where(x < 0, np.float32(0), x), "ELU": lambda x: np.where(x < 0, np.expm1(x), x),
    }  # fmt: skip
    runs = [made(name, [EDGES])[0] for name in expected]
    for name, result in zip(expected, run_library(device, runs), strict=True):
        np.testing.assert_allclose(result, expected[name](EDGES), rtol=1e-6, err_msg=name)
    x, y = (a.ravel() for a in np.meshgrid(EDGES, EDGES))
    pairs: dict[str, Callable[[Array, Array], Array]] = {
        "ADD": np.add, "DIV": np.divide, "MAXIMUM": lambda a, b: np.where(a > b, a, b),
    }  # fmt: skip
    for name, result in zip(
        pairs, run_library(device, [made(name, [x, y])[0] for name in pairs]), strict=True
    ):
        np.testing.assert_array_equal(result, pairs[name](x, y), err_msg=name)


def test_half_elements_are_computed_as_floats(device: Any) -> None:
    x, y = numbers(0, SHAPE, "float16"), numbers(1, (7,), "float16")
    cases = [made("ADD", [x, y])[0], made("LOGISTIC", [x])[0]]
    added, sigmoid = run_library(device, cases)
    np.testing.assert_array_equal(added, (x.astype(np.float32) + y).astype(np.float16))
    expected = 1 / (1 + np.exp(-x.astype(np.float32)))
    np.testing.assert_allclose(sigmoid, expected.astype(np.float16), rtol=1e-3)


@st.composite
def broadcast_pairs(draw: st.DrawFn) -> tuple[tuple[int, ...], tuple[int, ...]]:
    """Draws two shapes of rank 0 to 5 that broadcast."""
    shape = draw(st.lists(st.integers(1, 9), max_size=5))

    def part() -> tuple[int, ...]:
        kept = shape[draw(st.integers(0, len(shape))) :]
        return tuple(size if draw(st.booleans()) else 1 for size in kept)

    pair = part(), tuple(shape)
    return pair if draw(st.booleans()) else pair[::-1]


@given(pairs=st.lists(broadcast_pairs(), min_size=8, max_size=8))
@settings(max_examples=2, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_shapes_broadcast_as_numpys(device: Any, pairs: list[tuple[Any, Any]]) -> None:
    cases = [made("SUB", [numbers(0, lhs), numbers(1, rhs)])[0] for lhs, rhs in pairs]
    for case, result in zip(cases, run_library(device, cases), strict=True):
        np.testing.assert_array_equal(result, case.inputs[0] - case.inputs[1])


def test_long_rows_and_many_short_ones_are_all_written(device: Any) -> None:
    shapes = [
        ((3, 5001), (3, 1)),
        ((4999, 3), (3,)),
        ((100_003,), (100_003,)),
        ((70, 70, 9), (70, 1)),
    ]
    cases = [made("ADD", [numbers(0, lhs), numbers(1, rhs)])[0] for lhs, rhs in shapes]
    for case, result in zip(cases, run_library(device, cases), strict=True):
        np.testing.assert_array_equal(result, case.inputs[0] + case.inputs[1])


@pytest.mark.parametrize(
    "orders",
    [
        ((0, 3, 1, 2), (0, 3, 1, 2), (0, 3, 1, 2)),
        ((0, 1, 2, 3), (0, 3, 1, 2), (1, 2, 3, 0)),
        ((3, 2, 1, 0), (0, 1, 2, 3), (0, 1, 2, 3)),
    ],
)
def test_tensors_may_lie_in_any_order(device: Any, orders: Sequence[Sequence[int]]) -> None:
    case, _ = made("SUB", [numbers(0, SHAPE), numbers(1, SHAPE)])
    element_type = case.op.outputs[0].element_type
    views = [View.dense(element_type, SHAPE, order) for order in orders]
    (result,) = run_library(device, [Case(case.op, case.inputs, views)])
    np.testing.assert_array_equal(result, case.inputs[0] - case.inputs[1])


def test_parts_of_larger_tensors_are_read_and_written(device: Any) -> None:
    case, _ = made("ADD", [numbers(0, SHAPE), numbers(1, SHAPE)])
    larger = View.dense(case.op.outputs[0].element_type, (3, 6, 9, 16))
    views = [
        larger.part((0, 1, 2, 0), SHAPE),
        larger.part((1, 3, 4, 9), SHAPE),
        larger.part((1, 0, 0, 3), SHAPE),
    ]
    (result,) = run_library(device, [Case(case.op, case.inputs, views)])
    np.testing.assert_array_equal(result, case.inputs[0] + case.inputs[1])

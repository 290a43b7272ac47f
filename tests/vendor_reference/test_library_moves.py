"""Ops of the library that move elements: reshape, transpose, concatenation, padding; against stock's."""

from __future__ import annotations

from collections.abc import Sequence
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

SHAPE = (2, 3, 5, 7)
ONE_DEVICE = [HealthCheck.function_scoped_fixture]  # open for all tests of the process


def made(
    name: str,
    inputs: Sequence[Array],
    shape: Sequence[int],
    constants: Sequence[Array] = (),
    **options: Any,
) -> tuple[Case, Model]:
    """An op on inputs of one type, and on constants behind them."""
    b = ModelBuilder()
    dtype = inputs[0].dtype
    scale = Quantization([0.5], [7]) if dtype in (np.int8, np.uint8) else None
    tensors = [b.input(f"x{i}", a.dtype, a.shape, quantization=scale) for i, a in enumerate(inputs)]
    tensors += [
        b.constant(f"c{i}", a, quantization=scale if a.dtype == dtype else None)
        for i, a in enumerate(constants)
    ]
    output = b.tensor("y", dtype, shape, quantization=scale)
    b.output(b.op(name, tensors, [output], **options))
    model = b.build()
    return Case(model.subgraphs[0].ops[0], inputs), model


def numbers(shape: Sequence[int], dtype: str = "float32") -> Array:
    return np.asarray(np.random.default_rng(0).integers(-99, 99, tuple(shape))).astype(dtype)


def ints(*values: Any) -> Array:
    return np.array(values, np.int32)


def concatenated(inputs: Sequence[Array], axis: int) -> tuple[Case, Model]:
    shape = np.concatenate(inputs, axis).shape
    return made("CONCATENATION", inputs, shape, axis=axis)


def padded(values: Array, paddings: Array, value: Array | None = None) -> tuple[Case, Model]:
    shape = [n + int(p.sum()) for n, p in zip(values.shape, paddings, strict=True)]
    constants = [paddings] if value is None else [paddings, value]
    return made("PAD" if value is None else "PADV2", [values], shape, constants)


@pytest.mark.parametrize("dtype", ["float32", "int8", "int64"])
def test_moved_elements_are_stocks(device: Any, dtype: str) -> None:
    x = numbers(SHAPE, dtype)
    around = ints([0, 1], [1, 2], [2, 0], [0, 3])
    runs = [
        made("RESHAPE", [x], (6, 35), [ints(6, 35)], new_shape=[6, 35]),
        made("TRANSPOSE", [x], (2, 7, 3, 5), [ints(0, 3, 1, 2)]),
        made("TRANSPOSE", [x], (7, 5, 3, 2), [ints(3, 2, 1, 0)]),
        concatenated([x, x[:, :, :4].copy(), x[:, :, :1].copy()], 2),
        concatenated([x, numbers((2, 3, 5, 9), dtype)], -1),
        padded(x, around),
        padded(x, around, np.array([5], dtype)),
    ]
    if dtype == "float32":
        runs.append(made("SQUEEZE", [x[:1, :1]], (5, 7), squeeze_dims=[0, 1]))
        runs.append(made("EXPAND_DIMS", [x[0, 0]], (5, 1, 7), [ints(1)]))
    for result, (case, model) in zip(
        run_library(device, [case for case, _ in runs]), runs, strict=True
    ):
        (expected,) = run_stock(model, case.inputs)
        np.testing.assert_array_equal(result, expected, err_msg=case.op.name)


@given(data=st.data())
@settings(max_examples=3, suppress_health_check=ONE_DEVICE)
def test_transpositions_and_paddings_are_numpys(device: Any, data: st.DataObject) -> None:
    cases, expected = [], []
    for rank in (1, 2, 3, 4, 5):
        shape = data.draw(
            st.lists(st.integers(1, 40 if rank == 2 else 6), min_size=rank, max_size=rank)
        )
        x = numbers(shape)
        order = data.draw(st.permutations(range(rank)))
        cases.append(made("TRANSPOSE", [x], x.transpose(order).shape, [ints(*order)])[0])
        expected.append(x.transpose(order))
        sides = st.lists(st.integers(0, 3), min_size=2, max_size=2)
        paddings = ints(*data.draw(st.lists(sides, min_size=rank, max_size=rank)))
        cases.append(padded(x, paddings)[0])
        expected.append(np.pad(x, paddings))
    for result, wanted in zip(run_library(device, cases), expected, strict=True):
        np.testing.assert_array_equal(result, wanted)


def test_parts_lie_where_the_result_has_them_in_any_order(device: Any) -> None:
    channels_first = (0, 3, 1, 2)
    x, y = numbers(SHAPE), numbers((2, 3, 4, 7))
    joined, _ = concatenated([x, y], 2)
    case, _ = padded(x, ints([0, 0], [1, 2], [2, 0], [0, 3]))
    element_type = case.op.outputs[0].element_type
    joined_views = [
        View.dense(element_type, shape, channels_first)
        for shape in (x.shape, y.shape, (2, 3, 9, 7))
    ]
    padded_views = [
        View.dense(element_type, shape, channels_first) for shape in (x.shape, (2, 6, 7, 10))
    ]
    results = run_library(
        device, [Case(joined.op, [x, y], joined_views), Case(case.op, [x], padded_views)]
    )
    np.testing.assert_array_equal(results[0], np.concatenate([x, y], 2))
    np.testing.assert_array_equal(results[1], np.pad(x, [(0, 0), (1, 2), (2, 0), (0, 3)]))


def test_large_tensors_are_moved_whole(device: Any) -> None:
    x = numbers((300, 70, 9))
    wide = numbers((3, 5000))
    cases = [
        made("TRANSPOSE", [x], (9, 300, 70), [ints(2, 0, 1)])[0],
        concatenated([wide, numbers((3, 3)), wide], 1)[0],
        padded(wide, ints([200, 0], [0, 1]))[0],
    ]
    results = run_library(device, cases)
    np.testing.assert_array_equal(results[0], x.transpose(2, 0, 1))
    np.testing.assert_array_equal(results[1], np.concatenate([wide, numbers((3, 3)), wide], 1))
    np.testing.assert_array_equal(results[2], np.pad(wide, [(200, 0), (0, 1)]))

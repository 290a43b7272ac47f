"""Compares ops that move elements with stock LiteRT: transpositions, slices, repetitions, gathers."""

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
from tests.vendor_reference.firmware_runs import Lab
from tests.vendor_reference.library_runs import Case, run_in_lab, run_library, run_stock
from vendor_reference.compiler.library.library_op import library_ops
from vendor_reference.compiler.library.views import View
from vendor_reference.firmware.program import FirmwareTuning

SHAPE = (2, 3, 5, 7)
WIDTHS = [8, 16]
WORKERS = [1, 2, 3]
ONE_DEVICE = [HealthCheck.function_scoped_fixture]  # all tests of a process share it


def lab(width: int) -> Lab:
    return Lab(FirmwareTuning(width=width))


def made(
    name: str,
    inputs: Sequence[Array],
    shapes: Sequence[Sequence[int]],
    constants: Sequence[Array] = (),
    first: Sequence[Array] = (),
    **options: Any,
) -> tuple[Case, Model]:
    """Builds a model of one op with constants before and after its inputs; results have the first input's type."""
    b = ModelBuilder()
    dtype = inputs[0].dtype
    scale = Quantization([0.5], [7]) if dtype in (np.int8, np.uint8) else None

    def quantization(array: Array) -> Quantization | None:
        return scale if array.dtype == dtype else None

    tensors = [b.constant(f"f{i}", array) for i, array in enumerate(first)]
    for i, array in enumerate(inputs):
        tensors.append(b.input(f"x{i}", array.dtype, array.shape, quantization=quantization(array)))
    for i, array in enumerate(constants):
        tensors.append(b.constant(f"c{i}", array, quantization=quantization(array)))
    results = [b.tensor(f"y{i}", dtype, s, quantization=scale) for i, s in enumerate(shapes)]
    b.op(name, tensors, results, **options)
    b.output(*results)
    model = b.build()
    return Case(model.subgraphs[0].ops[0], inputs), model


def numbers(shape: Sequence[int], dtype: str = "float32") -> Array:
    return np.asarray(np.random.default_rng(0).integers(-99, 99, tuple(shape))).astype(dtype)


def ints(*values: Any) -> Array:
    return np.array(values, np.int32)


def concatenated(inputs: Sequence[Array], axis: int) -> tuple[Case, Model]:
    shape = np.concatenate(inputs, axis).shape
    return made("CONCATENATION", inputs, [shape], axis=axis)


def padded(values: Array, paddings: Array, value: Array | None = None) -> tuple[Case, Model]:
    shape = [n + int(p.sum()) for n, p in zip(values.shape, paddings, strict=True)]
    constants = [paddings] if value is None else [paddings, value]
    return made("PAD" if value is None else "PADV2", [values], [shape], constants)


def mirrored(values: Array, paddings: Array, mode: str) -> tuple[Case, Model]:
    shape = [n + int(p.sum()) for n, p in zip(values.shape, paddings, strict=True)]
    return made("MIRROR_PAD", [values], [shape], [paddings], mode=mode)


def transposed(values: Array, order: Sequence[int]) -> tuple[Case, Model]:
    return made("TRANSPOSE", [values], [values.transpose(order).shape], [ints(*order)])


def sliced(values: Array, begin: Sequence[int], sizes: Sequence[int]) -> tuple[Case, Model]:
    shape = [n - b if s == -1 else s for n, b, s in zip(values.shape, begin, sizes, strict=True)]
    return made("SLICE", [values], [shape], [ints(*begin), ints(*sizes)])


def strided(values: Array, result: Array, *bounds: Array, **masks: int) -> tuple[Case, Model]:
    names = ("begin", "end", "ellipsis", "new_axis", "shrink_axis")
    options: dict[str, Any] = {f"{name}_mask": masks.get(name, 0) for name in names}
    return made("STRIDED_SLICE", [values], [result.shape], bounds, **options)


def gathered(
    values: Array, indices: Array, axis: int, batch_dims: int = 0, is_constant: bool = False
) -> tuple[Case, Model]:
    shape = (*values.shape[:axis], *indices.shape[batch_dims:], *values.shape[axis + 1 :])
    inputs, constants = ([values], [indices]) if is_constant else ([values, indices], [])
    case, model = made("GATHER", inputs, [shape], constants, axis=axis, batch_dims=batch_dims)
    return Case(case.op, [values, indices]), model


def all_moves(dtype: str) -> list[tuple[Case, Model]]:
    x = numbers(SHAPE, dtype)
    around = ints([0, 1], [1, 2], [2, 0], [0, 3])
    mirror = ints([1, 1], [1, 2], [2, 4], [0, 3])
    steps = ints(1, -1, 2, -3)
    runs = [
        made("RESHAPE", [x], [(6, 35)], [ints(6, 35)], new_shape=[6, 35]),
        transposed(x, (0, 3, 1, 2)),
        transposed(x, (3, 2, 1, 0)),
        concatenated([x, x[:, :, :4].copy(), x[:, :, :1].copy()], 2),
        concatenated([x, numbers((2, 3, 5, 9), dtype)], -1),
        padded(x, around),
        padded(x, around, np.array([5], dtype)),
        mirrored(x, mirror, "REFLECT") if dtype != "int64" else transposed(x, (2, 0, 1, 3)),
        sliced(x, (0, 1, 2, 3), (2, -1, 1, 4)),
        strided(x, x[:, ::-1, 1:4:2, 6:0:-3], ints(0, -1, 1, -1), ints(2, -9, 4, 0), steps),
        strided(x, x[1, ..., 2], ints(1, 9, 2), ints(2, 9, 3), ints(1, 1, 1), ellipsis=2, shrink_axis=5),
        strided(x, x[:, None, ::2], ints(5, 0, 5), ints(5, 0, 5), ints(1, 1, 2), begin=5, end=5, new_axis=2),
        made("SPLIT", [x], [(2, 1, 5, 7)] * 3, first=[ints(1)], num_splits=3),
        made("SPLIT_V", [x], [(2, 3, 1, 7), (2, 3, 4, 7)], [ints(1, 4), ints(-2)], num_splits=2),
        made("PACK", [x, x * 2, x * 3], [(2, 3, 5, 7, 3)], axis=-1, values_count=3),
        made("TILE", [x], [(2, 9, 5, 14)], [ints(1, 3, 1, 2)]),
        gathered(x, ints([4, 0], [1, 1]), 2),
        gathered(x, ints([6, 0], [1, 1]), 3, 1, is_constant=True),
    ]  # fmt: skip
    if dtype == "float32":
        runs += [
            made("SQUEEZE", [x[:1, :1]], [(5, 7)], squeeze_dims=[0, 1]),
            made("EXPAND_DIMS", [x[0, 0]], [(5, 1, 7)], [ints(1)]),
            mirrored(x, around, "SYMMETRIC"),
        ]
    if dtype != "int64":
        runs.append(made("UNPACK", [x], [(2, 5, 7)] * 3, axis=1, num=3))
        deep = numbers((2, 3, 4, 12), dtype)
        runs += [
            made("DEPTH_TO_SPACE", [deep], [(2, 6, 8, 3)], block_size=2),
            made("SPACE_TO_DEPTH", [deep], [(2, 3, 4, 12)], block_size=1),
            made("SPACE_TO_DEPTH", [numbers((1, 4, 6, 3), dtype)], [(1, 2, 3, 12)], block_size=2),
        ]
    return runs


@pytest.mark.parametrize("dtype", ["float32", "int8", "int64"])
def test_moved_elements_are_stocks(device: Any, dtype: str) -> None:
    runs = all_moves(dtype)
    expected = [
        result
        for case, model in runs
        for result in run_stock(model, case.inputs[: len(model.subgraphs[0].inputs)])
    ]
    cases = [case for case, _ in runs]
    named = [case.op.name for case in cases for _ in case.op.outputs]
    for results in (run_library(device, cases), run_in_lab(lab(16), cases, 2)):
        for name, result, wanted in zip(named, results, expected, strict=True):
            np.testing.assert_array_equal(result, wanted, err_msg=name)


SIDES = st.lists(st.integers(0, 3), min_size=2, max_size=2)


@given(data=st.data())
@settings(max_examples=25, deadline=None)
def test_moves_of_any_shape_are_numpys(data: st.DataObject) -> None:
    cases, expected = [], []
    dtype = data.draw(st.sampled_from(["float32", "int16", "float16", "int64", "bool"]))
    for rank in (1, 2, 3, 4, 5):
        most = {1: 200, 2: 90}.get(rank, 9)
        shape = data.draw(st.lists(st.integers(1, most), min_size=rank, max_size=rank))
        x = numbers(shape, dtype)
        order = data.draw(st.permutations(range(rank)))
        cases.append(transposed(x, order)[0])
        expected.append(x.transpose(order))
        paddings = ints(*data.draw(st.lists(SIDES, min_size=rank, max_size=rank)))
        cases.append(padded(x, paddings)[0])
        expected.append(np.pad(x, paddings))
        paddings = np.minimum(paddings, np.array(shape)[:, None])
        cases.append(mirrored(x, paddings, "SYMMETRIC")[0])
        expected.append(np.pad(x, paddings, "symmetric"))
        slices = [
            slice(*sorted((data.draw(st.integers(0, n)), data.draw(st.integers(0, n)))))
            for n in shape
        ]
        cases.append(sliced(x, [s.start for s in slices], [s.stop - s.start for s in slices])[0])
        expected.append(x[tuple(slices)])
        bounds = st.integers(-most - 2, most + 2)
        steps = st.integers(-3, 3).filter(bool)
        taken = [(data.draw(bounds), data.draw(bounds), data.draw(steps)) for _ in shape]
        result = x[tuple(slice(*t) for t in taken)]
        cases.append(strided(x, result, *(ints(*column) for column in zip(*taken, strict=True)))[0])
        expected.append(result)
        axis = data.draw(st.integers(0, rank - 1))
        picked = np.random.default_rng(0).integers(0, shape[axis], (3, 2)).astype(np.int64)
        cases.append(gathered(x, picked, axis)[0])
        expected.append(np.take(x, picked, axis))
        cases.append(made("TILE", [x], [np.tile(x, (2,) * rank).shape], [ints(*(2,) * rank)])[0])
        expected.append(np.tile(x, (2,) * rank))
        wanted = np.broadcast_to(x.take([0], axis), (2, *shape))
        cases.append(made("BROADCAST_TO", [x.take([0], axis)], [(2, *shape)], [ints(2, *shape)])[0])
        expected.append(wanted)
    width, workers = data.draw(st.sampled_from(WIDTHS)), data.draw(st.sampled_from(WORKERS))
    results = run_in_lab(lab(width), cases, workers)
    for case, result, wanted in zip(cases, results, expected, strict=True):
        np.testing.assert_array_equal(result, wanted, err_msg=case.op.name)


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


@pytest.mark.parametrize("workers", WORKERS)
def test_large_tensors_are_moved_whole(workers: int) -> None:
    x = numbers((300, 70, 9))
    wide = numbers((3, 5000))
    picked = np.random.default_rng(0).integers(0, 300, 500).astype(np.int32)
    cases = [
        transposed(x, (2, 0, 1))[0],
        concatenated([wide, numbers((3, 3)), wide], 1)[0],
        padded(wide, ints([200, 0], [0, 1]))[0],
        gathered(x, picked, 0)[0],
        transposed(x.astype(np.int8), (1, 2, 0))[0],
    ]
    expected = [
        x.transpose(2, 0, 1),
        np.concatenate([wide, numbers((3, 3)), wide], 1),
        np.pad(wide, [(200, 0), (0, 1)]),
        x[picked],
        x.astype(np.int8).transpose(1, 2, 0),
    ]
    for width in WIDTHS:
        for result, wanted in zip(run_in_lab(lab(width), cases, workers), expected, strict=True):
            np.testing.assert_array_equal(result, wanted)


def test_tensors_of_many_dimensions_are_moved() -> None:
    x = numbers((2,) * 11)
    order = (10, 0, 9, 1, 8, 2, 7, 3, 6, 4, 5)
    (result,) = run_in_lab(lab(8), [transposed(x, order)[0]], 2)
    np.testing.assert_array_equal(result, x.transpose(order))


def test_a_constant_index_that_is_not_there_is_refused() -> None:
    constant, _ = gathered(numbers((3, 4)), ints(0, 3), 0, is_constant=True)
    assert library_ops()["GATHER"].refusal(constant.op) == "the constant index 3 is out of bounds"

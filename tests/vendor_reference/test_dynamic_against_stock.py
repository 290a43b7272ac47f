"""Tests random calls of ops on dynamic shapes against stock LiteRT's plain kernels, resized for each run."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from compiler_plugin.pipeline import ApplyOptions, apply_plugin
from litert import CompiledModel
from litert.core.compiler_options import CompilerOptions
from litert.core.errors import LiteRtError
from litert.core.status import Status
from litert.model.writer import write_model
from tests.vendor_reference.executables import Array
from tests.vendor_reference.random_ops import OpCase, build, cases
from tests.vendor_reference.test_dynamic_library import Stock
from tests.vendor_reference.test_library_against_stock import (
    IN_MODEL,
    RANDOM_MODELS,
    difference,
    inputs_of,
    run_stock,
)
from vendor_reference.compiler.library.library_op import library_ops

pytestmark = pytest.mark.each_driver

RUNS = 4


def _all(case: OpCase, rank: int) -> Sequence[int]:
    return range(rank)


def _image(case: OpCase, rank: int) -> Sequence[int]:
    return (0, 1, 2)


def _rows(case: OpCase, rank: int) -> Sequence[int]:
    return range(rank - 1)


def _left(case: OpCase, rank: int) -> Sequence[int]:
    """Returns all dimensions except the one that is summed over, which the right operand has too."""
    depth = rank - 2 if case.options["adj_x"] else rank - 1
    return [dim for dim in range(rank) if dim != depth]


def _beside_axis(case: OpCase, rank: int) -> Sequence[int]:
    axis = case.options.get("axis")
    if axis is None:
        last = case.inputs[-1]
        assert last is not None
        axis = int(last.array.ravel()[0])
    return [dim for dim in range(rank) if dim != axis % rank]


OPEN: Mapping[str, Callable[[OpCase, int], Sequence[int]]] = {
    "CONV_2D": _image, "DEPTHWISE_CONV_2D": _image, "AVERAGE_POOL_2D": _image, "MAX_POOL_2D": _image,
    "RESIZE_BILINEAR": _image, "RESIZE_NEAREST_NEIGHBOR": _image,
    "FULLY_CONNECTED": _rows, "BATCH_MATMUL": _left,
    "SOFTMAX": _all, "LOG_SOFTMAX": _all, "L2_NORMALIZATION": _all,
    "MEAN": _all, "SUM": _all, "REDUCE_PROD": _all, "REDUCE_MAX": _all, "REDUCE_MIN": _all,
    "ARG_MAX": _all, "ARG_MIN": _all, "TRANSPOSE": _all, "PAD": _all, "PADV2": _all, "MIRROR_PAD": _all,
    "TILE": _all, "EXPAND_DIMS": _all, "CONCATENATION": _all, "PACK": _all, "SPLIT": _all, "SPLIT_V": _beside_axis,
    "UNPACK": _beside_axis, "GATHER": _all, "SLICE": _all, "DEPTH_TO_SPACE": _image, "SPACE_TO_DEPTH": _image,
    "SHAPE": _all, "CAST": _all, "SELECT_V2": _all, "LESS": _all, "EQUAL": _all, "ADD": _all, "BROADCAST_TO": _all,
}  # fmt: skip
"""For each op, a function that returns the dimensions of the first operand that may be dynamic."""


@pytest.mark.parametrize("name", OPEN)
@given(data=st.data())
@RANDOM_MODELS
def test_an_op_goes_by_the_sizes_of_a_run(tmp_path: Path, name: str, data: st.DataObject) -> None:
    calls = cases(library_ops()[name]).filter(_can_be_open)
    drawn = data.draw(st.lists(calls, min_size=1, max_size=IN_MODEL))
    largest = inputs_of(drawn)
    operands = [f"case{number}_x{_operand(case)}" for number, case in enumerate(drawn)]
    opened = {
        x: data.draw(_open_dims(case, largest[x].ndim))
        for x, case in zip(operands, drawn, strict=True)
    }
    patterns = {
        x: [-1 if dim in dims else size for dim, size in enumerate(largest[x].shape)]
        for x, dims in opened.items()
    }
    run, stock = compiled(tmp_path, drawn, patterns)
    for index in range(RUNS):
        sizes = {
            x: [data.draw(_size(n, index)) if d in opened[x] else n for d, n in enumerate(a.shape)]
            if x in opened
            else a.shape
            for x, a in largest.items()
        }
        check(drawn, {x: a[tuple(map(slice, sizes[x]))] for x, a in largest.items()}, run, stock)


def compiled(
    folder: Path, drawn: Sequence[OpCase], patterns: Mapping[str, Sequence[int]]
) -> tuple[CompiledModel, Stock]:
    """Compiles cases with dynamic inputs, whose bounds are the cases' shapes; returns the model and stock's."""
    results = run_stock(drawn)
    shapes = [array.shape for arrays in results for array in arrays]
    bounds = {x: a.shape for x, a in inputs_of(drawn).items() if x in patterns}
    write_model(build(drawn, shapes, patterns=patterns), folder / "model.tflite")
    write_model(build(drawn, shapes, for_stock=True, patterns=patterns), folder / "stock.tflite")
    options = CompilerOptions(vendor_options={"reference_ops": "all"}, shape_bounds=bounds)
    report = apply_plugin(
        folder / "model.tflite", folder / "npu.tflite", ApplyOptions(compiler=options)
    )
    refused = [f"{op.name}: {op.reason}" for op in report.ops if not op.call]
    assert not refused, f"{refused}; {'; '.join(map(str, drawn))}; {patterns}"
    return CompiledModel.from_file(str(folder / "npu.tflite")), Stock(folder / "stock.tflite")


def check(
    drawn: Sequence[OpCase], inputs: Mapping[str, Array], run: CompiledModel, stock: Stock
) -> None:
    """Compares a run with stock LiteRT's.

    Sizes that stock refuses must be refused; where stock's result has no elements, they may be refused.
    """
    shapes = {name: array.shape for name, array in inputs.items()}
    halves = [name for name, array in inputs.items() if array.dtype == np.float16]
    wide = {n: a.astype(np.float32) if n in halves else a for n, a in inputs.items()}
    try:
        expected = stock.run(wide)
    except (RuntimeError, ValueError):
        with pytest.raises(LiteRtError):
            run.run(inputs)
        return
    try:
        found = run.run(inputs)
    except LiteRtError as error:
        assert error.status is Status.INVALID_ARGUMENT
        assert any(array.size == 0 for array in expected), f"{drawn}, {shapes}: {error}"
        return
    remaining = iter(expected)
    with np.errstate(all="ignore"):
        for number, case in enumerate(drawn):
            for index, dtype in enumerate(case.results):
                wanted = next(remaining).astype(dtype)
                problem = difference(case, wanted, found[f"case{number}_y{index}"])
                assert problem == "", f"{case}, {shapes}: {problem}"


def _open_dims(case: OpCase, rank: int) -> st.SearchStrategy[set[int]]:
    return st.sets(st.sampled_from(list(OPEN[case.name](case, rank))), min_size=1)


def _operand(case: OpCase) -> int:
    """Returns the index of the first input that is not a constant."""
    given = [i for i, x in enumerate(case.inputs) if x is not None and not x.is_constant]
    return given[0]


def _can_be_open(case: OpCase) -> bool:
    operand = case.inputs[_operand(case)]
    return operand is not None and bool(list(OPEN[case.name](case, operand.array.ndim)))


def _size(bound: int, run: int) -> st.SearchStrategy[int]:
    """Draws the size of a dimension: the bound in the first run, 1 in the second run, then any."""
    return st.just((bound, 1)[run]) if run < 2 else st.integers(1, bound)

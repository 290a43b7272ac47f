"""Helpers for layout change tests: they change a model to NCHW and back, and compare stock LiteRT's outputs."""

from __future__ import annotations

from collections import Counter
from typing import Any

import numpy as np

from compiler_plugin.transformations.layout_change.change import ChangeReport, change_layout
from litert.core.element_type import ElementType
from litert.model.graph import Model
from litert.model.reader import read_model
from litert.model.writer import to_bytes
from tests.compiler_plugin.transformations.layout_change.stock_form import (
    run_stock,
    to_stock_form,
)


def random_inputs(model: Model) -> list[np.ndarray[Any, Any]]:
    """Returns random values for the model's inputs, the same in each call."""
    rng = np.random.default_rng(7)
    values: list[np.ndarray[Any, Any]] = []
    for tensor in model.subgraphs[0].inputs:
        if tensor.element_type is ElementType.FLOAT32:
            values.append(rng.uniform(-1, 1, tensor.shape).astype(np.float32))
        elif tensor.element_type is ElementType.BOOL:
            values.append(rng.random(tensor.shape) < 0.5)
        else:
            dtype = tensor.element_type.numpy_dtype
            values.append(rng.integers(0, 4, tensor.shape).astype(dtype))
    return values


def count_ops(model: Model) -> Counter[str]:
    return Counter(op.name for op in model.ops())


def shapes_of(model: Model) -> list[tuple[str, tuple[int, ...]]]:
    """Returns names and shapes of the main subgraph's inputs and outputs."""
    main = model.subgraphs[0]
    return [(tensor.name, tensor.shape) for tensor in (*main.inputs, *main.outputs)]


def check_change(
    model: Model, tolerance: float = 1e-6, **options: Any
) -> tuple[Model, ChangeReport, Model]:
    """Changes a copy to NCHW and back, and checks that both compute the outputs of the original in stock LiteRT.

    Returns:
      The NCHW model, the report of its change, and the model that was changed back.
    """
    data = to_bytes(model)
    inputs = random_inputs(model)
    wanted = run_stock(model, inputs)
    changed = read_model(data)
    report = change_layout(changed, changed.subgraphs[0], "NCHW", **options)
    assert shapes_of(changed) == shapes_of(model)
    changed_data = to_bytes(changed)
    wrapped = read_model(changed_data)
    to_stock_form(wrapped)
    _compare(run_stock(wrapped, inputs), wanted, tolerance)
    back = read_model(changed_data)
    change_layout(back, back.subgraphs[0], "NHWC", **options)
    assert shapes_of(back) == shapes_of(model)
    _compare(run_stock(back, inputs), wanted, tolerance)
    return changed, report, back


def _compare(
    found: list[np.ndarray[Any, Any]], wanted: list[np.ndarray[Any, Any]], tolerance: float
) -> None:
    for ours, theirs in zip(found, wanted, strict=True):
        assert ours.dtype == theirs.dtype
        if ours.dtype.kind == "f":
            scale = float(np.abs(theirs).max(initial=1.0))
            np.testing.assert_allclose(ours, theirs, rtol=0, atol=tolerance * scale)
        else:
            np.testing.assert_array_equal(ours, theirs)

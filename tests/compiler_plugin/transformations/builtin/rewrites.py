"""Helpers for tests of built-in transformations: they compare a model before and after, in stock LiteRT."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeAlias

import numpy as np
from ai_edge_litert.interpreter import Interpreter

from compiler_plugin.transform_options import TransformOptions
from compiler_plugin.transformations.running import Transformations
from litert.model.builder import ModelBuilder
from litert.model.graph import Model, Tensor
from litert.model.writer import to_bytes

Array: TypeAlias = np.ndarray[Any, Any]
Build: TypeAlias = Callable[[ModelBuilder], Any]

TOLERANCE = 1e-5
"""The largest change that a rewrite of float ops may cause, relative to the largest magnitude."""


def build(make: Build) -> Model:
    """Builds a model whose outputs are the tensor or tensors that `make` returns."""
    b = ModelBuilder()
    made = make(b)
    outputs: tuple[Tensor, ...] = made if isinstance(made, tuple) else (made,)
    b.output(*outputs)
    b.signature("serving_default")
    return b.build()


def transform(model: Model, *names: str) -> dict[str, int]:
    """Runs the named transformations; returns how often each matched."""
    transformations = Transformations(TransformOptions(selection=names))
    transformations.run(model)
    return {report.name: report.matches for report in transformations.reports()}


def run(model: Model, seed: int = 0) -> dict[str, Array]:
    """Runs stock LiteRT on random inputs; returns the outputs by name."""
    interpreter = Interpreter(model_content=bytes(to_bytes(model)), num_threads=1)
    runner = interpreter.get_signature_runner()
    random = np.random.default_rng(seed)
    inputs: dict[str, Array] = {}
    for name, detail in runner.get_input_details().items():
        shape, dtype = detail["shape"], detail["dtype"]
        if np.issubdtype(dtype, np.floating):
            inputs[name] = random.normal(scale=3, size=shape).astype(dtype)
        else:
            limits = np.iinfo(dtype)
            inputs[name] = random.integers(limits.min, limits.max, shape, dtype, endpoint=True)
    return dict(runner(**inputs))


def check_same(make: Build, *names: str, exact: bool = False) -> tuple[list[str], dict[str, int]]:
    """Transforms a model, and checks that stock LiteRT's outputs and their names stay the same.

    Args:
      make: builds the outputs of the model.
      names: the transformations to run.
      exact: whether float outputs must be bit-identical.

    Returns:
      The names of the remaining ops, and how often each transformation matched.
    """
    before, after = build(make), build(make)
    matches = transform(after, *names)
    expected, found = run(before), run(after)
    assert list(expected) == list(found)
    for name, array in expected.items():
        assert array.dtype == found[name].dtype and array.shape == found[name].shape
        if exact or not np.issubdtype(array.dtype, np.floating):
            assert np.array_equal(array, found[name])
        else:
            largest = max(float(np.abs(array).max()), 1e-30)
            assert np.abs(array - found[name]).max() <= TOLERANCE * largest
    return [op.name for op in after.subgraphs[0].ops], matches

"""Pointwise convolutions have at least 0.6 times OpenBLAS's speed on the same matrix products.

The benchmark measures the most expensive pointwise convolutions of MediaPipe's networks. An NPU call contains a
chain of ten convolutions, which alternately change the number of channels from one to the other and back. OpenBLAS
is the library in NumPy, and adds no bias. In the mean, each product has the weight of its arithmetic in the
networks.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import replace
from math import prod
from pathlib import Path
from statistics import median

import numpy as np

from benchmarks.commands import APPLY_PLUGIN
from benchmarks.engine import OPENBLAS, OURS, Engine
from benchmarks.harness import BUILD, Comparison, Row, compare, run_checked
from benchmarks.models import written
from corpus.downloads import networks
from litert.model.builder import ModelBuilder
from litert.model.builtin_options import read_builtin_options
from litert.model.reader import read_model

_PRODUCTS = 12
_CHAIN = 10
_RUNS = 30
_LIMIT = 1 / 0.6

_Product = tuple[int, int, int]
"""Numbers of rows, depth and columns of a matrix product."""


def measure() -> Sequence[Row]:
    """Runs the chains in turn with OpenBLAS, on one thread and on two threads."""
    counts = _products()
    largest = sorted(counts, key=lambda p: -p[0] * p[1] * p[2] * counts[p])[:_PRODUCTS]
    rows = []
    for threads in (1, 2):
        found = {product: _alternate(product, threads) for product in largest}
        of = f"{threads} thread{'s' * (threads > 1)}"
        for (m, k, n), times in found.items():
            speed = 2e-9 * m * k * n * _CHAIN / median(times.ours)
            row = times.row(f"{m} x {k} x {n}, {of}: {speed:.0f} GFLOP/s", _LIMIT)
            rows.append(replace(row, limit="no limit", holds=True))
        work = {product: prod(product) * counts[product] for product in found}
        ratio = sum(found[p].ratio * work[p] for p in found) / sum(work.values())
        claim = f"{len(found)} pointwise convolutions, time compared with OpenBLAS, {of}"
        rows.append(Row(claim, "", "", f"{ratio:.2f}", f"ratio <= {_LIMIT:.2f}", ratio <= _LIMIT))
    return rows


def _products() -> Counter[_Product]:
    """Counts the matrix products that the networks' 1 x 1 convolutions compute."""
    counts: Counter[_Product] = Counter()
    for path in networks().glob("*.tflite"):
        with read_model(path) as model:
            for op in model.ops():
                if op.name == "CONV_2D" and op.inputs[1] is not None:
                    columns, height, width, depth = op.inputs[1].shape
                    options = read_builtin_options(op)
                    if (height, width, options["stride_w"], options["stride_h"]) == (1, 1, 1, 1):
                        batch, y, x, _ = op.outputs[0].shape
                        counts[batch * y * x, depth, columns] += 1
    return counts


def _alternate(product: _Product, threads: int) -> Comparison:
    m, k, n = product
    name = f"pointwise_{m}_{k}_{n}"
    random = np.random.default_rng(0)
    sizes = [(k, n) if i % 2 == 0 else (n, k) for i in range(_CHAIN)]
    matrices = [random.normal(size=s).astype(np.float32) / np.float32(s[0]) ** 0.5 for s in sizes]
    inputs, weights, image = (BUILD / f"{name}_{kind}.npz" for kind in ("x", "weights", "image"))
    x = random.normal(size=(m, k)).astype(np.float32)
    np.savez(inputs, x=x)
    np.savez(image, x=x.reshape(1, m, 1, k))
    np.savez(weights, *matrices)
    compiled = BUILD / f"{name}_npu.tflite"
    options = ["--quiet", "--reference_ops=all"]
    run_checked([APPLY_PLUGIN, *options, _model(name, m, matrices), compiled])
    with (
        Engine(OURS, compiled, threads, image) as ours,
        Engine(OPENBLAS, weights, threads, inputs) as peer,
    ):
        return compare(ours.seconds, peer.seconds, _RUNS)


def _model(
    name: str, rows: int, matrices: Sequence[np.ndarray[tuple[int, ...], np.dtype[np.float32]]]
) -> Path:
    builder = ModelBuilder()
    last = builder.input("x", "float32", (1, rows, 1, len(matrices[0])))
    for i, matrix in enumerate(matrices):
        depth, columns = matrix.shape
        weights = builder.constant(
            f"w{i}", np.ascontiguousarray(matrix.T).reshape(columns, 1, 1, depth)
        )
        bias = builder.constant(f"b{i}", np.zeros(columns, np.float32))
        y = builder.tensor(f"y{i}", "float32", (1, rows, 1, columns))
        builder.op("CONV_2D", [last, weights, bias], [y], padding="VALID", stride_w=1, stride_h=1)
        last = y
    builder.output(last)
    return written(name, builder.build())

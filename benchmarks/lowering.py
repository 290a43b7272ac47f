"""Lowering a chain of 1,000 custom ops takes at most 1 ms for each op, and the time grows linearly."""

from __future__ import annotations

import gc
import time
from collections.abc import Sequence
from statistics import median

from benchmarks.harness import Row
from litert.model.builder import ModelBuilder
from litert.model.graph import Subgraph
from vendor_reference.compiler.job import Job
from vendor_reference.compiler.lowering import lower_partitions
from vendor_reference.custom_layers.custom_layer import CustomLayer, LayerFile
from vendor_reference.custom_layers.kernel_spec import KernelSpec, TensorArgument
from vendor_reference.custom_layers.layout import Format
from vendor_reference.soc import SOC_MODELS

_MOST_MS = 1.0
_RUNS = 5
_SHAPE = (1, 8, 8, 4)

_KERNEL = LayerFile("k.cl", b"__kernel void k() {}", is_asset=True)
_ARGUMENTS = (
    TensorArgument(False, 0, Format.BFYX),
    TensorArgument(True, 0, Format.BFYX),
)


def measure() -> Sequence[Row]:
    """Lowers three kinds of chains: ops in row order, ops in layout BFYX, and ops that all differ."""
    rows = []
    for what, arguments, differ in (
        ("in row order", (), False),
        ("in BFYX", _ARGUMENTS, False),
        ("that all differ", (), True),
    ):
        layer = CustomLayer(
            "Mine", KernelSpec(arguments=arguments, where="k.cl"), [_KERNEL], defines_options=True
        )
        short, long = _lowering_ms(layer, 1_000, differ), _lowering_ms(layer, 2_000, differ)
        rows.append(
            Row(
                f"lowering of 1,000 custom ops {what}, time for each op",
                f"{short:.2f} ms",
                f"2,000 ops: {long:.2f} ms",
                f"{long / short:.2f}",
                f"<= {_MOST_MS} ms, ratio <= 1.3",
                short <= _MOST_MS and long / short <= 1.3,
            )
        )
    return rows


def _lowering_ms(layer: CustomLayer, num_ops: int, differ: bool) -> float:
    """Returns the median time for each op, in milliseconds."""
    times = []
    for _ in range(_RUNS):
        partition = _chain(num_ops, differ)
        gc.collect()
        gc.freeze()
        begin = time.perf_counter()
        lower_partitions(Job(SOC_MODELS[0], {layer.op_name: layer}), [partition])
        times.append(time.perf_counter() - begin)
        gc.unfreeze()
    return median(times) / num_ops * 1e3


def _chain(num_ops: int, differ: bool) -> Subgraph:
    """Builds a chain of ops, in which each op has another shape and option if `differ`."""
    b = ModelBuilder()
    value = b.input("x", "float32", _SHAPE)
    for index in range(num_ops):
        growth = index if differ else 0
        shape, options = (*_SHAPE[:2], _SHAPE[2] + growth, _SHAPE[3]), {"alpha": 0.5 + growth}
        value = b.custom("Mine", [value], [(f"y{index}", "float32", shape)], options=options)
    b.output(value)
    return b.build().subgraphs[0]

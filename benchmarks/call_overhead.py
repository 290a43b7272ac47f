"""A run of a stub kernel takes at most 10 us longer than the bare OpenCL enqueue and finish.

With `Interpreter.invoke`, the run takes at most 3 us longer than with `run_by_index`. The two sides alternate call
by call, because the time of a call depends on the core on which the driver's worker thread wakes.
"""

from __future__ import annotations

from collections.abc import Sequence
from statistics import median

import numpy as np

import litert
from benchmarks.commands import compiled
from benchmarks.harness import BUILD, Comparison, Row, alternate, seconds
from benchmarks.loaded import bare_kernel, load
from benchmarks.models import one_custom_op

_KERNEL = "__kernel void Stub(const __global float* x, __global float* y) { y[0] = x[0]; }\n"
_LIMIT_S = 10e-6
_INTERPRETER_LIMIT_S = 3e-6
_RUNS = 5000


def measure() -> Sequence[Row]:
    """Runs the stub kernel in turn through the runtime and through bare OpenCL."""
    asset = BUILD / "Stub.cl"
    asset.write_text(_KERNEL)
    model = compiled("Stub", asset, one_custom_op("Stub", 1))
    inputs = np.ones(1, np.float32)
    ours, read_ours = load(litert, model, "NPU", 1, inputs)
    peer, read_peer = bare_kernel(_KERNEL, "Stub", inputs)
    interpreter = litert.Interpreter(str(model))
    interpreter.allocate_tensors()
    interpreter.set_tensor(interpreter.get_input_details()[0]["index"], inputs)
    rows = [
        _row("a run of a stub kernel", alternate(ours, peer, _RUNS, warm_up=500), _LIMIT_S),
        _row(
            "a run of a stub kernel by Interpreter.invoke, compared with run_by_index",
            alternate(interpreter.invoke, ours, _RUNS, warm_up=500),
            _INTERPRETER_LIMIT_S,
        ),
    ]
    output = interpreter.get_tensor(interpreter.get_output_details()[0]["index"])
    assert read_ours() == read_peer() == output == 1
    return rows


def _row(claim: str, times: Comparison, limit_s: float) -> Row:
    more = median(a - b for a, b in zip(times.ours, times.peer, strict=True))
    return Row(
        f"{claim}: {seconds(abs(more))} {'more' if more >= 0 else 'less'}",
        seconds(median(times.ours)),
        seconds(median(times.peer)),
        times.spread(),
        f"<= {seconds(limit_s)} more",
        more <= limit_s,
    )

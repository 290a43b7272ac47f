"""The first run with a new batch size takes at most 1 ms longer than the next run, as no kernel is built again.

The network is MediaPipe's face landmarks with a dynamic batch dimension. The benchmark runs each batch size twice
in a row.
"""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from statistics import median

from benchmarks.commands import APPLY_PLUGIN
from benchmarks.harness import BUILD, Row, run_checked, seconds
from corpus.downloads import networks
from litert.model.reader import read_model
from litert.model.writer import write_model

_LIMIT_S = 1e-3
_MOST = 8
_PROCESSES = 3


def measure() -> Sequence[Row]:
    """Runs all batch sizes in each of several processes, because a batch size is new only once in a process."""
    model, compiled = BUILD / "any_batch.tflite", BUILD / "any_batch_npu.tflite"
    _leave_batch_open(networks() / "face_landmark.tflite", model)
    bound = f"--shape_bounds=input_1:{_MOST}x192x192x3"
    command = [APPLY_PLUGIN, "--quiet", "--report=json", "--reference_ops=all", bound]
    ops = json.loads(run_checked([*command, model, compiled]).output)["ops"]
    calls = [op["call"] for op in ops if op["call"]]
    child: list[str | Path] = [sys.executable, "-m", "benchmarks.dynamic_network", compiled]
    pairs = [p for _ in range(_PROCESSES) for p in json.loads(run_checked(child).output)]
    more = median(first - again for first, again in pairs)
    return [
        Row(
            f"a new batch size, {len(calls)} of {len(ops)} ops in {len(set(calls))} calls: "
            f"{seconds(abs(more))} {'more' if more >= 0 else 'less'}",
            seconds(median(first for first, _ in pairs)),
            f"again {seconds(median(again for _, again in pairs))}",
            "",
            f"<= {seconds(_LIMIT_S)} more, 1 call",
            more <= _LIMIT_S and len(set(calls)) == 1,
        )
    ]


def _leave_batch_open(path: Path, output: Path) -> None:
    """Writes a network in which all tensors but the weights have a dynamic batch dimension."""
    with read_model(path) as model:
        subgraph = model.subgraphs[0]
        made = [t for op in subgraph.ops if op.name != "DEQUANTIZE" for t in op.outputs]
        for tensor in (*subgraph.inputs, *made):
            tensor.shape_signature = (-1, *tensor.shape[1:])
        write_model(model, output)


def _measure_here(path: str) -> list[tuple[float, float]]:
    """Returns the times of the first and of the next run with each batch size, in seconds."""
    import numpy as np

    from litert import CompiledModel

    pairs = []
    with CompiledModel.from_file(path) as model:
        for batch in range(1, _MOST + 1):
            x = np.ones((batch, 192, 192, 3), np.float32)
            times = []
            for _ in range(2):
                begin = time.perf_counter()
                model.run({"input_1": x})
                times.append(time.perf_counter() - begin)
            if batch > 1:
                pairs.append((times[0], times[1]))
    return pairs


if __name__ == "__main__":
    print(json.dumps(_measure_here(sys.argv[1])))

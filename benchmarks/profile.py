"""A profile's rows add up to the run, a rest of at most 15% among them; off, it costs nothing, and on, little.

Selfie segmentation, hand and face landmark, on the CPU and compiled. The rest is what no op, call or part of one
has, and what a vendor's `invoke` does not tell of a call. Other work on the machine lets rests grow: the best of
three counts.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import numpy as np
from litert_npu_tools.load_flags import LoadChoice
from litert_npu_tools.profile_command import ProfileOptions, profile_model
from litert_npu_tools.profile_report import ProfileReport

import litert
from benchmarks.commands import APPLY_PLUGIN, KERNELS
from benchmarks.harness import BUILD, Row, alternate, run_checked
from benchmarks.loaded import load
from corpus.downloads import networks

_NETWORKS = ("selfie_segmentation", "hand_landmark_full", "face_landmark")
_KERNEL = f"Convolution2DTransposeBias,{KERNELS / 'Convolution2DTransposeBias.json'}"
_TRIES = 3
_RUNS = 300


def measure() -> Sequence[Row]:
    """Profiles each network both ways, and runs one with and without what profiling needs."""
    rows = []
    for name in _NETWORKS:
        network = networks() / f"{name}.tflite"
        for how, path in (("on the CPU", network), ("compiled", _compiled(network))):
            reports = [
                profile_model(str(path), ProfileOptions(_choice(how))) for _ in range(_TRIES)
            ]
            rows += _rows(f"{name}, {how}", min(reports, key=_rest))
    return [*rows, _cost_while_off(networks() / f"{_NETWORKS[0]}.tflite")]


def _choice(how: str) -> LoadChoice:
    choice = LoadChoice()
    if how == "on the CPU":
        choice.options.hardware_accelerators = litert.HardwareAccelerator.CPU
    return choice


def _compiled(network: Path) -> Path:
    output = BUILD / f"{network.stem}_all.tflite"
    flags = ["--reference_ops=all", f"--npu_custom_op_info={_KERNEL}"]
    run_checked([APPLY_PLUGIN, *flags, str(network), str(output)])
    return output


def _rows(claim: str, report: ProfileReport) -> list[Row]:
    parents = {row.parent for row in report.rows}
    leaves = sum(row.share for index, row in enumerate(report.rows) if index not in parents)
    rest, cost = _rest(report), report.cost
    spread = f"{report.run.deviation_s / report.run.mean_s:.2f} of a run's mean"
    return [
        Row(f"{claim}: all rows", f"{leaves:.3f}", "", "", "0.98 to 1.02", 0.98 <= leaves <= 1.02),
        Row(f"{claim}: rest", f"{rest:.3f}", "", "", "<= 0.15", rest <= 0.15),
        Row(f"{claim}: measured, to not measured", f"{cost:.2f}", "", f"+- {spread}", "", True),
    ]


def _rest(report: ProfileReport) -> float:
    """Returns the share of rests: in the run, in ops, and in NPU calls."""
    return float(sum(row.share for row in report.rows if row.kind in ("rest", "invoke")))


def _cost_while_off(network: Path) -> Row:
    inputs = np.zeros((1, 256, 256, 3), np.float32)
    able, _ = load(litert, network, "CPU", 1, inputs, enable_profiling=True)
    plain, _ = load(litert, network, "CPU", 1, inputs)
    times = alternate(able, plain, _RUNS, warm_up=20)
    return times.row("loaded for profiling, nothing collected, to loaded without", 1.02)

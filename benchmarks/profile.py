"""The rows of a profile add up to the time of the run, and at most 15% of this time is the unexplained rest.

A model that is loaded for profiling, but not profiled, is at most 2% slower. The networks are selfie segmentation,
hand landmark and face landmark, each on the CPU and compiled. The rest is time that belongs to no op, no NPU call
and no reported part of a call. The benchmark takes the best of three profiles, because other work on the machine
makes the rest larger.
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
    """Profiles each network on the CPU and compiled, and measures the cost of profiling that is not used."""
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
        Row(
            f"{claim}: run with measurement, compared with no measurement",
            f"{cost:.2f}",
            "",
            f"+- {spread}",
            "",
            True,
        ),
    ]


def _rest(report: ProfileReport) -> float:
    """Returns the share of unexplained time in the run, in ops and in NPU calls."""
    return float(sum(row.share for row in report.rows if row.kind in ("rest", "invoke")))


def _cost_while_off(network: Path) -> Row:
    inputs = np.zeros((1, 256, 256, 3), np.float32)
    able, _ = load(litert, network, "CPU", 1, inputs, enable_profiling=True)
    plain, _ = load(litert, network, "CPU", 1, inputs)
    times = alternate(able, plain, _RUNS, warm_up=20)
    return times.row("loaded for profiling but not profiled, compared with a normal load", 1.02)

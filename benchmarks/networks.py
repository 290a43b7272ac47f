"""MediaPipe's 14 networks run as one correct NPU call each, faster than in stock LiteRT and OpenVINO.

All networks are compiled with `--reference_ops=all`, and their custom ops with the kernels in `examples`. Each
engine is a child process (`engine.py`); both engines of a comparison have the same number of threads, and run in
turn on a picture. The expected outputs come from stock LiteRT's plain kernels, and from custom ops in NumPy. Stock
LiteRT does not know the custom ops of one network, and runs this network without them. The environment variable
LITERT_NPU_NETWORKS limits the benchmark to some networks, separated by commas.
"""

from __future__ import annotations

import json
import os
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from importlib.util import find_spec
from pathlib import Path
from statistics import geometric_mean, median
from typing import Any

import numpy as np

from benchmarks.commands import APPLY_PLUGIN
from benchmarks.engine import OPENVINO, OURS, STOCK, Engine, Loaded
from benchmarks.harness import (
    BUILD,
    Comparison,
    Row,
    at_most,
    compare,
    megabytes,
    run_checked,
    seconds,
)
from corpus.downloads import networks
from corpus.stock_outputs import largest_difference, open_model
from corpus.whole_network import assets_of, picture_for, run_network
from litert.model.reader import read_model
from litert.model.stock_custom_ops import find_not_runnable

_TURNS = 25
_THREADS = (1, 2)
_MOST_DIFFERENT = 1e-4
"""Greatest allowed difference relative to the largest magnitude, unless XNNPACK also differs more."""
_PEERS = {STOCK: "stock", OPENVINO: "OpenVINO"}
_MEAN_LIMITS = {STOCK: 1.0, OPENVINO: 1.1}
_WORST_LIMITS = {STOCK: 1.3}
_SELFIE, _SELFIE_LIMIT = "selfie_segmentation", 0.8


@dataclass(frozen=True, slots=True)
class _Network:
    """A network, with the result of its compilation.

    Attributes:
      path, compiled: Paths of the network and of the compiled file.
      picture: Path of the `.npz` file with the input.
      num_ops, num_npu_ops, num_calls: Numbers of ops, of ops on the NPU, and of NPU calls.
    """

    path: Path
    compiled: Path
    picture: Path
    num_ops: int
    num_npu_ops: int
    num_calls: int

    @property
    def name(self) -> str:
        return self.path.stem


def measure() -> Sequence[Row]:
    """Compiles the networks, compares their outputs, and runs each in turn with the peers."""
    named = os.environ.get("LITERT_NPU_NETWORKS", "")
    paths = [networks() / f"{name}.tflite" for name in named.split(",") if name]
    found = [_compile(path) for path in paths or sorted(networks().glob("*.tflite"))]
    rows = [_right_row(network) for network in found]
    for peer in (STOCK, OPENVINO):
        if find_spec("openvino") is None and peer == OPENVINO:
            rows.append(_told("networks compared with OpenVINO: openvino is not installed"))
            continue
        for threads in _THREADS:
            rows += _time_rows(found, peer, threads)
    return [*rows, *_largest_rows(max(found, key=lambda network: network.path.stat().st_size))]


def _compile(path: Path) -> _Network:
    compiled, picture = BUILD / f"{path.stem}_npu.tflite", BUILD / f"{path.stem}.npz"
    arrays: Mapping[str, Any] = picture_for(path)
    np.savez(picture, **arrays)
    ops = json.loads(run_checked(_command(path, compiled)).output)["ops"]
    calls = [op["call"] for op in ops if op["call"]]
    return _Network(path, compiled, picture, len(ops), len(calls), len(set(calls)))


def _command(path: Path, compiled: Path) -> Sequence[str | Path]:
    infos = [f"--npu_custom_op_info={op},{asset}" for op, asset in assets_of(path).items()]
    options = ["--quiet", "--report=json", "--reference_ops=all"]
    return [APPLY_PLUGIN, *options, *infos, path, compiled]


def _right_row(network: _Network) -> Row:
    """Returns the row about a network's correctness: it is one call, and its outputs are stock LiteRT's."""
    outputs = BUILD / f"{network.name}_outputs.npz"
    with Engine(OURS, network.compiled, 1, network.picture, outputs), np.load(outputs) as file:
        ours = dict(file)
    picture = picture_for(network.path)
    truth, peer = (run_network(network.path, picture, xnnpack) for xnnpack in (False, True))
    difference, peers = largest_difference(truth, ours), largest_difference(truth, peer)
    in_words = f"{network.num_npu_ops} of {network.num_ops} ops in {network.num_calls} calls"
    is_whole = (network.num_npu_ops, network.num_calls) == (network.num_ops, 1)
    return Row(
        f"{network.name}, {in_words}: difference from plain kernels",
        f"{difference:.1e}",
        f"XNNPACK {peers:.1e}",
        "",
        f"all in 1 call, <= {_MOST_DIFFERENT:g} or 3 x XNNPACK's",
        is_whole and difference <= max(_MOST_DIFFERENT, 3 * peers),
    )


def _time_rows(found: Sequence[_Network], peer: str, threads: int) -> Sequence[Row]:
    """Returns a row for each network, and a row with the geometric mean and the worst ratio."""
    rows, ratios = [], []
    of = f"compared with {_PEERS[peer]}, {threads} thread{'s' * (threads > 1)}"
    for network in found:
        try:
            times = _alternate(network, peer, threads)
        except RuntimeError as error:
            rows.append(_told(f"{network.name} {of}: {error}"))
            continue
        ratios.append(times.ratio)
        rows.append(_time_row(f"{network.name} {of}", times, _limit(network, peer)))
    if not ratios:
        return rows
    mean, worst = geometric_mean(ratios), max(ratios)
    limits, limit = f"ratio <= {_MEAN_LIMITS[peer]:g}", _WORST_LIMITS.get(peer)
    limits += f"; {limit:g}" if limit else ""
    claim = f"{len(ratios)} networks {of}: geometric mean; worst {worst:.2f}"
    holds = mean <= _MEAN_LIMITS[peer] and (limit is None or worst <= limit)
    return [*rows, Row(claim, "", "", f"{mean:.2f}", limits, holds)]


def _limit(network: _Network, peer: str) -> float | None:
    """Returns the greatest allowed ratio for a single network."""
    return _SELFIE_LIMIT if (network.name, peer) == (_SELFIE, STOCK) else _WORST_LIMITS.get(peer)


def _time_row(claim: str, times: Comparison, limit: float | None) -> Row:
    if limit is None:
        return replace(times.row(claim, 1), limit="no limit", holds=True)
    return times.row(claim, limit)


def _alternate(network: _Network, peer: str, threads: int) -> Comparison:
    path, inputs = network.path, network.picture
    if peer == STOCK:
        path, inputs = _known_to_stock(network)
    with (
        Engine(peer, path, threads, inputs) as other,
        Engine(OURS, network.compiled, threads, network.picture) as ours,
    ):
        return compare(ours.seconds, other.seconds, _TURNS)


def _known_to_stock(network: _Network) -> tuple[Path, Path]:
    """Returns a network and its inputs; results of ops unknown to stock LiteRT become further inputs."""
    with read_model(network.path) as model:
        if not find_not_runnable(model):
            return network.path, network.picture
    path, inputs = BUILD / f"{network.name}_stock.tflite", BUILD / f"{network.name}_stock.npz"
    path.write_bytes(open_model(network.path.read_bytes()).data)
    with read_model(path) as model, np.load(network.picture) as picture:
        zeros: Mapping[str, Any] = {
            t.name: np.zeros(t.shape, np.float32) for t in model.subgraphs[0].inputs
        }
        np.savez(inputs, **{**zeros, **picture})
    return path, inputs


def _largest_rows(largest: _Network) -> Sequence[Row]:
    """Measures the compilation, the load and the memory of the largest network."""
    compile_s = median(
        run_checked(_command(largest.path, largest.compiled)).wall_s for _ in range(3)
    )

    def load(name: str, cache: str = "") -> Loaded:
        path = largest.path if name == STOCK else largest.compiled
        environment = {"LITERT_NPU_CACHE_DIR": cache} if cache else {}
        with Engine(name, path, 2, largest.picture, environment=environment) as engine:
            return engine.loaded

    with tempfile.TemporaryDirectory(dir=BUILD) as empty:
        first = load(OURS, empty)
    ours, stock = [load(OURS) for _ in range(5)], load(STOCK)
    grown = median(loaded.resident_bytes - loaded.driver_bytes for loaded in ours)
    stock_grown = stock.resident_bytes - stock.driver_bytes
    driver = megabytes(ours[0].driver_bytes - stock.driver_bytes)
    name = largest.name
    return [
        at_most(f"compile of {name}", compile_s, 3, seconds, ""),
        at_most(
            f"first load of {name}, with empty caches", first.open_s + first.load_s, 15, seconds, ""
        ),
        at_most(
            f"load and first run of {name}, with cached programs",
            median(loaded.load_s for loaded in ours),
            0.2,
            seconds,
            f"stock {seconds(stock.load_s)}",
        ),
        Row(
            f"resident memory of {name}, without {driver} for the driver",
            megabytes(grown),
            megabytes(stock_grown),
            f"{grown / stock_grown:.2f}",
            "ratio <= 1.5",
            grown <= 1.5 * stock_grown,
        ),
    ]


def _told(claim: str) -> Row:
    return Row(claim, "", "", "", "no limit", True)

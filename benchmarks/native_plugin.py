"""Intel's real compiler plugin in our `apply_plugin`: stock's partitions, and at most 1.5 times its time.

The plugin runs in a process of its own, as it does by default, and in ours. Partitions are those of MediaPipe's
networks, of LITERT_NPU_MODELS and of one with composites, op by op; times are of 1,000 ops in blocks as
MobileNet has them, and of the network that has the most. Of 1,000 elementwise ops, which stock compiles in 0.3 s,
starting Python is a third of the time: there the limit is 2.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from importlib.util import find_spec
from pathlib import Path

from benchmarks.commands import APPLY_PLUGIN, stock_apply_plugin
from benchmarks.harness import BUILD, Row, compare, run_checked
from benchmarks.models import branches, composites, mobile_blocks
from corpus.downloads import networks
from litert.model.dispatch_op import is_dispatch_op
from litert.model.reader import read_model

_RUNS = 5


def measure() -> Sequence[Row]:
    """Compiles for OpenVINO's CPU device, which needs no NPU."""
    stock = stock_apply_plugin()
    largest = networks() / "face_landmark_with_attention.tflite"
    rows = [_same_partitions(stock, _models())]
    for what, model, limit in (
        ("1,000 ops in blocks", mobile_blocks(1_000), 1.5),
        ("a network of 712 ops", largest, 1.5),
        ("1,000 elementwise ops", branches(1_000, 10), 2.0),
    ):
        for where, flags in (("its own process", ()), ("ours", ("--plugin_in_process",))):
            comparison = compare(
                _time(APPLY_PLUGIN, "apply", model, *flags), _time(stock, "apply", model), _RUNS
            )
            rows.append(comparison.row(f"apply with Intel's plugin, {what}, in {where}", limit))
    return rows


def _models() -> Sequence[Path]:
    folder = os.environ.get("LITERT_NPU_MODELS")
    own = sorted(Path(folder).glob("*.tflite")) if folder else []
    return [*sorted(networks().glob("*.tflite")), *own, branches(1_000, 10), composites(30)]


def _same_partitions(stock: str, models: Sequence[Path]) -> Row:
    """Ops and their order, as `--cmd=partition` writes them."""
    differ: list[str] = []
    num_partitions = 0
    for model in models:
        _time(APPLY_PLUGIN, "partition", model)()
        ours = _partitions()
        _time(stock, "partition", model)()
        if ours != _partitions():
            differ.append(model.stem)
        num_partitions += len(ours)
    return Row(
        f"partitions of {len(models)} models by Intel's plugin",
        f"{num_partitions}, {len(models) - len(differ)} models as stock",
        "",
        "",
        "all models as stock",
        not differ,
    )


def _partitions() -> list[list[tuple[str, list[str]]]]:
    """Of what was written last: they are behind what there is of the model's subgraphs."""
    with read_model(_output()) as model:
        count = sum(is_dispatch_op(op) for op in model.ops())
        return [
            [(op.name, [tensor.name for tensor in op.outputs]) for op in subgraph.ops]
            for subgraph in model.subgraphs[len(model.subgraphs) - count :]
        ]


def _time(command: str, cmd: str, model: Path, *flags: str) -> Callable[[], float]:
    package = find_spec("ai_edge_litert")
    assert package is not None and package.origin is not None
    libs = Path(package.origin).parent / "vendors" / "intel_openvino" / "compiler"
    line = [
        command, f"--cmd={cmd}", f"--model={model}", f"--o={_output()}", f"--libs={libs}",
        "--soc_manufacturer=IntelOpenVINO", "--soc_model=PTL",
        "--intel_openvino_graph_backends=cpu", *flags,
    ]  # fmt: skip
    return lambda: run_checked(line).wall_s


def _output() -> Path:
    return BUILD / "native_plugin.tflite"

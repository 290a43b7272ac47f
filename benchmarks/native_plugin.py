"""With Intel's compiler plugin, `apply_plugin` makes stock LiteRT's partitions, in at most 1.5 times its time.

The plugin runs in a child process, which is the default, and in the command's process. The benchmark compares the
ops of all partitions for MediaPipe's networks, the models of the folder LITERT_NPU_MODELS, and a model with
composites. It measures times for a generated model of 1,000 ops, which repeats MobileNet's blocks, and for the
network with the most ops. For 1,000 element-wise ops the limit is 2 times stock LiteRT's 0.3 s, since starting
Python takes a third of the time.
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
    """Compiles for OpenVINO's CPU device, so that no NPU is needed."""
    stock = stock_apply_plugin()
    largest = networks() / "face_landmark_with_attention.tflite"
    rows = [_same_partitions(stock, _models())]
    for what, model, limit in (
        ("1,000 ops in blocks", mobile_blocks(1_000), 1.5),
        ("a network of 712 ops", largest, 1.5),
        ("1,000 elementwise ops", branches(1_000, 10), 2.0),
    ):
        for where, flags in (
            ("its own process", ()),
            ("the command's process", ("--plugin_in_process",)),
        ):
            comparison = compare(
                _time(APPLY_PLUGIN, "apply", model, *flags), _time(stock, "apply", model), _RUNS
            )
            rows.append(comparison.row(f"apply with Intel's plugin in {where}, {what}", limit))
    return rows


def _models() -> Sequence[Path]:
    folder = os.environ.get("LITERT_NPU_MODELS")
    own = sorted(Path(folder).glob("*.tflite")) if folder else []
    return [*sorted(networks().glob("*.tflite")), *own, branches(1_000, 10), composites(30)]


def _same_partitions(stock: str, models: Sequence[Path]) -> Row:
    """Compares the ops and their order in the partitions that `--cmd=partition` writes."""
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
        f"{num_partitions}; in {len(models) - len(differ)} models as in stock",
        "",
        "",
        "in all models as in stock",
        not differ,
    )


def _partitions() -> list[list[tuple[str, list[str]]]]:
    """Returns the partitions in the last output, whose subgraphs follow the other subgraphs of the model."""
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

"""`apply_plugin --cmd=noop` reads each model that stock LiteRT reads, and writes all of the model's content.

Two runs on the same file write the same bytes. The models are MediaPipe's networks and models that the benchmark
builds; the environment variable LITERT_NPU_CORPUS names a folder of further `.tflite` files. The content of a file
is what stock LiteRT's schema classes read from the file. For stock LiteRT's output, the benchmark ignores the
fields that stock LiteRT changes in every file.
"""

from __future__ import annotations

import os
from collections.abc import Collection, Sequence
from pathlib import Path

from benchmarks.commands import APPLY_PLUGIN, noop, stock_apply_plugin
from benchmarks.harness import BUILD, Row, run_child
from benchmarks.models import chain, one_custom_op, with_weights
from benchmarks.schema_view import view_model
from corpus.downloads import networks

_TIMEOUT_S = 120
_FORGIVEN = ("description", "hasRank", "metadataBuffer", "signatureDefs")


def measure() -> Sequence[Row]:
    """Reads and writes each model with both commands."""
    models = _models()
    stock = stock_apply_plugin()
    ours = {model: _comes_back(APPLY_PLUGIN, model) for model in models}
    peer = {model: _comes_back(stock, model, _FORGIVEN) for model in models}
    refused = [model for model in models if peer[model] is not None and ours[model] is None]
    again = [model for model in models if ours[model] and not _is_repeatable(model)]
    rows = [
        Row(
            f"{len(models)} models, read",
            str(_count(ours, False, True)),
            str(_count(peer, False, True)),
            "",
            "all models that stock reads",
            not refused,
        ),
        Row(
            f"{len(models)} models, written with all their content",
            str(_count(ours, True)),
            str(_count(peer, True)),
            "",
            "all models that were read",
            _count(ours, True) == _count(ours, False, True),
        ),
        Row(
            "models whose second output has other bytes", str(len(again)), "", "", "none", not again
        ),
    ]
    for model in models:
        if ours[model] is False or model in refused or model in again:
            print(f"not read, not complete or not repeatable: {model}")
    return rows


def _models() -> Sequence[Path]:
    models = sorted(networks().glob("*.tflite"))
    models += [chain(100), one_custom_op("Sinh", 8), with_weights("Sinh", 1 << 20)]
    corpus = os.environ.get("LITERT_NPU_CORPUS")
    if corpus:
        models += sorted(path for path in Path(corpus).rglob("*.tflite") if path.is_file())
    return models


def _comes_back(command: str, model: Path, forgiven: Collection[str] = ()) -> bool | None:
    """Returns whether the command writes the whole content of a model; None if it refuses the model."""
    output = BUILD / "fidelity.tflite"
    output.unlink(missing_ok=True)
    if run_child(noop(command, model, output), _TIMEOUT_S).status != 0:
        return None
    return bool(view_model(output, forgiven) == view_model(model, forgiven))


def _is_repeatable(model: Path) -> bool:
    outputs = [BUILD / f"fidelity_{i}.tflite" for i in range(2)]
    for output in outputs:
        run_child(noop(APPLY_PLUGIN, model, output), _TIMEOUT_S)
    return outputs[0].read_bytes() == outputs[1].read_bytes()


def _count(results: dict[Path, bool | None], *wanted: bool) -> int:
    return sum(result in wanted for result in results.values())

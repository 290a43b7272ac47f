"""With `--reference_ops=all`, each model of a folder gives correct results op by op, or a clear error message.

The environment variable LITERT_NPU_CORPUS names the folder, for example a folder with LiteRT's own test models.
Files in the folder may also be compiled models, or not be models at all. `litert-npu compare` runs each model, and
compares it with stock LiteRT's plain kernels, some of which crash.
"""

from __future__ import annotations

import json
import os
import sys
from collections import Counter
from collections.abc import Sequence
from pathlib import Path

from benchmarks.harness import Child, Row, run_child

_TIMEOUT_S = 120
_COMPARE = [str(Path(sys.executable).parent / "litert-npu"), "compare", "--quiet"]
_COMPARE += ["--report=json", "--reference_ops=all"]
_RIGHT, _WRONG, _REFUSED, _CRASHED = "right", "wrong", "refused with a message", "crashed"
_DEFECTS = ("This is a defect", "This is a bug in the vendor's code", "Traceback")
"""Texts in error messages that report a defect of this project or of a vendor."""


def measure() -> Sequence[Row]:
    """Compares each model op by op."""
    folder = os.environ.get("LITERT_NPU_CORPUS", "")
    models = sorted(path for path in Path(folder).rglob("*.tflite") if folder and path.is_file())
    if not models:
        return [
            Row(
                "LITERT_NPU_CORPUS names no folder with .tflite files: no models were compared",
                "",
                "",
                "",
                "no limit",
                True,
            )
        ]
    counts: Counter[str] = Counter()
    num_tensors = 0
    for model in models:
        child = run_child([*_COMPARE, model], _TIMEOUT_S)
        verdict, found = _verdict(child)
        counts[verdict] += 1
        num_tensors += found
        if verdict not in (_RIGHT, _REFUSED):
            print(f"{model}: {verdict}")
    claim = f"{len(models)} models, {num_tensors} results of the NPU, compared with plain kernels"
    ours = ", ".join(f"{number} {verdict}" for verdict, number in counts.most_common())
    return [Row(claim, ours, "", "", "no wrong results", not counts[_WRONG])]


def _verdict(child: Child) -> tuple[str, int]:
    """Returns the verdict on a model, and the number of NPU results that were compared."""
    if child.status in (0, 1):
        tensors = [t for t in json.loads(child.output)["tensors"] if t["where"] == "npu"]
        return (_RIGHT if all(t["is_within"] for t in tensors) else _WRONG), len(tensors)
    is_told = child.status == 2 and not any(text in child.errors for text in _DEFECTS)
    return (_REFUSED if is_told else _CRASHED), 0

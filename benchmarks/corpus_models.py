"""Models of a folder with `--reference_ops=all` are right, op by op, or refused in words.

LITERT_NPU_CORPUS names the folder, such as one with LiteRT's own test models; its files may also be no models, or
compiled ones. Each runs in `litert-npu compare`, beside stock's plain kernels, some of which crash.
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
_RIGHT, _WRONG, _REFUSED, _CRASHED = "right", "wrong", "refused in words", "crashed"
_DEFECTS = ("This is a defect", "This is a bug in the vendor's code", "Traceback")
"""Words in errors that report a defect."""


def measure() -> Sequence[Row]:
    """Compares each model op by op."""
    folder = os.environ.get("LITERT_NPU_CORPUS", "")
    models = sorted(path for path in Path(folder).rglob("*.tflite") if folder and path.is_file())
    if not models:
        return [
            Row("models of a folder: LITERT_NPU_CORPUS names none", "", "", "", "is told", True)
        ]
    counts: Counter[str] = Counter()
    num_tensors = 0
    for model in models:
        child = run_child([*_COMPARE, model], _TIMEOUT_S)
        verdict, found = _verdict(child)
        counts[verdict] += 1
        num_tensors += found
        if verdict not in (_RIGHT, _REFUSED):
            print(f"look at {model}: {verdict}")
    claim = f"{len(models)} models, {num_tensors} results of the NPU, to plain kernels"
    ours = ", ".join(f"{number} {verdict}" for verdict, number in counts.most_common())
    return [Row(claim, ours, "", "", "none wrong", not counts[_WRONG])]


def _verdict(child: Child) -> tuple[str, int]:
    """Returns the verdict on a model, and the number of NPU results that were compared."""
    if child.status in (0, 1):
        tensors = [t for t in json.loads(child.output)["tensors"] if t["where"] == "npu"]
        return (_RIGHT if all(t["is_within"] for t in tensors) else _WRONG), len(tensors)
    is_told = child.status == 2 and not any(text in child.errors for text in _DEFECTS)
    return (_REFUSED if is_told else _CRASHED), 0

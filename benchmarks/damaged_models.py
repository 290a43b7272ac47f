"""On damaged models, `apply_plugin` never crashes, hangs, uses over 1 GB, prints a traceback or leaves an output.

The damaged models are real and generated models that are truncated, or have bytes overwritten at random offsets.
The seed of the random numbers is fixed. The environment variable LITERT_NPU_DAMAGED sets the number of damaged
models, 120 by default.
"""

from __future__ import annotations

import os
import random
from collections import Counter
from collections.abc import Sequence
from pathlib import Path

from benchmarks.commands import APPLY_PLUGIN, noop, stock_apply_plugin
from benchmarks.harness import BUILD, Child, Row, run_child
from benchmarks.models import chain, one_custom_op
from corpus.downloads import networks

_TIMEOUT_S = 20
_MOST_BYTES = 1_000_000_000


def measure() -> Sequence[Row]:
    """Reads the same damaged models with both commands."""
    sources = [networks() / "selfie_segmentation.tflite", networks() / "hand_recrop.tflite"]
    sources += [chain(10), one_custom_op("Sinh", 8)]
    stock = stock_apply_plugin()
    seed = random.Random(0)
    ours, peer = Counter[str](), Counter[str]()
    number = int(os.environ.get("LITERT_NPU_DAMAGED", "120"))
    damaged = BUILD / "damaged.tflite"
    for i in range(number):
        damaged.write_bytes(_damage(sources[i % len(sources)].read_bytes(), seed))
        bad = _misbehaviour(APPLY_PLUGIN, damaged)
        ours.update(bad)
        peer.update(_misbehaviour(stock, damaged))
        if bad:
            kept = damaged.rename(BUILD / f"damaged_{i}.tflite")
            print(f"{kept}: {', '.join(bad)}")
    return [Row(f"{number} damaged models", _describe(ours), _describe(peer), "", "none", not ours)]


def _damage(data: bytes, seed: random.Random) -> bytes:
    if seed.random() < 0.25:
        return data[: seed.randrange(len(data))]
    changed = bytearray(data)
    # Real files have tables at both ends and weights in between, where damage only changes numbers.
    for _ in range(seed.randint(1, 6)):
        place = seed.randrange(min(len(data), 4096))
        if seed.random() < 0.5:
            place = len(data) - 1 - place
        width = seed.choice((1, 1, 4))
        value = seed.choice((0, 0xFF, 0x7F, seed.randrange(256)))
        changed[place : place + width] = bytes([value]) * len(changed[place : place + width])
    return bytes(changed)


def _misbehaviour(command: str, model: Path) -> Sequence[str]:
    output = BUILD / "damaged_out.tflite"
    output.unlink(missing_ok=True)
    child = run_child(noop(command, model, output), _TIMEOUT_S)
    found = {
        "hangs": child.status is None,
        "signals": child.status is not None and child.status < 0,
        "over 1 GB": child.peak_bytes > _MOST_BYTES,
        "tracebacks": _has_traceback(child),
        "outputs left": child.status != 0 and output.exists(),
    }
    return [name for name, is_so in found.items() if is_so]


def _has_traceback(child: Child) -> bool:
    return "Traceback (most recent call last)" in child.errors + child.output


def _describe(counts: Counter[str]) -> str:
    return ", ".join(f"{count} {name}" for name, count in counts.items()) or "none"

"""An HTML page about a network of 712 ops is smaller than 2 MB, and headless Chromium draws it in less than 2 s.

The page itself measures the time from the start of its load. Without Chromium, the benchmark only measures sizes.
"""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from statistics import median
from tempfile import TemporaryDirectory

from benchmarks.commands import APPLY_PLUGIN
from benchmarks.harness import BUILD, Row, at_most, run_checked, seconds
from corpus.downloads import networks

_RUNS = 5
_LITERT_NPU = str(Path(sys.executable).parent / "litert-npu")


def measure() -> Sequence[Row]:
    """Writes the pages of four commands, and draws each page; stock LiteRT cannot run all ops for a profile."""
    network = str(networks() / "face_landmark_with_attention.tflite")
    compiled = str(BUILD / "face_all.tflite")
    commands = {
        "apply_plugin": [APPLY_PLUGIN, "--reference_ops=all", network, compiled],
        "inspect": [_LITERT_NPU, "inspect", compiled],
        "coverage": [_LITERT_NPU, "coverage", "--reference_ops=all", network],
        "compare": [_LITERT_NPU, "compare", "--reference_ops=all", network],
    }
    rows = []
    for name, command in commands.items():
        page = BUILD / f"page_of_{name}.html"
        run_checked([*command, f"--html={page}"])
        rows.append(at_most(f"page of {name}, size", page.stat().st_size, 2e6, _kilobytes, ""))
        chromium = shutil.which("chromium")
        if chromium is not None:
            times = [_drawn_s(chromium, page) for _ in range(_RUNS)]
            rows.append(
                at_most(f"page of {name}, time until it is drawn", median(times), 2.0, seconds, "")
            )
    return rows


def _kilobytes(value: float) -> str:
    return f"{value / 1e3:.0f} kB"


def _drawn_s(chromium: str, page: Path) -> float:
    """Returns the seconds from the start of a page's load until it is drawn."""
    with TemporaryDirectory() as home:
        flags = ["--headless", "--no-sandbox", "--disable-gpu", f"--user-data-dir={home}"]
        document = subprocess.run(
            [chromium, *flags, "--dump-dom", page.as_uri()],
            capture_output=True,
            text=True,
            check=True,
        ).stdout
    found = re.search(r'data-drawn-ms="(\d+)"', document)
    assert found is not None, "the page was not drawn"
    return int(found[1]) / 1e3

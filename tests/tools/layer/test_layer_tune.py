"""`litert-npu layer tune`."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.tools.conftest import LitertNpu
from tests.tools.layer.conftest import SHAPES

Capture = pytest.CaptureFixture[str]
KERNEL = """__kernel void k(__global const float* x, __global float* y) {
  const size_t i = get_global_id(0);
  BODY
  y[i] = x[i];
}
"""
DESCRIPTION = """{
  "version": 1,   "sources": ["k.cl"],
  "work_sizes": {"global": ["B*F"]}
}
"""
TUNE = ("layer", "tune", "k.json", *SHAPES, "--candidates=3", "--report=json")


def write(author: Path, body: str) -> None:
    (author / "k.cl").write_text(KERNEL.replace("BODY", body))
    (author / "k.json").write_text(DESCRIPTION)


SLOW = "if (get_local_size(0) != 4) for (volatile int n = 0; n < 20000; ++n) {}"


def test_a_clearly_better_size_is_written_and_the_rest_of_the_text_stays(
    author: Path, litert_npu: LitertNpu, capsys: Capture
) -> None:
    write(author, SLOW)
    (author / "k.json").write_text(DESCRIPTION.replace('"B*F"]', '"B*F"], "local": [8]'))
    assert litert_npu(*TUNE) == 0
    report = json.loads(capsys.readouterr().out)
    assert (report["old"], report["best"]) == ([8], [4])
    assert (author / "k.json").read_text() == DESCRIPTION.replace('"B*F"]', '"B*F"], "local": [4]')


def test_a_dry_run_writes_nothing(author: Path, litert_npu: LitertNpu, capsys: Capture) -> None:
    write(author, SLOW)
    text = DESCRIPTION.replace('"B*F"]', '"B*F"], "local": [8]')
    (author / "k.json").write_text(text)
    assert litert_npu(*TUNE, "--dry_run", "--report=text") == 0
    assert "4 is better than 8; nothing was written" in capsys.readouterr().out
    assert (author / "k.json").read_text() == text


def test_candidates_that_fail_are_skipped_with_the_reason(
    author: Path, litert_npu: LitertNpu, capsys: Capture
) -> None:
    write(
        author,
        "if (get_local_size(0) == 4) y[1L << 36] = 1;\n"  # crashes
        "  if (get_local_size(0) == 8 && i == 3) { y[i] = 7; return; }",  # is wrong
    )
    (author / "k.json").write_text(DESCRIPTION.replace('"B*F"]', '"B*F"], "local": [2]'))
    assert litert_npu(*TUNE) == 0
    tried = {
        tuple(candidate["local_size"]): candidate
        for candidate in json.loads(capsys.readouterr().out)["candidates"]
    }
    assert "crashed (SIGSEGV" in tried[4,]["problem"]
    assert "other outputs" in tried[8,]["problem"]
    assert tried[2,]["median_us"] > 0 and not tried[2,]["problem"]


WRONG = {
    "no description": ("k.cl", "a .cl says nothing of local sizes"),
    "no file": ("no.json", "no such file"),
}


@pytest.mark.parametrize(("path", "said"), WRONG.values(), ids=WRONG)
def test_what_cannot_be_tuned_is_refused(
    author: Path, litert_npu: LitertNpu, capsys: Capture, path: str, said: str
) -> None:
    write(author, "")
    assert litert_npu("layer", "tune", path, *SHAPES) == 1
    assert said in capsys.readouterr().err


def test_a_kernel_that_fails_as_it_is_is_not_tuned(
    author: Path, litert_npu: LitertNpu, capsys: Capture
) -> None:
    write(author, "if (i == 2) return;")
    assert litert_npu(*TUNE) == 1
    assert "1 of 8 elements of output 0 are never written" in capsys.readouterr().err
    assert (author / "k.json").read_text() == DESCRIPTION

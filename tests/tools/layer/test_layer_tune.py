"""Tests `litert-npu layer tune`."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
from litert_npu_tools.layer import tune

from tests.tools.conftest import LitertNpu
from tests.tools.layer.conftest import SHAPES
from vendor_reference.authoring.local_sizes import LocalSize

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
TUNE = ("layer", "tune", "k.json", *SHAPES, "--report=json")


def write(author: Path, body: str) -> None:
    (author / "k.cl").write_text(KERNEL.replace("BODY", body))
    (author / "k.json").write_text(DESCRIPTION)


def test_a_clearly_better_size_is_found_and_those_that_fail_are_skipped(
    author: Path, litert_npu: LitertNpu, capsys: Capture
) -> None:
    write(
        author,
        "if (get_local_size(0) == 2) for (volatile int n = 0; n < 20000; ++n) {}\n"
        "  if (get_local_size(0) == 4) y[1L << 36] = 1;",
    )
    text = DESCRIPTION.replace('"B*F"]', '"B*F"], "local": [2]')
    (author / "k.json").write_text(text)
    assert litert_npu(*TUNE, "--candidates=3", "--dry_run") == 0
    report = json.loads(capsys.readouterr().out)
    tried = {tuple(found["local_size"]): found for found in report["candidates"]}
    assert report["old"] == [2] and report["best"] in ([], [8])
    assert "crashed (SIGSEGV" in tried[4,]["problem"]
    assert tried[2,]["final_us"] > tried[tuple(report["best"])]["final_us"] > 0
    assert (author / "k.json").read_text() == text


@pytest.mark.parametrize("is_dry", [False, True])
def test_the_best_size_is_written_and_the_rest_of_the_text_stays(
    author: Path,
    litert_npu: LitertNpu,
    capsys: Capture,
    monkeypatch: pytest.MonkeyPatch,
    is_dry: bool,
) -> None:
    write(author, "")
    monkeypatch.setattr(tune.Tuning, "run", lambda self, most: (4,))
    arguments = ["--dry_run"] if is_dry else []
    assert litert_npu("layer", "tune", "k.json", *SHAPES, *arguments) == 0
    said = "no file was written, because of --dry_run" if is_dry else "and was written to k.json"
    assert f"4 is better than driver's{'; ' if is_dry else ', '}{said}" in capsys.readouterr().out
    expected = DESCRIPTION if is_dry else DESCRIPTION.replace('"B*F"]', '"B*F"], "local": [4]')
    assert (author / "k.json").read_text() == expected


@pytest.mark.parametrize("suffix", [".json", ".xml"])
def test_a_layer_of_several_is_tuned_beside_the_files_of_the_others(
    author: Path, litert_npu: LitertNpu, capsys: Capture, suffix: str
) -> None:
    write(author, "")
    (author / "other.cl").write_text((author / "k.cl").read_text())
    layer = (
        '<CustomLayer name="{0}" type="SimpleGPU" version="1"><Kernel entry="k"><Source filename="{0}.cl"/>'
        '</Kernel><Buffers><Tensor arg-index="0" type="input" port-index="0"/><Tensor arg-index="1" '
        'type="output" port-index="0"/></Buffers><WorkSizes global="B*F*Y*X"/></CustomLayer>'
    )
    (author / "k.xml").write_text(layer.format("k") + layer.format("other"))
    named = {**json.loads(DESCRIPTION), "name": "k"}
    version = named.pop("version")
    layers = [named, {"name": "other", "sources": ["other.cl"], "entry": "k"}]
    (author / "k.json").write_text(json.dumps({"version": version, "layers": layers}))
    tune_layer = ("layer", "tune", f"k{suffix}", "--op=k", *SHAPES, "--report=json")
    assert litert_npu(*tune_layer, "--candidates=2", "--dry_run") == 0
    candidates = json.loads(capsys.readouterr().out)["candidates"]
    assert len(candidates) > 1 and not any(found["problem"] for found in candidates)


def test_a_kernel_alone_gets_a_description_that_says_the_same(
    author: Path, litert_npu: LitertNpu, capsys: Capture, monkeypatch: pytest.MonkeyPatch
) -> None:
    run = ("layer", "run", "Softsign.cl", "--model=model.tflite", "--repeat=0", "--output=y.npy")
    assert litert_npu(*run) == 0
    expected = np.load("y.npy")
    run_it = tune.Tuning.run

    def take_another(tuning: tune.Tuning, most: int) -> LocalSize:
        old = run_it(tuning, most)
        return next(c.local_size for c in tuning.candidates if c.local_size != old)

    monkeypatch.setattr(tune.Tuning, "run", take_another)  # whatever is measured
    assert litert_npu("layer", "tune", "Softsign.cl", "--model=model.tflite", "--candidates=2") == 0
    said = "was written to Softsign.json; use this file in place of Softsign.cl from now on."
    assert said in capsys.readouterr().out
    description = json.loads((author / "Softsign.json").read_text())
    assert description.pop("work_sizes")["local"]
    assert description == {
        "version": 1,
        "sources": ["Softsign.cl"],
        "defines": [{"name": "PARAM_alpha", "option": "alpha"}],
    }
    assert litert_npu("layer", "run", "Softsign.json", *run[3:]) == 0
    assert np.array_equal(np.load("y.npy"), expected)


WRONG = {
    "a second description": (
        "k.cl",
        "a .cl file cannot contain a local size, and a new description with the local size cannot be written, "
        "because k.json already exists",
    ),
    "no text": ("k.so", "a .so file cannot contain a local size"),
    "no file": ("no.json", "no such file"),
}


@pytest.mark.parametrize(("path", "said"), WRONG.values(), ids=WRONG)
def test_what_cannot_be_tuned_is_refused(
    author: Path, litert_npu: LitertNpu, capsys: Capture, path: str, said: str
) -> None:
    write(author, "")
    (author / "k.so").write_bytes(b"\x7fELF\xff")
    assert litert_npu("layer", "tune", path, *SHAPES) == 2
    assert said in capsys.readouterr().err


def test_a_kernel_that_fails_as_it_is_is_not_tuned(
    author: Path, litert_npu: LitertNpu, capsys: Capture
) -> None:
    write(author, "if (i == 2) return;")
    assert litert_npu(*TUNE) == 2
    assert "the kernel never writes 1 of 8 elements of output 0" in capsys.readouterr().err
    assert (author / "k.json").read_text() == DESCRIPTION

"""Tests that the examples for first steps run and print what they promise."""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from litert_npu_tools.litert_npu import COMMANDS
from PIL import Image

EXAMPLES = Path(__file__).resolve().parents[2] / "examples"


@pytest.mark.parametrize(
    ("script", "expected"),
    [
        ("01_run_a_model.py", ["Sinh", "sinh of 8 numbers from -1 to 1: [[-1.1752"]),
        (
            "02_kernels/write_a_kernel.py",
            ["[-1.5 -1.   0.   1.6]", "RowNorm:", "Softsign.cl:5", "PARAM_alhpa"],
        ),
        ("03_vendor/bring_a_vendor.py", ["Acme A1", "Acme's NPU: [0. 3. 6. 9.]"]),
        pytest.param(
            "04_cpu_layer/write_a_cpu_layer.py",
            [
                "'plain' of library 'example layers' (version 1.0)",
                "Without allow_native_assets: UNSUPPORTED",
                "[3. 4. 5.]",
            ],
            marks=pytest.mark.skipif(shutil.which("cc") is None, reason="no C compiler"),
        ),
        (
            "05_transformations/transform_a_model.py",
            [
                "decompose_snake",
                "fuse_rms_norm",
                "3 MUL, 1 SIN, 1 ADD, 1 RmsNorm",
                "y has shape [1, 3, 8]",
            ],
        ),
        (
            "10_model_optimizer/keep_your_extensions.py",
            [
                "decompose_mish",
                "softmax_head    front       1 match",
                "swish_fusion    front       1 match",
                "clip_to_relu6   middle      1 match",
                "1 EXP, 1 ADD, 1 LOG, 1 TANH, 1 MUL, 1 Swish, 1 RELU6, 1 SOFTMAX",
                "the largest difference from NumPy is",
            ],
        ),
        (
            "09_two_signatures/two_signatures.py",
            [
                "Partition_0, Partition_1 in 1 module",
                "two.tflite: 1.00 MiB",
                "two_npu.tflite: 1.01 MiB",
                "prefill: (64, 512), right",
                "decode: (1, 512), right",
            ],
        ),
    ],
    ids=[
        "app engineer",
        "kernel author",
        "vendor",
        "author of a CPU layer",
        "author of extensions",
        "author of extensions of another tool",
        "owner of two signatures",
    ],
)
def test_an_example_runs(tmp_path: Path, script: str, expected: list[str]) -> None:
    result = subprocess.run(
        [sys.executable, EXAMPLES / script, tmp_path], capture_output=True, text=True
    )
    assert result.returncode == 0, result.stdout + result.stderr
    for text in expected:
        assert text in result.stdout


def test_faces_are_found_as_many_as_there_are(
    tmp_path: Path, networks: Path, portrait: Path
) -> None:
    network = networks / "face_detection_short_range.tflite"
    script = EXAMPLES / "08_detection" / "find_faces.py"
    result = subprocess.run(
        [sys.executable, script, network, portrait, tmp_path], capture_output=True, text=True
    )
    assert result.returncode == 0, result.stdout + result.stderr
    found = re.findall(r"(\w+): boxes have shape \[(\d), 4\]", result.stdout)
    assert found == [("nobody", "0"), ("one", "1"), ("two", "2")]


def test_the_example_of_faces_says_how_it_is_called() -> None:
    script = EXAMPLES / "08_detection" / "find_faces.py"
    result = subprocess.run([sys.executable, script], capture_output=True, text=True)
    assert result.returncode == 1
    assert result.stderr.startswith("usage: ") and "NETWORK PICTURE [folder]" in result.stderr


@pytest.mark.usefixtures("networks", "portrait")
def test_the_demo_cuts_the_person_out(tmp_path: Path) -> None:
    result = subprocess.run(
        [sys.executable, "-m", "examples.demo", tmp_path],
        cwd=EXAMPLES.parent,
        capture_output=True,
        text=True,
    )
    assert result.returncode == 0, result.stdout + result.stderr
    steps = re.findall(r"^  (litert-npu|python) (\S+)(.*?)   ", result.stdout, re.M)
    assert ("litert-npu", "vendor", " new Zinc") in steps
    for program, first, _ in steps:
        there = first in COMMANDS if program == "litert-npu" else (EXAMPLES.parent / first).exists()
        assert there, first
    with Image.open(tmp_path / "person.png") as picture:
        corner, face = picture.getpixel((500, 10)), picture.getpixel((265, 220))
    assert isinstance(corner, tuple) and corner[3] < 30
    assert isinstance(face, tuple) and face[3] > 225

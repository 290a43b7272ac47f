"""Tests that an input that becomes shorter while a command reads it gives one error message and no output."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pytest

from litert.model.builder import ModelBuilder
from litert.model.writer import write_model

ROWS = 5 << 18
CUTTING = """
import os, sys
from litert.core import mapped_files
map_file, size = mapped_files.map_file, int(sys.argv[1])
def cutting(fd, path):
    mapped = map_file(fd, path)
    os.truncate("large.tflite", size)
    return mapped
mapped_files.map_file = cutting
program = sys.argv[2]
sys.argv[:] = sys.argv[2:]
if program == "apply_plugin":
    from litert_npu_tools.apply_plugin import run
else:
    from litert_npu_tools.litert_npu import run
run()
"""


@pytest.fixture
def large(in_folder: Path) -> str:
    """The path of a model that is large enough to be memory-mapped."""
    builder = ModelBuilder()
    x = builder.input("x", "float32", (1, 4))
    weights = builder.constant("w", np.ones((ROWS, 4), np.float32))
    builder.output(builder.op("MUL", [weights, x], [("y", "float32", (ROWS, 4))]))
    write_model(builder.build(), "large.tflite")
    return "large.tflite"


@pytest.mark.parametrize("size", [100, 5 << 20])
@pytest.mark.parametrize(
    "command",
    [
        ["litert-npu", "check", "large.tflite"],
        ["litert-npu", "run", "large.tflite"],
        ["litert-npu", "transform", "large.tflite", "out.tflite"],
        ["apply_plugin", "--soc_manufacturer=Reference", "--reference_ops=all", "large.tflite", "out.tflite"],
    ],
    ids=["check", "run", "transform", "apply_plugin"],
)  # fmt: skip
def test_an_input_that_is_cut_while_it_is_read_is_an_error(
    large: str, command: Sequence[str], size: int
) -> None:
    done = subprocess.run(
        [sys.executable, "-c", CUTTING, str(size), *command], capture_output=True, text=True
    )
    assert f"FILE_IO: the file became shorter while it was read ({large})" in done.stderr
    assert done.returncode == 2
    assert "Traceback" not in done.stderr
    assert os.listdir() == [large]

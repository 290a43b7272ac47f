"""Tests the warning, which gives TFLite's name, for a transformation that uses another framework's op name."""

from __future__ import annotations

from pathlib import Path

import pytest

from compiler_plugin.transformations import TransformOptions
from compiler_plugin.transforming import transform_file
from litert.model.builder import ModelBuilder
from litert.model.writer import write_model

FILE = """
from compiler_plugin.transformations import Any, Match, OpReplacement, PatternReplacement

class Replace(OpReplacement):
    op = "{op}"
    def replace_op(self, graph, node):
        return None

class Rewrite(PatternReplacement):
    pattern = Match("RELU", Match("{op}", Any("x")))
    def rewrite(self, graph, x):
        return None
"""


@pytest.mark.parametrize(
    ("op", "custom_code", "meant"),
    [
        ("Relu6", "Other", "RELU6"),
        ("Conv2d", "Other", "CONV_2D"),
        ("Relu6", "Relu6", ""),  # the model has such a custom op
        ("RELU6", "Other", ""),
        ("Mish", "Other", ""),
    ],
)
def test_a_name_that_is_nearly_tflite_s_own_is_a_warning(
    tmp_path: Path, op: str, custom_code: str, meant: str
) -> None:
    b = ModelBuilder()
    x = b.input("x", "float32", (4,))
    b.output(b.custom(custom_code, [x], [("y", "float32", (4,))]))
    write_model(b.build(), tmp_path / "model.tflite")
    path = tmp_path / "mine" / "middle" / "file.py"
    path.parent.mkdir(parents=True)
    path.write_text(FILE.format(op=op))
    options = TransformOptions(extensions=[str(tmp_path / "mine")])
    report = transform_file(tmp_path / "model.tflite", tmp_path / "out.tflite", options)
    wanted = [
        f"transformation '{name}' searches for op {op}, but the model has no such op; in TFLite, the op's "
        f"name is {meant} ({path})"
        for name in ("replace", "rewrite")
    ]
    assert report.warnings == (wanted if meant else [])

"""Tests that a new built-in transformation or layout rule needs one new file and no other edit."""

from __future__ import annotations

import importlib
import shutil
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from compiler_plugin.transformations import TransformOptions, extension_folders
from compiler_plugin.transformations.layout_change.change import change_layout
from compiler_plugin.transformations.layout_change.rule import layout_rules
from compiler_plugin.transformations.running import Transformations
from compiler_plugin.transformations.transformation_plan import describe_transformations
from litert.core.element_type import ElementType
from litert.model.builder import ModelBuilder
from litert.model.graph import Model

MIDDLE = "compiler_plugin.transformations.builtin.middle"
RULES = "compiler_plugin.transformations.layout_change.rules"

TRANSFORMATION = '''"""Two NEG in a row are one ABS."""
from compiler_plugin.transformations import Any, Match, PatternReplacement


class FuseNegations(PatternReplacement):
    """Two NEG in a row become ABS."""

    pattern = Match("NEG", Match("NEG", Any("x")))

    def rewrite(self, graph, x):
        return graph.create_op("ABS", [x])
'''

RULE = '''"""STABLEHLO_CLAMP, of one value for each place."""
from compiler_plugin.transformations.layout_change.rules.pointwise import Elementwise

RULES = (Elementwise(("STABLEHLO_CLAMP",), broadcasts=False),)
'''


def build(*ops: str) -> Model:
    builder = ModelBuilder()
    x = builder.input("x", ElementType.FLOAT32, (1, 2, 3, 4))
    for index, op in enumerate(ops):
        count = 3 if op == "STABLEHLO_CLAMP" else 1
        output = builder.tensor(f"t{index}", ElementType.FLOAT32, (1, 2, 3, 4))
        builder.op(op, [x] * count, [output])
        x = output
    builder.output(x)
    return builder.build()


def extend(package: str, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Adds a folder to the search path of a package's modules."""
    paths = list(importlib.import_module(package).__path__)
    monkeypatch.setattr(f"{package}.__path__", [*paths, str(folder)])


@pytest.fixture
def with_transformation(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    ours = Path(extension_folders.__file__).parent
    shutil.copytree(ours / "builtin", tmp_path / "builtin")
    (tmp_path / "builtin" / "middle" / "fuse_negations.py").write_text(TRANSFORMATION)
    monkeypatch.setattr(extension_folders, "__file__", str(tmp_path / "extension_folders.py"))
    extend(MIDDLE, tmp_path / "builtin" / "middle", monkeypatch)
    yield
    sys.modules.pop(f"{MIDDLE}.fuse_negations", None)


@pytest.fixture
def with_rule(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    (tmp_path / "clamps.py").write_text(RULE)
    extend(RULES, tmp_path, monkeypatch)
    layout_rules.cache_clear()
    yield
    sys.modules.pop(f"{RULES}.clamps", None)
    monkeypatch.undo()
    layout_rules.cache_clear()


@pytest.mark.usefixtures("with_transformation")
def test_a_transformation_is_listed_and_runs() -> None:
    infos, notes = describe_transformations()
    (info,) = [info for info in infos if info.name == "fuse_negations"]
    assert (info.phase, info.enabled, info.path) == ("middle", True, "") and not notes
    model = build("NEG", "NEG")
    transformations = Transformations(TransformOptions(selection=("all",)))
    transformations.run(model)
    assert [op.name for op in model.ops()] == ["ABS"]
    assert {r.name: r.matches for r in transformations.reports()}["fuse_negations"] == 1


@pytest.mark.usefixtures("with_rule")
def test_a_layout_rule_counts() -> None:
    model = build("RELU", "STABLEHLO_CLAMP", "AVERAGE_POOL_2D")
    report = change_layout(model, model.subgraphs[0], "NCHW")
    assert report.ops == 3


def test_without_the_rule_its_op_keeps_its_layout() -> None:
    model = build("RELU", "STABLEHLO_CLAMP", "AVERAGE_POOL_2D")
    assert change_layout(model, model.subgraphs[0], "NCHW").ops == 1

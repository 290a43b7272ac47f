"""Tests the built-in transformations on real networks: stock LiteRT's outputs stay the same, also with XNNPACK.

The transformations run together here; the benchmark runs each one separately.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache
from pathlib import Path
from typing import Any

import pytest

from compiler_plugin.transform_options import TransformOptions
from compiler_plugin.transformations.running import Transformations
from corpus.downloads import NETWORKS
from corpus.stock_outputs import Opened, largest_difference, open_model, run_values
from litert.model.graph import Model
from litert.model.reader import read_model
from litert.model.writer import to_bytes

TOLERANCE = 1e-5
"""The largest difference, relative to the largest magnitude of an output."""

GROWING = {"decompose_gelu", "decompose_hard_swish", "decompose_prelu", "split_fully_connected"}
"""Transformations that replace one op by several."""

SELECTIONS = {
    "all": ["all"],
    "also those that are not enabled": ["all", "fold_densify", *GROWING],
}

GUIDE = Path(__file__).resolve().parents[4] / "docs" / "transformations.md"


def transformed(path: Path, *selection: str) -> tuple[bytes, dict[str, int]]:
    """Transforms a network; returns the new file, and how often each transformation matched."""
    model = read_model(path)
    transformations = Transformations(TransformOptions(selection=selection))
    transformations.run(model)
    matches = {report.name: report.matches for report in transformations.reports()}
    return bytes(to_bytes(model)), matches


@cache
def original(path: Path) -> tuple[Opened, dict[bool, Any]]:
    opened = open_model(path.read_bytes())
    return opened, {xnnpack: run_values(opened, xnnpack) for xnnpack in (False, True)}


@pytest.mark.parametrize("selection", SELECTIONS.values(), ids=SELECTIONS)
@pytest.mark.parametrize("name", NETWORKS)
def test_outputs_stay_what_they_were(networks: Path, name: str, selection: Sequence[str]) -> None:
    path = networks / f"{name}.tflite"
    data, matches = transformed(path, *selection)
    opened = open_model(data)
    for xnnpack, expected in original(path)[1].items():
        assert largest_difference(expected, run_values(opened, xnnpack)) <= TOLERANCE
    assert _ends(read_model(data)) == _ends(read_model(path))
    if not any(matches.get(name) for name in GROWING):
        assert _count(read_model(data)) <= _count(read_model(path))


@pytest.mark.parametrize("name", NETWORKS)
def test_the_guide_says_what_becomes_of_a_network(networks: Path, name: str) -> None:
    path = networks / f"{name}.tflite"
    data, matches = transformed(path, "all")
    before, after = (len(read_model(file).subgraphs[0].ops) for file in (path, data))
    what = ", ".join(f"`{key}` {count}" for key, count in matches.items() if count) or "none"
    row = f"| `{name}` | {before} | {after} | {what} |"
    assert row in GUIDE.read_text().splitlines()


def test_a_network_with_custom_ops_keeps_them(networks: Path) -> None:
    path = networks / "face_landmark_with_attention.tflite"
    before, after = read_model(path), read_model(transformed(path, "all")[0])
    assert _custom_ops(after) == _custom_ops(before)


def test_hard_swish_that_was_taken_apart_is_found_again(networks: Path, tmp_path: Path) -> None:
    path = networks / "selfie_segmentation.tflite"
    apart, matches = transformed(path, "decompose_hard_swish")
    assert matches == {"decompose_hard_swish": 11}
    file = tmp_path / "apart.tflite"
    file.write_bytes(apart)
    again, matches = transformed(file, "fuse_hard_swish")
    assert matches == {"fuse_hard_swish": 11}
    assert _names(read_model(again)) == _names(read_model(path))


def _ends(model: Model) -> Any:
    """Returns what a user of the model sees: names, types and quantization of inputs, outputs and signatures."""
    return [
        [
            (t.name, t.element_type, t.shape, t.shape_signature, t.quantization)
            for t in (*subgraph.inputs, *subgraph.outputs)
        ]
        for subgraph in model.subgraphs
    ] + [(s.key, [(key, t.name) for key, t in (*s.inputs, *s.outputs)]) for s in model.signatures]


def _count(model: Model) -> int:
    return sum(len(subgraph.ops) for subgraph in model.subgraphs)


def _custom_ops(model: Model) -> Sequence[Any]:
    return [
        (op.name, op.outputs[0].name, op.custom_options and bytes(op.custom_options.view))
        for op in model.subgraphs[0].ops
        if op.is_custom
    ]


def _names(model: Model) -> Sequence[str]:
    return [op.name for op in model.subgraphs[0].ops]

"""Tests each target of `make fuzz` with seeds, inputs that once revealed defects, and the same damaged inputs."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.fuzz.target import load_target, target_names
from tests.fuzz.trials import try_target


@pytest.mark.parametrize("name", target_names())
def test_damaged_inputs_are_answered(name: str, tmp_path: Path) -> None:
    target = load_target(name)
    runs = len(target.inputs(name)) + target.test_runs
    outcome = try_target(name, tmp_path, runs=runs)
    texts = [path.read_text() for path in outcome.findings if path.suffix == ".txt"]
    assert not texts, "\n".join(texts)
    assert outcome.runs == runs


@pytest.mark.parametrize("name", target_names())
def test_seeds_are_good(name: str) -> None:
    target = load_target(name)
    for data in target.seeds():
        target.run(data)

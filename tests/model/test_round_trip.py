"""Tests that a model that is read and written stays the same, for all that the schema allows.

Stock's schema code compares the models.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from hypothesis import given, settings
from hypothesis import strategies as st

from litert.model.reader import read_model
from litert.model.writer import to_bytes

Make = Callable[[int], bytes]
Compare = Callable[[bytes, bytes], list[str]]


def test_any_model_comes_out_as_it_went_in(random_model: Make, differences: Compare) -> None:
    @settings(max_examples=80)
    @given(st.integers(0, 2**32))
    def check(seed: int) -> None:
        before = random_model(seed)
        model = read_model(before)
        assert not model.warnings and model.trailing is None
        after = to_bytes(model)
        assert differences(before, after) == []
        assert to_bytes(read_model(after)) == after

    check()


def test_real_networks_come_out_as_they_went_in(networks: Path, differences: Compare) -> None:
    check_folder(networks, differences)


def test_real_models_with_custom_ops_come_out_as_they_went_in(
    models: Path, differences: Compare
) -> None:
    check_folder(models, differences)


def check_folder(folder: Path, differences: Compare) -> None:
    from ai_edge_litert.interpreter import Interpreter

    paths = sorted(folder.rglob("*.tflite"))
    assert paths
    for path in paths:
        before = path.read_bytes()
        with read_model(path) as model:
            after = to_bytes(model)
            assert not model.warnings
        assert differences(before, after) == [], path.name
        assert to_bytes(read_model(before)) == after
        Interpreter(model_content=after)

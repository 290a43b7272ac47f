"""What is read is written back, whatever the schema allows; stock's schema code is the judge."""

from __future__ import annotations

from collections.abc import Callable

from hypothesis import given, settings
from hypothesis import strategies as st

from litert.model.reader import read_model
from litert.model.writer import to_bytes

Make = Callable[[int], bytes]
Compare = Callable[[bytes, bytes], list[str]]


def test_any_model_comes_out_as_it_went_in(random_model: Make, differences: Compare) -> None:
    @settings(max_examples=150)
    @given(st.integers(0, 2**32))
    def check(seed: int) -> None:
        before = random_model(seed)
        model = read_model(before)
        assert not model.warnings and model.trailing is None
        after = to_bytes(model)
        assert differences(before, after) == []
        assert to_bytes(read_model(after)) == after

    check()

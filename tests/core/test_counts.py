"""Tests that the message for an index out of range lists the existing indices."""

import pytest

from litert.core.counts import out_of_range


@pytest.mark.parametrize(
    ("count", "text"),
    [
        (0, "call index 9 is out of range: there are no calls"),
        (1, "call index 9 is out of range: the only call has index 0"),
        (2, "call index 9 is out of range: the 2 calls have the indices 0 and 1"),
        (9, "call index 9 is out of range: the 9 calls have the indices 0 to 8"),
    ],
)
def test_an_index_that_is_too_large_is_told_with_the_indices_that_exist(
    count: int, text: str
) -> None:
    assert out_of_range("call", 9, count) == text

"""Tensors as kernels see them."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from vendor_reference.custom_layers.layout import bfyx


@pytest.mark.parametrize(
    ("shape", "dims", "order", "pitches"),
    [
        ((), (1, 1, 1, 1), "BFYX", (1, 1, 1, 1)),
        ((7,), (7, 1, 1, 1), "BFYX", (1, 1, 1, 1)),
        ((3, 4), (3, 4, 1, 1), "BFYX", (4, 1, 1, 1)),
        ((2, 3, 4), (2, 3, 4, 1), "BFYX", (12, 4, 1, 1)),
        ((2, 4, 5, 3), (2, 3, 4, 5), "BYXF", (60, 1, 15, 3)),  # N, H, W, C
        ((1, 2, 3, 4, 5), (1, 5, 6, 4), "BYXF", (120, 1, 20, 5)),
    ],
)
def test_dimensions_and_pitches(
    shape: tuple[int, ...], dims: tuple[int, ...], order: str, pitches: tuple[int, ...]
) -> None:
    view = bfyx(shape)
    assert (view.dims, view.memory_order, view.pitches) == (dims, order, pitches)


@given(st.lists(st.integers(1, 4), max_size=6))
def test_pitches_reach_each_element_once(shape: list[int]) -> None:
    view = bfyx(shape)
    places = {int(np.dot(index, view.pitches)) for index in np.ndindex(*view.dims)}
    assert places == set(range(int(np.prod(shape))))

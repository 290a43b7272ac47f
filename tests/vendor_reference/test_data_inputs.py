"""Tests constants that a description binds by name."""

from __future__ import annotations

import numpy as np
import pytest

from litert.core.errors import LiteRtError
from litert.model.builder import ModelBuilder
from litert.model.graph import Op
from vendor_reference.custom_layers.value_sources import find_data_input


def op(*names: str) -> Op:
    b = ModelBuilder()
    x = b.input("weights", "float32", (4,))
    constants = [b.constant(name, np.zeros(4, np.float32)) for name in names]
    stored = b.constant("half", np.zeros(4, np.float16))
    half = b.op("DEQUANTIZE", [stored], [("full", "float32", (4,))])
    b.custom("Mine", [x, None, *constants, half], [("y", "float32", (4,))])
    return b.build().subgraphs[0].ops[-1]


@pytest.mark.parametrize(
    ("name", "index"),
    [("net/a/weights:0", 2), ("weights", 2), ("biases", 3), ("half", 4), ("full", 4)],
)
def test_data_is_a_constant_input_by_its_name_or_the_last_part(name: str, index: int) -> None:
    assert find_data_input(op("net/a/weights:0", "net/a/biases"), name) == index


def test_a_whole_name_goes_before_a_part() -> None:
    assert find_data_input(op("net/weights", "weights"), "weights") == 3


def test_a_name_that_nobody_has_is_an_error_with_those_there_are() -> None:
    with pytest.raises(LiteRtError) as error:
        find_data_input(op("net/weights"), "biases")
    assert (
        "data 'biases', but the op has only the constant inputs 'net/weights', 'full'"
        in error.value.what
    )


def test_a_part_that_two_have_is_an_error() -> None:
    with pytest.raises(
        LiteRtError,
        match="data 'weights', but several constant inputs match this name: 'a/weights', 'b/weights'",
    ):
        find_data_input(op("a/weights", "b/weights"), "weights")

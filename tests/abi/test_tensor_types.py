from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from litert.abi.definitions import ffi
from litert.abi.tensor_types import from_c, to_c
from litert.core.element_type import ElementType
from litert.core.errors import LiteRtError
from litert.core.status import Status
from litert.core.tensor_type import Layout, RankedTensorType


@st.composite
def _types(draw: st.DrawFn) -> RankedTensorType:
    dimensions = tuple(draw(st.lists(st.integers(-1, 2**31 - 1), max_size=8)))
    strides = st.tuples(*[st.integers(0, 2**32 - 1)] * len(dimensions))
    return RankedTensorType(
        draw(st.sampled_from(ElementType)), Layout(dimensions, draw(st.none() | strides))
    )


@given(_types())
def test_what_was_written_is_read_back(tensor_type: RankedTensorType) -> None:
    c_type = ffi.new("LiteRtRankedTensorType*")
    to_c(tensor_type, c_type)
    assert from_c(c_type) == from_c(c_type[0]) == tensor_type


def test_it_lies_where_stock_has_it() -> None:
    c_type = ffi.new("LiteRtRankedTensorType*")
    to_c(RankedTensorType(ElementType.INT8, Layout((2, -1), (3, 1))), c_type)
    words = ffi.cast("int32_t*", c_type)
    assert [words[0], words[1], words[2], words[3], words[10], words[11]] == [9, 130, 2, -1, 3, 1]


def test_a_rank_that_does_not_fit_is_refused() -> None:
    with pytest.raises(LiteRtError, match="the tensor has 9 dimensions") as error:
        to_c(RankedTensorType.of(ElementType.FLOAT32, (1,) * 9), ffi.new("LiteRtRankedTensorType*"))
    assert error.value.status is Status.UNSUPPORTED


@pytest.mark.parametrize(("element_type", "rank"), [(99, 0), (-1, 2), (1, 9), (1, 127)])
def test_nonsense_is_refused(element_type: int, rank: int) -> None:
    c_type = ffi.new("LiteRtRankedTensorType*")
    ffi.cast("int32_t*", c_type)[0] = element_type
    c_type.layout.rank = rank
    with pytest.raises(LiteRtError) as error:
        from_c(c_type)
    assert error.value.status is Status.INVALID_ARGUMENT


def test_null_is_refused() -> None:
    with pytest.raises(LiteRtError, match="NULL"):
        from_c(ffi.cast("LiteRtRankedTensorType*", 0))

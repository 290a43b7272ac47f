"""Tests how a plugin reads the user's custom ops from LiteRT's compiler options."""

from __future__ import annotations

from typing import Any

import pytest

from litert.core.compiler_options import CompilerOptions, CustomOpInfo, parse_shape_bounds
from litert.core.errors import LiteRtError
from litert.core.status import Status

OPTIONS = CompilerOptions([CustomOpInfo("Sinh", "a, b/sinh.cl"), CustomOpInfo("Mish", "mish.json")])


def test_custom_op_infos_are_read_by_number_and_index() -> None:
    assert CompilerOptions().get_num_custom_op_info() == 0
    assert OPTIONS.get_num_custom_op_info() == 2
    assert OPTIONS.get_custom_op_info(0) == ("Sinh", "a, b/sinh.cl")
    assert OPTIONS.get_custom_op_info(1) == ("Mish", "mish.json")


@pytest.mark.parametrize("index", [-1, 2])
def test_an_index_past_the_custom_op_infos_is_refused(index: int) -> None:
    with pytest.raises(LiteRtError) as error:
        OPTIONS.get_custom_op_info(index)
    assert error.value.status is Status.INDEX_OOB
    expected = f"info index {index} is out of range: the 2 custom op infos have the indices 0 and 1"
    assert expected in str(error.value)


def test_a_text_is_no_list_of_texts() -> None:
    with pytest.raises(LiteRtError, match="must be a list of texts") as error:
        CompilerOptions(custom_layers="layers/all.xml")
    assert error.value.status is Status.INVALID_TOOL_CONFIG
    assert "custom_layers=['layers/all.xml']" in error.value.hint


def test_a_pair_is_no_custom_op_info() -> None:
    pairs: Any = [("Sinh", "sinh.cl")]
    with pytest.raises(LiteRtError, match="Write custom_op_infos="):
        CompilerOptions(pairs)


@pytest.mark.parametrize(
    ("texts", "shapes"),
    [
        (["x:1x2", "a:0:3"], {"x": [1, 2], "a:0": [3]}),
        (["x:1x2,a:0:3,b,c:4x5"], {"x": [1, 2], "a:0": [3], "b,c": [4, 5]}),
    ],
)
def test_a_text_may_have_the_shapes_of_several_tensors(
    texts: list[str], shapes: dict[str, list[int]]
) -> None:
    assert parse_shape_bounds(texts) == shapes


@pytest.mark.parametrize("text", ["", "x", "x:", ":3", "x:0", "x:1x", "x:1,", "x:1,y", "x:-1"])
def test_what_is_no_shape_is_refused(text: str) -> None:
    with pytest.raises(LiteRtError, match="which is not a bound"):
        parse_shape_bounds([text])

"""What a plugin reads of the user's custom ops, as in LiteRT's compiler options."""

from __future__ import annotations

from typing import Any

import pytest

from litert.core.compiler_options import CompilerOptions, CustomOpInfo
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
    assert f"custom op info {index} of 2" in str(error.value)


def test_a_text_is_no_list_of_texts() -> None:
    with pytest.raises(LiteRtError, match="not a list") as error:
        CompilerOptions(custom_layers="layers/all.xml")
    assert error.value.status is Status.INVALID_TOOL_CONFIG
    assert "custom_layers=['layers/all.xml']" in error.value.hint


def test_a_pair_is_no_custom_op_info() -> None:
    pairs: Any = [("Sinh", "sinh.cl")]
    with pytest.raises(LiteRtError, match="Write CustomOpInfo"):
        CompilerOptions(pairs)

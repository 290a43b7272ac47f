"""Tests that options of builtin ops are read and written by their names in the schema."""

from __future__ import annotations

from typing import Any

import pytest

from litert.core.errors import LiteRtError
from litert.model.builder import ModelBuilder
from litert.model.builtin_options import (
    count_outputs,
    default_builtin_options,
    get_builtin_option,
    option_names,
    read_builtin_options,
    set_builtin_option,
)
from litert.model.graph import Op


def make_op(name: str, **options: Any) -> Op:
    b = ModelBuilder()
    b.op(name, [b.input("x", "float32", (2, 2))], [("y", "float32", (2, 2))], **options)
    return b.build().subgraphs[0].ops[0]


def test_an_option_that_the_file_leaves_out_has_the_schemas_default() -> None:
    op = make_op("RESHAPE")
    op.options = None
    assert list(option_names(op)) == ["new_shape"]
    assert get_builtin_option(op, "new_shape") is None
    set_builtin_option(op, "new_shape", [4])
    assert get_builtin_option(op, "new_shape") == (4,)


def test_another_operators_options_are_none() -> None:
    op = make_op("RESHAPE")
    op.options = make_op("SOFTMAX", beta=2.0).options
    assert list(option_names(op)) == ["new_shape"]
    assert get_builtin_option(op, "new_shape") is None
    set_builtin_option(op, "new_shape", [4])
    assert op.options is not None and op.options.type_name == "ReshapeOptions"


def test_enums_are_set_and_read_by_name() -> None:
    op = make_op("CONV_2D", padding="VALID", stride_h=2)
    set_builtin_option(op, "fused_activation_function", "RELU6")
    found = {name: get_builtin_option(op, name) for name in option_names(op)}
    assert (found["padding"], found["stride_h"], found["fused_activation_function"]) == (
        "VALID", 2, "RELU6",
    )  # fmt: skip


def test_options_of_the_second_union_are_options_too() -> None:
    op = make_op("STABLEHLO_CONCATENATE", dimension=3)
    assert op.options is None and get_builtin_option(op, "dimension") == 3
    set_builtin_option(op, "dimension", 1)
    assert op.options is None and get_builtin_option(op, "dimension") == 1


@pytest.mark.parametrize(
    ("name", "value"), [("padding", "SAMEE"), ("stride_w", "x"), ("stride_w", 1 << 40)]
)
def test_a_value_that_the_field_cannot_have_changes_nothing(name: str, value: object) -> None:
    op = make_op("CONV_2D", padding="VALID", stride_w=2)
    before = op.options
    with pytest.raises(LiteRtError):
        set_builtin_option(op, name, value)
    assert op.options is before


def test_options_are_read_with_what_the_file_leaves_out() -> None:
    assert read_builtin_options(make_op("RESHAPE", new_shape=[4])) == {"new_shape": (4,)}
    assert read_builtin_options(make_op("RESHAPE")) == {}
    op = make_op("SOFTMAX", beta=2.0)
    assert read_builtin_options(op) == {"beta": 2.0}
    op.options = None
    assert read_builtin_options(op) == {"beta": 0.0}
    assert read_builtin_options(make_op("VAR_HANDLE", container="c")) == {}  # texts are omitted


def test_a_new_op_has_usual_options() -> None:
    found = default_builtin_options("CONV_2D")
    assert (found["stride_w"], found["padding"]) == (1, "SAME")
    assert default_builtin_options("CUSTOM") == {}


@pytest.mark.parametrize(
    ("name", "options", "count"),
    [("ADD", {}, 1), ("SPLIT", {"num_splits": 3}, 3), ("SPLIT", {}, 0)],
)
def test_an_op_has_as_many_outputs_as_its_options_say(
    name: str, options: dict[str, int], count: int
) -> None:
    assert count_outputs(name, options) == count

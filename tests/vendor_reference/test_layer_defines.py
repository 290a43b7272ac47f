"""Tests the values of a layer's own defines for an op."""

from __future__ import annotations

import numpy as np
import pytest

from litert.core.errors import LiteRtError
from litert.core.quantization import Quantization
from litert.model.builder import ModelBuilder
from litert.model.graph import Op
from tests.vendor_reference.layers import custom_layer
from vendor_reference.compiler.simplegpu_defines import layer_defines
from vendor_reference.custom_layers.custom_layer import Define
from vendor_reference.custom_layers.value_sources import FlexOption, Literal, OpValues


def defines(
    op: Op, *defines: Define, quantization: bool = False, of_options: bool = False
) -> tuple[dict[str, str], list[str]]:
    layer = custom_layer(
        op.name,
        "k.xml",
        [],
        defines=defines,
        defines_options=of_options,
        defines_quantization=quantization,
    )
    notes: list[str] = []
    return dict(layer_defines(layer, op, OpValues(op), notes)), notes


def custom(options: object) -> Op:
    b = ModelBuilder()
    x = b.input("x", "float32", (4,))
    b.custom("Mine", [x], [("y", "float32", (4,))], options=options)  # type: ignore[arg-type]
    return b.build().subgraphs[0].ops[0]


def plain(key: str, default: str | None = None, define_type: str = "") -> Define:
    return Define("N", FlexOption(key, default), define_type, is_plain=True)


@pytest.mark.parametrize(
    ("define", "text"),
    [
        (plain("n"), "3"),
        (plain("on"), "1"),
        (plain("alpha"), "2.75f"),
        (plain("alpha", define_type="int"), "2.75f"),  # a declared type does not convert the value
        (plain("axes", define_type="int[]"), "(int[]) {3,4,5}"),
        (plain("axes", define_type="float[]"), "(float[]) {3,4,5}"),
        (plain("scales", define_type="float[]"), "(float[]) {0.5f,1.25f}"),
        (plain("mode"), "SAME"),
        (plain("none", "0.0", "float"), "0.0"),
        (plain("none", "1,2", "int[]"), "(int[]) {1,2}"),
        (plain("mode", "VALID"), "SAME"),
        (plain("empty", "7"), ""),  # an empty text in the op overrides the default
    ],
)
def test_a_define_of_a_configuration_prints_what_the_op_has(define: Define, text: str) -> None:
    options = {"n": 3, "on": True, "alpha": 2.75, "axes": [3, 4, 5], "scales": [0.5, 1.25],
               "mode": "SAME", "empty": ""}  # fmt: skip
    found, notes = defines(custom(options), define)
    assert found == {"N": text} and not notes


def test_a_define_without_option_and_default_is_empty_and_noted() -> None:
    found, notes = defines(custom({"a": 1}), plain("b"))
    assert found == {"N": ""}
    assert notes == [
        "k.xml, op 'Mine': define 'N' is empty: the define has no default, and the op has no option 'b'."
    ]


def test_an_array_without_option_and_default_has_no_elements() -> None:
    assert defines(custom({"a": 1}), plain("b", define_type="int[]"))[0] == {"N": "(int[]) {}"}
    assert defines(custom({"a": 1}), plain("b", define_type="float"))[0] == {"N": ""}


def test_options_that_are_a_c_struct_are_noted_where_a_default_stands() -> None:
    found, notes = defines(custom(b"\1\0\0\0\2\0\0\0"), plain("b", "5"))
    assert found == {"N": "5"}
    assert notes == [
        "k.xml, op 'Mine': define 'N' has its default value: the op's options are 8 bytes that are "
        "not a FlexBuffer map."
    ]


def test_the_options_of_a_builtin_op_go_by_their_names_in_the_schema() -> None:
    b = ModelBuilder()
    x = b.input("x", "float32", (1, 4, 4, 1))
    b.op("LEAKY_RELU", [x], [("a", "float32", (1, 4, 4, 1))], alpha=0.25)
    b.op("AVERAGE_POOL_2D", [x], [("b", "float32", (1, 4, 4, 1))], filter_height=3)
    b.op("RELU", [x], [("c", "float32", (1, 4, 4, 1))])
    leaky, pool, relu = b.build().subgraphs[0].ops
    assert defines(leaky, plain("alpha"))[0] == {"N": "0.25f"}
    assert defines(pool, plain("filter_height"))[0] == {"N": "3"}
    assert defines(pool, plain("stride_w"))[0] == {"N": "0"}  # the default of the TFLite schema
    assert defines(leaky, of_options=True)[0] == {"PARAM_alpha": "0.25f"}
    assert defines(relu, plain("alpha", "0.0"))[0] == {"N": "0.0"}
    assert "no option 'alpha'" in defines(relu, plain("alpha"))[1][0]


def test_quantized_tensors_have_scale_and_zero_point() -> None:
    b = ModelBuilder()
    x = b.input("x", "int8", (1, 2, 2, 3), quantization=Quantization([0.5], [-3]))
    w = b.constant(
        "w", np.zeros((2, 1, 1, 3), np.int8), quantization=Quantization([0.5, 0.25], [0, 1])
    )
    b.custom("Mine", [x, None, w], [("y", "float32", (4,))])
    (op,) = b.build().subgraphs[0].ops
    expected = {
        "INPUT0_SCALE_SIZE": "1",
        "INPUT0_SCALE": "0.5f",
        "INPUT0_ZERO_POINT_SIZE": "1",
        "INPUT0_ZERO_POINT": "-3",
        "INPUT2_SCALE_SIZE": "2",
        "INPUT2_SCALE": "(float[]) {0.5f,0.25f}",
        "INPUT2_ZERO_POINT_SIZE": "2",
        "INPUT2_ZERO_POINT": "(int[]) {0,1}",
    }
    assert defines(op, quantization=True)[0] == expected
    assert defines(op)[0] == {}
    own = Define("INPUT0_SCALE", Literal(2))
    assert defines(op, own, quantization=True)[0] == {**expected, "INPUT0_SCALE": "2"}


def test_where_an_init_is_named_all_scales_have_one() -> None:
    b = ModelBuilder()
    x = b.input("x", "int8", (2, 3), quantization=Quantization([0.5], [-3]))
    w = b.constant("w", np.zeros((2, 1), np.int8), quantization=Quantization([0.5, 0.25], [7]))
    b.custom("Mine", [x, w], [("y", "float32", (4,))])
    (op,) = b.build().subgraphs[0].ops
    own = Define("S", Literal("INPUT1_SCALE_INIT"))
    assert defines(op, own, quantization=True)[0] == {
        "INPUT0_SCALE_SIZE": "1", "INPUT0_SCALE_INIT": "{ 0.5f }", "INPUT0_SCALE": "0.5f",
        "INPUT0_ZERO_POINT_SIZE": "1", "INPUT0_ZERO_POINT_INIT": "{ -3 }", "INPUT0_ZERO_POINT": "-3",
        "INPUT1_SCALE_SIZE": "2", "INPUT1_SCALE_INIT": "{ 0.5f,0.25f }",
        "INPUT1_SCALE": "(float[]) {0.5f,0.25f}", "INPUT1_ZERO_POINT_SIZE": "2",
        "INPUT1_ZERO_POINT_INIT": "{ 7,7 }", "INPUT1_ZERO_POINT": "(int[]) {7,7}",
        "S": "INPUT1_SCALE_INIT",
    }  # fmt: skip


def test_a_define_that_a_description_needs_is_an_error_without_its_option() -> None:
    with pytest.raises(
        LiteRtError,
        match="cannot set define 'N': the layer uses option 'b', but the op has only 'a' ",
    ):
        defines(custom({"a": 1}), Define("N", FlexOption("b")))

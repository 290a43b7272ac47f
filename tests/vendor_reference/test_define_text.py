"""Tests the text of a value in a `#define`."""

from __future__ import annotations

import struct
from contextlib import suppress

import pytest
from hypothesis import given
from hypothesis import strategies as st

from litert.core.errors import LiteRtError
from vendor_reference.compiler.simplegpu_defines import define_text
from vendor_reference.custom_layers.value_sources import Value


@pytest.mark.parametrize(
    ("value", "define_type", "text"),
    [
        (3, "", "3"),
        (True, "", "1"),
        (False, "int", "0"),
        (-3, "", "-3"),
        (2**63, "", "9223372036854775808UL"),
        (-(2**63), "", "(-9223372036854775807L - 1)"),
        (0.5, "", "0.5f"),
        (1e-9, "", "1e-09f"),
        (1e300, "", "1e+300"),
        (float("inf"), "", "INFINITY"),
        (float("-inf"), "", "(-INFINITY)"),
        (float("nan"), "", "NAN"),
        (3, "float", "3.0f"),
        (3.0, "int", "3"),
        ("SAME", "", "SAME"),
        ("a + b", "", "a + b"),
        ((1, 2, 3), "", "1,2,3"),
        ((0.5, 1), "", "0.5f,1"),
        ((1, 2), "int[]", "(int[]) {1,2}"),
        ((1, 2.5), "float[]", "(float[]) {1.0f,2.5f}"),
        (7, "int[]", "(int[]) {7}"),
    ],
)
def test_a_value_has_a_text(value: Value, define_type: str, text: str) -> None:
    assert define_text(value, define_type) == text


@pytest.mark.parametrize(
    ("value", "define_type", "says"),
    [
        (2.7, "int", "the value is 2.7, but must be of type int"),
        ((1, 2.5), "int[]", "the value is 2.5, but must be of type int"),
        ((1, 2), "int", "the op's option has 2 values, but the define needs one int"),
        ("x", "float", "the value is the string 'x', but must be of type float"),
        (
            "a\nb",
            "",
            "a #define cannot contain the text 'a\\nb': the character '\\n' is not printable",
        ),
        (
            "a\\",
            "",
            "a #define cannot contain the string 'a\\\\': it contains a comment, or ends with a backslash",
        ),
        (
            "a // b",
            "",
            "a #define cannot contain the string 'a // b': it contains a comment, or ends with a backslash",
        ),
        (
            "a /* b",
            "",
            "a #define cannot contain the text 'a /* b': a comment does not end with '*/'",
        ),
        (
            "it's",
            "",
            "a #define cannot contain the text \"it's\": the character ' has no matching quote",
        ),
    ],
)
def test_a_value_of_another_type_is_refused(value: Value, define_type: str, says: str) -> None:
    with pytest.raises(LiteRtError) as error:
        define_text(value, define_type)
    assert says in error.value.what


@given(st.floats(width=32, allow_nan=False, allow_infinity=False))
def test_a_float_reads_back_exactly(value: float) -> None:
    text = define_text(value)
    assert text.endswith("f")
    assert struct.pack("f", float(text[:-1])) == struct.pack("f", value)


PLAIN = {
    "5 /* five */": "5  ",
    "/*a*/5/* b */": " 5 ",
    "5 // five": "5  ",
    'f("http://x")': 'f("http://x")',
    "\"/* no comment */\" '\\''": "\"/* no comment */\" '\\''",
    "5 \\": "5",
    "5 /* \n */ + 1": "5   + 1",
    "1 /* it's */": "1  ",
    "1 /* caf\x93 */": "1  ",
}


@pytest.mark.parametrize(("value", "text"), PLAIN.items(), ids=list(PLAIN))
def test_a_text_of_a_configuration_may_have_what_a_line_of_c_has(value: str, text: str) -> None:
    assert define_text(value, is_plain=True) == text
    assert define_text(value, "int[]", is_plain=True) == f"(int[]) {{{text}}}"


@pytest.mark.parametrize("value", ["1 /* 2", "1 /*/", "it's", '"', "a\nb", "a\x93b"])
def test_a_text_that_would_reach_beyond_its_line_is_refused(value: str) -> None:
    with pytest.raises(LiteRtError, match="a #define cannot contain the text "):
        define_text(value, is_plain=True)


@given(st.text("ab /*\\\"'\n\x93(", max_size=12))
def test_a_text_that_is_let_through_stays_on_its_line(value: str) -> None:
    with suppress(LiteRtError):
        text = define_text(value, is_plain=True)
        assert len(text.splitlines()) <= 1 and not text.rstrip().endswith("\\")
        assert define_text(text, is_plain=True) == text  # contains no comment

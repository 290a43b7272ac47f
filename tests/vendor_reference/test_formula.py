"""Formulas of work sizes."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from litert.core.errors import LiteRtError
from litert.core.status import Status
from vendor_reference.custom_layers.formula import Formula

DIMS = (2, 3, 4, 5)  # B, F, Y, X


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("X", 5),
        ("b*f*y*x", 120),
        ("B+F*Y", 14),
        ("(B+F)*Y", 20),
        ("X/2*2", 4),
        ("Y%3+1", 2),
        ("7%4*2", 6),
        ("((X+3)/4)*4", 8),
        ("10-4-3", 3),
        ("(2-7)/2+3", 1),  # division truncates: -5/2 is -2
        ("(2-7)%2+3", 2),
        (" X ,".rstrip(","), 5),
        ("\t( X )\t", 5),
        ("007", 7),
        ("0", 0),
        ("2147483647", 2**31 - 1),
    ],
)
def test_a_formula_is_evaluated(text: str, value: int) -> None:
    assert Formula(text).evaluate(DIMS) == value


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("", "ends early"),
        ("X+", "ends early"),
        ("2X", "has 'X' where an operator should be"),
        ("X Y+", "has 'Y' where an operator should be"),
        ("-X", "has '-' where a value should be"),
        ("1.5", "has '.' at column 2"),
        ("X;Y", "has ';' at column 2"),
        ("BF", "has 'BF' where a value should be"),
        ("Z", "has 'Z' where a value should be"),
        ("(X", "has a '(' without its ')'"),
        ("X)", "has ')' where an operator should be"),
        ("2147483648", "has a number above 2147483647"),
        ("9" * 100, "has a number above 2147483647"),
        ("(" * 100 + "X" + ")" * 100, "has more than 50 parentheses in each other"),
        ("X+" * 300 + "X", "has 601 characters, at most 500 are read"),
        ("X\n", "has '\\n' at column 2"),
        ("\u0662", "at column 1"),  # a digit, to Python
    ],
)
def test_a_text_that_is_no_formula_is_refused(text: str, says: str) -> None:
    with pytest.raises(LiteRtError) as error:
        Formula(text)
    assert error.value.status is Status.INVALID_ARGUMENT
    assert says in error.value.what and "B, F, Y, X" in error.value.hint


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("X/(Y-4)", "divides by zero"),
        ("X%(Y-4)", "divides by zero"),
        ("B-X", "is -3 where B=2, F=3, Y=4, X=5"),
        ("2147483647+1", "is 2147483648 where"),
    ],
)
def test_a_value_that_is_no_size_is_an_error(text: str, says: str) -> None:
    with pytest.raises(LiteRtError) as error:
        Formula(text).evaluate(DIMS)
    assert says in error.value.what


@given(st.text("bfyxBFYX0123+-*/%() ", max_size=30))
def test_any_text_has_a_value_or_an_error(text: str) -> None:
    try:
        value = Formula(text).evaluate(DIMS)
    except LiteRtError:
        return
    assert 0 <= value <= 2**31 - 1


@given(
    st.recursive(
        st.integers(0, 9).map(str) | st.sampled_from("BFYX"),
        lambda inner: st.tuples(inner, st.sampled_from("+-*"), inner).map(
            lambda t: f"({t[0]}{t[1]}{t[2]})"
        ),
        max_leaves=8,
    )
)
def test_sums_and_products_are_those_of_arithmetic(text: str) -> None:
    expected = eval(text, dict(zip("BFYX", DIMS, strict=True)))
    if 0 <= expected <= 2**31 - 1:
        assert Formula(text).evaluate(DIMS) == expected

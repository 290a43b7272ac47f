"""Tests the formulas for work sizes."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from litert.core.errors import LiteRtError
from litert.core.formula import Formula
from litert.core.sizes import Dimension, evaluate
from litert.core.status import Status

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
        ("", "is empty"),
        ("X+", "ends where a number, a variable or '(' must be"),
        ("2X", "contains 'X' where an operator must be"),
        ("X Y+", "contains 'Y' where an operator must be"),
        ("-X", "contains '-' where a number, a variable or '(' must be"),
        ("1.5", "contains the invalid character '.' at column 2"),
        ("X;Y", "contains the invalid character ';' at column 2"),
        ("BF", "contains 'BF' where a number, a variable or '(' must be"),
        ("Z", "contains 'Z' where a number, a variable or '(' must be"),
        ("(X", "contains a '(' without the matching ')'"),
        ("min(X)", "must pass two arguments to each function"),
        ("X)", "contains ')' where an operator must be"),
        ("2147483648", "contains a number that is greater than 2147483647"),
        ("9" * 100, "contains a number that is greater than 2147483647"),
        ("(" * 100 + "X" + ")" * 100, "contains more than 50 nested parentheses"),
        ("X+" * 1200 + "X", "has 2401 characters, but may have at most 2000"),
        ("X\n", "contains the invalid character '\\n' at column 2"),
        ("\u0662", "at column 1"),  # Python accepts this character as a digit
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
        ("B-X", "has the value -3 for B=2, F=3, Y=4, X=5"),
        ("2147483647+1", "has the value 2147483648"),
    ],
)
def test_a_value_that_is_no_size_is_an_error(text: str, says: str) -> None:
    with pytest.raises(LiteRtError) as error:
        Formula(text).evaluate(DIMS)
    assert says in error.value.what


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("INPUT0_DIMS[0]", 2),
        ("INPUT0_DIMS[1]", 5),  # with rank 4, F is the last dimension
        ("INPUT0_SHAPE[1]", 3),
        ("INPUT1_SHAPE[0] * OUTPUT0_SHAPE[ 1 ]", 54),
        ("OUTPUT0_DIMS[2]+X", 6),
    ],
)
def test_a_formula_has_the_sizes_of_any_tensor(text: str, value: int) -> None:
    assert Formula(text).evaluate(DIMS, [(2, 3, 4, 5), (6,)], [(8, 9)]) == value


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("INPUT1_DIMS[0]", "uses input 1 of the op, but the only input has index 0"),
        (
            "INPUT0_SHAPE[4]",
            "uses INPUT0_SHAPE[4], but input 0 has only 4 dimensions: [2, 3, 4, 5]",
        ),
        ("OUTPUT0_SHAPE[0]", "but there are no outputs"),
        ("1-INPUT0_SHAPE[0]", "has the value -1 for INPUT0_SHAPE[0]=2"),
    ],
)
def test_a_size_that_the_op_does_not_have_is_an_error(text: str, says: str) -> None:
    with pytest.raises(LiteRtError) as error:
        Formula(text).evaluate(DIMS, [(2, 3, 4, 5)])
    assert says in error.value.what


@pytest.mark.parametrize(
    "text",
    [
        "INPUT0_DIMS[4]",
        "INPUT_DIMS[0]",
        "INPUT0_DIMS",
        "INPUT0_DIMS[X]",
        "INPUT0_PITCHES[0]",
        "X[0]",
    ],
)
def test_other_names_are_no_sizes(text: str) -> None:
    with pytest.raises(LiteRtError):
        Formula(text)


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


def test_a_formula_of_sizes_that_a_run_tells_is_one_too() -> None:
    rows = Dimension(0, 0)
    size = Formula("((B+15)/16)*16 - INPUT1_SHAPE[0]%3").resolve((rows, 1, 1, 1), [None, (rows, 2)])
    for number in (1, 16, 17, 33):
        expected = Formula("((B+15)/16)*16 - B%3").evaluate((number, 1, 1, 1))
        assert evaluate(size, lambda _, n=number: (n, 2), "") == expected  # type: ignore[misc]
    assert Formula("F*2").resolve((rows, 3, 1, 1)) == 6
    with pytest.raises(LiteRtError) as error:
        Formula("B/0").resolve((rows, 1, 1, 1))
    assert "divides by zero" in error.value.what

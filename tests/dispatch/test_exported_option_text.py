"""Tests vendor options that a C host passes as text."""

from __future__ import annotations

import pytest

from dispatch.native.exported.option_text import parse_options, parse_text
from litert.core.errors import LiteRtError
from litert.core.status import Status


@pytest.mark.parametrize(
    ("text", "options"),
    [
        ("", {}),
        (" ; \n", None),
        ("a=1", {"a": "1"}),
        ("a=1;b = two words ;", {"a": "1", "b": "two words"}),
        ('a = 1\nb = \'x;y\'\nc = "q\\"\\n"\n', {"a": "1", "b": "x;y", "c": 'q"\n'}),
        ("a=it's;b=", {"a": "it's", "b": ""}),
        ("a=x=y", {"a": "x=y"}),
        ("a='x' y", {"a": "'x' y"}),
        ("a", None),
        ("=1", None),
        ("a=1;b", None),
    ],
)
def test_text_is_options_or_an_error(text: str, options: dict[str, str] | None) -> None:
    if options is not None:
        assert parse_text(text) == options
        return
    with pytest.raises(LiteRtError) as error:
        parse_text(text, "the test")
    assert error.value.status is Status.INVALID_ARGUMENT and error.value.where == "the test"


def test_the_host_goes_before_the_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("LITERT_NPU_DISPATCH_OPTIONS", "a=1;b=2")
    assert parse_options("b=3") == {"a": "1", "b": "3"}
    monkeypatch.setenv("LITERT_NPU_DISPATCH_OPTIONS", "nonsense")
    with pytest.raises(LiteRtError, match=r"\$LITERT_NPU_DISPATCH_OPTIONS"):
        parse_options("")

"""What `litert` offers, and what it costs to ask."""

from __future__ import annotations

import subprocess
import sys

import pytest

import litert


@pytest.mark.parametrize("name", litert.__all__)
def test_each_public_name_is_there(name: str) -> None:
    assert getattr(litert, name).__name__ == name
    assert name in dir(litert)


def test_a_name_that_is_not_there_is_an_attribute_error() -> None:
    with pytest.raises(AttributeError, match="'litert' has no attribute 'Nothing'"):
        _ = litert.Nothing


@pytest.mark.parametrize("name", ["LiteRtError", "EnvironmentOptions", "Options", "Environment"])
def test_a_small_name_loads_nothing_large(name: str) -> None:
    program = (
        f"import litert, sys; litert.{name}; "
        "print([m for m in ('numpy', 'ai_edge_litert', 'dispatch.session') if m in sys.modules])"
    )
    found = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=True
    )
    assert found.stdout.strip() == "[]"

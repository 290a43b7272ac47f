"""Calls of library ops with something wrong, random ones: each is refused in words, or makes what stock makes."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from litert.host.child import call_in_child

CASES = int(os.environ.get("LITERT_NPU_DAMAGED_CASES", "60"))


@pytest.mark.parametrize("seed", range(2))
def test_a_damaged_call_is_refused_or_stocks(tmp_path: Path, seed: int) -> None:
    target = "tests.vendor_reference.damaged_calls:run"
    argument = {"seed": seed, "count": CASES, "folder": str(tmp_path)}
    tried, problems = "no call", []
    try:
        answers = call_in_child(target, argument, timeout_s=CASES + 60, subject="a damaged call")
        for text in answers:
            tried, problem = str(text), str(next(answers))
            if problem:
                problems.append(f"{tried}: {problem}")
    except Exception as error:
        raise AssertionError(f"{tried}: {error}") from error
    assert not problems, "\n".join(problems)

"""Tests random damaged calls of library ops: each is refused with a clear error, or gives stock's result."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from tests.vendor_reference.damage_trial import try_in_child

CASES = int(os.environ.get("LITERT_NPU_DAMAGED_CASES", "60"))


@pytest.mark.parametrize("seed", range(2))
def test_a_damaged_call_is_refused_or_stocks(tmp_path: Path, seed: int) -> None:
    try_in_child(
        "tests.vendor_reference.damaged_calls:run", tmp_path, CASES + 60, seed=seed, count=CASES
    )

"""Tests that the turns of `make soak` leave nothing open, and that its verdict names resources that grow."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.soak import Sample, Soak, judge, sample

FLAT = Sample(100 << 20, 20, 4, 1)


def test_what_stays_is_flat() -> None:
    noisy = [FLAT._replace(memory_bytes=FLAT.memory_bytes + (i % 3 << 20)) for i in range(40)]
    assert not judge(noisy)


def test_what_fills_caches_in_the_beginning_is_flat() -> None:
    assert not judge([Sample(0, 0, 0, 0)] * 10 + [FLAT] * 30)


@pytest.mark.parametrize(
    ("name", "step"),
    [("memory_bytes", 1 << 20), ("open_files", 1), ("threads", 1), ("children", 1)],
)
def test_what_grows_is_named(name: str, step: int) -> None:
    growing = [FLAT._replace(**{name: getattr(FLAT, name) + step * i}) for i in range(40)]
    assert list(judge(growing)) == [name]


def test_turns_leave_no_file_thread_or_child(tmp_path: Path) -> None:
    soak = Soak(tmp_path, seed=1)
    soak.all_turns()
    before = sample()
    for _ in range(3):
        soak.all_turns()
    after = sample()
    soak.close()
    assert after[1:] == before[1:]

"""Tests the cache of built programs on disk: entries are read whole, or built again."""

from __future__ import annotations

import os
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from tests.vendor_reference.executables import signature, undeclared
from vendor_reference.programs.program_cache import CompiledProgram, ProgramCache
from vendor_reference.programs.program_text import ProgramText

TEXT = ProgramText("k.cl", "kernel text", "-DX=1")
F = signature(("__global", "float*", "x"), ("by value", "int", "n"), ("", "", ""))
BUILT = CompiledProgram({"f": F}, b"\0binary\xff" * 100, "a warning", frozenset({"f (4,)"}))


@pytest.fixture(autouse=True)
def cache_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("LITERT_NPU_CACHE_DIR", str(tmp_path))


def programs(tmp_path: Path) -> Path:
    return tmp_path / "litert-npu-cache" / "programs"


@pytest.fixture
def cache() -> ProgramCache:
    return ProgramCache(["device", "1.0"])


def only_file(tmp_path: Path) -> Path:
    (path,) = programs(tmp_path).iterdir()
    return path


def test_what_was_stored_is_found(cache: ProgramCache) -> None:
    assert cache.find(TEXT) is None
    cache.store(TEXT, BUILT)
    assert cache.find(TEXT) == BUILT
    again = ProgramCache(["device", "1.0"])
    assert again.find(ProgramText("called otherwise", TEXT.text, TEXT.options)) == BUILT


@pytest.mark.parametrize(
    ("identity", "text"),
    [
        (["device", "1.1"], TEXT),
        (["device 1.0"], TEXT),
        (["device", "1.0"], ProgramText("k.cl", "kernel text ", "-DX=1")),
        (["device", "1.0"], ProgramText("k.cl", "kernel text", "-DX=2")),
        (["device", "1.0"], ProgramText("k.cl", "kernel text-DX=1", "")),
    ],
)
def test_another_driver_text_or_option_is_another_program(
    cache: ProgramCache, identity: list[str], text: ProgramText
) -> None:
    cache.store(TEXT, BUILT)
    assert ProgramCache(identity).find(text) is None


def test_a_damaged_entry_is_not_found_and_removed(cache: ProgramCache, tmp_path: Path) -> None:
    cache.store(TEXT, BUILT)
    whole = only_file(tmp_path).read_bytes()
    damaged = [whole[:end] for end in (0, 1, 43, 44, 60, len(whole) - 1)]
    damaged += [
        whole[:at] + bytes([whole[at] ^ 1]) + whole[at + 1 :] for at in range(0, len(whole), 37)
    ]
    damaged.append(whole + b"\0")
    path = only_file(tmp_path)
    for data in damaged:
        path.write_bytes(data)
        assert cache.find(TEXT) is None
        assert not path.exists()
    cache.store(TEXT, BUILT)
    assert cache.find(TEXT) == BUILT


def test_the_least_recently_used_go_when_the_folder_is_full(tmp_path: Path) -> None:
    cache = ProgramCache(["d"], limit_bytes=5000)
    texts = [ProgramText("k.cl", f"text {i}", "") for i in range(4)]
    for age, text in enumerate(texts[:3]):
        cache.store(text, CompiledProgram({}, bytes(1500)))
        newest = max(programs(tmp_path).iterdir(), key=lambda p: p.stat().st_mtime_ns)
        os.utime(newest, (1000 + age, 1000 + age))
    assert cache.find(texts[0]) is not None  # just used, so now the youngest
    cache.store(texts[3], CompiledProgram({}, bytes(1500)))
    found = [cache.find(text) is not None for text in texts]
    assert found == [True, False, True, True]


def test_a_folder_that_cannot_be_written_is_no_error(cache: ProgramCache, tmp_path: Path) -> None:
    (tmp_path / "litert-npu-cache").write_text("")
    cache.store(TEXT, BUILT)
    assert cache.find(TEXT) is None
    cache.remove(TEXT)


def test_a_log_is_kept_whatever_is_in_it(cache: ProgramCache) -> None:
    built = CompiledProgram({"f": F}, b"binary", "a \0 warning")
    cache.store(TEXT, built)
    assert cache.find(TEXT) == built


def test_nothing_but_entries_is_left(cache: ProgramCache, tmp_path: Path) -> None:
    cache.store(TEXT, BUILT)
    cache.store(TEXT, BUILT)
    assert only_file(tmp_path).suffix == ".clb"


def test_many_may_store_and_find_at_once(tmp_path: Path) -> None:
    texts = [ProgramText("k.cl", f"text {i}", "") for i in range(5)]
    built = [CompiledProgram({"k": undeclared(i)}, bytes([i]) * 4000) for i in range(5)]

    def work(seed: int) -> None:
        cache = ProgramCache(["d"], limit_bytes=15000)
        for step in range(60):
            index = (seed * 7 + step * 3) % 5
            if step % 2:
                cache.store(texts[index], built[index])
            else:
                assert cache.find(texts[index]) in (None, built[index])

    with ThreadPoolExecutor(8) as pool:
        list(pool.map(work, range(8)))
    sizes = [path.stat().st_size for path in programs(tmp_path).iterdir()]
    assert sum(sizes) <= 15000 + 8 * 5000

"""Tests Python threads that create models in stock at once, with an exported vendor that releases the GIL."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path

import numpy as np
import pytest

from tests.interop.conftest import (
    VENDORS,
    Sample,
    StockTool,
    compile_in_stock,
    export,
    said,
)
from tests.sanitizers import ADDRESSES, sanitizer_flags

HANGS_AFTER_S = 60
"""A program usually takes one or two seconds."""


def program(*arguments: str | Path, environment: Mapping[str, str] | None = None) -> str:
    """Runs a program of `creating_program.py`, and returns its output."""
    script = Path(__file__).with_name("creating_program.py")
    done = subprocess.run(
        [sys.executable, script, *arguments],
        env={**os.environ, **(environment or {})},
        capture_output=True,
        text=True,
        timeout=HANGS_AFTER_S,
    )
    assert done.returncode == 0 and "Traceback" not in done.stderr, done.stderr
    assert "ERROR: [litert_npu]" not in done.stderr or "the program says so" in done.stderr
    return done.stdout


def arrays_of(sample: Sample, folder: Path) -> Path:
    np.savez(folder / "arrays.npz", **sample.inputs, **sample.outputs)  # type: ignore[arg-type]
    return folder / "arrays.npz"


@pytest.fixture(scope="session")
def gate(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of the dispatch library of vendor Gate: Acme's driver, which waits for the program."""
    return export(tmp_path_factory.mktemp("gate"), VENDORS / "gate" / "LiteRtDispatch_Acme.py")


@pytest.fixture(scope="session")
def compiled_gains(
    acme: Path,
    gains: Sample,
    stock_apply_plugin: StockTool,
    tmp_path_factory: pytest.TempPathFactory,
) -> Path:
    path = tmp_path_factory.mktemp("gains") / "compiled.tflite"
    done = compile_in_stock(stock_apply_plugin, acme, "Acme", gains, path)
    assert done.returncode == 0, said(done)
    return path


def test_the_first_models_of_a_process(
    reference: Path, mixed: Sample, tmp_path: Path, stock_apply_plugin: StockTool
) -> None:
    path = tmp_path / "compiled.tflite"
    done = compile_in_stock(stock_apply_plugin, reference, "Reference", mixed, path)
    assert done.returncode == 0, said(done)
    assert program("at_once", path, arrays_of(mixed, tmp_path), reference, "") == "created 24\n"


def test_models_that_are_compiled_at_load(acme: Path, gains: Sample, tmp_path: Path) -> None:
    """The process loads two of our libraries; one guard protects both."""
    assets = {"LITERT_NPU_CUSTOM_OP_INFO": gains.custom_op_info}
    arguments = (gains.model, arrays_of(gains, tmp_path), acme, acme)
    assert program("at_once", *arguments, environment=assets) == "created 24\n"


@pytest.mark.parametrize("how", ["from a file", "from a buffer", "looked up before"])
def test_a_second_thread_waits_while_the_program_goes_on(
    how: str, gate: Path, compiled_gains: Path
) -> None:
    assert program("beside", compiled_gains, gate, how, "") == "created 2\n"


def test_a_first_creation_that_fails_lets_the_next_in(gate: Path, compiled_gains: Path) -> None:
    printed = program("beside", compiled_gains, gate, "from a file", "fails")
    assert printed.startswith("the first: ") and printed.endswith("created 1\n")


def test_what_is_wrong_is_said_in_stock_s_words(
    gate: Path, compiled_gains: Path, tmp_path: Path
) -> None:
    broken = tmp_path / "broken.tflite"
    broken.write_bytes(compiled_gains.read_bytes()[:100])
    errors = program("wrongly", compiled_gains, broken, gate).splitlines()
    assert [error.partition(":")[0] for error in errors] == ["RuntimeError"] * 3 + ["TypeError"] * 3


def test_sanitizers_find_nothing_in_the_guard(
    compiled_gains: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    flags = sanitizer_flags(ADDRESSES, tmp_path)
    runtimes = [
        subprocess.run(
            ["gcc", f"-print-file-name=lib{name}.so"], capture_output=True, text=True
        ).stdout.strip()
        for name in ("asan", "ubsan")
    ]
    monkeypatch.setenv("CC", "gcc")
    monkeypatch.setenv("CFLAGS", " ".join(flags))
    monkeypatch.setenv(
        "ASAN_OPTIONS", "detect_leaks=0"
    )  # Python itself does not free all its memory
    libraries = export(tmp_path / "libraries", VENDORS / "gate" / "LiteRtDispatch_Acme.py")
    watched = {"LD_PRELOAD": " ".join(runtimes)}
    for how in ("from a file", "looked up before"):
        arguments = (compiled_gains, libraries, how, "")
        assert program("beside", *arguments, environment=watched) == "created 2\n"

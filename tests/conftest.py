"""Fixtures that all tests share."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import settings

from examples import downloads

settings.register_profile("untimed", deadline=None)  # a busy machine is no failure
settings.load_profile("untimed")


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption(
        "--golden", action="store_true", help="rewrite the golden files instead of comparing"
    )


@pytest.fixture(scope="session")
def models() -> Path:
    """The folder of real models with custom ops."""
    folder = os.environ.get("LITERT_NPU_MODELS")
    if not folder:
        pytest.skip("LITERT_NPU_MODELS names no folder of real models")
    return Path(folder)


@pytest.fixture(scope="session")
def networks() -> Path:
    """The folder of MediaPipe's networks, which real tools made: fourteen `.tflite`."""
    return _fetched(downloads.networks)


@pytest.fixture(scope="session")
def portrait() -> Path:
    """A picture of a person, 512 x 600."""
    return _fetched(downloads.portrait)


def _fetched(fetch: Callable[[], Path]) -> Path:
    try:
        return fetch()
    except (RuntimeError, OSError) as error:
        pytest.skip(f"cannot be fetched: {error}")


@pytest.fixture
def golden(request: pytest.FixtureRequest) -> Callable[[str, str], None]:
    """Compares a text with `golden/<name>` beside the test; `make golden` rewrites it."""

    def compare(name: str, text: str) -> None:
        path = request.path.parent / "golden" / name
        if request.config.getoption("--golden"):
            path.parent.mkdir(exist_ok=True)
            path.write_text(text)
        assert path.exists(), f"no {path}: `make golden` writes it; read it before you commit it"
        assert text == path.read_text()

    return compare

from __future__ import annotations

from pathlib import Path

import pytest

from tests.conformance.broken_libraries import build_broken_vendor


@pytest.fixture(scope="session")
def broken_vendor(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of the broken vendor's libraries and of `gain.txt`, the asset of their op Gain."""
    return build_broken_vendor(tmp_path_factory.mktemp("broken"))

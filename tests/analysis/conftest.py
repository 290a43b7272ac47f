"""Fixtures: a network in which errors are planted, and a function that compares it with stock LiteRT."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from litert_npu_tools.litert_npu import main

from tests.analysis.planted.network import write_network

Capture = pytest.CaptureFixture[str]
Compare = Callable[..., dict[str, Any]]


@pytest.fixture
def compare(capsys: Capture) -> Compare:
    """A function that runs `litert-npu compare` with arguments and returns its report."""

    def run(*arguments: object) -> dict[str, Any]:
        status = main(["litert-npu", "compare", *map(str, arguments), "--report=json"])
        text = capsys.readouterr()
        assert status in (0, 1), text.err
        report: dict[str, Any] = json.loads(text.out)
        assert (status == 1) is (report["blamed"] is not None)
        return report

    return run


@pytest.fixture
def network(tmp_path: Path) -> Path:
    """The path of the network in which errors are planted."""
    path = tmp_path / "network.tflite"
    write_network(path)
    return path

"""An error that a vendor makes in one op of a network is found at that op, with one command."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from litert_npu_tools.litert_npu import main

from tests.analysis.planted.network import OPS, write_network

Capture = pytest.CaptureFixture[str]
Compare = Callable[..., dict[str, Any]]
PLANTED = Path(__file__).parent / "planted"
VENDOR = (
    f"--libs={PLANTED / 'vendor'}",
    f"--dispatch_library_path={PLANTED / 'vendor'}",
    "--soc_manufacturer=Planted",
)
TRIPLE = f"--reference_function=Triple,{PLANTED / 'network.py'}:triple"

ERRORS = {
    "kernel": "bent",
    "last row": "pointwise",
    "scale": "qconv",
    "zero point": "qpointwise",
    "inputs": "mixed",
    "padding": "conv",
    "activation": "depthwise",
    "half": "energy",
    "channel": "logits",
    "race": "added",
}
"""Where each is planted."""


@pytest.fixture
def compare(capsys: Capture) -> Compare:
    """The report of `litert-npu compare` with these arguments."""

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
    """The network that errors are planted in."""
    path = tmp_path / "network.tflite"
    write_network(path)
    return path


def test_nothing_is_found_where_nothing_was_planted(compare: Compare, network: Path) -> None:
    report = compare(network, *VENDOR, TRIPLE)
    assert report["blamed"] is None and not report["not_compared"]
    assert {tensor["name"] for tensor in report["tensors"]} == set(OPS)


@pytest.mark.parametrize("error", ERRORS)
def test_a_planted_error_is_found_at_its_op(
    compare: Compare, network: Path, monkeypatch: pytest.MonkeyPatch, error: str
) -> None:
    tensor = ERRORS[error]
    monkeypatch.setenv("PLANTED_ERROR", f"{error}@{tensor}")
    blamed = compare(network, *VENDOR, TRIPLE)["blamed"]
    assert (blamed["tensor"], blamed["op"]["index"]) == (tensor, OPS.index(tensor)), blamed

"""Damaged compiled files, loaded and run once."""

from __future__ import annotations

from collections.abc import Sequence

from tests.fuzz.models import network
from tests.fuzz.target import Target
from tests.fuzz.targets.compile_and_run import compiled, run


def _seeds() -> Sequence[bytes]:
    return [compiled(network(), ops) for ops in ("all", "ADD", "CONV_2D,ADD")]


TARGET = Target(_seeds, run, test_runs=100)

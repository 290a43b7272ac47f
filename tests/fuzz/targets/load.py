"""Damaged compiled files with right digests, as a hostile compiler makes them, loaded and run once."""

from __future__ import annotations

from collections.abc import Sequence

from tests.file_digests import with_right_digest
from tests.fuzz.models import network
from tests.fuzz.target import Target
from tests.fuzz.targets.compile_and_run import compiled, run


def _run(data: bytes) -> None:
    run(with_right_digest(data))


def _seeds() -> Sequence[bytes]:
    return [compiled(network(), ops) for ops in ("all", "ADD", "CONV_2D,ADD")]


TARGET = Target(_seeds, _run, test_runs=100)

"""Damaged compiled files, loaded and run once: as they are, and with right digests, as hostile compilers write."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from random import Random

from litert.core.errors import LiteRtError
from tests.file_digests import with_right_digest
from tests.fuzz.damaged_graph import damage_graph
from tests.fuzz.models import network, varied
from tests.fuzz.mutation import damage_bytes
from tests.fuzz.target import Target
from tests.fuzz.targets.compile_and_run import compiled, run
from tests.fuzz.targets.executable import damage as damage_byte_code


def _run(data: bytes) -> None:
    right = with_right_digest(data)
    if right != data:
        with suppress(LiteRtError):
            run(data)
    run(right)


def _seeds() -> Sequence[bytes]:
    networks = [compiled(network(), ops) for ops in ("all", "ADD", "CONV_2D,ADD")]
    return [*networks, compiled(varied("ABS"), "ABS,RELU")]


def _damage(data: bytes, random: Random) -> bytes:
    if random.random() < 0.4:
        return damage_bytes(data, random)
    return damage_graph(data, random, damage_byte_code)


TARGET = Target(_seeds, _run, _damage, test_runs=100)

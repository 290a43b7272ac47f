"""The reference vendor's byte code: damaged anywhere, or in its header, with sizes that are right again."""

from __future__ import annotations

from collections.abc import Sequence
from random import Random

import numpy as np

from tests.fuzz.mutation import damage_bytes, damage_json
from tests.fuzz.target import Target
from tests.vendor_reference.executables import (
    const,
    constant,
    ddr,
    doubling,
    executable,
    floats,
    in_,
    local,
    out,
    scalar,
    task,
)
from vendor_reference.executable.byte_code import PREFIX, read_executable, write_executable

_SOURCE = "__kernel void MyOp(int a) {}"


def _seeds() -> Sequence[bytes]:
    arguments = [in_(), const(0), ddr(64, 16), local(64), scalar(b"\0\0\1\0"), out()]
    full = executable(
        _SOURCE,
        [task("MyOp", arguments, [4, 2], [2, 1], num_shaves=2), task("MyOp", [in_(), out()], [4])],
        [floats(4)],
        [floats(4)],
        [constant(np.zeros((2, 2), np.float32)), constant(np.zeros(3, np.int8))],
        ddr_size=128,
        options="-cl-mad-enable",
    )
    return [bytes(write_executable(made).view) for made in (doubling(), full)]


def damage(data: bytes, random: Random) -> bytes:
    """Changes the header's values, and writes what tells its size."""
    if len(data) < PREFIX.size or random.random() < 0.2:
        return damage_bytes(data, random)
    magic, version, size, _ = PREFIX.unpack_from(data)
    header = damage_json(data[PREFIX.size : PREFIX.size + size], random)
    rest = data[PREFIX.size + size :].lstrip(b"\0")
    start = PREFIX.size + len(header)
    padded = header + bytes(-start % 64) + rest
    return PREFIX.pack(magic, version, len(header), PREFIX.size + len(padded)) + padded


TARGET = Target(_seeds, read_executable, damage)

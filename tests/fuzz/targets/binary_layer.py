"""Custom binary layers, `.bin`: damaged anywhere, or in the header, with sizes and digest that are right again."""

from __future__ import annotations

import hashlib
import struct
from random import Random

from tests.fuzz.mutation import damage_bytes, damage_json
from tests.fuzz.target import Target, write_input
from tests.vendor_reference.test_binary_layer import DEVICE, SIGNATURE
from vendor_reference.custom_layers.asset_reader import read_layer
from vendor_reference.executable.binary_layer import (
    BinaryLayer,
    DeviceCode,
    PackedFile,
    pack_binary_layer,
    unpack_binary_layer,
)
from vendor_reference.executable.executable import Program

_PREFIX = struct.Struct("<8sIxxxxQQ32s")
_FILES = {
    "layer.json": b'{"version": 1, "sources": ["k.cl"], "arguments": [{"input": 0}, {"output": 0}],'
    b' "work_sizes": {"global": ["X"]}}',
    "k.cl": b"__kernel void Full(__global const float* x, __global float* y) { y[0] = x[0]; }",
}


def _seed() -> bytes:
    files = {
        name: PackedFile(name, hashlib.sha256(data).hexdigest(), memoryview(data))
        for name, data in _FILES.items()
    }
    code = DeviceCode("0" * 64, DEVICE, {"Full": SIGNATURE}, b"code")
    return bytes(pack_binary_layer(BinaryLayer("layer.json", files, [code])))


def _damage(data: bytes, random: Random) -> bytes:
    if len(data) < _PREFIX.size or random.random() < 0.2:
        return damage_bytes(data, random)
    magic, version, size, *_ = _PREFIX.unpack_from(data)
    body = data[_PREFIX.size :]
    header, rest = body[:size], body[-(-size // 64) * 64 :]
    if random.random() < 0.8:
        header = damage_json(header, random)
    else:
        rest = damage_bytes(rest, random)
    body = header + bytes(-len(header) % 64) + rest
    digest = hashlib.sha256(body).digest()
    return _PREFIX.pack(magic, version, len(header), _PREFIX.size + len(body), digest) + body


def _run(data: bytes) -> None:
    layer = unpack_binary_layer(data, "x.bin")
    layer.find_codes(Program("", ()))
    read_layer("Full", write_input("x.bin", data), memoryview(data))


TARGET = Target(lambda: [_seed()], _run, _damage)

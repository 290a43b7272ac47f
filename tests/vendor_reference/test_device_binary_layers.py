"""Tests programs from a binary layer: their code runs where it fits and is allowed, otherwise their source."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from typing import Any

import pytest

from litert.core.errors import LiteRtError
from tests.vendor_reference.executables import DOUBLE, doubling
from tests.vendor_reference.runner import Runner
from vendor_reference.executable.binary_layer import (
    BinaryLayer,
    DeviceCode,
    PackedFile,
    pack_binary_layer,
    program_digest,
)
from vendor_reference.executable.executable import Executable
from vendor_reference.programs.program_text import compose_text


def _pack(
    device: Any,
    made: Executable,
    *,
    with_source: bool = True,
    identity: Sequence[str] = (),
    code_of: str = DOUBLE,
) -> bytes:
    """Returns a binary layer for the only program of an executable."""
    program = made.programs[0]
    text = compose_text(program, lambda source: memoryview(code_of.encode()))
    built = device.builder.build([text])[0].built
    files = {
        "layer.json": _file("layer.json", "{}"),
        "MyOp.cl": _file("MyOp.cl", DOUBLE, with_source),
    }
    code = DeviceCode(
        program_digest(program), identity or device.info.identity, built.kernels, built.binary
    )
    return pack_binary_layer(BinaryLayer("layer.json", files, [code]))


def _file(path: str, text: str, with_data: bool = True) -> PackedFile:
    data = text.encode()
    return PackedFile(
        path, hashlib.sha256(data).hexdigest(), memoryview(data) if with_data else None
    )


TRIPLE = DOUBLE.replace("2", "3")


def test_code_runs_where_it_is_allowed_and_the_source_is_not_needed(device: Any) -> None:
    made = doubling()
    layer = _pack(device, made, with_source=False, code_of=TRIPLE)
    run = Runner(device, made, layer, allow_native=True)
    assert run([1, 2, 3, 4]).tolist() == [3, 6, 9, 12]


def test_the_source_is_built_where_code_is_not_allowed(device: Any) -> None:
    made = doubling()
    layer = _pack(device, made, code_of=TRIPLE)
    run = Runner(device, made, layer, allow_native=False)
    assert run([1, 2, 3, 4]).tolist() == [2, 4, 6, 8]


def test_the_source_is_built_where_the_code_is_for_another_device(device: Any) -> None:
    made = doubling()
    layer = _pack(device, made, code_of=TRIPLE, identity=["another", "device"])
    run = Runner(device, made, layer, allow_native=True)
    assert run([1, 2, 3, 4]).tolist() == [2, 4, 6, 8]


def test_code_that_is_not_allowed_says_how_to_allow_it(device: Any) -> None:
    made = doubling()
    layer = _pack(device, made, with_source=False)
    with pytest.raises(
        LiteRtError, match=r"may run only with --allow_native_assets.*MyOp\.cl.*allow_native_assets"
    ):
        Runner(device, made, layer, allow_native=False)


def test_code_for_other_devices_says_for_which(device: Any) -> None:
    made = doubling()
    layer = _pack(device, made, with_source=False, identity=["another", "device"])
    with pytest.raises(
        LiteRtError,
        match=r"no source code, and no machine code for this machine's device, '.*' .*"
        r"machine code only for the device 'another device'",
    ):
        Runner(device, made, layer, allow_native=True)


def test_code_for_other_shapes_says_so(device: Any) -> None:
    layer = _pack(device, doubling(text=DOUBLE + "\n"), with_source=False)
    with pytest.raises(LiteRtError, match=r"differs from the asset|other shapes"):
        Runner(device, doubling(), layer, allow_native=True)


def test_a_layer_that_was_changed_is_refused(device: Any) -> None:
    made = doubling()
    layer = bytearray(_pack(device, made))
    layer[-1] ^= 1
    with pytest.raises(LiteRtError, match="changed after it was created"):
        Runner(device, made, bytes(layer), allow_native=True)

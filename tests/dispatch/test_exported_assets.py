"""Tests that an exported table finds the assets near the byte code when the host passes only the byte code."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

import pytest

from dispatch.mem_buffer import MemBuffer
from dispatch.native.exported.model_assets import ModelAssets
from litert.core.errors import LiteRtError
from litert.core.status import Status
from litert.model.assets import Asset, set_assets
from litert.model.blob import Blob, MappedFile
from litert.model.builder import ModelBuilder
from litert.model.byte_code_container import pack
from litert.model.dispatch_op import DISPATCH_OP, read_dispatch_options
from litert.model.graph import Appended
from litert.model.reader import read_model
from litert.model.writer import write_model

ASSETS = {"Big": os.urandom(2 << 20), "Gain": b"kernel", "Gain/lib/gain.h": b"header"}
MODULES = (b"first module", b"second module")


@pytest.fixture
def model(tmp_path: Path) -> Path:
    """A model with two calls, each with its own module; a large asset follows the flatbuffer."""
    builder = ModelBuilder()
    x = builder.input("x", "float32", (4,))
    y = builder.custom(DISPATCH_OP, [x], [("y", "float32", (4,))])
    builder.output(builder.custom(DISPATCH_OP, [y], [("z", "float32", (4,))]))
    made = builder.build()
    for op, module in zip(made.subgraphs[0].ops, MODULES, strict=True):
        made.byte_code.append(Appended(Blob(module), [(op, "f")]))
    names = [name.partition("/") for name in ASSETS]
    blobs = map(Blob, ASSETS.values())
    set_assets(
        made, [Asset(op, path, blob) for (op, _, path), blob in zip(names, blobs, strict=True)]
    )
    write_model(made, tmp_path / "m.tflite")
    return tmp_path / "m.tflite"


def places(path: Path) -> list[tuple[int, int]]:
    """Returns the modules' offsets and sizes."""
    with read_model(path) as made:
        options = [read_dispatch_options(bytes(op.custom_options or b""), "") for op in made.ops()]
    return [(o.bytecode_offset, o.bytecode_size) for o in options]


def in_memory(path: Path) -> Callable[[int, int], tuple[MemBuffer, int]]:
    data = path.read_bytes()
    return lambda offset, size: (MemBuffer.from_memory(data, offset, size), 0)


def in_file(path: Path) -> Callable[[int, int], tuple[MemBuffer, int]]:
    file = MappedFile(path)
    return lambda offset, size: (MemBuffer.from_blob(file.blob(offset, size)), 0)


def in_a_larger_file(path: Path) -> Callable[[int, int], tuple[MemBuffer, int]]:
    """Places the model inside a larger file, as in an archive; the base address is where the model starts."""
    data = path.read_bytes()
    larger = path.with_suffix(".apk")
    larger.write_bytes(bytes(8192) + data + bytes(100))
    file = MappedFile(larger)

    def make(offset: int, size: int) -> tuple[MemBuffer, int]:
        whole = MemBuffer.from_blob(file.blob(8192 + offset, size))
        base = whole.base_address + 8192
        return MemBuffer(whole.fd, base, offset, size, whole.view), 8192

    return make


@pytest.mark.parametrize("place", [in_memory, in_file, in_a_larger_file])
def test_all_assets_of_a_model_are_found_once(
    model: Path, place: Callable[[Path], Callable[[int, int], tuple[MemBuffer, int]]]
) -> None:
    make, found = place(model), ModelAssets()
    first, second = places(model)
    module, assets = found.open(*make(*first))
    assert bytes(module.view) == MODULES[0]
    assert [asset.name for asset in assets] == ["Gain/lib/gain.h", "Big", "Gain"]
    for asset in assets:
        assert bytes(asset.blob.view) == ASSETS[asset.name]
    module, assets = found.open(*make(*second))
    assert bytes(module.view) == MODULES[1] and not assets
    found.close()


def test_assets_that_are_packed_with_the_byte_code_are_found_once() -> None:
    packed = pack(Blob(b"module"), [Asset("Gain", "", Blob(b"k")), Asset("Gain", "h", Blob(b"h"))])
    data = b"before it" + packed
    found = ModelAssets()
    for count in (2, 0):
        module, assets = found.open(MemBuffer.from_memory(data, 9), 0)
        assert bytes(module.view) == b"module" and len(assets) == count
        assert data[module.offset : module.offset + module.size] == b"module"
    module, assets = found.open(MemBuffer.from_memory(packed), 0)  # of another model
    assert [asset.name for asset in assets] == ["Gain/h", "Gain"]


def test_byte_code_alone_has_no_assets() -> None:
    module, assets = ModelAssets().open(MemBuffer.from_memory(b"nothing but byte code"), 0)
    assert bytes(module.view) == b"nothing but byte code" and not assets


@pytest.mark.parametrize("damage", ["metadata", "container"])
def test_damage_is_an_error(model: Path, damage: str) -> None:
    data = bytearray(model.read_bytes())
    offset, size = places(model)[0]
    if damage == "metadata":
        data[0:4] = (len(data) - 2).to_bytes(4, "little")
    else:
        packed = pack(Blob(b"m"), [Asset("Gain", "", Blob(b"k"))])[:40]
        data, offset, size = bytearray(packed), 0, 40
    # Copies the bytes, so that memory past their end is not readable by chance.
    with pytest.raises(LiteRtError) as error:
        ModelAssets().open(MemBuffer.from_memory(bytes(data), offset, size), 0)
    assert error.value.status is Status.INVALID_FLATBUFFER

"""Tests that layers are read from `.bin` files as from the folders that were packed into these files."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping, Sequence

import pytest

from litert.core.errors import LiteRtError
from litert.core.status import Status
from vendor_reference.custom_layers.asset_reader import find_reader, read_layer
from vendor_reference.custom_layers.companion_files import AssetFiles
from vendor_reference.custom_layers.custom_layer import CustomLayer
from vendor_reference.custom_layers.readers.bin_reader import BinReader
from vendor_reference.executable.binary_layer import BinaryLayer, PackedFile, pack_binary_layer

KERNEL = b'#include "h.h"\n__kernel void MyOp() {}'
DESCRIPTION = json.dumps({"version": 1, "sources": ["k.cl"]}).encode()
FILES = {"layer.json": DESCRIPTION, "k.cl": KERNEL, "h.h": b"// nothing"}
OTHERS = {"readme": b"", "y.bin": b""}


def packed(
    description: str, left_out: Sequence[str] = (), contents: Mapping[str, bytes] = FILES
) -> memoryview:
    """Returns a `.bin` file with these files; it omits the bytes of some."""
    files = {
        path: PackedFile(
            path,
            hashlib.sha256(data).hexdigest(),
            None if path in left_out else memoryview(data),
        )
        for path, data in contents.items()
    }
    return memoryview(pack_binary_layer(BinaryLayer(description, files, [])))


def read(data: memoryview) -> CustomLayer:
    return read_layer("MyOp", "folder/x.bin", data)


def test_files_are_those_that_were_packed() -> None:
    data = packed("layer.json")
    layer = read(data)
    assert [(f.path, f.data) for f in layer.sources] == [("k.cl", KERNEL)]
    assert [(f.path, f.data) for f in layer.headers] == [("h.h", FILES["h.h"])]
    assert all(file.packed_in == bytes(data) for file in layer.files())


def test_files_that_are_left_out_are_known_by_their_digests() -> None:
    layer = read(packed("layer.json", left_out=["k.cl", "h.h"]))
    assert [(f.path, f.data, f.sha256) for f in layer.sources] == [
        ("k.cl", b"", hashlib.sha256(KERNEL).hexdigest())
    ]
    assert [(f.path, f.data) for f in layer.headers] == [("h.h", b"")]


def test_a_source_may_be_the_description() -> None:
    layer = read(packed("k.cl"))
    assert [f.path for f in layer.sources] == ["k.cl"]
    assert [f.path for f in layer.headers] == ["h.h"]


def test_layers_have_the_names_of_the_description() -> None:
    reader = find_reader("x.bin")
    assert isinstance(reader, BinReader)
    files = AssetFiles("folder/x.bin")
    assert reader.layer_names(files, packed("layer.json")) == ["layer"]
    assert reader.layer_names(files, packed("k.cl")) == ()


@pytest.mark.parametrize("name", ["readme", "y.bin"])
def test_what_describes_no_layer_is_refused(name: str) -> None:
    with pytest.raises(
        LiteRtError,
        match=f"the layer's main file '{name}' is neither a layer description nor an OpenCL kernel",
    ) as error:
        read(packed(name, contents=OTHERS))
    assert error.value.status is Status.INVALID_ARGUMENT and error.value.where == "folder/x.bin"

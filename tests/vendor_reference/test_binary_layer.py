"""Tests the file of a custom binary layer: it keeps its content, and a file that was changed is refused."""

from __future__ import annotations

import hashlib
import json
import struct
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from litert.core.errors import LiteRtError
from litert.core.status import Status
from vendor_reference.executable.binary_layer import (
    BinaryLayer,
    DeviceCode,
    PackedFile,
    is_binary_layer,
    open_digest,
    pack_binary_layer,
    program_digest,
    unpack_binary_layer,
)
from vendor_reference.executable.executable import Program, Source
from vendor_reference.executable.kernel_signature import DeclaredArgument, KernelSignature

DEVICE = ("platform", "1", "device", "2", "3")
SIGNATURE = KernelSignature((DeclaredArgument("__global", "float*", "x"),), 64)
CONST_SIGNATURE = KernelSignature((DeclaredArgument("__global", "float*", "x", is_const=True),), 64)
FOR_SHAPES = Program("#define PARAM_n 2\n#define NUM_INPUTS 1\n", ())
OPEN = Program("#define INPUT0_DIMS_SIZE 4\n#define INPUT0_DIMS (int []){ 1,2,3,4, } \n", ())
OTHER_SHAPES = Program(OPEN.prelude.replace("2,3", "30,20"), ())


def _file(path: str, data: bytes, is_left_out: bool = False) -> PackedFile:
    digest = hashlib.sha256(data).hexdigest()
    return PackedFile(path, digest, None if is_left_out else memoryview(data))


def _layer(*files: PackedFile, binary: bytes = b"code", for_all: bool = False) -> BinaryLayer:
    described = (_file("layer.json", b"{}"), *files)
    codes = [DeviceCode(program_digest(FOR_SHAPES), DEVICE, {"Kernel": SIGNATURE}, binary)]
    if for_all:
        digest = open_digest(OPEN)
        kernels = {"Kernel": CONST_SIGNATURE}
        codes.append(DeviceCode(digest, DEVICE, kernels, b"for all", ["INPUT0_DIMS"]))
    return BinaryLayer("layer.json", {file.path: file for file in described}, codes)


@given(st.binary(max_size=300), st.binary(max_size=300), st.booleans())
def test_what_is_packed_is_unpacked(source: bytes, binary: bytes, is_left_out: bool) -> None:
    layer = _layer(_file("sub/k.cl", source, is_left_out), binary=binary, for_all=True)
    packed = pack_binary_layer(layer)
    found = unpack_binary_layer(packed, "x.bin")
    assert is_binary_layer(packed) and found.description == "layer.json"
    assert found.files == layer.files
    (code,) = found.find_codes(FOR_SHAPES)
    assert bytes(code.binary) == binary and code.kernels["Kernel"] == SIGNATURE
    assert tuple(code.device) == DEVICE and code.sizes is None
    (for_all,) = found.find_codes(OTHER_SHAPES)
    assert bytes(for_all.binary) == b"for all" and for_all.sizes == ["INPUT0_DIMS"]
    assert for_all.kernels["Kernel"] == CONST_SIGNATURE
    assert found.open_sizes == ["INPUT0_DIMS"]
    assert not found.find_codes(Program("#define PARAM_n 3\n", ()))


@given(st.data())
def test_a_byte_that_was_changed_is_noticed(data: st.DataObject) -> None:
    packed = bytearray(pack_binary_layer(_layer(_file("k.cl", b"text"))))
    place = data.draw(st.integers(0, len(packed) - 1).filter(lambda i: not 12 <= i < 16))
    packed[place] ^= data.draw(st.integers(1, 255))
    with pytest.raises(LiteRtError, match=r"x\.bin"):
        unpack_binary_layer(bytes(packed), "x.bin")


@given(st.integers(0, 400))
def test_a_file_that_was_cut_is_refused(length: int) -> None:
    with pytest.raises(LiteRtError, match=r"x\.bin"):
        unpack_binary_layer(pack_binary_layer(_layer())[:length], "x.bin")


def test_a_file_without_the_qualifiers_of_arguments_is_read() -> None:
    """Checks a file of version 0.1.0."""
    codes = [
        {
            "program": "0" * 64,
            "device": list(DEVICE),
            "kernels": {
                "Kernel": {"arguments": [["__global", "float*", "x"]], "max_group_size": 64}
            },
            "size": 4,
            "offset": 0,
        }
    ]
    (code,) = unpack_binary_layer(_header(_layer(), codes=codes), "x.bin").codes
    assert code.kernels == {"Kernel": SIGNATURE}


def test_a_description_that_is_left_out_is_refused() -> None:
    layer = BinaryLayer("a.json", {"a.json": _file("a.json", b"{}", is_left_out=True)}, [])
    with pytest.raises(LiteRtError, match=r"the file does not contain the description 'a\.json'"):
        unpack_binary_layer(pack_binary_layer(layer), "x.bin")


def _header(layer: BinaryLayer, **changes: Any) -> bytes:
    """Returns the layer's file with other values in its header and a matching digest."""
    packed = pack_binary_layer(layer)
    size = int.from_bytes(packed[16:24], "little")
    header = json.loads(packed[64 : 64 + size]) | changes
    text = json.dumps(header).encode()
    body = text.ljust(-(-len(text) // 64) * 64, b"\0") + packed[-(-(64 + size) // 64) * 64 :]
    sizes = struct.pack("<QQ", len(text), 64 + len(body))
    return packed[:16] + sizes + hashlib.sha256(body).digest() + body


@pytest.mark.parametrize(
    ("files", "says"),
    [
        ([{"path": "a", "sha256": "0" * 64}] * 2, "the file 'a' occurs twice"),
        (
            [{"path": "a", "sha256": "0" * 64, "offset": 0}],
            "field 'offset' is given, but field 'size' is missing",
        ),
        (
            [{"path": "a", "sha256": "0" * 64, "offset": 0, "size": 1}],
            "has changed since the layer was built",
        ),
        (
            [{"path": "a", "sha256": "0" * 64, "offset": 8, "size": 1}],
            "offset 8 is not a multiple of 64",
        ),
        (
            [{"path": "a", "sha256": "0" * 64, "offset": 64, "size": 65}],
            "65 bytes at offset 64 exceed the 128 bytes",
        ),
    ],
)
def test_files_that_nobody_packed_are_refused(files: list[Any], says: str) -> None:
    with pytest.raises(LiteRtError) as error:
        unpack_binary_layer(_header(_layer(), files=files), "x.bin")
    assert error.value.status is Status.INVALID_ARGUMENT and says in error.value.what


def test_another_version_is_refused() -> None:
    packed = bytearray(pack_binary_layer(_layer()))
    packed[8] = 2
    with pytest.raises(
        LiteRtError, match="the binary layer has version 2, but this program reads only version 1"
    ):
        unpack_binary_layer(bytes(packed), "x.bin")


@pytest.mark.parametrize("path", ["/etc/k.cl", "../k.cl", "a/../../k.cl", "a\nb", ""])
def test_a_path_out_of_the_folder_is_refused(path: str) -> None:
    with pytest.raises(LiteRtError, match="not a relative path inside a folder"):
        unpack_binary_layer(pack_binary_layer(_layer(_file(path, b""))), "x.bin")


def test_a_program_s_digest_depends_on_all_that_its_code_does() -> None:
    source, header = Source("Op", "k.cl", "1" * 64), Source("Op/h", "h.h", "2" * 64)
    programs = [
        Program("", [source]),
        Program("#define A", [source]),
        Program("", [source], "-O1"),
        Program("", [Source("Op", "k.cl", "3" * 64)]),
        Program("", [source], headers=[header]),
        Program("", [source, header]),
    ]
    assert len({program_digest(program) for program in programs}) == len(programs)
    assert program_digest(Program("", [Source("Other", "k.cl", "1" * 64)])) == program_digest(
        programs[0]
    )

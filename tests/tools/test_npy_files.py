"""Tests untrusted arrays and pictures: the header is checked against the file before memory is allocated."""

from __future__ import annotations

import io
import struct
import zipfile
import zlib
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from litert_npu_tools.array_files import TensorSpec, find_arrays
from litert_npu_tools.npy_files import read_arrays
from litert_npu_tools.pictures import read_picture

from litert.core.errors import LiteRtError
from litert.core.status import Status

RAMP = np.arange(6, dtype=np.float32).reshape(2, 3)


def npy(header: str, data: bytes = b"", version: int = 1) -> bytes:
    """Returns a .npy file with the given header."""
    text = header.encode() + b"\n"
    length = struct.pack("<H" if version == 1 else "<I", len(text))
    return b"\x93NUMPY" + bytes([version, 0]) + length + text + data


def described(shape: str, dtype: str = "<f4") -> str:
    return f"{{'descr': '{dtype}', 'fortran_order': False, 'shape': {shape}}}"


def npz(*, method: int = zipfile.ZIP_DEFLATED) -> bytearray:
    file = io.BytesIO()
    with zipfile.ZipFile(file, "w", method) as entries:
        for name in ("a", "b"):
            array = io.BytesIO()
            np.save(array, RAMP)
            entries.writestr(f"{name}.npy", array.getvalue())
    return bytearray(file.getvalue())


def changed(offset: int, value: int, size: int = 2) -> bytes:
    """Returns a .npz file with one number changed in the local and the central header of its first member."""
    data = npz()
    for place in (offset, data.index(b"PK\x01\x02") + offset + 2):
        data[place : place + size] = value.to_bytes(size, "little")
    return bytes(data)


DAMAGED: dict[str, bytes] = {
    "ten terabytes": npy(described("(10000000000000,)", "|u1"), b"1234"),
    "a product above all": npy(described(f"({2**62}, {2**62})"), b"1234"),
    "a dimension below zero": npy(described("(-1, -4)"), bytes(16)),
    "a dimension of words": npy(described("('a',)"), bytes(16)),
    "too few elements": npy(described("(5,)"), bytes(16)),
    "objects": npy(described("(2,)", "|O"), bytes(16)),
    "an open bracket": npy("{'descr': (", bytes(16)),
    "nested without end": npy("(" * 5000, bytes(16)),
    "no version": npy(described("(1,)"), bytes(4), version=9),
    "named parts": npy(described("(1,)"), bytes(4), version=3),
    "cut": npy(described("(1,)"))[:20],
    "version of ZIP": changed(4, 208),
    "encryption": changed(6, 1),
    "strong encryption": changed(6, 65),
    "compression": changed(8, 77),
    "damaged data": bytes(npz()[:50]) + b"\xff" * 30 + bytes(npz()[80:]),
    "no members": bytes(npz())[-22:],
}  # fmt: skip


@pytest.mark.parametrize("data", DAMAGED.values(), ids=DAMAGED)
def test_a_damaged_file_is_refused_in_words(tmp_path: Path, data: bytes) -> None:
    (tmp_path / "x.npz").write_bytes(data)
    with pytest.raises(LiteRtError) as error:
        read_arrays(str(tmp_path / "x.npz"), lambda names: ["a"])
    assert error.value.status is Status.INVALID_ARGUMENT and error.value.where.endswith("x.npz")


def test_a_member_that_says_more_than_it_can_unpack_to_is_refused(tmp_path: Path) -> None:
    data = npz()
    place = data.index(b"PK\x01\x02") + 24
    data[place : place + 4] = (1 << 31).to_bytes(4, "little")
    (tmp_path / "x.npz").write_bytes(data)
    with pytest.raises(LiteRtError, match="the file says that array 'a' has 2147483648 bytes"):
        read_arrays(str(tmp_path / "x.npz"), list)


def test_what_nobody_asks_for_is_not_read(tmp_path: Path) -> None:
    path = str(tmp_path / "x.npz")
    data = npz(method=zipfile.ZIP_STORED)
    first = data.index(b"\x93NUMPY")
    data[first : first + 6] = b"broken"
    Path(path).write_bytes(data)
    arrays = read_arrays(path, lambda names: [name for name in names if name == "b"])
    assert isinstance(arrays, dict) and list(arrays) == ["b"]
    found = find_arrays(path, [TensorSpec("b", "float32", (2, 3), 0)], "in")
    assert np.array_equal(found["b"], RAMP)


@pytest.mark.parametrize("save", [np.save, np.savez, np.savez_compressed])
@pytest.mark.parametrize(
    "array",
    [RAMP, np.asfortranarray(RAMP), np.float32(1), np.zeros((0, 3)), np.zeros(1 << 20, np.int8)],
    ids=["rows", "columns", "scalar", "empty", "zeros"],
)
def test_what_numpy_has_written_is_read(
    tmp_path: Path, save: Callable[..., None], array: np.ndarray
) -> None:
    path = str(tmp_path / ("x.npy" if save is np.save else "x.npz"))
    save(path, array)
    found = read_arrays(path, list)
    again = found["arr_0"] if isinstance(found, dict) else found
    assert again.dtype == array.dtype and np.array_equal(again, array)


def test_a_picture_of_ten_billion_pixels_is_refused(tmp_path: Path) -> None:
    pytest.importorskip("PIL")

    def chunk(kind: bytes, data: bytes) -> bytes:
        crc = zlib.crc32(kind + data)
        return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", crc)

    path = tmp_path / "x.png"
    for side in (9000, 100_000):
        header = struct.pack(">IIBBBBB", side, side, 8, 2, 0, 0, 0)
        body = (
            chunk(b"IHDR", header) + chunk(b"IDAT", zlib.compress(bytes(100))) + chunk(b"IEND", b"")
        )
        path.write_bytes(b"\x89PNG\r\n\x1a\n" + body)
        with pytest.raises(
            LiteRtError, match=rf"{side} x {side} pixels, but at most|pixels\) exceeds"
        ) as error:
            read_picture(str(path), np.dtype(np.float32), (1, 4, 4, 3), (0.0, 1.0))
        assert error.value.status is Status.INVALID_ARGUMENT

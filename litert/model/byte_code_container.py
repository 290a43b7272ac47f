"""A container that stores byte code together with assets, for compilers that cannot write assets to their output.

Stock LiteRT's compiler writes a plugin's byte code, but no other data of the plugin. A Python plugin in stock
LiteRT's compiler therefore packs its byte code and the user's assets into a container, and the loader unpacks the
container. The following table is the container's format. All numbers are little-endian, and all offsets count from
the start of the container:

    0   8 bytes   93 "LITNPU" 0A
    8   u32       version, 1
    12  u32       number of assets
    16  u64, u64  offset and size of the byte code
    32 for each asset: u32 size of the op's name, u32 size of the companion path, u64 offset, u64 size
        the names and paths, in UTF-8, without gaps
        the byte code, then the data of each asset, each at an offset that is a multiple of 64
"""

from __future__ import annotations

import struct
from collections.abc import Sequence

from litert.core.errors import LiteRtError
from litert.core.status import Status
from litert.model.assets import Asset, check_companion_path, check_op_name
from litert.model.blob import Blob
from litert.model.graph import Model

_MAGIC = b"\x93LITNPU\n"
_VERSION = 1
_HEADER = struct.Struct("<8sIIQQ")
_ENTRY = struct.Struct("<IIQQ")
_ALIGNMENT = 64


def is_container(module: Blob) -> bool:
    """Returns whether the first bytes of a byte code module are those of a container."""
    return module.view[: len(_MAGIC)] == _MAGIC


def pack(byte_code: Blob, assets: Sequence[Asset]) -> bytes:
    """Makes a container from byte code and assets with unique names; `unpack` keeps the order of the assets."""
    names = [(a.op_name.encode(), a.companion_path.encode()) for a in assets]
    place = _HEADER.size + _ENTRY.size * len(assets) + sum(len(o) + len(c) for o, c in names)
    offsets: list[int] = []
    data: list[bytes | memoryview] = []
    for blob in (byte_code, *(asset.blob for asset in assets)):
        padding = bytes(-place % _ALIGNMENT)
        offsets.append(place + len(padding))
        data += (padding, blob.view)
        place = offsets[-1] + blob.size
    head = _HEADER.pack(_MAGIC, _VERSION, len(assets), offsets[0], byte_code.size)
    entries = (
        _ENTRY.pack(len(op_name), len(path), offset, asset.blob.size)
        for (op_name, path), offset, asset in zip(names, offsets[1:], assets, strict=True)
    )
    return b"".join([head, *entries, *(text for name in names for text in name), *data])


def unpack(module: Blob, where: str = "") -> tuple[Blob, Sequence[Asset]]:
    """Returns the contents of byte code, which may be a container; the data are not copied.

    Returns:
      The byte code and its assets; byte code that is not a container is returned unchanged, without assets.

    Raises:
      LiteRtError: INVALID_FLATBUFFER, if the container is damaged; WRONG_VERSION, if the container has an unknown
        version.
    """
    if not is_container(module):
        return module, ()
    try:
        return _unpack(module, where)
    except ValueError as error:
        raise LiteRtError(
            Status.INVALID_FLATBUFFER,
            f"the container of byte code and assets in the file is damaged: {error}",
            where,
            "Compile the model again.",
        ) from error


def carried_assets(model: Model, where: str = "") -> Sequence[Asset]:
    """Returns the assets from all containers in a model's byte code; each name occurs once in the result.

    Raises the same errors as `unpack`.
    """
    found: dict[str, Asset] = {}
    for appended in model.byte_code:
        for asset in unpack(appended.blob, where)[1]:
            found.setdefault(asset.name, asset)
    return list(found.values())


def _unpack(module: Blob, where: str) -> tuple[Blob, Sequence[Asset]]:
    """Unpacks a container; damage raises ValueError."""
    if module.size < _HEADER.size:
        raise ValueError(f"the container ends after {module.size} bytes")
    _, version, count, offset, size = _HEADER.unpack_from(module.view)
    if version != _VERSION:
        raise LiteRtError(
            Status.WRONG_VERSION,
            f"the byte code container in the file has version {version}, but this version of "
            f"litert-npu reads only version {_VERSION}",
            where,
            "Use the version of litert-npu that compiled the file, or compile the model again.",
        )
    text = _HEADER.size + count * _ENTRY.size
    if text > module.size:
        raise ValueError(f"the list of {count} assets is incomplete")
    assets: dict[str, Asset] = {}
    for entry in _ENTRY.iter_unpack(module.view[_HEADER.size : text]):
        name_size, path_size, asset_offset, asset_size = entry
        name = _text(module, text, name_size)
        path = _text(module, text + name_size, path_size)
        text += name_size + path_size
        asset = Asset(name, path, _part(module, asset_offset, asset_size))
        _check_name(asset)
        if assets.setdefault(asset.name, asset) is not asset:
            raise ValueError(f"the asset '{asset.name}' occurs twice")
    return _part(module, offset, size), list(assets.values())


def _text(module: Blob, offset: int, size: int) -> str:
    try:
        return str(_part(module, offset, size).view, "utf-8")
    except UnicodeDecodeError as error:
        raise ValueError(f"a name is not UTF-8: {error}") from error


def _check_name(asset: Asset) -> None:
    try:
        check_op_name(asset.op_name)
        if asset.companion_path:
            check_companion_path(asset.companion_path)
    except LiteRtError as error:
        raise ValueError(error.what) from error


def _part(module: Blob, offset: int, size: int) -> Blob:
    if offset + size > module.size:
        raise ValueError(
            f"it refers to bytes {offset} to {offset + size}, but has {module.size} bytes"
        )
    return module.part(offset, size)

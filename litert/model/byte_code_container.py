"""Byte code with the assets that it needs, in one block: for a compiler whose files have no place for assets.

Stock LiteRT's compiler writes what a plugin gives it as byte code, and nothing else of the plugin's. A Python
plugin that runs there packs its module and the user's assets into a container, which is then the module; what
loads the file unpacks it. All numbers are little-endian, all offsets count from the container's start:

    0   8 bytes   93 "LITNPU" 0A
    8   u32       version, 1
    12  u32       number of assets
    16  u64, u64  offset and size of the byte code
    32  for each asset: u32 size of its op's name, u32 size of its companion path, u64 offset, u64 size
        names and paths, in UTF-8, one behind the other
        the byte code, then the data of each asset, each at a multiple of 64
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
    """Whether a byte code module is a container, by its first bytes."""
    return module.view[: len(_MAGIC)] == _MAGIC


def pack(byte_code: Blob, assets: Sequence[Asset]) -> bytes:
    """Makes a container.

    Args:
      byte_code: a module.
      assets: in the order in which `unpack` is to give them; no two of one name.
    """
    names = [(a.op_name.encode(), a.companion_path.encode()) for a in assets]
    blobs = [byte_code, *(asset.blob for asset in assets)]
    place = _HEADER.size + _ENTRY.size * len(assets) + sum(len(o) + len(c) for o, c in names)
    paddings: list[bytes] = []
    offsets: list[int] = []
    for blob in blobs:
        paddings.append(bytes(-place % _ALIGNMENT))
        offsets.append(place + len(paddings[-1]))
        place = offsets[-1] + blob.size
    entries = zip(names, offsets[1:], blobs[1:], strict=True)
    data = zip(paddings, (blob.view for blob in blobs), strict=True)
    return b"".join(
        [
            _HEADER.pack(_MAGIC, _VERSION, len(assets), offsets[0], byte_code.size),
            *(_ENTRY.pack(len(o), len(c), offset, blob.size) for (o, c), offset, blob in entries),
            *(text for name in names for text in name),
            *(piece for padded in data for piece in padded),
        ]
    )


def unpack(module: Blob, where: str = "") -> tuple[Blob, Sequence[Asset]]:
    """Takes a container apart; nothing is copied.

    Args:
      module: byte code as it lies in a file.
      where: its name in errors.

    Returns:
      The byte code and the assets in it; a module that is no container as it is, without assets.

    Raises:
      LiteRtError: INVALID_FLATBUFFER, for a container that is damaged; WRONG_VERSION, for one of another version.
    """
    if not is_container(module):
        return module, ()
    if module.size < _HEADER.size:
        raise _damaged(f"it ends after {module.size} bytes", where)
    _, version, count, offset, size = _HEADER.unpack_from(module.view)
    if version != _VERSION:
        raise LiteRtError(
            Status.WRONG_VERSION,
            f"byte code in a container of version {version}, not {_VERSION}",
            where,
            "Load the file with the version of this project that its compiler plugin was exported by.",
        )
    text = _HEADER.size + count * _ENTRY.size
    if text > module.size:
        raise _damaged(f"its list of {count} assets is cut", where)
    assets: dict[str, Asset] = {}
    for entry in _ENTRY.iter_unpack(module.view[_HEADER.size : text]):
        name_size, path_size, asset_offset, asset_size = entry
        name = _text(module, text, name_size, where)
        path = _text(module, text + name_size, path_size, where)
        text += name_size + path_size
        asset = Asset(name, path, _range(module, asset_offset, asset_size, where))
        _check_name(asset, where)
        if assets.setdefault(asset.name, asset) is not asset:
            raise _damaged(f"it has asset '{asset.name}' twice", where)
    return _range(module, offset, size, where), list(assets.values())


def carried_assets(model: Model, where: str = "") -> Sequence[Asset]:
    """The assets that a model's byte code carries, each name once.

    Raises:
      LiteRtError: as `unpack`.
    """
    found: dict[str, Asset] = {}
    for appended in model.byte_code:
        for asset in unpack(appended.blob, where)[1]:
            found.setdefault(asset.name, asset)
    return list(found.values())


def _text(module: Blob, offset: int, size: int, where: str) -> str:
    try:
        return str(_range(module, offset, size, where).view, "utf-8")
    except UnicodeDecodeError as error:
        raise _damaged(f"a name in it is not UTF-8: {error}", where) from error


def _check_name(asset: Asset, where: str) -> None:
    try:
        check_op_name(asset.op_name)
        if asset.companion_path:
            check_companion_path(asset.companion_path)
    except LiteRtError as error:
        raise _damaged(error.what, where) from error


def _range(module: Blob, offset: int, size: int, where: str) -> Blob:
    if offset + size > module.size:
        raise _damaged(f"bytes {offset} to {offset + size} of {module.size}", where)
    return Blob(
        module.view[offset : offset + size],
        module.file,
        module.offset + offset if module.file else 0,
    )


def _damaged(what: str, where: str) -> LiteRtError:
    return LiteRtError(
        Status.INVALID_FLATBUFFER,
        f"the container of byte code and assets is damaged: {what}",
        where,
        "Compile the model again.",
    )

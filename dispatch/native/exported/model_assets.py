"""Finds a model's assets around the byte code that a host hands over, where the host has no call for them.

They are in the metadata of the model that the byte code lies in, or in a container with the byte code itself.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from dispatch.mem_buffer import MemBuffer
from litert.abi.definitions import ffi
from litert.abi.handles import address_of
from litert.model.assets import ASSET_KEY_PREFIX, Asset, name_assets
from litert.model.blob import Blob, MappedFile
from litert.model.byte_code_container import unpack
from litert.model.schema_reader import is_model, read_metadata

_MAPPING = re.compile(r"([0-9a-f]+)-([0-9a-f]+) r")


class ModelAssets:
    """The assets that were found for one loaded model; its files are open as long as it."""

    def __init__(self) -> None:
        self._files: list[MappedFile] = []
        self._models: set[int] = set()
        self._containers: set[tuple[int, int]] = set()

    def open(
        self, module: MemBuffer, file_offset: int, *, look_around: bool = True
    ) -> tuple[MemBuffer, Sequence[Asset]]:
        """What is in a byte code module and around it.

        Args:
          module: as the host gives it.
          file_offset: of `base_address` in its file.
          look_around: whether assets are looked for in the model that the module lies in.

        Returns:
          The byte code alone, and the assets that were not found before, companions first.

        Raises:
          LiteRtError: INVALID_FLATBUFFER, for a model or a container that is damaged.
        """
        blob = Blob(module.view)
        inner, assets = unpack(blob, "byte code")
        if inner is not blob:
            place = (module.base_address + module.offset, module.size)
            is_new = place not in self._containers
            self._containers.add(place)
            offset = address_of(ffi.from_buffer(inner.view)) - module.base_address
            module = replace(module, offset=offset, size=inner.size, view=inner.view)
        else:
            is_new = look_around and module.base_address not in self._models
            self._models.add(module.base_address)
            if is_new:
                assets = self._read_model(module, file_offset)
        return module, sorted(assets, key=lambda a: not a.companion_path) if is_new else ()

    def close(self) -> None:
        """Closes the files; what is mapped stays until nothing refers to it."""
        for file in self._files:
            file.close()

    def _read_model(self, module: MemBuffer, file_offset: int) -> Sequence[Asset]:
        source: MappedFile | memoryview
        if module.fd >= 0:
            file = MappedFile(f"/proc/self/fd/{module.fd}")
            self._files.append(file)
            source = file.view[file_offset:] if file_offset else file
            is_there = is_model(file.view[file_offset : file_offset + 8])
        else:
            source = _view(module.base_address, _size_of_mapping(module))
            is_there = is_model(source)
        if not is_there:  # byte code from memory, with no model around it
            return ()
        return name_assets(read_metadata(source, ASSET_KEY_PREFIX))


def to_mem_buffer(buffer: Any) -> MemBuffer:
    """A `LiteRtMemBuffer*` of the host's, whose bytes have to stay."""
    base, offset, size = address_of(buffer.base_addr), buffer.offset, buffer.size
    return MemBuffer(int(buffer.fd), base, int(offset), int(size), _view(base + offset, size))


def _view(address: int, size: int) -> memoryview:
    if not size:
        return memoryview(b"")
    return memoryview(ffi.buffer(ffi.cast("char*", address), size)).toreadonly()


def _size_of_mapping(module: MemBuffer) -> int:
    """How many bytes can be read from the base on: a host says only where the byte code ends, not the model."""
    end = module.base_address
    with open("/proc/self/maps", encoding="utf-8", errors="replace") as file:
        for line in file:
            found = _MAPPING.match(line)
            if found and int(found[1], 16) <= end < int(found[2], 16):
                end = int(found[2], 16)
    return max(end - module.base_address, module.offset + module.size)

"""Finds a model's assets in the file that contains the byte code, for hosts that do not pass assets.

Assets are stored in the metadata of the model that contains the byte code, or in a container with the byte code.
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
    """The assets that were found for one loaded model; the files that contain them stay open until `close`."""

    def __init__(self) -> None:
        self._files: list[MappedFile] = []
        self._models: set[int] = set()
        self._containers: set[tuple[int, int]] = set()

    def open(
        self, module: MemBuffer, file_offset: int, *, look_around: bool = True
    ) -> tuple[MemBuffer, Sequence[Asset]]:
        """Finds the byte code in a module, and the assets in the module and in the model that contains the module.

        Args:
          module: The byte code module that the host passed.
          file_offset: Offset of the module's `base_address` from the start of the file, in bytes.
          look_around: Whether to search for assets also in the model that contains the module.

        Returns:
          The byte code without a container, and the assets that earlier calls have not returned; companion files
          come first.

        Raises:
          LiteRtError: INVALID_FLATBUFFER, if the model or the container is damaged.
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
        """Closes the files; mapped bytes stay valid while they are referenced."""
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
    """Converts a `LiteRtMemBuffer*` of the host; the host must keep the bytes in memory."""
    base, offset, size = address_of(buffer.base_addr), buffer.offset, buffer.size
    return MemBuffer(int(buffer.fd), base, int(offset), int(size), _view(base + offset, size))


def _view(address: int, size: int) -> memoryview:
    if not size:
        return memoryview(b"")
    return memoryview(ffi.buffer(ffi.cast("char*", address), size)).toreadonly()


def _size_of_mapping(module: MemBuffer) -> int:
    """Returns how many bytes can be read from the base address; the host does not pass the size of the model."""
    end = module.base_address
    with open("/proc/self/maps", encoding="utf-8", errors="replace") as file:
        for line in file:
            found = _MAPPING.match(line)
            if found and int(found[1], 16) <= end < int(found[2], 16):
                end = int(found[2], 16)
    return max(end - module.base_address, module.offset + module.size)

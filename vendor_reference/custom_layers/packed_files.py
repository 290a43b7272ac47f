"""The files of a binary layer, where a reader finds those beside an asset: all of them lie in the asset."""

from __future__ import annotations

import posixpath
from collections.abc import Sequence

from vendor_reference.custom_layers.asset_files import AssetFiles
from vendor_reference.custom_layers.custom_layer import LayerFile
from vendor_reference.executable.binary_layer import BinaryLayer, PackedFile


class PackedFiles(AssetFiles):
    """Reads files out of a binary layer."""

    def __init__(self, path: str, layer: BinaryLayer, packed: bytes) -> None:
        """Takes a binary layer.

        Args:
          path: of the `.bin` file.
          layer: what is in it.
          packed: its bytes.
        """
        super().__init__(path)
        self._folder = posixpath.dirname(layer.description)
        self._layer = layer
        self._packed = packed

    @property
    def file_name(self) -> str:
        return posixpath.basename(self._layer.description)

    def asset(self, data: memoryview) -> LayerFile:
        return self._unpack(self._layer.files[self._layer.description])

    def headers(self, files: Sequence[LayerFile]) -> Sequence[LayerFile]:
        if all(file.data is not None for file in self._layer.files.values()):
            return super().headers(files)
        # Which file includes which cannot be seen: the layer has them in the order that they were found in.
        named = {file.path for file in files}
        return [
            self._unpack(file)
            for path, file in self._layer.files.items()
            if path not in named and path != self._layer.description
        ]

    def _find(self, relative: str, named_in: str) -> LayerFile | None:
        file = self._layer.files.get(relative)
        return None if file is None else self._unpack(file)

    def _unpack(self, file: PackedFile) -> LayerFile:
        if file.data is None:
            return LayerFile(file.path, b"", True, file.sha256, self._packed)
        return LayerFile(file.path, bytes(file.data), True, packed_in=self._packed)

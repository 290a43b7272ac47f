"""`.bin`: a layer that `litert-npu layer build` compiled ahead of time, with its description and sources.

The packed description defines the layer. The machine code runs if the user allows it and if it fits the device.
"""

from __future__ import annotations

import posixpath
from collections.abc import Sequence

from litert.core.errors import LiteRtError
from litert.core.status import Status
from vendor_reference.custom_layers.asset_reader import (
    AssetReader,
    DescriptionReader,
    find_reader,
)
from vendor_reference.custom_layers.companion_files import AssetFiles
from vendor_reference.custom_layers.custom_layer import CustomLayer, LayerFile
from vendor_reference.executable.binary_layer import BinaryLayer, PackedFile, unpack_binary_layer


class PackedFiles(AssetFiles):
    """Reads files from a binary layer."""

    def __init__(self, path: str, layer: BinaryLayer, packed: bytes) -> None:
        super().__init__(path)
        self._folder = posixpath.dirname(layer.description)
        self._layer = layer
        self._packed = packed

    @property
    def file_name(self) -> str:
        return posixpath.basename(self._layer.description)

    def asset(self, data: memoryview) -> LayerFile:
        return self._unpack(self._layer.files[self._layer.description])

    def read(self, name: str, named_in: str) -> LayerFile:
        """Finds a packed file by its name.

        A missing file belongs to another layer, so only its name is returned.
        """
        relative = self._normalize(name, self._folder, named_in)
        found = self._find(relative, named_in)
        return found or LayerFile(relative, b"", True, packed_in=self._packed)

    def headers(self, files: Sequence[LayerFile]) -> Sequence[LayerFile]:
        if all(file.data is not None for file in self._layer.files.values()):
            return super().headers(files)
        # The includes are not visible: the layer has the files in the order in which they were found.
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
            sizes = self._layer.open_sizes
            return LayerFile(file.path, b"", True, file.sha256, self._packed, sizes)
        return LayerFile(file.path, bytes(file.data), True, packed_in=self._packed)


class BinReader(DescriptionReader):
    """Reads `.bin`."""

    suffix = ".bin"

    def read(self, op_name: str, files: AssetFiles, data: memoryview) -> CustomLayer:
        reader, packed, description = self._open(files, data)
        return reader.read(op_name, packed, description)

    def layer_names(self, files: AssetFiles, data: memoryview) -> Sequence[str]:
        reader, packed, description = self._open(files, data)
        return (
            reader.layer_names(packed, description) if isinstance(reader, DescriptionReader) else ()
        )

    def _open(
        self, files: AssetFiles, data: memoryview
    ) -> tuple[AssetReader, PackedFiles, memoryview]:
        layer = unpack_binary_layer(data, files.path)
        reader = find_reader(layer.description)
        if reader is None or isinstance(reader, BinReader):
            raise LiteRtError(
                Status.INVALID_ARGUMENT,
                f"the layer's main file '{layer.description}' is neither a layer description nor an OpenCL kernel",
                files.path,
                "Create this .bin file again with litert-npu layer build.",
            )
        description = layer.files[layer.description].data
        assert description is not None  # the description is never left out
        return reader, PackedFiles(files.path, layer, bytes(data)), description


READER = BinReader()

"""`.bin`: a layer compiled ahead by `litert-npu layer build`, with the description and sources it was made from.

Its machine code runs where that is allowed and fits the device; what the layer is, its description says.
"""

from __future__ import annotations

from collections.abc import Sequence

from litert.core.errors import LiteRtError
from litert.core.status import Status
from vendor_reference.custom_layers.asset_files import AssetFiles
from vendor_reference.custom_layers.asset_reader import (
    AssetReader,
    DescriptionReader,
    find_reader,
)
from vendor_reference.custom_layers.custom_layer import CustomLayer
from vendor_reference.custom_layers.packed_files import PackedFiles
from vendor_reference.executable.binary_layer import unpack_binary_layer


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
                f"'{layer.description}' describes no layer",
                files.path,
                "Make it again with litert-npu layer build.",
            )
        description = layer.files[layer.description].data
        assert description is not None  # it is never left out
        return reader, PackedFiles(files.path, layer, bytes(data)), description


READER = BinReader()

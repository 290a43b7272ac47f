"""`.cl`: OpenCL C source code of a layer; its kernel has the op's name, or is the only kernel in the file.

The kernel's arguments are the op's inputs and then its outputs, each in its own memory order. Each FlexBuffer
option of the op is a define `PARAM_<key>`, and the scale of a quantized tensor is a define such as `INPUT0_SCALE`.
The kernel runs with one work item for each element of the first output.
"""

from __future__ import annotations

from vendor_reference.custom_layers.asset_reader import AssetReader
from vendor_reference.custom_layers.companion_files import AssetFiles
from vendor_reference.custom_layers.custom_layer import CustomLayer
from vendor_reference.custom_layers.kernel_spec import KernelSpec


class ClReader(AssetReader):
    """Reads `.cl`."""

    suffix = ".cl"

    def read(self, op_name: str, files: AssetFiles, data: memoryview) -> CustomLayer:
        source = files.asset(data)
        return CustomLayer(
            op_name,
            KernelSpec(where=files.file_name),
            sources=[source],
            headers=files.headers([source]),
            defines_options=True,
            defines_quantization=True,
        )


READER = ClReader()

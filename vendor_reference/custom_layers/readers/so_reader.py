"""`.so`: CPU layers in a shared object (`litert_npu/cpu_layer.h`).

Reading loads nothing of it: whether it may run is asked where it is used.
"""

from __future__ import annotations

from vendor_reference.cpu_layer.elf import check_shared_object
from vendor_reference.custom_layers.asset_reader import AssetReader
from vendor_reference.custom_layers.companion_files import AssetFiles
from vendor_reference.custom_layers.custom_layer import CustomLayer, LayerType
from vendor_reference.custom_layers.kernel_spec import KernelSpec


class SoReader(AssetReader):
    """Reads `.so`."""

    suffix = ".so"

    def read(self, op_name: str, files: AssetFiles, data: memoryview) -> CustomLayer:
        check_shared_object(data, f"{files.path}, op '{op_name}'")
        return CustomLayer(
            op_name, KernelSpec(where=files.file_name), [files.asset(data)], type=LayerType.CPP
        )


READER = SoReader()

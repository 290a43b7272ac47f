"""`.so`: a shared object with CPU layers (see `litert_npu/cpu_layer.h`).

The reader does not load the shared object; callers check whether its machine code is allowed to run. The names of
the layers are known only to the shared object's machine code.
"""

from __future__ import annotations

from collections.abc import Sequence

from vendor_reference.cpu_layer.asking import ask
from vendor_reference.cpu_layer.elf import check_shared_object
from vendor_reference.custom_layers.asset_reader import DescriptionReader
from vendor_reference.custom_layers.companion_files import AssetFiles
from vendor_reference.custom_layers.custom_layer import CustomLayer, LayerType
from vendor_reference.custom_layers.kernel_spec import KernelSpec

_MOST_TYPES = 1024


class SoReader(DescriptionReader):
    """Reads `.so`."""

    suffix = ".so"
    runs_to_tell = True

    def read(self, op_name: str, files: AssetFiles, data: memoryview) -> CustomLayer:
        check_shared_object(data, f"{files.path}, op '{op_name}'")
        return CustomLayer(
            op_name, KernelSpec(where=files.file_name), [files.asset(data)], type=LayerType.CPP
        )

    def layer_names(self, files: AssetFiles, data: memoryview) -> Sequence[str]:
        check_shared_object(data, files.path)
        (types,) = ask("ask_types", data, files.file_name, files.path, {})
        return list(dict.fromkeys(node.text() for node in types.items(1, _MOST_TYPES)))


READER = SoReader()

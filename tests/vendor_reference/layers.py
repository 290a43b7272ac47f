"""Custom layers as their descriptions define them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import fields
from typing import Any

from vendor_reference.custom_layers.custom_layer import CustomLayer, LayerFile
from vendor_reference.custom_layers.kernel_spec import KernelSpec

_OF_KERNELS = {field.name for field in fields(KernelSpec)} - {
    field.name for field in fields(CustomLayer)
}


def custom_layer(
    op_name: str, file_name: str, sources: Sequence[LayerFile], **values: Any
) -> CustomLayer:
    """Returns a layer with these fields of the layer and of its kernel."""
    of_kernel = {name: value for name, value in values.items() if name in _OF_KERNELS}
    of_layer = {name: value for name, value in values.items() if name not in _OF_KERNELS}
    return CustomLayer(op_name, KernelSpec(where=file_name, **of_kernel), sources, **of_layer)

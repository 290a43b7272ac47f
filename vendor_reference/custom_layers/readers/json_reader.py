"""`.json`: descriptions of custom layers, with their OpenCL C sources beside them.

A file is one layer, for the op that the user gives it for, or for ops of its name (without one: of the file's, up
to the suffix); or it has several in `layers`, of which the one of the op's name is taken.
"""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence

from litert.core.checked_json import JsonNode
from litert.core.status import Status
from vendor_reference.custom_layers.asset_files import AssetFiles
from vendor_reference.custom_layers.asset_reader import DescriptionReader, no_layer_named
from vendor_reference.custom_layers.custom_layer import CustomLayer
from vendor_reference.custom_layers.json_layer import LAYER_FIELDS, layer_name, read_json_layer

_VERSION = 1

Fields = Mapping[str, JsonNode]


class JsonReader(DescriptionReader):
    """Reads `.json`."""

    suffix = ".json"

    def read(self, op_name: str, files: AssetFiles, data: memoryview) -> CustomLayer:
        layers = _layers(files, data)
        read = {name: read_json_layer(fields, op_name, files) for name, fields in layers.items()}
        if len(read) == 1:
            return next(iter(read.values()))
        if op_name not in read:
            raise no_layer_named(op_name, list(read), files.path)
        return read[op_name]

    def layer_names(self, files: AssetFiles, data: memoryview) -> Sequence[str]:
        return list(_layers(files, data))


def _layers(files: AssetFiles, data: memoryview) -> Mapping[str, Fields]:
    """The fields of each layer, by its name."""
    root = JsonNode.parse(data, files.path, Status.INVALID_ARGUMENT)
    fields = root.fields(("version",), ("$schema", "layers", *LAYER_FIELDS))
    version = fields["version"].integer(0, 2**31 - 1)
    if version != _VERSION:
        raise fields["version"].error(f"version {version}, this reader knows {_VERSION}")
    if "$schema" in fields:
        fields["$schema"].text()
    if "layers" not in fields:
        if "sources" not in fields:
            raise root.error("field 'sources' is missing")
        return {layer_name(fields) or os.path.splitext(files.file_name)[0]: fields}
    return _several(fields)


def _several(fields: Fields) -> Mapping[str, Fields]:
    for name in LAYER_FIELDS:
        if name in fields and name != "description":
            raise fields[name].error("beside 'layers', where each layer has its own")
    if "description" in fields:
        fields["description"].text()
    layers: dict[str, Fields] = {}
    for node in fields["layers"].items(1):
        layer = node.fields(("name", "sources"), LAYER_FIELDS)
        name = layer_name(layer)
        if name in layers:
            raise layer["name"].error(f"two layers are named '{name}'")
        layers[name] = layer
    return layers


READER = JsonReader()

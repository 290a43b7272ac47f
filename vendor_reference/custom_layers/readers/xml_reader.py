"""`.xml`: a custom layer configuration of the Inference Engine, with its sources beside it.

The file's only layer is for the op that the user gives it for, whatever its name; of several, the one of the op's
name. Where a name occurs twice, the last layer counts.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

from litert.core.errors import LiteRtError
from litert.core.status import Status
from vendor_reference.custom_layers.asset_files import AssetFiles
from vendor_reference.custom_layers.asset_reader import DescriptionReader, no_layer_named
from vendor_reference.custom_layers.custom_layer import CustomLayer
from vendor_reference.custom_layers.xml_layer import XmlLayer, read_xml_layer
from vendor_reference.custom_layers.xml_text import parse_xml

_ELEMENT = "CustomLayer"


class XmlReader(DescriptionReader):
    """Reads `.xml`."""

    suffix = ".xml"

    def read(self, op_name: str, files: AssetFiles, data: memoryview) -> CustomLayer:
        layers, notes = _read_layers(files, data)
        layer = layers.get(op_name)
        if layer is None and len(layers) == 1:
            (layer,) = layers.values()
        if layer is None:
            raise no_layer_named(op_name, list(layers), files.path)
        found = layer.with_files(op_name, files)
        return replace(found, notes=[*found.notes, *notes.get(found.kernel.title, ())])

    def layer_names(self, files: AssetFiles, data: memoryview) -> Sequence[str]:
        return list(_read_layers(files, data)[0])


def _read_layers(
    files: AssetFiles, data: memoryview
) -> tuple[Mapping[str, XmlLayer], Mapping[str, Sequence[str]]]:
    """All layers of a file by name, and notes on names that occur twice; one bad layer fails the file."""
    layers: dict[str, XmlLayer] = {}
    notes: dict[str, list[str]] = {}
    for element in parse_xml(data, files.path):
        if element.name != _ELEMENT:
            inside = any(child.name == _ELEMENT for child in element.children)
            raise LiteRtError(
                Status.INVALID_ARGUMENT,
                f"<{element.name}> on the top level, expected <{_ELEMENT}>",
                f"{files.path}, line {element.line}",
                f"Layers have no element around them: take <{element.name}> away."
                if inside
                else "",
            )
        layer = read_xml_layer(element, files.path, files.file_name)
        name = layer.layer.kernel.title
        if name in layers:
            what = f"layer '{name}' is described again: the last one counts"
            notes.setdefault(name, []).append(f"{files.file_name}, line {element.line}: {what}.")
        layers[name] = layer
    if not layers:
        raise LiteRtError(
            Status.INVALID_ARGUMENT,
            f"no <{_ELEMENT}> in it: not a custom layer configuration",
            files.path,
        )
    return layers, notes


READER = XmlReader()

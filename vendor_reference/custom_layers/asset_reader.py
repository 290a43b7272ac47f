"""Reads assets into custom layers; the file's suffix selects the reader for this kind of asset."""

from __future__ import annotations

import os
from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from functools import cache

from litert.core.counts import names_text
from litert.core.errors import LiteRtError
from litert.core.status import Status
from litert.core.suggestion import did_you_mean
from litert.host.extensions import load_package
from vendor_reference.custom_layers.companion_files import AssetFiles
from vendor_reference.custom_layers.custom_layer import CustomLayer


class AssetReader(ABC):
    """A reader of one kind of asset; each module in `readers/` declares its reader as `READER`.

    Attributes:
      suffix: Suffix of the files that the reader reads, in lower case, such as `.cl`.
    """

    suffix: str

    @abstractmethod
    def read(self, op_name: str, files: AssetFiles, data: memoryview) -> CustomLayer:
        """Creates a layer from an asset.

        Args:
          op_name: Name of the ops that the user assigned the asset to.
          files: Access to the asset's folder, which contains the files that are mentioned in the asset.
          data: Bytes of the asset.

        Raises:
          LiteRtError: The asset cannot be read; the message names the file and the element.
        """


class DescriptionReader(AssetReader):
    """A reader of a kind of asset that contains the names of its layers; the same asset can serve any model.

    Attributes:
      runs_to_tell: Whether the reader must run the asset's machine code to get the layer names.
    """

    runs_to_tell = False

    @abstractmethod
    def layer_names(self, files: AssetFiles, data: memoryview) -> Sequence[str]:
        """Returns the names of the layers in an asset, without duplicates.

        Raises:
          LiteRtError: The asset cannot be read; the message names the file and the element.
        """


def read_layer(op_name: str, path: str, data: memoryview, asset_root: str = "") -> CustomLayer:
    """Reads the layer that an asset describes for the ops named `op_name`.

    The files that are mentioned in the asset lie in the asset's folder or in `asset_root`.

    Raises:
      LiteRtError: INVALID_TOOL_CONFIG, if no reader supports this kind of asset; other statuses, if the reader
        fails.
    """
    reader = find_reader(path)
    if reader is None:
        suffix = os.path.splitext(path)[1].lower()
        kind = f"a file with the suffix '{suffix}'" if suffix else "a file without a suffix"
        raise LiteRtError(
            Status.INVALID_TOOL_CONFIG,
            f"the reference vendor cannot read {kind} as a layer",
            f"{path}, op '{op_name}'",
            f"Use a file with one of the suffixes {', '.join(sorted(_readers()))}.",
        )
    return reader.read(op_name, AssetFiles(path, asset_root), data)


def find_reader(path: str) -> AssetReader | None:
    """Finds the asset reader for a file by the file's suffix."""
    return _readers().get(os.path.splitext(path)[1].lower())


def no_layer_named(op_name: str, names: Sequence[str], where: str) -> LiteRtError:
    """Creates the error for the case that an asset has several layers, but not the wanted layer."""
    return LiteRtError(
        Status.NOT_FOUND,
        f"the file contains {len(names)} layers, but none with the op's name, '{op_name}'",
        where,
        did_you_mean(op_name, names) or f"{names_text('layer', names)}.",
    )


def description_suffixes() -> Sequence[str]:
    """Returns the suffixes of assets that contain the names of their layers."""
    return sorted(s for s, reader in _readers().items() if isinstance(reader, DescriptionReader))


@cache
def _readers() -> Mapping[str, AssetReader]:
    return load_package(
        "vendor_reference.custom_layers.readers", "READER", lambda reader: str(reader.suffix)
    )

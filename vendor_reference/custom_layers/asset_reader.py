"""From an asset to a custom layer: each kind of asset has a reader of its own, found by the file's suffix."""

from __future__ import annotations

import os
from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from difflib import get_close_matches
from functools import cache

from litert.core.errors import LiteRtError
from litert.core.status import Status
from litert.host.extensions import load_package
from vendor_reference.custom_layers.companion_files import AssetFiles
from vendor_reference.custom_layers.custom_layer import CustomLayer


class AssetReader(ABC):
    """Reads one kind of asset; its module, in `readers/`, has one as `READER`.

    Attributes:
      suffix: of the files it reads, in lower case: `.cl`.
    """

    suffix: str

    @abstractmethod
    def read(self, op_name: str, files: AssetFiles, data: memoryview) -> CustomLayer:
        """Makes a layer of an asset.

        Args:
          op_name: name of the ops that the user gave it for.
          files: the asset's folder, for the files that it names.
          data: the asset's bytes.

        Raises:
          LiteRtError: with file and element, for what cannot be read.
        """


class DescriptionReader(AssetReader):
    """Reads a kind of asset that names its layers, and so can be loaded for any model.

    Attributes:
      runs_to_tell: whether it runs machine code of the asset to know the names.
    """

    runs_to_tell = False

    @abstractmethod
    def layer_names(self, files: AssetFiles, data: memoryview) -> Sequence[str]:
        """The names of the layers in an asset, each once.

        Raises:
          LiteRtError: with file and element, for what cannot be read.
        """


def read_layer(op_name: str, path: str, data: memoryview, asset_root: str = "") -> CustomLayer:
    """The layer for ops of a name that an asset describes; its files lie in its folder, or in `asset_root`.

    Raises:
      LiteRtError: INVALID_TOOL_CONFIG, for a kind of asset that has no reader; others from the reader.
    """
    reader = find_reader(path)
    if reader is None:
        suffix = os.path.splitext(path)[1].lower()
        kind = f"'{suffix}'" if suffix else "no suffix"
        raise LiteRtError(
            Status.INVALID_TOOL_CONFIG,
            f"an asset with {kind}, which the reference vendor cannot read",
            f"{path}, op '{op_name}'",
            f"It reads {', '.join(sorted(_readers()))}.",
        )
    return reader.read(op_name, AssetFiles(path, asset_root), data)


def find_reader(path: str) -> AssetReader | None:
    """The reader for a file, by its suffix."""
    return _readers().get(os.path.splitext(path)[1].lower())


def no_layer_named(op_name: str, names: Sequence[str], where: str) -> LiteRtError:
    """The error for a file of several layers without the one that is asked for."""
    same = [name for name in names if name.lower() == op_name.lower()]
    near = same or get_close_matches(op_name, names, 1)
    return LiteRtError(
        Status.NOT_FOUND,
        f"none of its {len(names)} layers is named '{op_name}'",
        where,
        f"Did you mean '{near[0]}'?" if near else f"It has {', '.join(names)}.",
    )


def description_suffixes() -> Sequence[str]:
    """Suffixes of files that name their layers."""
    return sorted(s for s, reader in _readers().items() if isinstance(reader, DescriptionReader))


@cache
def _readers() -> Mapping[str, AssetReader]:
    return load_package(
        "vendor_reference.custom_layers.readers", "READER", lambda reader: str(reader.suffix)
    )

"""The files that a layer is made of, as they lie on disk."""

from __future__ import annotations

import os
from collections.abc import Sequence

from litert.core.errors import LiteRtError
from vendor_reference.authoring.compiled_layer import LayerOptions, load_layer

_MOST_BESIDE = 1000


def find_layer_files(path: str, asset_root: str, op_name: str) -> Sequence[str]:
    """Paths of an asset and of what it names and includes.

    While it cannot be read, they are all files beside it: one of them will mend it.
    """
    folder = os.path.dirname(os.path.realpath(path))
    try:
        layer = load_layer(LayerOptions(path, asset_root=asset_root), op_name)
    except LiteRtError:
        with os.scandir(folder) as entries:
            beside = sorted(entry.path for entry in entries if entry.is_file())
        return [path, *beside[:_MOST_BESIDE]]
    root = os.path.realpath(asset_root) if asset_root else folder
    if os.path.commonpath((root, folder)) != root:
        root = folder
    return [path, *(os.path.join(root, file.path) for file in layer.files())]

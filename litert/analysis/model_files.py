"""Finds the model files in a list of files and folders."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence

from litert.core.errors import LiteRtError
from litert.core.status import Status

_SUFFIX = ".tflite"
_HINT = "Give paths of TFLite models, or of folders that contain TFLite models."


def find_models(paths: Sequence[str]) -> list[str]:
    """Returns the given files, and all `*.tflite` files below the given folders in sorted order.

    Each file is listed once.

    Raises:
      LiteRtError: NOT_FOUND, if a path does not exist, or a folder contains no model.
    """
    found: dict[str, str] = {}  # by its real path
    for path in paths:
        if os.path.isdir(path):
            models = sorted(_models_below(path))
            if not models:
                raise LiteRtError(
                    Status.NOT_FOUND,
                    f"the folder and its subfolders contain no {_SUFFIX} file",
                    path,
                    _HINT,
                )
        elif os.path.exists(path):
            models = [path]
        else:
            raise LiteRtError(Status.NOT_FOUND, "no such file or folder", path, _HINT)
        for model in models:
            found.setdefault(os.path.realpath(model), model)
    return list(found.values())


def _models_below(folder: str) -> Iterator[str]:
    """Follows links to folders, each folder once, since a link may lead to a folder above it."""
    seen: set[str] = set()
    for here, folders, names in os.walk(folder, followlinks=True):
        real = os.path.realpath(here)
        if real in seen:
            folders.clear()
            continue
        seen.add(real)
        folders.sort()
        for name in names:
            path = os.path.join(here, name)
            if name.endswith(_SUFFIX) and os.path.isfile(path):
                yield path

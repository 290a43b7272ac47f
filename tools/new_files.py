"""Writes new files into a folder, and replaces none that is there."""

from __future__ import annotations

import os
from collections.abc import Mapping

from litert.core.errors import LiteRtError
from litert.core.status import Status


def write_new_files(folder: str, files: Mapping[str, str]) -> list[str]:
    """Writes files, by their paths in the folder; it and those below are made if they are not there.

    Returns:
      Their paths.

    Raises:
      LiteRtError: ALREADY_EXISTS, with nothing written; FILE_IO.
    """
    paths = {name: os.path.join(folder, name) for name in files}
    there = [path for path in paths.values() if os.path.lexists(path)]
    if there:
        raise LiteRtError(
            Status.ALREADY_EXISTS,
            "the file is there already",
            there[0],
            "Name another folder with -o, or remove it.",
        )
    try:
        for name, path in paths.items():
            os.makedirs(os.path.dirname(path) or ".", exist_ok=True)
            with open(path, "x", encoding="utf-8") as stream:
                stream.write(files[name])
    except OSError as error:
        reason = (error.strerror or str(error)).lower()
        raise LiteRtError(Status.FILE_IO, f"cannot write: {reason}", folder) from error
    return list(paths.values())

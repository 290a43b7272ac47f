"""Kernels as their compilers get them, written for people to read: a file for each."""

from __future__ import annotations

import logging
import os
from collections.abc import Sequence

from litert.core.errors import LiteRtError
from litert.core.status import Status
from litert.model.atomic_file import make_folder, open_atomic
from litert.model.output import write_at

_LOG = logging.getLogger(__name__)

_MOST_FILES, _MOST_LETTERS = 10_000, 256 << 20  # texts may come from a stranger's file


def write_kernels(folder: str, texts: Sequence[str]) -> str:
    """Writes `program<n>.cl` for each text to a folder, which is made if it is not there; says so in a sentence.

    Raises:
      LiteRtError: UNSUPPORTED, for more than anybody reads; NOT_FOUND or FILE_IO.
    """
    if len(texts) > _MOST_FILES or sum(map(len, texts)) > _MOST_LETTERS:
        raise LiteRtError(
            Status.UNSUPPORTED,
            f"{len(texts)} kernels of {sum(map(len, texts)) >> 20} MiB are too much to write",
            folder,
        )
    make_folder(folder)
    for number, text in enumerate(texts):
        with open_atomic(os.path.join(folder, f"program{number}.cl")) as fd:
            write_at(fd, text.encode(errors="replace"), 0)
    return f"{len(texts)} kernel{'s'[: len(texts) != 1]} written to {folder}."


def dump_at_load(folder: str, texts: Sequence[str]) -> None:
    """The same for a model that is loaded; the log says it."""
    _LOG.info("%s", write_kernels(folder, texts))

"""Writes files with the source code that the kernel compiler gets, one for each kernel, for people to read."""

from __future__ import annotations

import logging
import os
from collections.abc import Sequence

from litert.core.errors import LiteRtError
from litert.core.status import Status
from litert.model.atomic_file import make_folder, open_atomic
from litert.model.output import write_at

_LOG = logging.getLogger(__name__)

_MOST_FILES, _MOST_LETTERS = 10_000, 256 << 20  # the texts may come from a foreign file


def write_kernels(folder: str, texts: Sequence[str]) -> str:
    """Writes the source code of each kernel to a file `program<n>.cl` in a directory, which is made if necessary.

    Returns a sentence that says how many kernels were written to which directory.

    Raises:
      LiteRtError: UNSUPPORTED, if there are too many kernels or too much source code; NOT_FOUND or FILE_IO, if
        writing fails.
    """
    if len(texts) > _MOST_FILES or sum(map(len, texts)) > _MOST_LETTERS:
        raise LiteRtError(
            Status.UNSUPPORTED,
            f"cannot write {len(texts)} kernels with {sum(map(len, texts)) >> 20} MiB of source code: "
            f"the limits are {_MOST_FILES} kernels and {_MOST_LETTERS >> 20} MiB",
            folder,
            "Omit --dump_kernels; in Python, omit dump_kernels.",
        )
    make_folder(folder)
    for number, text in enumerate(texts):
        with open_atomic(os.path.join(folder, f"program{number}.cl")) as fd:
            write_at(fd, text.encode(errors="replace"), 0)
    return f"{len(texts)} kernel{'s'[: len(texts) != 1]} written to {folder}."


def dump_at_load(folder: str, texts: Sequence[str]) -> None:
    """Writes the kernels of a model that is being loaded, and logs the files' location."""
    _LOG.info("%s", write_kernels(folder, texts))

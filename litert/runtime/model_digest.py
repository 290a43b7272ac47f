"""The digest of a model's bytes; a large file is read once, and again when it has changed."""

from __future__ import annotations

import hashlib
import json
import os
import time

from litert.core.errors import LiteRtError
from litert.model.atomic_file import open_atomic
from litert.model.blob import Blob, MappedFile
from litert.model.manifest import Digest

SUFFIX = ".digest"
_LARGE_FILE = 16 << 20
_CLOCK_NS = (
    2_000_000_000  # as coarse as file systems' clocks may be: a newer file may change unseen
)


def model_digest(source: MappedFile | bytes, folder: str) -> str:
    """The SHA-256 of a model, as 64 hex digits.

    Args:
      source: the model.
      folder: where digests of large files are kept, by what `stat` says of the file.
    """
    if isinstance(source, bytes):
        return Digest.of(Blob(source)).sha256
    if source.size < _LARGE_FILE:
        return Digest.of(source.blob()).sha256
    stat = os.fstat(source.fd)
    identity = [stat.st_dev, stat.st_ino, stat.st_size, stat.st_mtime_ns, stat.st_ctime_ns]
    name = hashlib.sha256(json.dumps(identity).encode()).hexdigest()
    path = os.path.join(folder, name + SUFFIX)
    kept = _read(path)
    if kept:
        return kept
    digest = Digest.of(source.blob()).sha256
    if max(stat.st_mtime_ns, stat.st_ctime_ns) + _CLOCK_NS < time.time_ns():
        _keep(path, digest)
    return digest


def _read(path: str) -> str:
    try:
        with open(path, encoding="ascii", errors="replace") as file:
            text = file.read()
        os.utime(path)
    except OSError:
        return ""
    return text if len(text) == 64 and text.isalnum() else ""


def _keep(path: str, digest: str) -> None:
    try:
        with open_atomic(path) as fd:
            os.write(fd, digest.encode())
    except LiteRtError:  # the folder cannot be written: the file is read again another time
        return

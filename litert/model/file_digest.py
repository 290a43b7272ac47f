"""The digest of a whole compiled file, and a seal made with the user's key; both are in the file's first bytes.

In each file, digest and seal follow a mark directly after the file identifier, so that the reader can compare the
file with its digest before it reads anything else. The manifest also records that the file has a digest, so that
the reader notices if the mark is lost.

| offset | bytes | is |
|---|---|---|
| 8 | 8 | the mark |
| 16 | 32 | the digest: SHA-256 of the root followed by the seal; zeros if the file has no digest |
| 48 | 32 | the seal, made from the root and a secret key; zeros if the file was not sealed |

The file is divided into chunks of 4 MiB; the root is the SHA-256 of the SHA-256s of these chunks, in order. For
the root, the bytes of digest and seal count as zeros.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import NamedTuple

from litert.core.errors import LiteRtError, file_error
from litert.core.status import Status
from litert.model.blob import MappedFile, ReadBytes

MARK = b"LiteNPU\1"
MARK_OFFSET = 8
DIGEST_OFFSET = MARK_OFFSET + len(MARK)
RESERVED = MARK + bytes(64)
"""Placeholder for digest and seal until the file is complete."""

ALWAYS_LIMIT = 64 << 20
"""Largest size, in bytes, of a file that always gets a digest; a larger file gets one only on request."""

AT_LOAD_LIMIT = 16 << 20
"""Largest amount of data, in bytes, that is compared with the digest at every load."""

Seal = Callable[[bytes], bytes]
"""Function that computes a file's seal, which has 32 bytes, from the root."""

_SIZE = 32
NO_SEAL = bytes(_SIZE)
"""Value of the seal in a file that was not sealed."""

_NO_DIGEST = bytes(_SIZE)
_END = DIGEST_OFFSET + 2 * _SIZE
_PIECE = 4 << 20
_MOST_THREADS = 8


class FileDigest(NamedTuple):
    """The digest and the seal that a file contains.

    Attributes:
      digest: Digest of the file; zeros if the file has no digest.
      seal: Seal of the file; zeros if the file was not sealed.
    """

    digest: bytes
    seal: bytes

    @classmethod
    def of(cls, read: ReadBytes, size: int, seal: Seal | None) -> FileDigest:
        """Computes the digest of a complete file, and also its seal if `seal` is given."""
        root = _root(read, size)
        sealed = seal(root) if seal else NO_SEAL
        return cls(_digest(root, sealed), sealed)

    @property
    def is_taken(self) -> bool:
        return self.digest != _NO_DIGEST

    @property
    def is_sealed(self) -> bool:
        return self.seal != NO_SEAL


def find_digest(view: memoryview) -> FileDigest | None:
    """Returns the digest and seal from a file's first bytes; None if the file has no place for them."""
    head = bytes(view[:_END])
    if len(head) < _END or head[MARK_OFFSET:DIGEST_OFFSET] != MARK:
        return None
    return FileDigest(head[DIGEST_OFFSET:-_SIZE], head[-_SIZE:])


def check_digest(source: MappedFile | memoryview, limit: int | None, where: str) -> bytes:
    """Compares a file with its digest, if the file has a digest.

    Args:
      source: The file to compare, or the file's bytes.
      limit: Largest size, in bytes, of a file that is compared; None to compare files of any size.
      where: Name of the file, for error messages.

    Returns:
      The root, from which a seal is computed; b"" if the file was not compared.

    Raises:
      LiteRtError: INVALID_FLATBUFFER, if the file does not match its digest.
    """
    view = source.view if isinstance(source, MappedFile) else source
    size = view.nbytes
    found = find_digest(view)
    if found is None or not found.is_taken or (limit is not None and size > limit):
        return b""
    root = _root(_reader(source), size)
    if _digest(root, found.seal) != found.digest:
        raise LiteRtError(
            Status.INVALID_FLATBUFFER,
            "the file has changed since it was compiled: its digest does not match",
            where,
            "Copy the file again from its source, or compile the model again.",
        )
    return root


def _reader(source: MappedFile | memoryview) -> ReadBytes:
    if isinstance(source, MappedFile) and source.is_open:
        file = source

        def read(start: int, count: int) -> bytes:
            try:
                return os.pread(file.fd, count, start)  # less, if the file was cut meanwhile
            except OSError as error:
                raise file_error(error, "cannot read", file.path) from error

        return read
    view = source.view if isinstance(source, MappedFile) else source
    return lambda start, count: view[start : start + count]


def _digest(root: bytes, seal: bytes) -> bytes:
    import hashlib  # imported here, because it loads OpenSSL

    return hashlib.sha256(root + seal).digest()


def _root(read: ReadBytes, size: int) -> bytes:
    import hashlib

    def piece(start: int) -> bytes:
        data = read(start, min(_PIECE, size - start))
        digest = hashlib.sha256()
        if not start:
            digest.update(data[:DIGEST_OFFSET])
            digest.update(bytes(2 * _SIZE))
            data = data[_END:]
        digest.update(data)
        return digest.digest()

    starts = range(0, size, _PIECE)
    if len(starts) == 1:
        return hashlib.sha256(piece(0)).digest()
    from concurrent.futures import ThreadPoolExecutor

    with ThreadPoolExecutor(min(os.cpu_count() or 1, _MOST_THREADS)) as pool:
        return hashlib.sha256(b"".join(pool.map(piece, starts))).digest()

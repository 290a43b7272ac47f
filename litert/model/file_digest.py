"""The digest of a whole compiled file, and the seal of whoever compiled it, in the file's first bytes.

They lie between the identifier and the first table, at the same place in each file, so that a file is compared
with its digest before anything in it is read. The manifest says that they are there: a lost mark is noticed, too.

| offset | bytes | is |
|---|---|---|
| 8 | 8 | the mark |
| 16 | 32 | the digest: SHA-256 of the root, then the seal; zeros where none was taken |
| 48 | 32 | the seal, made of the root and a secret key; zeros for none |

The root is the SHA-256 of the SHA-256s of the file's pieces of 4 MiB, in their order; digest and seal count as
zeros.
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
"""What stands in the place until a file is complete."""

ALWAYS_LIMIT = 64 << 20
"""Greatest size in bytes of a file whose digest is always taken."""

AT_LOAD_LIMIT = 16 << 20
"""Greatest size in bytes of what is compared with its digest whenever a file is loaded."""

Seal = Callable[[bytes], bytes]
"""Makes the seal, 32 bytes, of a file's root."""

_SIZE = 32
NO_SEAL = bytes(_SIZE)
"""Of a file that nobody has sealed."""

_NO_DIGEST = bytes(_SIZE)
_END = DIGEST_OFFSET + 2 * _SIZE
_PIECE = 4 << 20
_MOST_THREADS = 8


class FileDigest(NamedTuple):
    """What a file says of itself.

    Attributes:
      digest: zeros where none was taken.
      seal: zeros where nobody has sealed the file.
    """

    digest: bytes
    seal: bytes

    @classmethod
    def of(cls, read: ReadBytes, size: int, seal: Seal | None) -> FileDigest:
        """Takes the digest of a file that is complete but for it, and seals it."""
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
    """The digest in a file's first bytes; None where there is no place for it."""
    head = bytes(view[:_END])
    if len(head) < _END or head[MARK_OFFSET:DIGEST_OFFSET] != MARK:
        return None
    return FileDigest(head[DIGEST_OFFSET:-_SIZE], head[-_SIZE:])


def check_digest(source: MappedFile | memoryview, limit: int | None, where: str) -> bytes:
    """Compares a file with its digest, if it has one.

    Args:
      source: the file, or its bytes.
      limit: greatest size in bytes of a file that is looked at; None for any.
      where: its name, for errors.

    Returns:
      The root, which a seal is made of; b"" where nothing was compared.

    Raises:
      LiteRtError: INVALID_FLATBUFFER, for a file that has changed.
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
            "the file is not as it was compiled: its digest is another",
            where,
            "Get it again from where it came, or compile the model again.",
        )
    return root


def _reader(source: MappedFile | memoryview) -> ReadBytes:
    if isinstance(source, MappedFile) and source.is_open:
        file = source

        def read(start: int, count: int) -> bytes:
            try:
                return os.pread(file.fd, count, start)  # of a file that was cut meanwhile: less
            except OSError as error:
                raise file_error(error, "cannot read", file.path) from error

        return read
    view = source.view if isinstance(source, MappedFile) else source
    return lambda start, count: view[start : start + count]


def _digest(root: bytes, seal: bytes) -> bytes:
    import hashlib  # here, since it loads OpenSSL

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

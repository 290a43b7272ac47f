"""Compiled files that somebody has changed, and who takes their digests anew."""

from __future__ import annotations

from litert.model.file_digest import DIGEST_OFFSET, FileDigest, find_digest


def with_right_digest(data: bytes) -> bytes:
    """A file with the digest of its bytes as they are, if it has a place for it, and without a seal."""
    view = memoryview(data)
    if find_digest(view) is None:
        return data
    digest = FileDigest.of(lambda start, count: view[start : start + count], len(data), None)
    text = b"".join(digest)
    return data[:DIGEST_OFFSET] + text + data[DIGEST_OFFSET + len(text) :]

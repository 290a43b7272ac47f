"""Makes valid compiled files from changed ones, as an attacker can: their digests are computed again."""

from __future__ import annotations

from litert.model.file_digest import DIGEST_OFFSET, FileDigest, find_digest


def with_right_digest(data: bytes) -> bytes:
    """Returns a file with a new digest and without a seal; a file without a place for a digest stays unchanged."""
    view = memoryview(data)
    if find_digest(view) is None:
        return data
    digest = FileDigest.of(lambda start, count: view[start : start + count], len(data), None)
    text = b"".join(digest)
    return data[:DIGEST_OFFSET] + text + data[DIGEST_OFFSET + len(text) :]

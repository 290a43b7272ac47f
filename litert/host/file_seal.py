"""Determines who compiled a file: a file with a valid seal of this user was compiled by this user."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

from litert.host import user_key
from litert.model.blob import MappedFile
from litert.model.file_digest import NO_SEAL, Seal, check_digest, find_digest

_PURPOSE = "a compiled file"


class Maker(NamedTuple):
    """What a file's seal shows about the user who compiled the file.

    Attributes:
      is_user: Whether this user compiled the file, on this machine.
      why_not: Clause that says why the user is unknown; "" if this user compiled the file.
    """

    is_user: bool
    why_not: str = ""


def user_seal(tell: Callable[[str], object]) -> Seal:
    """Returns a function that seals files with the user's key.

    If the user has no key, the function logs the reason and does not seal files.
    """

    def seal(root: bytes) -> bytes:
        try:
            return user_key.seal(_PURPOSE, root)
        except OSError as error:
            tell(f"the file is not sealed, because the user has no key: {_reason(error)}")
            return NO_SEAL

    return seal


def find_maker(source: MappedFile | memoryview, where: str) -> Maker:
    """Determines who compiled a file. If the file has a digest, the whole file is read.

    Raises:
      LiteRtError: INVALID_FLATBUFFER, if the file has changed since it was compiled.
    """
    found = find_digest(source.view if isinstance(source, MappedFile) else source)
    if found is None:
        return Maker(False, "another compiler, or an older version of this one, made the file")
    if not found.is_taken:
        return Maker(False, "the file is large, and was compiled without --digest_weights")
    root = check_digest(source, None, where)
    if not found.is_sealed:
        return Maker(False, "the file has no seal")
    import hmac  # imported here, since this module loads OpenSSL

    try:
        if hmac.compare_digest(user_key.seal(_PURPOSE, root), found.seal):
            return Maker(True)
    except OSError as error:
        return Maker(False, f"the user has no key to check the seal: {_reason(error)}")
    return Maker(False, "the seal comes from another user or another machine")


def _reason(error: OSError) -> str:
    place = f" ({error.filename})" if error.filename else ""
    return f"{error.strerror or error}{place}"

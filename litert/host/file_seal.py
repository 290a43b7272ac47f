"""Who has compiled a file: its seal is this user's own, or says nothing."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

from litert.host import user_key
from litert.model.blob import MappedFile
from litert.model.file_digest import NO_SEAL, Seal, check_digest, find_digest

_PURPOSE = "a compiled file"


class Maker(NamedTuple):
    """Who has compiled a file.

    Attributes:
      is_user: whether that was this user, on this machine.
      why_not: why nobody knows, in a clause; "" for this user.
    """

    is_user: bool
    why_not: str = ""


def user_seal(tell: Callable[[str], object]) -> Seal:
    """Seals files with the user's key; where there can be none, it says why, and leaves them without a seal."""

    def seal(root: bytes) -> bytes:
        try:
            return user_key.seal(_PURPOSE, root)
        except OSError as error:
            tell(
                f"the file has no seal that says who compiled it, since there is no key: {_reason(error)}"
            )
            return NO_SEAL

    return seal


def find_maker(source: MappedFile | memoryview, where: str) -> Maker:
    """Who has compiled a file; all of it is read, if it has a digest.

    Raises:
      LiteRtError: INVALID_FLATBUFFER, for a file that has changed since.
    """
    found = find_digest(source.view if isinstance(source, MappedFile) else source)
    if found is None:
        return Maker(False, "another compiler made it, or an older version of this one")
    if not found.is_taken:
        return Maker(False, "it is large, and was compiled without --digest_weights")
    root = check_digest(source, None, where)
    if not found.is_sealed:
        return Maker(False, "nobody has sealed it")
    import hmac  # here, since it loads OpenSSL

    try:
        if hmac.compare_digest(user_key.seal(_PURPOSE, root), found.seal):
            return Maker(True)
    except OSError as error:
        return Maker(False, f"there is no key to know its seal by: {_reason(error)}")
    return Maker(False, "its seal is of another user, or of another machine")


def _reason(error: OSError) -> str:
    place = f" ({error.filename})" if error.filename else ""
    return f"{error.strerror or error}{place}"

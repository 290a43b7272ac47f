"""Detached Ed25519 signatures of files, with keys in OpenSSL's PEM format.

The signed message is a text that contains the file's SHA-256, so that signing a file of any size takes little
memory. A signature that the same key makes for another purpose is not valid for such a text.
"""

from __future__ import annotations

import hashlib
import os
from collections.abc import Callable
from typing import Any

from litert.core.errors import LiteRtError, file_error
from litert.core.input_file import open_input
from litert.core.status import Status
from litert.model.atomic_file import open_atomic
from litert.model.blob import MappedFile
from litert.model.output import write_at

_SIZE = 64
_PIECE = 4 << 20
_MOST_KEY_BYTES = 64 << 10
_NEW_KEY = (
    "Make a private key with openssl genpkey -algorithm ed25519 -out private.pem, and its "
    "public key with openssl pkey -in private.pem -pubout -out public.pem."
)


def sign_file(path: str, key_path: str, signature_path: str) -> None:
    """Signs a file, and writes the signature to another file.

    Args:
      path: Path of the file to sign.
      key_path: Path of the private key.
      signature_path: Path of the signature to write.

    Raises:
      LiteRtError: NOT_FOUND, if a file or the package `cryptography` is missing; FILE_IO, if a file cannot be read
        or written; INVALID_ARGUMENT, if the key has another format.
    """
    from_pem = _serialization().load_pem_private_key
    key = _read_key(key_path, lambda data: from_pem(data, None), "Ed25519PrivateKey", "private")
    signature = key.sign(_message(path))
    with open_atomic(signature_path) as fd:
        write_at(fd, signature, 0)


def is_signed(path: str, key_path: str, signature_path: str) -> bool:
    """Returns whether a signature is valid for a file and a public key.

    `is_signed` raises the same errors as `sign_file`.
    """
    key = _read_key(key_path, _serialization().load_pem_public_key, "Ed25519PublicKey", "public")
    from cryptography.exceptions import InvalidSignature

    with MappedFile(signature_path) as file:
        signature = bytes(file.view[: _SIZE + 1])
    if len(signature) != _SIZE:
        raise LiteRtError(
            Status.INVALID_ARGUMENT,
            f"the file is not a signature, because every signature has a size of {_SIZE} bytes",
            signature_path,
            "With --signature, give the file that litert-npu sign wrote.",
        )
    try:
        key.verify(signature, _message(path))
    except InvalidSignature:
        return False
    return True


def _message(path: str) -> bytes:
    digest = hashlib.sha256()
    with open_input(
        path
    ) as file:  # not memory-mapped: if the file were truncated meanwhile, the process would crash
        try:
            left = os.fstat(file.fileno()).st_size
            while left:
                piece = file.read(min(_PIECE, left))
                if not piece:
                    raise LiteRtError(
                        Status.FILE_IO,
                        "the file became shorter while it was read",
                        path,
                        "Another program has changed the file: run the command again.",
                    )
                digest.update(piece)
                left -= len(piece)
        except OSError as error:
            raise file_error(error, "cannot read", path) from error
    return f"litert-npu signature 1\nsha256 {digest.hexdigest()}\n".encode()


def _read_key(path: str, load: Callable[[bytes], object], kind: str, which: str) -> Any:
    from cryptography.exceptions import UnsupportedAlgorithm
    from cryptography.hazmat.primitives.asymmetric import ed25519

    with MappedFile(path) as file:
        data = bytes(file.view[:_MOST_KEY_BYTES])
    try:
        key = load(data)
    except TypeError:  # the key needs a password
        raise LiteRtError(
            Status.INVALID_ARGUMENT,
            "the key is encrypted",
            path,
            f"Decrypt the key with openssl pkey -in {path} -out decrypted.pem, and sign with "
            "--key=decrypted.pem.",
        ) from None
    except (ValueError, UnsupportedAlgorithm):
        key = None
    if not isinstance(key, getattr(ed25519, kind)):
        raise LiteRtError(
            Status.INVALID_ARGUMENT,
            f"the file contains no {which} Ed25519 key in PEM format",
            path,
            _NEW_KEY,
        )
    return key


def _serialization() -> Any:
    try:
        from cryptography.hazmat.primitives import serialization
    except ImportError:
        raise LiteRtError(
            Status.NOT_FOUND,
            "signatures need the package cryptography, which is not installed",
            hint="Install the package: pip install 'litert-npu[sign]'.",
        ) from None
    return serialization

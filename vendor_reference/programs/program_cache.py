"""Built programs on disk: device binaries by the digest of all that their build depends on.

An entry is bound to its digest; a damaged one is removed, and its program built again.
Processes may share the folder. The least recently used entries go when it grows too large.
"""

from __future__ import annotations

import hashlib
import json
import logging
import os
import re
import struct
from base64 import b64decode, b64encode
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace

from litert.core.checked_json import JsonNode
from litert.core.codec import ANY_TEXT, TEXT, converted, frozen_array, record
from litert.core.errors import LiteRtError
from litert.core.status import Status
from vendor_reference.cache import cache_folder, keep_file, read_file
from vendor_reference.executable.kernel_signature import SIGNATURES, KernelSignature
from vendor_reference.programs.program_text import ProgramText

_LOG = logging.getLogger(__name__)

_FORMAT = "LRT-CLB4"
_HEADER_SIZE = struct.Struct("<I")
_PART = "programs"
_SUFFIX = ".clb"
_NAMES = re.compile(rf"[0-9a-f]{{64}}{re.escape(_SUFFIX)}")
LIMIT_BYTES = 256 << 20


@dataclass(frozen=True, slots=True)
class CompiledProgram:
    """A program that the OpenCL compiler has built.

    Attributes:
      kernels: what each declares, by name.
      binary: for one device and driver version.
      log: what the compiler said; mostly "".
      variants: of kernels, that were compiled for one work size and are in the binary.
    """

    kernels: Mapping[str, KernelSignature]
    binary: bytes = b""
    log: str = ""
    variants: frozenset[str] = frozenset()


COMPILED_PROGRAM = record(
    CompiledProgram,
    kernels=SIGNATURES,
    binary=converted(TEXT, b64decode, lambda binary: b64encode(binary).decode()),
    log=ANY_TEXT,
    variants=converted(frozen_array(TEXT), frozenset, lambda variants: tuple(sorted(variants))),
)
"""A program as plain data."""


class ProgramCache:
    """A folder of programs built for one device, among others; it need not exist, nor be writable."""

    def __init__(self, identity: Sequence[str], limit_bytes: int = LIMIT_BYTES) -> None:
        """`limit_bytes` is the folder's, whatever devices its programs are for."""
        self._identity = list(identity)
        self._limit_bytes = limit_bytes

    def find(self, text: ProgramText) -> CompiledProgram | None:
        """The program of that text, if it is there and whole."""
        try:
            program = _parse(read_file(_PART, self._name(text)))
            os.utime(self._path(text))
            return program
        except OSError:
            return None
        except LiteRtError as error:
            _LOG.warning("A built program is built again: %s", error)
            self.remove(text)
            return None

    def store(self, text: ProgramText, program: CompiledProgram) -> None:
        """Keeps a program; where that fails, it is built again another time."""
        header = json.dumps(COMPILED_PROGRAM.dump(replace(program, binary=b""))).encode()
        try:
            data = (_HEADER_SIZE.pack(len(header)), header, program.binary)
            keep_file(_PART, self._name(text), data, _NAMES, self._limit_bytes)
        except (OSError, LiteRtError) as error:
            _LOG.info("A built program is not kept: %s", error)

    def remove(self, text: ProgramText) -> None:
        """Forgets a program that turned out to be of no use."""
        with suppress(OSError):
            os.unlink(self._path(text))

    def _path(self, text: ProgramText) -> str:
        return os.path.join(cache_folder(_PART), self._name(text))

    def _name(self, text: ProgramText) -> str:
        parts = json.dumps([_FORMAT, self._identity, text.options, text.text])
        return hashlib.sha256(parts.encode()).hexdigest() + _SUFFIX


def _parse(data: bytes) -> CompiledProgram:
    (header_size,) = _HEADER_SIZE.unpack_from(data)
    end = _HEADER_SIZE.size + header_size
    text = data[_HEADER_SIZE.size : end]
    header = JsonNode.parse(text, "a built program", Status.SERIALIZATION)
    return replace(COMPILED_PROGRAM.read(header), binary=data[end:])

"""A disk cache of built programs: device binaries by the digest of everything that their build depends on.

An entry is bound to its digest; a damaged entry is removed, and its program is built again.
Processes may share the cache folder. The least recently used entries are removed when the folder grows too large.
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
      kernels: Declarations of the kernels by name.
      binary: Binary for one device and driver version.
      log: The compiler's log; usually "".
      variants: Kernels in the binary that were compiled for one work size.
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
"""Converts a program to plain data."""


class ProgramCache:
    """The cache of programs for one device; its folder may be shared, missing or read-only."""

    def __init__(self, identity: Sequence[str], limit_bytes: int = LIMIT_BYTES) -> None:
        """`limit_bytes` limits the whole folder, including programs for other devices."""
        self._identity = list(identity)
        self._limit_bytes = limit_bytes

    def find(self, text: ProgramText) -> CompiledProgram | None:
        """Finds the program of a text; None if it is missing or damaged."""
        try:
            program = _parse(read_file(_PART, self._name(text)))
            os.utime(self._path(text))
            return program
        except OSError:
            return None
        except LiteRtError as error:
            _LOG.warning("Building a cached program again: %s", error)
            self.remove(text)
            return None

    def store(self, text: ProgramText, program: CompiledProgram) -> None:
        """Stores a program; if that fails, it will be built again."""
        header = json.dumps(COMPILED_PROGRAM.dump(replace(program, binary=b""))).encode()
        try:
            data = (_HEADER_SIZE.pack(len(header)), header, program.binary)
            keep_file(_PART, self._name(text), data, _NAMES, self._limit_bytes)
        except (OSError, LiteRtError) as error:
            _LOG.info("Cannot cache a built program: %s", error)

    def remove(self, text: ProgramText) -> None:
        """Removes an unusable program."""
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

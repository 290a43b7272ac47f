"""A disk cache of built programs, which contains device binaries.

The key is a digest of everything on which the build depends.

A damaged cache entry is removed, and its program is built again. Several processes may share the cache folder. The
least recently used entries are removed when the cache folder becomes too large.
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

_FORMAT = "LRT-CLB5"
_HEADER_SIZE = struct.Struct("<I")
_PART = "programs"
_SUFFIX = ".clb"
_NAMES = re.compile(rf"[0-9a-f]{{64}}{re.escape(_SUFFIX)}")
LIMIT_BYTES = 256 << 20


@dataclass(frozen=True, slots=True)
class CompiledProgram:
    """A program as the OpenCL compiler has built it.

    Attributes:
      kernels: Declarations of the program's kernels, by name.
      binary: Binary of the program for one device and one driver version.
      log: Log of the compiler; usually "".
      variants: Kernel variants in the binary, each compiled for a certain work size.
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
"""Codec that converts a compiled program to plain data, and back."""


class ProgramCache:
    """The cache of programs for one device; the cache folder may be shared, missing or read-only."""

    def __init__(self, identity: Sequence[str], limit_bytes: int = LIMIT_BYTES) -> None:
        """`limit_bytes` limits the size of the whole cache folder, including programs for other devices."""
        self._identity = list(identity)
        self._limit_bytes = limit_bytes

    def find(self, text: ProgramText) -> CompiledProgram | None:
        """Returns the cached program of a source text; None if it is missing or damaged."""
        try:
            program = _parse(read_file(_PART, self._name(text)))
            os.utime(self._path(text))
            return program
        except OSError:
            return None
        except LiteRtError as error:
            _LOG.warning("A program in the cache is unusable and is built again: %s", error)
            self.remove(text)
            return None

    def store(self, text: ProgramText, program: CompiledProgram) -> None:
        """Stores a program in the cache.

        If the program cannot be stored, it will be built again in the next process.
        """
        header = json.dumps(COMPILED_PROGRAM.dump(replace(program, binary=b""))).encode()
        try:
            data = (_HEADER_SIZE.pack(len(header)), header, program.binary)
            keep_file(_PART, self._name(text), data, _NAMES, self._limit_bytes)
        except (OSError, LiteRtError) as error:
            _LOG.info("Cannot cache a built program: %s", error)

    def remove(self, text: ProgramText) -> None:
        """Removes an unusable program from the cache."""
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

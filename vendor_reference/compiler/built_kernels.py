"""Caches the results of program builds in the cache folder, across runs of the compiler.

The cache holds only the results of builds; the device caches the programs. On a cache hit, `apply_plugin` neither
starts a compiler nor loads OpenCL.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Mapping
from dataclasses import dataclass

from litert.core.checked_json import JsonNode
from litert.core.codec import TEXT, record
from litert.core.errors import LiteRtError
from litert.core.status import Status
from vendor_reference.cache import keep_file, read_file
from vendor_reference.executable.executable import Program
from vendor_reference.executable.kernel_signature import SIGNATURES, KernelSignature

_FORMAT = 4
_PART = "built"
_NAMES = re.compile(r"[0-9a-f]{64}\.json")
_LIMIT_BYTES = 16 << 20


@dataclass(frozen=True, slots=True)
class BuiltProgram:
    """The kernel declarations of a built program, by kernel name, and the compiler's log."""

    kernels: Mapping[str, KernelSignature]
    log: str = ""


BUILT = record(BuiltProgram, kernels=SIGNATURES, log=TEXT, always=lambda _: ("log",))
"""The result of a successful build as plain data."""


def program_key(program: Program, fingerprint: str) -> str:
    """Returns a cache key for a program's source code, build options and OpenCL driver."""
    sources = [[s.asset, s.file_name, s.sha256] for s in (*program.sources, *program.headers)]
    parts = [_FORMAT, fingerprint, program.prelude, program.build_options, sources]
    return hashlib.sha256(json.dumps([*parts, len(program.headers)]).encode()).hexdigest()


def find_built(key: str) -> BuiltProgram | None:
    """Returns the cached result of a key; None if the cache does not contain the key."""
    name = f"{key}.json"
    try:
        return BUILT.read(JsonNode.parse(read_file(_PART, name), name, Status.SERIALIZATION))
    except (OSError, LiteRtError):
        return None  # never built, or a damaged file: the program is built again


def remember_built(key: str, built: BuiltProgram) -> None:
    """Stores a result in the cache; does nothing if the cache folder is not writable."""
    data = json.dumps(BUILT.dump(built)).encode()
    try:
        keep_file(_PART, f"{key}.json", [data], _NAMES, _LIMIT_BYTES)
    except (OSError, LiteRtError) as error:
        import logging  # imported here, since the import takes as long as reading all results

        logging.getLogger(__name__).info("cannot store the result of a build: %s", error)

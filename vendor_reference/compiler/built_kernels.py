"""What the build of a program said, remembered between runs in the cache folder.

A memory of answers, not of programs: those the device keeps. It lets a second `apply_plugin` on the same
kernels start no compiler, and load no OpenCL.
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

_FORMAT = 3
_PART = "built"
_NAMES = re.compile(r"[0-9a-f]{64}\.json")
_LIMIT_BYTES = 16 << 20


@dataclass(frozen=True, slots=True)
class BuiltProgram:
    """What each kernel of a program that was built declares, by name; and what the compiler said, mostly ""."""

    kernels: Mapping[str, KernelSignature]
    log: str = ""


BUILT = record(BuiltProgram, kernels=SIGNATURES, log=TEXT, always=lambda _: ("log",))
"""The answer of a successful build, as plain data."""


def program_key(program: Program, fingerprint: str) -> str:
    """A name for a program's text, options and OpenCL: equal for what builds alike."""
    sources = [[s.asset, s.file_name, s.sha256] for s in (*program.sources, *program.headers)]
    parts = [_FORMAT, fingerprint, program.prelude, program.build_options, sources]
    return hashlib.sha256(json.dumps([*parts, len(program.headers)]).encode()).hexdigest()


def find_built(key: str) -> BuiltProgram | None:
    """What is remembered under a key."""
    name = f"{key}.json"
    try:
        return BUILT.read(JsonNode.parse(read_file(_PART, name), name, Status.SERIALIZATION))
    except (OSError, LiteRtError):
        return None  # never built, or a damaged file: it is built again


def remember_built(key: str, built: BuiltProgram) -> None:
    """Keeps an answer; a folder that cannot be written to costs the next run its time, no more."""
    data = json.dumps(BUILT.dump(built)).encode()
    try:
        keep_file(_PART, f"{key}.json", [data], _NAMES, _LIMIT_BYTES)
    except (OSError, LiteRtError) as error:
        import logging  # here: it takes as long to import as all answers to read

        logging.getLogger(__name__).info("cannot remember a build: %s", error)

"""Remembers the results of program builds in the cache folder, from one run to the next.

The cache keeps results of builds, not programs: the device keeps those. With it, a second
`apply_plugin` on the same kernels starts no compiler and loads no OpenCL.
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
    """The declaration of each kernel of a built program, by name.

    And the compiler's log, which is mostly "".
    """

    kernels: Mapping[str, KernelSignature]
    log: str = ""


BUILT = record(BuiltProgram, kernels=SIGNATURES, log=TEXT, always=lambda _: ("log",))
"""The result of a successful build as plain data."""


def program_key(program: Program, fingerprint: str) -> str:
    """Returns a key for a program's text, options and OpenCL; programs that build alike have equal keys."""
    sources = [[s.asset, s.file_name, s.sha256] for s in (*program.sources, *program.headers)]
    parts = [_FORMAT, fingerprint, program.prelude, program.build_options, sources]
    return hashlib.sha256(json.dumps([*parts, len(program.headers)]).encode()).hexdigest()


def find_built(key: str) -> BuiltProgram | None:
    """Returns the result that is remembered under a key; None if there is none."""
    name = f"{key}.json"
    try:
        return BUILT.read(JsonNode.parse(read_file(_PART, name), name, Status.SERIALIZATION))
    except (OSError, LiteRtError):
        return None  # never built, or a damaged file: the program is built again


def remember_built(key: str, built: BuiltProgram) -> None:
    """Stores a result; if the folder is not writable, only the next run takes longer."""
    data = json.dumps(BUILT.dump(built)).encode()
    try:
        keep_file(_PART, f"{key}.json", [data], _NAMES, _LIMIT_BYTES)
    except (OSError, LiteRtError) as error:
        import logging  # imported here, since the import takes as long as reading all results

        logging.getLogger(__name__).info("cannot store the result of a build: %s", error)

"""Proves that an OpenCL driver works: a child process loads the driver, and runs a small kernel on each device.

The result is cached; the cache key contains everything on which the result depends: the driver's library, the CPU,
device files, pyopencl, and the environment variables that drivers read. A failure is cached for only an hour,
since the user may install a missing part.

The user's kernels are also compiled in child processes. If the compilation of a user's kernel fails, the proof
shows whether the driver or the kernel is at fault.
"""

from __future__ import annotations

import hashlib
import json
import logging
import os
import re
import time
from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from glob import glob
from importlib.util import find_spec

from litert.core.checked_json import JsonNode
from litert.core.errors import ChildStartError, LiteRtError
from litert.core.status import Status
from litert.host.sandbox import VARIABLE, Sandbox, SandboxMode, chosen_mode, why_missing
from vendor_reference.cache import cache_folder, keep_file, read_file
from vendor_reference.drivers.device_info import DEVICE_INFO, DeviceInfo, describe_processor
from vendor_reference.drivers.driver import NOT_THE_KERNEL, driver_of_library
from vendor_reference.drivers.installation import Installation
from vendor_reference.drivers.sandbox import VARIABLES, driver_sandbox

TIMEOUT_S = 20.0
"""Time limit for the proof of a driver, in seconds.

The proof of a working driver takes a second, or longer on a busy machine.
"""

_LOG = logging.getLogger(__name__)

_CHILD = "vendor_reference.device.proof_worker:prove"
_FORMAT = 1
_PART = "drivers"
_NAMES = re.compile(r"[0-9a-f]{64}\.json")
_LIMIT_BYTES = 1 << 20
_NO_HOLDS_S = 3600.0


@dataclass(frozen=True, slots=True)
class Proof:
    """The result of testing a driver on this machine.

    Attributes:
      installation: Installation of the driver.
      devices: Devices on which the test kernel ran correctly; empty if there is a problem.
      problem: Reason why the driver cannot be used; "" if the driver works.
    """

    installation: Installation
    devices: Sequence[DeviceInfo]
    problem: str = ""

    def __str__(self) -> str:
        what = " ".join(self.problem.split()) or "; ".join(map(str, self.devices))
        return f"{self.installation.name} ({self.installation.origin}): {what}"


_proofs: dict[str, Proof] = {}


def prove(installation: Installation, *, again: bool = False) -> Proof:
    """Tests a driver, or returns the cached result of an earlier test."""
    if installation.problem:
        return Proof(installation, (), installation.problem)
    key = _key(installation)
    proof = None if again else _proofs.get(key) or _recall(key, installation)
    if proof is None:
        _LOG.info("Testing the OpenCL driver %s", installation.library)
        proof, was_tried = _try(installation)
        if was_tried:
            _remember(key, proof)
    _proofs[key] = proof
    return proof


def call_compiler(
    target: str, argument: object, *, timeout_s: float, library: str
) -> Iterator[object]:
    """Calls a generator function that compiles kernels, in a sandboxed child process.

    The child process may use half of the machine's memory.

    If the child process crashes, hangs or exceeds its memory limit, the driver is tested again, since the driver
    may be at fault.

    Raises:
      LiteRtError: The errors of `call_in_child`; COMPILATION, if the driver fails even with the test kernel.
    """
    from litert.host.child import call_in_child
    from litert.host.child_process import half_of_memory

    try:
        yield from call_in_child(
            target,
            argument,
            timeout_s=timeout_s,
            subject="the OpenCL compiler",
            memory_bytes=half_of_memory(),
            sandbox=driver_sandbox(library),
        )
    except LiteRtError as error:
        if error.status not in (Status.RUNTIME_FAILURE, Status.TIMEOUT_EXPIRED):
            raise
        installation = Installation(driver_of_library(library), library, library)
        problem = prove(installation, again=True).problem
        if not problem:
            raise  # the driver works, so the kernel is at fault
        what = f"the OpenCL driver does not work: {problem}"
        raise LiteRtError(Status.COMPILATION, what, library, NOT_THE_KERNEL) from error


def _key(installation: Installation) -> str:
    """Returns a digest of everything on which the result of a proof depends."""
    patterns = installation.driver.sandbox_needs(installation.library).device_files
    device_files = sorted(path for pattern in patterns for path in glob(pattern))
    pyopencl = find_spec("pyopencl")
    origin = pyopencl.origin if pyopencl else None
    parts = [fingerprint(installation), device_files, origin and [origin, _stat(origin)]]
    return _digest([*parts, os.environ.get("PATH"), chosen_mode().value])  # PATH: PoCL runs ld


def fingerprint(installation: Installation) -> str:
    """Returns a digest of everything that influences how a driver builds a program."""
    paths = ["/etc/ld.so.cache"]
    if os.sep in installation.library:  # the libraries that the driver needs lie in the same folder
        paths = [installation.library, os.path.dirname(installation.library)]
    variables = sorted(f"{k}={v}" for k, v in os.environ.items() if k.startswith(VARIABLES))
    parts = [_FORMAT, installation.library, [_stat(path) for path in paths]]
    return _digest([*parts, describe_processor(), variables])


def _digest(parts: Sequence[object]) -> str:
    return hashlib.sha256(json.dumps(parts).encode(errors="surrogateescape")).hexdigest()


def _stat(path: str) -> Sequence[int]:
    try:
        stat = os.stat(path)
    except OSError:
        return ()
    return (stat.st_size, stat.st_mtime_ns)


def _try(installation: Installation) -> tuple[Proof, bool]:
    """Returns the proof, and whether the driver was tried at all."""
    sandbox = driver_sandbox(installation.library)
    proof, was_tried = _try_in(sandbox, installation)
    if not proof.problem or not was_tried or sandbox.mode is SandboxMode.OFF or why_missing():
        return proof, was_tried
    if _try_in(replace(sandbox, mode=SandboxMode.OFF), installation)[0].devices:
        problem = (
            f"the driver works only without a sandbox ({proof.problem}); to turn the sandbox off, set the "
            f"environment variable {VARIABLE}=off"
        )
        return Proof(installation, (), problem), True
    return proof, True


def _try_in(sandbox: Sandbox, installation: Installation) -> tuple[Proof, bool]:
    from litert.host.child import call_in_child  # here: usually the cached result suffices

    devices, problems = [], []
    try:
        for answer in call_in_child(
            _CHILD,
            installation.library,
            timeout_s=TIMEOUT_S,
            subject="the driver",
            sandbox=sandbox,
        ):
            fields = JsonNode(answer, "$", _CHILD, Status.RUNTIME_FAILURE).fields(
                ("device", "problem")
            )
            info, problem = DEVICE_INFO.read(fields["device"]), fields["problem"].text()
            if problem:
                problems.append(f"{info.name}: {problem}")
            else:
                devices.append(info)
    except LiteRtError as error:
        return Proof(installation, (), error.what), not isinstance(error, ChildStartError)
    if devices:
        return Proof(installation, tuple(devices)), True
    return Proof(
        installation, (), "; ".join(problems) or "the driver has no device on this machine"
    ), True


def _recall(key: str, installation: Installation) -> Proof | None:
    try:
        name = f"{key}.json"
        node = JsonNode.parse(read_file(_PART, name), name, Status.SERIALIZATION)
        age_s = time.time() - os.stat(os.path.join(cache_folder(_PART), name)).st_mtime
        fields = node.fields(("devices", "problem"))
        problem = fields["problem"].text()
        devices = tuple(DEVICE_INFO.read(device) for device in fields["devices"].items())
    except (OSError, LiteRtError):
        return None
    if problem and not 0 <= age_s < _NO_HOLDS_S:
        return None
    return Proof(installation, devices, problem)


def _remember(key: str, proof: Proof) -> None:
    """Stores a proof in the cache; if this fails, a later process tries the driver again."""
    fields = {
        "devices": [DEVICE_INFO.dump(info) for info in proof.devices],
        "problem": proof.problem,
    }
    with suppress(OSError, LiteRtError):
        keep_file(_PART, f"{key}.json", [json.dumps(fields).encode()], _NAMES, _LIMIT_BYTES)

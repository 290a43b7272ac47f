"""A sandbox for a child process whose native code is not to be trusted: a kernel's compiler, a device, a vendor.

It may read what it is told and what Python and the system's libraries need, and has no network, no other process
and, but for those that it is told, no program to start. The promise is about the contents of files: whether a file
exists stays visible. Linux does it: Landlock for files, a filter of system calls (seccomp) for the rest.

It restricts the threads that are started later: enter it before NumPy and drivers are imported.
"""

from __future__ import annotations

import json
import logging
import os
import struct
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass, replace
from enum import Enum

from litert.core.errors import LiteRtError
from litert.core.status import Status
from litert.core.suggestion import did_you_mean

VARIABLE = "LITERT_NPU_SANDBOX"
"""`require`, `try` or `off`: what to do about a system that has no sandbox."""

_LOG = logging.getLogger(__name__)

_SYSTEM = (
    "/lib", "/lib32", "/lib64", "/usr/lib", "/usr/lib32", "/usr/lib64", "/usr/local/lib", "/usr/local/lib64",
    "/nix/store", "/gnu/store", "/usr/share/locale", "/usr/share/zoneinfo",
    "/dev/zero", "/etc/ld.so.cache", "/etc/ld.so.preload", "/etc/localtime", "/etc/OpenCL",
    "/etc/ssl/openssl.cnf", "/etc/pki/tls/openssl.cnf", "/etc/crypto-policies",
    "/proc/self", "/proc/cpuinfo", "/proc/meminfo", "/proc/stat", "/proc/filesystems", "/proc/sys",
    "/sys/devices/system", "/sys/fs/cgroup", "/sys/kernel/mm",
)  # fmt: skip
"""What libraries of the system read, and what tells how many cores and how much memory there are."""

_DEVICES = ("/dev/null", "/dev/random", "/dev/urandom")
_VARIABLES = (
    "GLIBC_TUNABLES", "HOME", "KMP_", "LANG", "LC_", "LD_", "LITERT_NPU_", "MALLOC_", "OMP_", "OPENBLAS_", "PATH",
    "PYTHON", "TBB_", "TEMP", "TMP", "TZ", "XDG_CACHE_HOME",
)  # fmt: skip
"""Beginnings of the variables that a child sees: others may be secrets, as a service's token is."""

DRIVER_VARIABLES = ("CL_", "CUDA_", "GPU_", "HIP_", "OCL_", "OPENCL_", "POCL_", "ROCR_", "ZE_")
"""Beginnings of the variables that drivers of devices read."""

_PACKAGE = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
_INTERPRETER_HEADER = 3


class SandboxMode(Enum):
    """What to do where the system has no sandbox, or whether to use one at all."""

    REQUIRE = "require"
    TRY = "try"
    OFF = "off"


@dataclass(frozen=True, slots=True)
class Sandbox:
    """What a child may use, beside Python and the system's libraries; what does not exist is left out.

    Attributes:
      readable: files and folders whose contents it may read.
      listed: folders in which it sees names of files and folders, at any depth.
      writable: folders in which it may make, change and remove files.
      programs: paths of programs that it may start; they have the same sandbox.
      devices: device files that it may read, write and control.
      variables: beginnings of names of environment variables that it sees, beside those of Python and the system.
      mode: what to do where the system has none.
    """

    readable: Sequence[str] = ()
    listed: Sequence[str] = ()
    writable: Sequence[str] = ()
    programs: Sequence[str] = ()
    devices: Sequence[str] = ()
    variables: Sequence[str] = ()
    mode: SandboxMode = SandboxMode.TRY

    def with_writable(self, folder: str) -> Sandbox:
        """The same, with one more folder to write to."""
        return replace(self, writable=(*self.writable, folder))

    def to_json(self) -> str:
        """What the child's `enter` gets."""
        return json.dumps({**asdict(self), "mode": self.mode.value})

    def environment(self) -> Mapping[str, str]:
        """The variables of this process that the child sees."""
        shown = (*_VARIABLES, *self.variables)
        return {name: value for name, value in os.environ.items() if name.startswith(shown)}


_has_warned = False
_is_entered = False


def chosen_mode() -> SandboxMode:
    """The mode that the environment asks for; `try` by default.

    Raises:
      LiteRtError: INVALID_ARGUMENT, for another word.
    """
    return parse_mode(os.environ.get(VARIABLE) or SandboxMode.TRY.value, f"variable {VARIABLE}")


def parse_mode(text: str, where: str) -> SandboxMode:
    """The mode of that name; INVALID_ARGUMENT, for another word."""
    try:
        return SandboxMode(text)
    except ValueError:
        words = ", ".join(mode.value for mode in SandboxMode)
        what = f"'{text}' is no way to use a sandbox; there are {words}"
        hint = did_you_mean(text, [mode.value for mode in SandboxMode])
        raise LiteRtError(Status.INVALID_ARGUMENT, what, where, hint) from None


def why_missing() -> str:
    """Why this system has no sandbox; "" where it has one."""
    if not sys.platform.startswith("linux"):
        return "it is not Linux"
    from litert.host.landlock import (
        why_no_landlock,
    )  # here and below: most processes need no ctypes
    from litert.host.seccomp import why_no_filter

    return why_no_filter() or why_no_landlock()


def usable(sandbox: Sandbox | None, subject: str) -> Sandbox | None:
    """In the parent: the sandbox for a child; None where it is to run without one.

    Says once in a process that there is none here.

    Raises:
      LiteRtError: UNSUPPORTED, where a sandbox is required, and there is none.
    """
    global _has_warned
    if sandbox is None or sandbox.mode is SandboxMode.OFF:
        return None
    missing = why_missing()
    if not missing:
        return sandbox
    if sandbox.mode is SandboxMode.REQUIRE:
        raise LiteRtError(
            Status.UNSUPPORTED,
            f"{subject} is to run in a sandbox, and this system has none: {missing}",
            hint=f"{VARIABLE}=try, or --sandbox=try, runs it with all your rights: for files that you trust.",
        )
    if not _has_warned:
        _has_warned = True
        _LOG.warning(
            "%s and other native code run without a sandbox, since this system has none (%s): they can read and "
            "write your files, and use the network",
            subject[:1].upper() + subject[1:],
            missing,
        )
    return None


def enter(text: str) -> None:
    """In the child: enters a sandbox that is given as JSON; there is no way out.

    Raises:
      OSError: the kernel refuses it.
    """
    global _is_entered
    import ctypes

    from litert.host.capabilities import give_up_capabilities
    from litert.host.landlock import READ, USE_DEVICE, WRITE, Access, restrict
    from litert.host.seccomp import deny_calls

    sandbox = Sandbox(**json.loads(text))  # its mode is a text, and has been obeyed
    rules = [(path, READ) for path in (*_SYSTEM, *_python_folders(), *sandbox.readable)]
    rules += [(path, Access.READ_DIR) for path in sandbox.listed]
    rules += [(path, WRITE) for path in sandbox.writable]
    rules += [(path, USE_DEVICE) for path in (*_DEVICES, *sandbox.devices)]
    for program in sandbox.programs:
        for path in (program, *_interpreter(program)):
            rules.append((path, READ | Access.EXECUTE))
    no_new_privileges = 38
    if ctypes.CDLL(None, use_errno=True).prctl(no_new_privileges, 1, 0, 0, 0):
        raise OSError(ctypes.get_errno(), "new privileges cannot be given up")
    restrict(rules)
    give_up_capabilities()
    deny_calls(may_start_programs=bool(sandbox.programs))
    _is_entered = True


def is_sandboxed() -> bool:
    """Whether this process has entered a sandbox."""
    return _is_entered


def find_programs(names: Sequence[str]) -> Sequence[str]:
    """The paths of programs in `PATH`, of those that are there."""
    from shutil import which  # here: most processes look for none

    return [path for name in names if (path := which(name))]


def _python_folders() -> Iterator[str]:
    """Where Python and installed packages are; a program's own folder and `PYTHONPATH` have other files, too."""
    yield _PACKAGE
    for prefix in {sys.prefix, sys.exec_prefix, sys.base_prefix, sys.base_exec_prefix}:
        yield os.path.join(prefix, "lib")
        yield os.path.join(prefix, "lib64")
        yield os.path.join(prefix, "pyvenv.cfg")
    for folder in sys.path:
        if os.path.basename(folder) in ("site-packages", "dist-packages"):
            yield folder


def _interpreter(program: str) -> Iterator[str]:
    """The loader of an ELF program, which the kernel starts with it."""
    with suppress(OSError, struct.error), open(program, "rb") as stream:
        header = stream.read(64)
        if header[:5] != b"\x7fELF\x02":
            return
        (offset,), (size, count) = (
            struct.unpack_from("=Q", header, 32),
            struct.unpack_from("=HH", header, 54),
        )
        for index in range(count):
            stream.seek(offset + index * size)
            kind, _, start, _, _, length = struct.unpack("=IIQQQQ", stream.read(40))
            if kind == _INTERPRETER_HEADER:
                stream.seek(start)
                yield os.fsdecode(stream.read(length).rstrip(b"\0"))

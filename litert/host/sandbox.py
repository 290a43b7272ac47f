"""A sandbox for a child process that runs untrusted native code: a kernel compiler, a device or a vendor.

The child may read the given files, and the files that Python and system libraries need. The child has no network,
cannot access other processes, and can start only the given programs. The sandbox protects the contents of files,
but the child can see whether a file exists. The sandbox uses Landlock to restrict files, and a system call filter
(seccomp) to restrict everything else.

The sandbox restricts only threads that start after it was entered, so enter it before NumPy and drivers are
imported.
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
"""Environment variable that sets the sandbox mode: `require`, `try` or `off`."""

_LOG = logging.getLogger(__name__)

_SYSTEM = (
    "/lib", "/lib32", "/lib64", "/usr/lib", "/usr/lib32", "/usr/lib64", "/usr/local/lib", "/usr/local/lib64",
    "/nix/store", "/gnu/store", "/usr/share/locale", "/usr/share/zoneinfo",
    "/dev/zero", "/etc/ld.so.cache", "/etc/ld.so.preload", "/etc/localtime", "/etc/OpenCL",
    "/etc/ssl/openssl.cnf", "/etc/pki/tls/openssl.cnf", "/etc/crypto-policies",
    "/proc/self", "/proc/cpuinfo", "/proc/meminfo", "/proc/stat", "/proc/filesystems", "/proc/sys",
    "/sys/devices/system", "/sys/fs/cgroup", "/sys/kernel/mm",
)  # fmt: skip
"""Files that system libraries read, and files that contain the number of cores and the size of memory."""

_DEVICES = ("/dev/null", "/dev/random", "/dev/urandom")
_VARIABLES = (
    "GLIBC_TUNABLES", "HOME", "KMP_", "LANG", "LC_", "LD_", "LITERT_NPU_", "MALLOC_", "OMP_", "OPENBLAS_", "PATH",
    "PYTHON", "TBB_", "TEMP", "TMP", "TZ", "XDG_CACHE_HOME",
)  # fmt: skip
"""Prefixes of the environment variables that a child can see; other variables may contain secrets."""

DRIVER_VARIABLES = ("CL_", "CUDA_", "GPU_", "HIP_", "OCL_", "OPENCL_", "POCL_", "ROCR_", "ZE_")
"""Prefixes of the environment variables that device drivers read."""

_PACKAGE = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
_INTERPRETER_HEADER = 3


class SandboxMode(Enum):
    """Whether a child runs in a sandbox, and what happens if the system has no sandbox support."""

    REQUIRE = "require"
    TRY = "try"
    OFF = "off"


@dataclass(frozen=True, slots=True)
class Sandbox:
    """The access rights of a child, in addition to Python and system libraries.

    Paths that do not exist are ignored.

    Attributes:
      readable: Files and folders that the child may read.
      listed: Folders in which the child may list the names of files and folders, at any depth.
      writable: Folders in which the child may create, change and remove files.
      programs: Paths of programs that the child may start; these programs run in the same sandbox.
      devices: Device files that the child may read, write and control.
      variables: Prefixes of further environment variables that the child can see.
      mode: What to do if the system has no sandbox support.
    """

    readable: Sequence[str] = ()
    listed: Sequence[str] = ()
    writable: Sequence[str] = ()
    programs: Sequence[str] = ()
    devices: Sequence[str] = ()
    variables: Sequence[str] = ()
    mode: SandboxMode = SandboxMode.TRY

    def with_writable(self, folder: str) -> Sandbox:
        """Returns a copy of the sandbox with one more writable folder."""
        return replace(self, writable=(*self.writable, folder))

    def to_json(self) -> str:
        """Converts the sandbox to data for `enter` in the child."""
        return json.dumps({**asdict(self), "mode": self.mode.value})

    def environment(self) -> Mapping[str, str]:
        """Returns the environment variables of this process that the child can see."""
        shown = (*_VARIABLES, *self.variables)
        return {name: value for name, value in os.environ.items() if name.startswith(shown)}


_has_warned = False
_is_entered = False


def chosen_mode() -> SandboxMode:
    """Reads the sandbox mode from the environment variable; the default is `try`.

    Raises:
      LiteRtError: INVALID_ARGUMENT, if the variable is not a sandbox mode.
    """
    return parse_mode(os.environ.get(VARIABLE) or SandboxMode.TRY.value, f"variable {VARIABLE}")


def parse_mode(text: str, where: str) -> SandboxMode:
    """Returns the sandbox mode with this name; raises INVALID_ARGUMENT if the name is unknown."""
    try:
        return SandboxMode(text)
    except ValueError:
        words = ", ".join(mode.value for mode in SandboxMode)
        what = f"'{text}' is not a sandbox mode; the modes are {words}"
        hint = did_you_mean(text, [mode.value for mode in SandboxMode])
        raise LiteRtError(Status.INVALID_ARGUMENT, what, where, hint) from None


def why_missing() -> str:
    """Returns the reason why this system has no sandbox support; "" if it has sandbox support."""
    if not sys.platform.startswith("linux"):
        return "it is not Linux"
    from litert.host.landlock import (
        why_no_landlock,
    )  # here and below: most processes need no ctypes
    from litert.host.seccomp import why_no_filter

    return why_no_filter() or why_no_landlock()


def usable(sandbox: Sandbox | None, subject: str) -> Sandbox | None:
    """Returns the sandbox for a child process, or None to run the child without a sandbox.

    The parent process calls this function.

    Warns once per process if the system has no sandbox support.

    Raises:
      LiteRtError: UNSUPPORTED, if a sandbox is required, but the system has no sandbox support.
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
            f"{subject} must run in a sandbox, but this system does not support one ({missing})",
            hint=f"If you trust the files, set {VARIABLE}=try or --sandbox=try: "
            "the code then runs without a sandbox, with your privileges.",
        )
    if not _has_warned:
        _has_warned = True
        _LOG.warning(
            "%s and other native code run without a sandbox, since this system does not support one "
            "(%s): they can read and write your files, and use the network",
            subject[:1].upper() + subject[1:],
            missing,
        )
    return None


def enter(text: str) -> None:
    """Enters a sandbox, which is given as JSON and cannot be left again. The child process calls this function.

    Raises:
      OSError: The kernel refuses the sandbox.
    """
    global _is_entered
    import ctypes

    from litert.host.capabilities import give_up_capabilities
    from litert.host.landlock import READ, USE_DEVICE, WRITE, Access, restrict
    from litert.host.seccomp import deny_calls

    sandbox = Sandbox(**json.loads(text))  # the mode is a text here, and is not needed any more
    rules = [(path, READ) for path in (*_SYSTEM, *_python_folders(), *sandbox.readable)]
    rules += [(path, Access.READ_DIR) for path in sandbox.listed]
    rules += [(path, WRITE) for path in sandbox.writable]
    rules += [(path, USE_DEVICE) for path in (*_DEVICES, *sandbox.devices)]
    for program in sandbox.programs:
        for path in (program, *_interpreter(program)):
            rules.append((path, READ | Access.EXECUTE))
    no_new_privileges = 38
    if ctypes.CDLL(None, use_errno=True).prctl(no_new_privileges, 1, 0, 0, 0):
        raise OSError(ctypes.get_errno(), "cannot set no_new_privs")
    restrict(rules)
    give_up_capabilities()
    deny_calls(may_start_programs=bool(sandbox.programs))
    _is_entered = True


def is_sandboxed() -> bool:
    """Whether this process has entered a sandbox."""
    return _is_entered


def find_programs(names: Sequence[str]) -> Sequence[str]:
    """Returns the paths of those programs that exist in the folders of `PATH`."""
    from shutil import which  # imported here: most processes search for no programs

    return [path for name in names if (path := which(name))]


def _python_folders() -> Iterator[str]:
    """Yields the folders of Python and installed packages, without `PYTHONPATH`, which may have other files."""
    yield _PACKAGE
    for prefix in {sys.prefix, sys.exec_prefix, sys.base_prefix, sys.base_exec_prefix}:
        yield os.path.join(prefix, "lib")
        yield os.path.join(prefix, "lib64")
        yield os.path.join(prefix, "pyvenv.cfg")
    for folder in sys.path:
        if os.path.basename(folder) in ("site-packages", "dist-packages"):
            yield folder


def _interpreter(program: str) -> Iterator[str]:
    """Yields the path of the loader that the kernel starts together with an ELF program, if there is one."""
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

"""Makes one call fail: of a file, a mapping, an array or OpenCL, that the project's own code makes.

Python tells a profile function of each call of a function in C, before it happens; an exception there takes the
call's place, as if the system had refused. Types of `mmap` and pyopencl are not told so: they are wrapped.
A place is a function and the lines of the project that lead to it.
"""

from __future__ import annotations

import errno
import io
import mmap
import os
import signal
import sys
import threading
from collections.abc import Callable
from pathlib import Path
from types import FrameType
from typing import Any

import numpy as np

_ROOT = f"{Path(__file__).resolve().parents[2]}{os.sep}"
_PACKAGES = tuple(
    f"{_ROOT}{name}{os.sep}"
    for name in ("litert", "compiler_plugin", "dispatch", "vendor_reference", "tools")
)
_DEPTH = 3
_PIPES = "litert/host/child_process.py"
"""Its calls are on pipes, which have other faults: their ends are gone."""
_FILE_CALLS = {
    "chmod", "close", "copy_file_range", "dup", "fchmod", "fdatasync", "fstat", "fsync", "ftruncate", "link",
    "listdir", "lseek", "lstat", "memfd_create", "mkdir", "open", "pipe", "posix_fallocate", "pread", "pwrite",
    "read", "readlink", "rename", "replace", "rmdir", "scandir", "sendfile", "splice", "stat", "truncate",
    "unlink", "utime", "write",
}  # fmt: skip
_STREAM_CALLS = {
    "close",
    "flush",
    "read",
    "readinto",
    "readline",
    "readlines",
    "seek",
    "truncate",
    "write",
    "writelines",
}
_ARRAY_CALLS = {
    "arange", "array", "asarray", "ascontiguousarray", "astype", "concatenate", "copy", "empty", "tobytes",
    "zeros",
}  # fmt: skip

_OPENCL_METHODS = (
    ("CommandQueue", "finish"), ("CommandQueue", "flush"), ("Event", "wait"), ("Platform", "get_devices"),
    ("Device", "create_sub_devices"), ("_Program", "_build"), ("Buffer", "get_sub_region"),
)  # fmt: skip

Act = Callable[[str], None]


class Hook:
    """Watches the calls of this process.

    Attributes:
      places: those that were reached, in order; each once.
    """

    def __init__(self, wanted: str = "", act: Act = lambda kind: None) -> None:
        """`act` is called, with the kind of call, where the wanted place is reached for the first time."""
        self.places: dict[str, None] = {}
        self._wanted = wanted
        self._act = act

    def start(self) -> None:
        """Watches from now on, in threads that start later, too."""
        _wrap_opencl(self._reach)
        _wrap_mmap(self._reach)
        threading.setprofile(self._profile)
        sys.setprofile(self._profile)

    def stop(self) -> None:
        """Watches no more."""
        sys.setprofile(None)
        threading.setprofile(None)  # type: ignore[arg-type, unused-ignore]
        self._wanted = ""

    def _profile(self, frame: FrameType, event: str, function: Any) -> None:
        if event == "c_call" and (kind := _kind(function)):
            self._reach(kind, function.__name__, frame)

    def _reach(self, kind: str, name: str, frame: FrameType | None) -> None:
        place = _place(kind, name, frame)
        if not place or place in self.places:
            return
        self.places[place] = None
        if place == self._wanted:
            self._act(kind)


def _kind(function: Any) -> str:
    """`file`, `array`, or "" for other functions."""
    owner, name = getattr(function, "__self__", None), function.__name__
    if getattr(owner, "__name__", "") == "posix":
        return "file" if name in _FILE_CALLS else ""
    if isinstance(owner, io.IOBase):
        is_file = not isinstance(owner, io.BytesIO | io.StringIO)
        is_told = owner is sys.stderr  # without it, no error can be shown
        return "file" if name in _STREAM_CALLS and is_file and not is_told else ""
    if name == "open" and getattr(function, "__module__", "") in ("io", "_io"):
        return "file"
    if isinstance(owner, np.ndarray) or getattr(function, "__module__", "") == "numpy":
        return "array" if name in _ARRAY_CALLS else ""
    return ""


def _place(kind: str, name: str, frame: FrameType | None) -> str:
    """ "" for a call that no code of the project makes, or that imports a module."""
    lines: list[str] = []
    while frame is not None:
        path = frame.f_code.co_filename
        if path.startswith("<frozen importlib"):
            return ""
        if len(lines) < _DEPTH and path.startswith(_PACKAGES):
            lines.append(f"{path.removeprefix(_ROOT)}:{frame.f_lineno}")
        frame = frame.f_back
    if not lines or (kind == "file" and lines[0].startswith(_PIPES)):
        return ""
    return f"{kind} {name} < {' < '.join(lines)}"


def _wrap_mmap(reach: Callable[[str, str, FrameType | None], None]) -> None:
    class Mmap(mmap.mmap):
        def __new__(cls, *args: Any, **kwargs: Any) -> Mmap:
            reach("mapping", "mmap", sys._getframe(1))
            return super().__new__(cls, *args, **kwargs)

    mmap.mmap = Mmap  # type: ignore[misc]


def _wrap_opencl(reach: Callable[[str, str, FrameType | None], None]) -> None:
    try:
        import pyopencl as cl
        from pyopencl import _cl
    except ImportError:
        return

    def wrapped(name: str, function: Any) -> Any:
        def call(*args: Any, **kwargs: Any) -> Any:
            reach("opencl", name, sys._getframe(1))
            return function(*args, **kwargs)

        return call

    for name in (name for name in dir(_cl) if "enqueue" in name or name == "get_platforms"):
        new = wrapped(name, getattr(_cl, name))
        setattr(_cl, name, new)
        if hasattr(cl, name) and type(getattr(cl, name)).__name__ == "nb_func":
            setattr(cl, name, new)
    for type_name in ("Buffer", "CommandQueue", "Context", "Kernel", "_Program"):
        setattr(cl, type_name, _watched_type(type_name, getattr(cl, type_name), reach))
    for type_name, name in _OPENCL_METHODS:
        kind = getattr(_cl, type_name)
        setattr(kind, name, wrapped(f"{type_name}.{name}", getattr(kind, name)))


def _watched_type(name: str, kind: Any, reach: Callable[[str, str, FrameType | None], None]) -> Any:
    def init(self: Any, *args: Any, **kwargs: Any) -> None:
        reach("opencl", name, sys._getframe(1))
        kind.__init__(self, *args, **kwargs)

    return type(kind)(name, (kind,), {"__init__": init})


def fail(kind: str) -> None:
    """Does what the system does that has no more of it."""
    if kind == "array":
        raise MemoryError("Unable to allocate 64.0 GiB for an array")
    if kind == "opencl":
        import pyopencl as cl

        record = cl._cl._ErrorRecord("injected", cl.status_code.OUT_OF_RESOURCES, "clEnqueue")
        raise cl.RuntimeError(record)
    number = errno.ENOMEM if kind == "mapping" else errno.EIO
    raise OSError(number, os.strerror(number))


def interrupt(kind: str) -> None:
    """Ctrl-C, as Python has it."""
    raise KeyboardInterrupt


def kill(kind: str) -> None:
    """The process ends there."""
    os.kill(os.getpid(), signal.SIGKILL)


ACTIONS: dict[str, Act] = {"fail": fail, "interrupt": interrupt, "kill": kill}

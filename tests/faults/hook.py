"""Makes one call in the project's own code fail: a call for a file, a mapping, an array, or of OpenCL.

Python calls the profile function before each call of a C function. An exception in the profile function replaces
the call, as if the system had refused it. Python does not report calls of the types of `mmap` and pyopencl; these
types are wrapped instead.

A place is a C function and the lines of the project that call it; in a child process, also the child's function.
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
from importlib.machinery import PathFinder
from pathlib import Path
from types import FrameType
from typing import Any

_ROOT = f"{Path(__file__).resolve().parents[2]}{os.sep}"
_PACKAGES = tuple(
    f"{_ROOT}{name}{os.sep}"
    for name in ("litert", "compiler_plugin", "dispatch", "vendor_reference", "tools")
)
_DEPTH = 3
_PIPES = tuple(
    f"litert/host/{name}.py" for name in ("child_process", "child", "child_side", "serving")
)
"""Modules whose file calls are ignored: they use pipes, which fail in other ways, when the other end is closed."""
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
Reach = Callable[[str, str, FrameType | None], None]
"""Function of the kind of a call, the name of its function, and the calling frame."""


class Hook:
    """Watches the calls in this process."""

    def __init__(self, log: int, wanted: str = "", action: str = "fail", child: str = "") -> None:
        """Creates a hook, which performs the action when the process reaches the wanted place for the first time.

        Args:
          log: Descriptor of a file to which the hook writes each place, once, when the process reaches it.
          wanted: The wanted place; "" for no place.
          action: Name of the action, a key of `ACTIONS`.
          child: Name of this process's function if the command has started this process; otherwise "".
        """
        self.log = log
        self.wanted = wanted
        self.action = action
        self._child = f"{child}: " if child else ""
        self._places: set[str] = set()

    def start(self) -> None:
        """Starts to watch this thread and the threads that start later."""
        if "pyopencl" in sys.modules:
            _wrap_opencl(self._reach)
        else:
            sys.meta_path.insert(0, _OpenClFinder(self._reach))  # type: ignore[arg-type]
        _wrap_mmap(self._reach)
        threading.setprofile(self._profile)
        sys.setprofile(self._profile)

    def stop(self) -> None:
        """Stops watching."""
        sys.setprofile(None)
        threading.setprofile(None)  # type: ignore[arg-type, unused-ignore]
        self.wanted = ""

    def _profile(self, frame: FrameType, event: str, function: Any) -> None:
        is_own = frame.f_code.co_filename == __file__
        if event == "c_call" and not is_own and (kind := _kind(function)):
            self._reach(kind, function.__name__, frame)

    def _reach(self, kind: str, name: str, frame: FrameType | None) -> None:
        place = _place(kind, name, frame)
        if not place or place in self._places:
            return
        self._places.add(place)
        place = f"{self._child}{place}"
        os.write(self.log, f"{place}\n".encode())
        if place == self.wanted:
            ACTIONS[self.action](kind)


def _kind(function: Any) -> str:
    """Returns the kind of a C function: `file`, `array`, or "" for other functions."""
    owner, name = getattr(function, "__self__", None), function.__name__
    if getattr(owner, "__name__", "") == "posix":
        return "file" if name in _FILE_CALLS else ""
    if isinstance(owner, io.IOBase):
        is_file = not isinstance(owner, io.BytesIO | io.StringIO)
        is_told = owner is sys.stderr  # otherwise no error could be printed
        return "file" if name in _STREAM_CALLS and is_file and not is_told else ""
    if name == "open" and getattr(function, "__module__", "") in ("io", "_io"):
        return "file"
    if "numpy" in (type(owner).__module__, getattr(function, "__module__", "")):
        return "array" if name in _ARRAY_CALLS else ""
    return ""


def _place(kind: str, name: str, frame: FrameType | None) -> str:
    """Returns the place of a call; "" for a call outside the project's code, in an import, or for a pipe."""
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


def _wrap_mmap(reach: Reach) -> None:
    class Mmap(mmap.mmap):
        def __new__(cls, *args: Any, **kwargs: Any) -> Mmap:
            reach("mapping", "mmap", sys._getframe(1))
            return super().__new__(cls, *args, **kwargs)

    mmap.mmap = Mmap  # type: ignore[misc]


class _OpenClFinder:
    """Wraps pyopencl when it is imported. The hook must not import it, because the project prepares the import."""

    def __init__(self, reach: Reach) -> None:
        self._reach = reach

    def find_spec(self, name: str, path: object = None, target: object = None) -> object:
        """Returns pyopencl's spec, whose loader also wraps the module; None for other modules."""
        spec: Any = PathFinder.find_spec(name) if name == "pyopencl" else None
        if spec is None:
            return None
        load = spec.loader.exec_module

        def load_and_wrap(module: object) -> None:
            load(module)
            _wrap_opencl(self._reach)

        spec.loader.exec_module = load_and_wrap
        return spec


def _wrap_opencl(reach: Reach) -> None:
    import pyopencl as cl
    from pyopencl import _cl

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


def _watched_type(name: str, kind: Any, reach: Reach) -> Any:
    def init(self: Any, *args: Any, **kwargs: Any) -> None:
        reach("opencl", name, sys._getframe(1))
        kind.__init__(self, *args, **kwargs)

    return type(kind)(name, (kind,), {"__init__": init})


def fail(kind: str) -> None:
    """Raises the error that a call of this kind raises if the system lacks resources or a disk fails."""
    if kind == "array":
        raise MemoryError("Unable to allocate 64.0 GiB for an array")
    if kind == "opencl":
        import pyopencl as cl

        record = cl._cl._ErrorRecord("injected", cl.status_code.OUT_OF_RESOURCES, "clEnqueue")
        raise cl.RuntimeError(record)
    number = errno.ENOMEM if kind == "mapping" else errno.EIO
    raise OSError(number, os.strerror(number))


def interrupt(kind: str) -> None:
    """Raises the exception that Ctrl-C causes."""
    raise KeyboardInterrupt


def kill(kind: str) -> None:
    """Kills the process."""
    os.kill(os.getpid(), signal.SIGKILL)


ACTIONS: dict[str, Act] = {"fail": fail, "interrupt": interrupt, "kill": kill}

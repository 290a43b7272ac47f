"""Builds the probe, a C dispatch library that records the host's calls (`tests/dispatch/native/probe/`)."""

from __future__ import annotations

import shutil
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from dispatch.api import Dispatch
from dispatch.loader import load_library
from litert.abi.headers import INCLUDE_FOLDER

SOURCES = Path(__file__).parent / "dispatch" / "native" / "probe"
OWN, MOVING = 150, 151
"""Buffer types of the probe's own memory: each lock gives OWN the same address, and MOVING another address."""


class Probe:
    """A copy of the probe, with its own data.

    Attributes:
      path: Path of the copy.
      table: Dispatch table that the host loaded from the copy.
    """

    def __init__(self, path: Path) -> None:
        import cffi

        self.path = path
        self.table: Dispatch[Any, Any] = load_library(str(path))
        self._ffi = cffi.FFI()
        self._ffi.cdef(
            "const char* probe_notes(void); void probe_forget(void); int probe_memories(void);"
        )
        self._library = self._ffi.dlopen(str(path))

    @property
    def notes(self) -> list[str]:
        """The recorded calls, each as a line with the function and its arguments."""
        text: bytes = self._ffi.string(self._library.probe_notes())
        return [line.rstrip() for line in text.decode().splitlines()]

    @property
    def calls(self) -> list[str]:
        """The recorded calls, without arguments."""
        return [line.split()[0] for line in self.notes]

    @property
    def broken(self) -> list[str]:
        """The rules of the dispatch interface that the host has broken."""
        return [line for line in self.notes if line.startswith("BROKEN")]

    @property
    def num_memories(self) -> int:
        """Number of buffers of the probe's own types that are not destroyed yet."""
        return int(self._library.probe_memories())

    def forget(self) -> None:
        """Deletes the recorded calls."""
        self._library.probe_forget()


def build_probe(folder: Path) -> Path:
    """Builds the probe, and returns its path."""
    compiler = shutil.which("gcc") or shutil.which("cc")
    if compiler is None:
        pytest.skip("no C compiler")
    path = folder / "libLiteRtDispatch_Probe.so"
    flags = [
        "-std=gnu11",
        "-O1",
        "-g",
        "-fPIC",
        "-fvisibility=hidden",
        "-shared",
        "-Wall",
        "-Wextra",
        "-Werror",
    ]
    flags += ["-Wno-missing-field-initializers", f"-I{INCLUDE_FOLDER}"]
    sources = sorted(SOURCES.glob("*.c"))
    subprocess.run([compiler, *flags, "-o", path, *sources, "-lpthread"], check=True)
    return path


MakeProbe = Callable[..., Probe]


def probe_maker(binary: Path, folder: Path, monkeypatch: pytest.MonkeyPatch) -> MakeProbe:
    """Returns a function that makes a copy; its `fault` and `capabilities` apply to all copies in the test."""

    def make(fault: str = "", capabilities: int | None = None) -> Probe:
        monkeypatch.setenv("PROBE_FAULT", fault)
        if capabilities is not None:
            monkeypatch.setenv("PROBE_CAPABILITIES", str(capabilities))
        place = folder / str(len(list(folder.iterdir())))
        place.mkdir()
        return Probe(Path(shutil.copy(binary, place / binary.name)))

    return make

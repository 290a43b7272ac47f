"""The probe: a dispatch library in C that writes down what the host does (`tests/dispatch/native/probe/`)."""

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
"""Its types of memory: one that is at one address each time, and one that is not."""


class Probe:
    """A copy of the library, with data of its own.

    Attributes:
      path: of the copy.
      table: as the host loads it.
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
        """What it has written down: a function and its arguments in each line."""
        text: bytes = self._ffi.string(self._library.probe_notes())
        return [line.rstrip() for line in text.decode().splitlines()]

    @property
    def calls(self) -> list[str]:
        """The functions alone."""
        return [line.split()[0] for line in self.notes]

    @property
    def broken(self) -> list[str]:
        """What the host has done wrong."""
        return [line for line in self.notes if line.startswith("BROKEN")]

    @property
    def num_memories(self) -> int:
        """Pieces of memory of its own kinds that are alive."""
        return int(self._library.probe_memories())

    def forget(self) -> None:
        """Forgets the notes."""
        self._library.probe_forget()


def build_probe(folder: Path) -> Path:
    """Builds the library."""
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
    """Makes copies; `fault` and `capabilities` hold for the rest of the test, for all of them."""

    def make(fault: str = "", capabilities: int | None = None) -> Probe:
        monkeypatch.setenv("PROBE_FAULT", fault)
        if capabilities is not None:
            monkeypatch.setenv("PROBE_CAPABILITIES", str(capabilities))
        place = folder / str(len(list(folder.iterdir())))
        place.mkdir()
        return Probe(Path(shutil.copy(binary, place / binary.name)))

    return make

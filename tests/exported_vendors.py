"""Python vendors as shared libraries, and C programs that load them; each is made once in a process."""

from __future__ import annotations

import shutil
import subprocess
from functools import cache
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest
from litert_npu_tools.vendor.export_command import Origin, export, read_origin
from litert_npu_tools.vendor.vendor_libraries import find_installed

from litert.abi.headers import INCLUDE_FOLDER
from litert.host.python_library.building import find_libpython

_folders: list[TemporaryDirectory[str]] = []  # gone at the end of the process


@cache
def exported(kind: str, vendor: str) -> Path:
    """A folder with one library.

    Args:
      kind: `compiler_plugin` or `dispatch`.
      vendor: the manufacturer of an installed vendor, or a vendor's Python file.
    """
    needs_compiler()
    if not find_libpython():
        pytest.skip("this Python has no shared libpython")
    if vendor.endswith(".py"):
        origin = read_origin(vendor)._replace(kind=kind)
    else:
        origin = Origin(kind, vendor, find_installed(vendor).origins[kind])
    (library,) = export([origin], str(_new_folder()))
    return Path(library).parent


@cache
def c_program(name: str, *flags: str) -> Path:
    """A C program of this folder."""
    needs_compiler()
    program = _new_folder() / name
    source = Path(__file__).with_name(f"{name}.c")
    include = f"-I{INCLUDE_FOLDER}"
    command: list[str | Path] = [
        "cc",
        "-std=c11",
        "-Wall",
        "-Werror",
        include,
        *flags,
        source,
        "-o",
        program,
    ]
    subprocess.run([*command, "-ldl", "-lpthread"], check=True)
    return program


def needs_compiler() -> None:
    """Skips a test where no C compiler is."""
    if shutil.which("cc") is None:
        pytest.skip("no C compiler")


def _new_folder() -> Path:
    _folders.append(TemporaryDirectory(prefix="exported_"))
    return Path(_folders[-1].name)

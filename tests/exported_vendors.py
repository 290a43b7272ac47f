"""Exports Python vendors as shared libraries, and builds C programs that load them; each only once per process."""

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

_folders: list[TemporaryDirectory[str]] = []  # removed at the end of the process


@cache
def exported(kind: str, vendor: str) -> Path:
    """Exports a vendor as a shared library, and returns the folder of the library.

    Args:
      kind: `compiler_plugin` or `dispatch`.
      vendor: Manufacturer of an installed vendor, or path of a vendor's Python file.
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
    """Builds a C program from this folder, and returns its path."""
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
    """Skips the test if there is no C compiler."""
    if shutil.which("cc") is None:
        pytest.skip("no C compiler")


def _new_folder() -> Path:
    _folders.append(TemporaryDirectory(prefix="exported_"))
    return Path(_folders[-1].name)

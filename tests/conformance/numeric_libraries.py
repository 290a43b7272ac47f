"""Builds the vendor in `numeric_c` with one of its faults."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import pytest

from litert.abi.headers import INCLUDE_FOLDER

NUMERIC_C = Path(__file__).parent / "numeric_c"


def build_numeric_c(folder: Path, fault: str) -> Path:
    """Builds both libraries into a folder, which is returned; `byte_code.h` lists the faults."""
    if shutil.which("cc") is None:
        pytest.skip("no C compiler")
    flags = ["-std=c11", "-Wall", "-Wextra", "-Werror", "-shared", "-fPIC", "-fvisibility=hidden"]
    for source, kind in (("plugin.c", "CompilerPlugin"), ("dispatch.c", "Dispatch")):
        output = folder / f"libLiteRt{kind}_NumericC.so"
        command: list[str | Path] = [
            "cc",
            *flags,
            f"-DFAULT={fault}",
            f"-I{INCLUDE_FOLDER}",
            NUMERIC_C / source,
        ]
        subprocess.run([*command, "-o", output, "-lm", "-ldl"], check=True)
    return folder

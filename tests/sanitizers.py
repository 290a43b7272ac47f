"""Provides the flags for the sanitizers of the installed C compiler."""

from __future__ import annotations

import shutil
import subprocess
from collections.abc import Sequence
from pathlib import Path

import pytest

ADDRESSES = "address,undefined"


def sanitizer_flags(sanitizers: str, folder: Path) -> Sequence[str]:
    """Returns flags for gcc and g++; skips the test if gcc is missing or does not have these sanitizers.

    Args:
      sanitizers: Names of the sanitizers, separated by commas.
      folder: Folder for a small program with which the flags are tried.
    """
    if shutil.which("gcc") is None:
        pytest.skip("gcc is not here")
    flags = ["-g", "-O1", f"-fsanitize={sanitizers}", "-fno-sanitize-recover=all"]
    probe = folder / "probe.c"
    probe.write_text("int main(void) { return 0; }\n")
    command = ["gcc", *flags, str(probe), "-o", str(folder / "probe")]
    if subprocess.run(command, capture_output=True).returncode:
        pytest.skip(f"this gcc has no {sanitizers} sanitizers")
    return flags

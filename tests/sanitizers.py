"""The sanitizers of the C compiler that is here."""

from __future__ import annotations

import shutil
import subprocess
from collections.abc import Sequence
from pathlib import Path

import pytest

ADDRESSES = "address,undefined"


def sanitizer_flags(sanitizers: str, folder: Path) -> Sequence[str]:
    """What gcc and g++ take; skips where they are not here, or have no such sanitizers.

    Args:
      sanitizers: by their names, with commas between them.
      folder: to try them in.
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

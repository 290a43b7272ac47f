"""Builds the vendor in `tests/broken_vendors`, which breaks the rule that BROKEN_RULE names."""

from __future__ import annotations

import re
import shutil
import subprocess
from pathlib import Path

import pytest

from litert.abi.headers import INCLUDE_FOLDER

SOURCES = Path(__file__).resolve().parents[1] / "broken_vendors"
PLUGIN = "libLiteRtCompilerPlugin_Broken.so"
DISPATCH = "libLiteRtDispatch_Broken.so"
FLAGS = "-std=c11 -D_GNU_SOURCE -Wall -Wextra -Werror -shared -fPIC -fvisibility=hidden"


def build_broken_vendor(folder: Path) -> Path:
    """Builds both libraries into a folder, which is returned."""
    compiler = shutil.which("cc")
    if compiler is None:
        pytest.skip("no C compiler")
    for source, library in (("plugin.c", PLUGIN), ("dispatch.c", DISPATCH)):
        files = [str(SOURCES / source), "-o", str(folder / library)]
        command = [compiler, *FLAGS.split(), f"-I{INCLUDE_FOLDER}", *files]
        subprocess.run(command, check=True)
    (folder / "gain.txt").write_text("2.5")
    return folder


def rules_of(source: str) -> list[str]:
    """Returns the rules that a source file can break."""
    found = re.findall(r'breaks\("([^"]+)"\)', (SOURCES / source).read_text())
    return sorted(set(found))

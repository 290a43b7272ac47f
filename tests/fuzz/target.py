"""Defines fuzz targets. Each module in `targets/` has a `TARGET`, which runs one reader or another code path."""

from __future__ import annotations

import os
import pkgutil
import tempfile
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from importlib import import_module
from pathlib import Path
from random import Random

from tests.fuzz.mutation import damage_bytes

_TARGETS = Path(__file__).parent / "targets"
FINDINGS = Path(__file__).parent / "findings"
"""Folder with a subfolder for each target, which contains inputs that once revealed a defect."""


@dataclass(frozen=True)
class Target:
    """Code to fuzz.

    Attributes:
      seeds: Function that makes the first inputs, which are valid.
      run: Function that runs the code on an input. It may raise `LiteRtError`; any other exception is a defect, as
        are a crash, a hang and the use of gigabytes of memory.
      damage: Function that makes a damaged input from an input.
      test_runs: Number of damaged inputs in the tests.
    """

    seeds: Callable[[], Sequence[bytes]]
    run: Callable[[bytes], object]
    damage: Callable[[bytes, Random], bytes] = damage_bytes
    test_runs: int = 2000

    def inputs(self, name: str) -> Sequence[bytes]:
        """Returns the seeds, then the inputs that once revealed a defect."""
        found = sorted((FINDINGS / name).glob("*"))
        return [*self.seeds(), *(path.read_bytes() for path in found)]


def target_names() -> Sequence[str]:
    """Returns the names of all targets."""
    return sorted(module.name for module in pkgutil.iter_modules([str(_TARGETS)]))


def load_target(name: str) -> Target:
    """Imports a target, together with the code that it fuzzes."""
    target: Target = import_module(f"tests.fuzz.targets.{name}").TARGET
    return target


def write_input(name: str, data: bytes, beside: Mapping[str, bytes] | None = None) -> str:
    """Writes an input to a file, for code that reads files; returns the path.

    Args:
      name: Name of the file.
      data: Content of the file.
      beside: Contents of further files in the same folder, by name.
    """
    for other, contents in {**(beside or {}), name: data}.items():
        with open(os.path.join(_folder(), other), "wb") as file:
            file.write(contents)
    return os.path.join(_folder(), name)


@cache
def _folder() -> str:
    """Returns a folder of this process, in the temporary folder that `trials` provides and removes."""
    return tempfile.mkdtemp(prefix="litert-npu-fuzz-")

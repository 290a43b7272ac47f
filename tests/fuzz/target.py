"""What is fuzzed: each module in `targets/` has one reader, or one way through the project, as `TARGET`."""

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
"""A folder for each target, with inputs that broke something once."""


@dataclass(frozen=True)
class Target:
    """One thing to fuzz.

    Attributes:
      seeds: makes the inputs to begin with, which are good.
      run: takes an input. A `LiteRtError` is an answer; any other exception is a defect, as are a crash, a hang
        and gigabytes.
      damage: makes another input of one.
      test_runs: how many damaged inputs the tests try.
    """

    seeds: Callable[[], Sequence[bytes]]
    run: Callable[[bytes], object]
    damage: Callable[[bytes, Random], bytes] = damage_bytes
    test_runs: int = 2000

    def inputs(self, name: str) -> Sequence[bytes]:
        """The seeds, then what broke something once."""
        found = sorted((FINDINGS / name).glob("*"))
        return [*self.seeds(), *(path.read_bytes() for path in found)]


def target_names() -> Sequence[str]:
    """The names of all targets."""
    return sorted(module.name for module in pkgutil.iter_modules([str(_TARGETS)]))


def load_target(name: str) -> Target:
    """Imports a target, and with it what it fuzzes."""
    target: Target = import_module(f"tests.fuzz.targets.{name}").TARGET
    return target


def write_input(name: str, data: bytes, beside: Mapping[str, bytes] | None = None) -> str:
    """Writes an input to a file, for what reads files; returns its path.

    Args:
      name: of the file.
      data: in it.
      beside: further files in its folder.
    """
    for other, contents in {**(beside or {}), name: data}.items():
        with open(os.path.join(_folder(), other), "wb") as file:
            file.write(contents)
    return os.path.join(_folder(), name)


@cache
def _folder() -> str:
    """A folder of this process, in the temporary folder that `trials` gives it, and removes."""
    return tempfile.mkdtemp(prefix="litert-npu-fuzz-")

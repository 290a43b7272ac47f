"""Writes the smallest part of a model that gives wrong results, with its inputs and its expected outputs."""

from __future__ import annotations

import os
import shlex
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from shutil import copyfileobj
from typing import TYPE_CHECKING, BinaryIO

from litert.analysis.comparison import SourceOp
from litert.core.input_file import open_input

from .array_files import write_npz
from .console import name_text
from .destinations import check_new_files, write_new_files

if TYPE_CHECKING:
    from litert.analysis.wrong_part import WrongPart

_PART, _TRANSFORMED, _INPUTS, _EXPECTED = (
    "part.tflite", "transformed.tflite", "inputs.npz", "expected.npz"
)  # fmt: skip
_SHOWN = 8


@dataclass(frozen=True, slots=True)
class PartFiles:
    """Files of the smallest part of a model that gives wrong results by itself.

    Attributes:
      path: Path of the part, written as a model.
      transformed: Path of the part after transformations have run on it; "" if the transformations do not cause
        the error.
      inputs: Path of the file with the part's inputs.
      expected: Path of the file with the outputs that the reference computes.
      ops: Ops of the source model that are in the part, in execution order.
      blamed: The op that causes the wrong results, found by comparing the part with its reference.
      is_smallest: Whether the command has found that the error disappears if any one of these ops is removed.
      command: Shell command that reproduces the error.
    """

    path: str
    transformed: str
    inputs: str
    expected: str
    ops: Sequence[SourceOp]
    blamed: SourceOp
    is_smallest: bool
    command: str

    def lines(self) -> Iterator[str]:
        """Yields the lines of the text report."""
        names = ", ".join(f"{op.index} {name_text(op.name)}" for op in self.ops[:_SHOWN])
        more = f" and {len(self.ops) - _SHOWN} more" if len(self.ops) > _SHOWN else ""
        which = f"op {names} alone" if len(self.ops) == 1 else f"ops {names}{more}"
        kind = (
            "The smallest part with wrong results"
            if self.is_smallest
            else "A part with wrong results, perhaps not the smallest"
        )
        yield f"{kind}: {which}, in {self.path}. Command that reproduces the error:"
        yield f"  {self.command}"


def check_folder(folder: str) -> None:
    """Raises an error if the files of a part cannot be written to a folder."""
    check_new_files(folder, (_PART, _TRANSFORMED, _INPUTS, _EXPECTED), "--bisect")


def write_part_files(part: WrongPart, folder: str, flags: Sequence[str]) -> PartFiles:
    """Writes the files of a part to a folder, and creates the folder if it is missing.

    Args:
      part: The part of the model.
      folder: Folder for the files.
      flags: Flags of the comparison that found the part, without the flags that selected what was compared.
    """
    models = {_PART: part.path} | ({_TRANSFORMED: part.transformed} if part.transformed else {})
    arrays = {_INPUTS: part.inputs, _EXPECTED: part.expected}
    paths = {name: os.path.join(folder, name) for name in (*models, *arrays)}
    write_new_files(
        folder,
        {name: partial(_copy, path) for name, path in models.items()}
        | {name: partial(write_npz, values) for name, values in arrays.items()},
        "--bisect",
    )
    compared = [paths[_PART]]
    if part.transformed:
        compared = [paths[_TRANSFORMED], f"--reference={paths[_PART]}"]
    runs = [f"--num_runs={part.num_runs}"] if part.num_runs else []
    command = ["litert-npu", "compare", *compared, f"--inputs={paths[_INPUTS]}", *flags, *runs]
    return PartFiles(
        paths[_PART],
        paths.get(_TRANSFORMED, ""),
        paths[_INPUTS],
        paths[_EXPECTED],
        part.ops,
        part.blamed,
        part.is_smallest,
        shlex.join(command),
    )


def _copy(path: str, file: BinaryIO) -> None:
    with open_input(path) as source:
        copyfileobj(source, file)

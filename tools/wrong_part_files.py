"""The files of a model's smallest wrong part: itself, its inputs, and what is expected of it."""

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
    """The smallest part of a model that is wrong by itself, in files.

    Attributes:
      path: of the part, which is a model.
      transformed: path of what transformations have made of it; "" where the fault is not theirs.
      inputs: path of the part's inputs.
      expected: path of what the reference makes of them.
      ops: of the source model that are in the part, in execution order.
      blamed: the one of them that a comparison of the part blames.
      is_smallest: whether the fault needs each of these ops, as far as that was tried.
      command: that finds the fault again, for a shell.
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
        """What people read."""
        names = ", ".join(f"{op.index} {name_text(op.name)}" for op in self.ops[:_SHOWN])
        more = f" and {len(self.ops) - _SHOWN} more" if len(self.ops) > _SHOWN else ""
        which = f"op {names} alone" if len(self.ops) == 1 else f"ops {names}{more}"
        kind = (
            "The smallest wrong part"
            if self.is_smallest
            else "A wrong part, maybe not the smallest"
        )
        yield f"{kind}: {which}, in {self.path}. This shows the fault again:"
        yield f"  {self.command}"


def check_folder(folder: str) -> None:
    """Refuses a folder that the files of a part cannot be written to."""
    check_new_files(folder, (_PART, _TRANSFORMED, _INPUTS, _EXPECTED), "--bisect")


def write_part_files(part: WrongPart, folder: str, flags: Sequence[str]) -> PartFiles:
    """Writes the files of a part to a folder, which is made if it is not there.

    Args:
      part: the part.
      folder: where to.
      flags: of the comparison that it was found by, but for those that say what was compared.
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

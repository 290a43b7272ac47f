"""A model's outputs: to .npy, .npz and .png files."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any, BinaryIO

from litert.core.errors import LiteRtError
from litert.core.status import Status

from .input_arrays import TensorSpec, split_target
from .output_file import write_file
from .pictures import Range, write_picture

if TYPE_CHECKING:
    import numpy as np

_SUFFIXES = (".npy", ".npz", ".png")


def plan_outputs(texts: Sequence[str], specs: Sequence[TensorSpec]) -> list[tuple[str, list[str]]]:
    """Says which outputs go to which file, before anything is run.

    Args:
      texts: `[output=]file`, an output by name or index; without one a .npz takes all of them, and another file
        the next that has none.
      specs: of all outputs.

    Returns:
      Paths, each with names of outputs.

    Raises:
      LiteRtError: INVALID_ARGUMENT, for an output that is not there, or a file of another kind.
    """
    plan: list[tuple[str, list[str]]] = []
    for text in texts:
        spec, path = split_target(text, specs)
        if not path.lower().endswith(_SUFFIXES):
            raise LiteRtError(
                Status.INVALID_ARGUMENT,
                "outputs are written to .npy, .npz and .png files",
                path,
            )
        if spec is not None:
            names = [spec.name]
        elif path.lower().endswith(".npz"):
            names = [s.name for s in specs]
        else:
            taken = {name for _, names in plan for name in names}
            names = [s.name for s in specs if s.name not in taken][:1]
            if not names:
                raise LiteRtError(
                    Status.INVALID_ARGUMENT, f"all {len(specs)} outputs have a file already", path
                )
        plan.append((path, names))
    return plan


def write_outputs(
    plan: Sequence[tuple[str, Sequence[str]]],
    outputs: Mapping[str, np.ndarray[Any, Any]],
    value_range: Range,
    sources: Sequence[str],
) -> None:
    """Writes files, each of which appears when it is complete.

    Args:
      plan: paths, each with names of outputs.
      outputs: by name.
      value_range: the numbers that are black and white in a picture.
      sources: files that no output may replace.

    Raises:
      LiteRtError: FILE_IO; INVALID_ARGUMENT, for an output that is a source, or a picture of none.
    """
    for path, names in plan:
        chosen = {name: outputs[name] for name in names}
        write_file(path, partial(_write, path, chosen, value_range), sources)


def _write(
    path: str, arrays: Mapping[str, np.ndarray[Any, Any]], value_range: Range, file: BinaryIO
) -> None:
    import numpy as np

    if path.lower().endswith(".npz"):
        np.savez(file, **dict[str, Any](arrays))
        return
    (array,) = arrays.values()
    if path.lower().endswith(".npy"):
        np.save(file, array)
    else:
        write_picture(path, file, array, value_range)

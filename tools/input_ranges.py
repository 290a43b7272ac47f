"""Ranges of random inputs, given by the user or derived from ops that read an input as indices."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from math import isfinite
from typing import TYPE_CHECKING

from litert.core.errors import LiteRtError
from litert.core.option import Flag
from litert.core.status import Status

from .array_files import InputArray, TensorSpec, find_spec, no_such_tensor
from .pictures import Range

if TYPE_CHECKING:
    from litert.model.graph import Op, Tensor

INPUT_RANGE = Flag(
    "input_range",
    (),
    "Range of the random numbers for one input, as input:LOW:HIGH, such as ids:0:63. Give the "
    "input by name or index. Without this flag, an input that an op such as GATHER reads as "
    "indices gets valid indices. May be repeated.",
    is_repeated=True,
)

_WHOLE = ("int", "uint", "bool")
_MOVES = {
    "BROADCAST_TO", "CAST", "CONCATENATION", "EXPAND_DIMS", "PACK", "RESHAPE", "REVERSE_V2", "SLICE", "SPLIT",
    "SPLIT_V", "SQUEEZE", "STRIDED_SLICE", "TILE", "TRANSPOSE", "UNPACK",
}  # fmt: skip
"""Ops that only move numbers, so that their outputs contain only numbers from their inputs."""

_INTO_OUTPUT = {"SCATTER_ND", *(f"UNSORTED_SEGMENT_{n}" for n in ("MAX", "MIN", "PROD", "SUM"))}
"""Ops that have an input with indices into the op's output."""

_INDICES = {
    "EMBEDDING_LOOKUP": 0, "GATHER": 1, "GATHER_ND": 1, "SCATTER_ND": 0,
    **dict.fromkeys(_INTO_OUTPUT - {"SCATTER_ND"}, 1),
}  # fmt: skip
"""Position of the input that holds indices, by op.

The other one of the op's first two inputs holds the table or the updates.
"""


def read_ranges(
    texts: Sequence[str], specs: Sequence[TensorSpec], given: Collection[str]
) -> dict[str, Range]:
    """Returns the ranges that the user has given, by input name; a range includes both ends.

    Args:
      texts: Ranges, as `input:LOW:HIGH`.
      specs: Names, shapes and types of all inputs.
      given: Names of the inputs whose values come from a file.

    Raises:
      LiteRtError: INVALID_ARGUMENT, if a range does not fit the type of its input, or the input already has a
        file.
    """
    ranges: dict[str, Range] = {}
    for text in texts:
        target, low, high = text.rsplit(":", 2) if text.count(":") > 1 else (text, "", "")
        spec = find_spec(target, specs)
        if spec is None and low:
            raise no_such_tensor(target, specs, "input", f"--input_range={text}")
        limits = _limits(low, high, spec.dtype.startswith(_WHOLE)) if spec else None
        if spec is None or limits is None:
            what = f"--input_range={text} does not contain two numbers"
            hint = "Write input:smallest:largest, as in --input_range=ids:0:63."
            if spec and low:
                what = f"'{low}:{high}' in --input_range={text} is not a valid range of {spec.dtype} numbers"
                kind = (
                    f"whole numbers within the limits of {spec.dtype}"
                    if spec.dtype.startswith(_WHOLE)
                    else "finite numbers with a finite difference"
                )
                hint = f"Give two {kind}, the smaller number first, as in --input_range={spec.name}:0:63."
            raise LiteRtError(Status.INVALID_ARGUMENT, what, hint=hint)
        if spec.name in given or spec.name in ranges:
            other = "file" if spec.name in given else "range"
            what = f"input '{spec.name}' already has a {other}, so it cannot have this range too"
            hint = "Give each input only one file or one range."
            raise LiteRtError(Status.INVALID_ARGUMENT, what, f"--input_range={text}", hint)
        ranges[spec.name] = limits
    return ranges


def model_ranges(
    texts: Sequence[str],
    specs: Sequence[TensorSpec],
    given: Mapping[str, InputArray],
    paths: Iterable[str],
    signature: str,
) -> dict[str, Range]:
    """Returns the ranges of a model's inputs: the user's ranges, and index ranges from the models at `paths`."""
    from litert.model.reader import read_model

    said = read_ranges(texts, specs, given)
    found: dict[str, Range] = {}
    if any(s.dtype.startswith(_WHOLE) and s.name not in (given.keys() | said) for s in specs):
        for path in paths:
            with read_model(path) as model:
                for entry in model.entries(signature):
                    if entry.key == signature:
                        found |= index_ranges(entry.inputs)
    return found | said


def index_ranges(inputs: Iterable[tuple[str, Tensor]]) -> dict[str, Range]:
    """Finds the valid range of index tensors: from 0 to the last index that is valid in every indexed tensor."""
    sizes = {name: list(_indexed_sizes(tensor)) for name, tensor in inputs}
    return {name: (0, max(min(found) - 1, 0)) for name, found in sizes.items() if found}


def _indexed_sizes(tensor: Tensor) -> Iterable[int]:
    """Yields the sizes of all dimensions that a tensor's numbers index, also after ops that only move them."""
    seen, waiting = {tensor}, [tensor]
    while waiting:
        indices = waiting.pop()
        for op in indices.uses:
            if op.name in _MOVES:
                waiting += [output for output in op.outputs if output not in seen]
                seen.update(op.outputs)
            else:
                yield from _sizes_of_table(op, indices)


def _sizes_of_table(op: Op, indices: Tensor) -> Sequence[int]:
    """Returns the sizes of the dimensions that an input of an op indexes; empty for inputs without indices."""
    from litert.model.builtin_options import get_builtin_option

    place = _INDICES.get(op.name)
    if place is None or place >= len(op.inputs) or op.inputs[place] is not indices:
        return ()
    table = op.outputs[0] if op.name in _INTO_OUTPUT else op.inputs[1 - place]
    if table is None or not table.shape:
        return ()
    if op.name.endswith("_ND"):
        return table.shape[: indices.shape[-1]]
    if op.name == "GATHER" and op.is_custom:  # only the op's kernel knows the axis
        return table.shape
    axis = get_builtin_option(op, "axis") if op.name == "GATHER" else 0
    return table.shape[axis:][:1]


def _limits(low: str, high: str, is_whole: bool) -> Range | None:
    """Returns two numbers of a type in ascending order; None if the text is something else."""
    try:
        limits = (int(low), int(high)) if is_whole else (float(low), float(high))
        is_range = limits[0] <= limits[1] and all(map(isfinite, (*limits, limits[1] - limits[0])))
    except (ValueError, OverflowError):  # an integer may have any number of digits
        return None
    return limits if is_range else None

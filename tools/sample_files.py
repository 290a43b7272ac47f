"""Input samples for comparing a model with its reference: from files, from recordings, or random."""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from litert.core.counts import count_text
from litert.core.errors import LiteRtError
from litert.core.option import Flag
from litert.core.status import Status

from .array_files import INPUT, TensorSpec, complete_inputs, find_arrays, read_inputs
from .command_line import SEED, usage_error
from .input_ranges import INPUT_RANGE, model_ranges
from .pictures import Array

if TYPE_CHECKING:
    from litert.analysis.compare_options import Sample
    from litert.analysis.source_graph import SourceGraph

SAMPLE_FLAGS = (
    INPUT,
    Flag(
        "inputs",
        "",
        "Recorded input samples: a .npz file, or a folder of .npz files. In a .npz file with "
        "several samples, all arrays have an additional first dimension, with one index for "
        "each sample.",
    ),
    Flag("num_samples", 1, "Number of random samples.", least=1),
    INPUT_RANGE,
    SEED,
)


@dataclass(frozen=True, slots=True)
class SampleOptions:
    """Where the samples for a comparison come from.

    Attributes:
      inputs: Input files, as `[input=]file`, for `read_inputs`.
      recorded: Path of recorded samples: a .npz file, or a folder with .npz files; "" for no recordings.
      golden: Path of a .npz file with golden tensors, which may also contain inputs; "" for no file.
      count: Number of random samples.
      seed: Seed of the first random sample; the seed increases by 1 for each further sample.
      ranges: Ranges of random inputs, as `input:LOW:HIGH`, for `read_ranges`.
    """

    inputs: Sequence[str] = ()
    recorded: str = ""
    golden: str = ""
    count: int = 1
    seed: int = 0
    ranges: Sequence[str] = ()


def read_samples(source: SourceGraph, options: SampleOptions) -> list[Sample]:
    """Reads input samples, and makes random values for inputs that have no value in a sample.

    Raises:
      LiteRtError: INVALID_ARGUMENT, if an array does not fit the model's inputs; NOT_FOUND, if a file is
        missing.
    """
    from litert.analysis.compare_options import Sample  # here: --help must not wait for it

    specs = _specs(source)
    given = read_inputs(options.inputs, specs, (0.0, 1.0))
    origin = ", ".join(dict.fromkeys(array.origin for array in given.values()))
    fixed = {name: array.value for name, array in given.items()}
    if options.golden:
        of_golden = find_arrays(options.golden, specs, "in")
        origin = origin or (options.golden if of_golden else "")
        fixed = of_golden | fixed
    recorded = [(origin, fixed)] * options.count
    if options.recorded:
        if options.count > 1:
            raise usage_error(
                "--num_samples makes random samples, but --inputs already gives recorded samples",
                "Leave out one of the two flags.",
            )
        recorded = [(o, arrays | fixed) for o, arrays in _read_recorded(options.recorded, specs)]
    samples = []
    for number, (where, arrays) in enumerate(recorded):
        for name, array in arrays.items():
            _check(array, next(spec for spec in specs if spec.name == name), where)
        ranges = model_ranges(options.ranges, specs, given, [source.path], source.key)
        rest = [spec for spec in specs if spec.name not in arrays]
        made = complete_inputs({}, rest, options.seed + number, ranges)
        random = {name: array.value for name, array in made.items()}
        seed = f"random numbers of seed {options.seed + number}" if random else ""
        samples.append(Sample(", ".join(filter(None, [where, seed])), {**arrays, **random}))
    return samples


def _specs(source: SourceGraph) -> list[TensorSpec]:
    specs = []
    for index, (name, place) in enumerate(source.inputs.items()):
        tensor = source.tensor(place)
        try:
            dtype = tensor.element_type.numpy_dtype.name
        except LiteRtError as error:
            kind = tensor.element_type.name.lower()
            what = f"input '{name}' has type {kind}: this command cannot make or read data of this type"
            raise LiteRtError(error.status, what, source.path) from error
        specs.append(TensorSpec(name, dtype, tensor.shape, index))
    return specs


def _read_recorded(path: str, specs: Sequence[TensorSpec]) -> list[tuple[str, dict[str, Array]]]:
    """Yields the samples of a file or a folder, each with its origin."""
    if not os.path.isdir(path):
        return _split(path, find_arrays(path, specs, "in"), specs)
    names = sorted(name for name in os.listdir(path) if name.endswith(".npz"))
    if not names:
        raise LiteRtError(
            Status.NOT_FOUND,
            "the folder contains no .npz file",
            path,
            "Record a .npz file for each sample.",
        )
    files = [os.path.join(path, name) for name in names]
    return [s for file in files for s in _split(file, find_arrays(file, specs, "in"), specs)]


def _split(
    path: str, arrays: dict[str, Array], specs: Sequence[TensorSpec]
) -> list[tuple[str, dict[str, Array]]]:
    """Yields the samples of one file.

    If the arrays have one more dimension than the inputs, each index of the first dimension is a sample.
    """
    if not arrays:
        names = ", ".join(spec.name for spec in specs) or "none"
        raise LiteRtError(
            Status.INVALID_ARGUMENT,
            "no array in the file has the name of an input",
            path,
            f"Name the arrays in0, in1, ..., or name them after the inputs: {names}.",
        )
    ranks = {spec.name: len(spec.shape) for spec in specs}
    several = {name for name, array in arrays.items() if array.ndim == ranks[name] + 1}
    if not several:
        return [(path, arrays)]
    counts = {name: len(arrays[name]) for name in several}
    empty = next((name for name, count in counts.items() if not count), None)
    if empty is not None:
        raise LiteRtError(
            Status.INVALID_ARGUMENT,
            f"array '{empty}' contains no samples: the first dimension of its shape {list(arrays[empty].shape)} "
            "is 0",
            path,
            "Give at least one sample.",
        )
    if len(several) < len(arrays) or len(set(counts.values())) > 1:
        shapes = ", ".join(f"{name} {list(array.shape)}" for name, array in arrays.items())
        raise LiteRtError(
            Status.INVALID_ARGUMENT,
            f"the arrays in the file have different numbers of samples: {shapes}",
            path,
            "Give all arrays the same first dimension, or give no array an additional first "
            "dimension.",
        )
    return [
        (f"{path}, {index}", {name: array[index] for name, array in arrays.items()})
        for index in range(next(iter(counts.values())))
    ]


def _check(array: Array, spec: TensorSpec, where: str) -> None:
    """Refuses an array that does not fit an input, before the work begins."""
    if array.dtype.name != spec.dtype:
        what = (
            f"input '{spec.name}' is {spec}, but its array is {array.dtype.name}{list(array.shape)}"
        )
        hint = f"Convert the array with array.astype({spec.dtype!r})."
        raise LiteRtError(Status.INVALID_ARGUMENT, what, where, hint)
    if array.ndim != len(spec.shape):
        what = (
            f"input '{spec.name}' has the shape {list(spec.shape)}, but its array has the shape "
            f"{list(array.shape)}"
        )
        hint = f"Give an array with {count_text(len(spec.shape), 'dimension')}."
        raise LiteRtError(Status.INVALID_ARGUMENT, what, where, hint)

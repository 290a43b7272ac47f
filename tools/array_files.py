"""Reads arrays for a model's inputs from files, makes random ones, and writes arrays of outputs to files."""

from __future__ import annotations

import os
import zipfile
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any, BinaryIO

from litert.core.errors import LiteRtError
from litert.core.option import Flag
from litert.core.status import Status

from .destinations import file_names, write_file
from .npy_files import Choose, bad_input, read_arrays
from .pictures import PICTURES, Array, Range, read_picture, write_picture

if TYPE_CHECKING:
    import numpy as np

INPUT = Flag(
    "input",
    (),
    "A file with the data of an input, as [input=]file: a .npy, .npz or picture. The input is "
    "given by name or index; by default the file is for the next input. Inputs without a file "
    "get random data. May be repeated.",
    is_repeated=True,
)


@dataclass(frozen=True, slots=True)
class TensorSpec:
    """An input or output as the runtime describes it.

    Attributes:
      dtype: NumPy's name of the element type.
      index: Index among all inputs or all outputs of the model.
    """

    name: str
    dtype: str
    shape: tuple[int, ...]
    index: int

    @classmethod
    def all_of(cls, details: Mapping[str, Mapping[str, Any]]) -> list[TensorSpec]:
        """Returns the inputs or outputs of a signature, in order."""
        return [
            cls(name, str(d["dtype"]), tuple(d["shape"]), index)
            for index, (name, d) in enumerate(details.items())
        ]

    def __str__(self) -> str:
        return f"{self.dtype}{list(self.shape)}"


def array_text(array: Array) -> str:
    """`float32[1, 4]`."""
    return f"{array.dtype}{list(array.shape)}"


@dataclass(frozen=True, slots=True)
class InputArray:
    """The value of an input, and its origin: a path, or `random`."""

    value: Array
    origin: str


def read_inputs(
    texts: Sequence[str], specs: Sequence[TensorSpec], value_range: Range
) -> dict[str, InputArray]:
    """Reads inputs from files; the result has no entries for inputs without a file.

    Args:
      texts: `[input=]file`, an input by name or index; without one it is the next that has none. A .npz
        without one gives every input that it has a key for: its name, `in<index>` or `arr_<index>`.
      specs: Specifications of all inputs.
      value_range: Numbers that stand for black and white in a picture for a float input.
    """
    found: dict[str, InputArray] = {}
    for text in texts:
        spec, path = split_target(text, specs)
        if spec is None and path.endswith(".npz"):
            new = find_arrays(path, specs, "in")
            if not new:
                names = ", ".join(s.name for s in specs)
                raise bad_input(path, f"no array in it is for an input; those are {names}")
        else:
            spec = spec or next((s for s in specs if s.name not in found), None)
            if spec is None:
                raise _given_twice(path, found)
            new = {spec.name: _read_one(path, spec, value_range)}
        for name, value in new.items():
            if name in found:
                raise _given_twice(path, {name: found[name]})
            found[name] = InputArray(value, path)
    return found


def complete_inputs(
    given: Mapping[str, InputArray],
    specs: Sequence[TensorSpec],
    seed: int,
    ranges: Mapping[str, Range],
    value_range: Range = (0.0, 1.0),
) -> dict[str, InputArray]:
    """Adds random values for inputs without a value; the same seed gives the same values.

    Args:
      given: Values of inputs, by the inputs' names.
      specs: Specifications of all inputs.
      seed: Seed for the random numbers.
      ranges: Least and greatest number for inputs, by the inputs' names. Others have integers of 8 bits of any
        value, and larger ones from 0 to 99.
      value_range: Range of floats for inputs without an entry in `ranges`.

    Raises:
      LiteRtError: INVALID_ARGUMENT, if a range exceeds the input's type.
    """
    return {
        spec.name: given.get(spec.name)
        or InputArray(_random(spec, seed, ranges.get(spec.name), value_range), "random")
        for spec in specs
    }


def _random(spec: TensorSpec, seed: int, limits: Range | None, value_range: Range) -> Array:
    import numpy as np

    generator = np.random.default_rng([seed, spec.index])
    dtype = _dtype(spec)
    if dtype.kind not in "iub":
        return np.asarray(generator.uniform(*(limits or value_range), spec.shape), dtype)
    integers = np.iinfo(np.uint8 if dtype.kind == "b" else dtype)
    least, most = (0, 1) if dtype.kind == "b" else (integers.min, integers.max)
    low, high = limits or ((least, most) if dtype.itemsize == 1 else (0, 99))
    if low < least or high > most:
        what = f"the range {low} to {high} of input '{spec.name}', which is {spec}"
        raise LiteRtError(Status.INVALID_ARGUMENT, what, hint=f"Stay within {least} to {most}.")
    ends = int(low), int(high)
    value = generator.integers(*ends, spec.shape, integers.dtype, endpoint=True)
    return np.asarray(value, dtype)


def find_arrays(path: str, specs: Sequence[TensorSpec], prefix: str) -> dict[str, Array]:
    """Returns the arrays of a .npz file for tensors.

    A key is a tensor's name, or `in0` or `out0`, depending on the prefix.
    """
    found: dict[str, str] = {}

    def choose(names: Sequence[str]) -> Iterable[str]:
        known = set(names)
        for spec in specs:
            keys = (spec.name, f"{prefix}{spec.index}", f"arr_{spec.index}")
            if key := next(filter(known.__contains__, keys), None):
                found[spec.name] = key
        return dict.fromkeys(found.values())

    arrays = read_named_arrays(path, choose)
    return {name: arrays[key] for name, key in found.items()}


def read_named_arrays(path: str, choose: Choose = list) -> dict[str, Array]:
    """Returns the arrays of a .npz file by their names; if `choose` is given, only the arrays that it picks.

    Raises:
      LiteRtError: NOT_FOUND, if the file is missing; INVALID_ARGUMENT, if the file is no .npz file or needs
        pickle.
    """
    arrays = read_arrays(path, choose)
    if not isinstance(arrays, dict):
        raise bad_input(path, "one array, not a .npz of named ones")
    return arrays


def split_target(text: str, specs: Sequence[TensorSpec]) -> tuple[TensorSpec | None, str]:
    """Splits `[tensor=]file`.

    The text before a `=` may be a tensor's name or index, or a part of the file's name.
    """
    for place in (i for i, character in enumerate(text) if character == "="):
        spec = find_spec(text[:place], specs)
        if spec is not None:
            return spec, text[place + 1 :]
    if "=" in text and not os.path.exists(text):
        raise no_such_tensor(text.partition("=")[0], specs, text)
    return None, text


def find_spec(target: str, specs: Sequence[TensorSpec]) -> TensorSpec | None:
    """Returns the tensor with a name or index."""
    return next((spec for spec in specs if target in (spec.name, str(spec.index))), None)


def no_such_tensor(target: str, specs: Sequence[TensorSpec], text: str) -> LiteRtError:
    """Returns the error for an argument (`text`) that names no tensor; the error lists the tensors."""
    names = ", ".join(f"{spec.index} ({spec.name})" for spec in specs)
    hint = f"Name one by index or name: {names}." if names else "It has none."
    what = f"'{target}' is no tensor of this model"
    return LiteRtError(Status.INVALID_ARGUMENT, what, text, hint)


def _read_one(path: str, spec: TensorSpec, value_range: Range) -> Array:
    if path.lower().endswith(PICTURES):
        return read_picture(path, _dtype(spec), spec.shape, value_range)

    def choose(names: Sequence[str]) -> Sequence[str]:
        if len(names) != 1 and spec.name not in names:
            raise bad_input(path, f"{len(names)} arrays, none of them named '{spec.name}'")
        return [spec.name] if spec.name in names else names

    loaded = read_arrays(path, choose)
    return next(iter(loaded.values())) if isinstance(loaded, dict) else loaded


def _dtype(spec: TensorSpec) -> np.dtype[Any]:
    import ml_dtypes  # noqa: F401 (NumPy knows bfloat16 and its like once it is imported)
    import numpy as np

    try:
        return np.dtype(spec.dtype)
    except TypeError:
        raise LiteRtError(
            Status.UNSUPPORTED, f"tensor '{spec.name}' is of type {spec.dtype}, which NumPy has not"
        ) from None


def _given_twice(path: str, found: Mapping[str, InputArray]) -> LiteRtError:
    given = ", ".join(f"input '{name}' has {array.origin}" for name, array in found.items())
    what = f"{given} already" if given else "the model has no inputs"
    return LiteRtError(Status.INVALID_ARGUMENT, what, path, "Give each input one file.")


_SUFFIXES = (".npy", ".npz", ".png")


def plan_outputs(texts: Sequence[str], specs: Sequence[TensorSpec]) -> list[tuple[str, list[str]]]:
    """Plans the output files before the model runs: returns paths, each with the names of its outputs.

    Args:
      texts: `[output=]file`, an output by name or index; without one a .npz takes all of them, and another file
        the next that has none.
      specs: Specifications of all outputs.
    """
    from litert.model.atomic_file import check_place  # here: --help must not wait for it

    plan: list[tuple[str, list[str]]] = []
    for text in texts:
        spec, path = split_target(text, specs)
        if not path.lower().endswith(_SUFFIXES):
            what = "outputs are written to .npy, .npz and .png files"
            raise LiteRtError(Status.INVALID_ARGUMENT, what, path)
        check_place(path)
        if spec is not None:
            names = [spec.name]
        elif path.lower().endswith(".npz"):
            names = [s.name for s in specs]
        else:
            taken = {name for _, names in plan for name in names}
            names = [s.name for s in specs if s.name not in taken][:1]
            if not names:
                what = f"all {len(specs)} outputs have a file already"
                raise LiteRtError(Status.INVALID_ARGUMENT, what, path)
        plan.append((path, names))
    return plan


def write_outputs(
    plan: Sequence[tuple[str, Sequence[str]]],
    outputs: Mapping[str, Array],
    value_range: Range,
    sources: Sequence[str],
) -> None:
    """Writes files of outputs, each completely or not at all.

    Refuses to replace a source file (`[tensor=]file`).
    """
    files = [file for source in sources for file in file_names(source)]
    for path, names in plan:
        chosen = {name: outputs[name] for name in names}
        write_file(path, partial(_write, path, chosen, value_range), files)


def _write(path: str, arrays: Mapping[str, Array], value_range: Range, file: BinaryIO) -> None:
    import numpy as np

    if path.lower().endswith(".npz"):
        write_npz(arrays, file)
        return
    (array,) = arrays.values()
    if path.lower().endswith(".npy"):
        np.save(file, array)
    else:
        write_picture(path, file, array, value_range)


def write_npz(arrays: Mapping[str, Array], file: BinaryIO) -> None:
    """Writes a .npz of arrays of any names: `numpy.savez` takes some for arguments of its own, such as `file`."""
    import numpy as np

    with zipfile.ZipFile(file, "w") as entries:
        for name, array in arrays.items():
            with entries.open(f"{name}.npy", "w", force_zip64=True) as entry:
                np.lib.format.write_array(entry, np.asanyarray(array), allow_pickle=False)

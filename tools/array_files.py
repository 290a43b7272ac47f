"""Reads arrays for a model's inputs from files, makes random arrays, and writes a model's outputs to files."""

from __future__ import annotations

import os
import zipfile
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any, BinaryIO

from litert.core.counts import count_text, names_text
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
    "A file with the data of an input, as [input=]file: a .npy file, .npz file or picture. Give "
    "the input by name or index. If you omit input=, a .npz file gives the data of all inputs "
    "that the file names, and any other file gives the data of the first input that has no "
    "file yet. Inputs without a file get random data. May be repeated.",
    is_repeated=True,
)


@dataclass(frozen=True, slots=True)
class TensorSpec:
    """Name, element type, shape and index of an input or output.

    Attributes:
      dtype: Name of the element type in NumPy.
      index: Index among all inputs, or among all outputs, of the signature.
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
    """The value of an input, and where the value comes from: a file's path, or `random`."""

    value: Array
    origin: str


def read_inputs(
    texts: Sequence[str],
    specs: Sequence[TensorSpec],
    value_range: Range,
    kind: str = "input",
    flag: str = INPUT.name,
) -> dict[str, InputArray]:
    """Reads the values of inputs from files; inputs without a file are missing in the result.

    Args:
      texts: Arguments `[input=]file`, with the input's name or index. Without `input=`, a file is for the next
        input that has no value, but a .npz file is for all inputs whose key it contains. The key of an input is
        the input's name, `in<index>` or `arr_<index>`; with `kind="output"`, the name, `out<index>` or
        `arr_<index>`.
      specs: Specifications of all inputs.
      value_range: If a picture is read for a float input, the numbers that stand for black and for white.
      kind: `input`, or `output` for files with expected outputs; for messages.
      flag: Name of the flag with the arguments, for messages.
    """
    found: dict[str, InputArray] = {}
    for text in texts:
        spec, path = split_target(text, specs, kind, flag)
        if spec is None and path.endswith(".npz"):
            new = find_arrays(path, specs, kind.removesuffix("put"))
            if not new:
                raise _no_array_for(path, [spec.name for spec in specs], kind)
        else:
            spec = spec or next((s for s in specs if s.name not in found), None)
            if spec is None:
                raise _none_left(path, found, kind)
            new = {spec.name: _read_one(path, spec, value_range, kind)}
        for name, value in new.items():
            if name in found:
                raise _given_twice(path, name, found[name].origin, kind)
            found[name] = InputArray(value, path)
    return found


def complete_inputs(
    given: Mapping[str, InputArray],
    specs: Sequence[TensorSpec],
    seed: int,
    ranges: Mapping[str, Range],
    value_range: Range = (0.0, 1.0),
) -> dict[str, InputArray]:
    """Adds random values for all inputs without a value; the same seed always gives the same values.

    Args:
      given: Given values of inputs, by input name.
      specs: Specifications of all inputs.
      seed: Seed for the random numbers.
      ranges: Smallest and largest random number for inputs, by input name. Without an entry, 8-bit integers have
        any value, and larger integers are from 0 to 99.
      value_range: Range of random floats for inputs without an entry in `ranges`.

    Raises:
      LiteRtError: INVALID_ARGUMENT, if a range has numbers that the input's element type cannot represent.
    """
    return {
        spec.name: given.get(spec.name)
        or InputArray(_random(spec, seed, ranges.get(spec.name), value_range), "random")
        for spec in specs
    }


def _random(spec: TensorSpec, seed: int, limits: Range | None, value_range: Range) -> Array:
    import ml_dtypes
    import numpy as np

    generator = np.random.default_rng([seed, spec.index])
    dtype = _dtype(spec)
    if dtype.kind not in "iub":
        if limits:
            finfo: Any = ml_dtypes.finfo  # knows bfloat16 too
            largest = float(finfo(dtype).max)
            _check_limits(spec, limits, (-largest, largest))
        return np.asarray(generator.uniform(*(limits or value_range), spec.shape), dtype)
    integers = np.iinfo(np.uint8 if dtype.kind == "b" else dtype)
    least, most = (0, 1) if dtype.kind == "b" else (integers.min, integers.max)
    low, high = limits or ((least, most) if dtype.itemsize == 1 else (0, 99))
    _check_limits(spec, (low, high), (least, most))
    ends = int(low), int(high)
    value = generator.integers(*ends, spec.shape, integers.dtype, endpoint=True)
    return np.asarray(value, dtype)


def _check_limits(spec: TensorSpec, limits: Range, allowed: Range) -> None:
    (low, high), (least, most) = limits, allowed
    if low < least or high > most:
        what = f"input '{spec.name}' of type {spec} cannot hold all numbers from {low} to {high}"
        hint = f"With --input_range, give this input numbers from {least} to {most}."
        raise LiteRtError(Status.INVALID_ARGUMENT, what, hint=hint)


def find_arrays(path: str, specs: Sequence[TensorSpec], prefix: str) -> dict[str, Array]:
    """Returns the arrays of a .npz file that belong to tensors, by tensor name.

    A key in the file is a tensor's name, or the prefix (or `arr_`) and the tensor's index, such as `in0`.
    """
    found: dict[str, str] = {}

    def choose(names: Sequence[str]) -> Iterable[str]:
        known = set(names)
        for spec in specs:
            keys = (spec.name, f"{prefix}{spec.index}", f"arr_{spec.index}")
            if key := next(filter(known.__contains__, keys), None):
                found[spec.name] = key
        return dict.fromkeys(found.values())

    arrays = read_named_arrays(path, f"{prefix}0", choose)
    return {name: arrays[key] for name, key in found.items()}


def _no_array_for(path: str, names: Sequence[str], kind: str) -> LiteRtError:
    """Returns the error about a .npz file in which no array has the name of an input or output."""
    arrays: list[str] = []

    def choose(found: Sequence[str]) -> Iterable[str]:
        arrays.extend(found)
        return ()

    read_arrays(path, choose)
    return bad_input(
        path,
        f"no array in the file has the name of an {kind}. {names_text('array', arrays)}",
        f"{names_text(kind, names)}. Write the file with "
        f"numpy.savez({os.path.basename(path)!r}, **{{{names[0]!r}: array}})."
        if names
        else f"There are no {kind}s: omit the file.",
    )


def read_named_arrays(path: str, example: str, choose: Choose = list) -> dict[str, Array]:
    """Returns the arrays of a .npz file by name; if `choose` is given, only the arrays that `choose` selects.

    `example` is the name of an array, for the hint of the error for a .npy file.

    Raises:
      LiteRtError: NOT_FOUND, if the file does not exist; INVALID_ARGUMENT, if the file is not a .npz file, or can
        be read only with pickle.
    """
    arrays = read_arrays(path, choose)
    if not isinstance(arrays, dict):
        named = f"{os.path.splitext(path)[0]}.npz"
        raise bad_input(
            path,
            "the file contains one array, but a .npz file with named arrays is needed",
            f"Write such a file with numpy.savez({named!r}, {example}=array).",
        )
    return arrays


def split_target(
    text: str, specs: Sequence[TensorSpec], kind: str, flag: str
) -> tuple[TensorSpec | None, str]:
    """Splits an argument `[tensor=]file` into the tensor, if it is given, and the file name.

    If no tensor has the name or index before a `=`, the `=` is part of the file name.

    Args:
      text: The argument.
      specs: The tensors that the argument can name.
      kind: `input` or `output`, for the message of an error.
      flag: Name of the flag with the argument, for the message of an error.
    """
    for place in (i for i, character in enumerate(text) if character == "="):
        spec = find_spec(text[:place], specs)
        if spec is not None:
            return spec, text[place + 1 :]
    if "=" in text and not os.path.exists(text):
        raise no_such_tensor(text.partition("=")[0], specs, kind, f"--{flag}={text}")
    return None, text


def find_spec(target: str, specs: Sequence[TensorSpec]) -> TensorSpec | None:
    """Returns the tensor with a given name or index; None if there is no such tensor."""
    return next((spec for spec in specs if target in (spec.name, str(spec.index))), None)


def no_such_tensor(target: str, specs: Sequence[TensorSpec], kind: str, where: str) -> LiteRtError:
    """Returns the error for an unknown input or output (`kind`); the error lists all inputs or outputs."""
    names = names_text(kind, [f"'{spec.name}' (index {spec.index})" for spec in specs])
    what = f"there is no {kind} with the name or index '{target}'"
    return LiteRtError(Status.INVALID_ARGUMENT, what, where, f"{names}.")


def _read_one(path: str, spec: TensorSpec, value_range: Range, kind: str) -> Array:
    if path.lower().endswith(PICTURES):
        return read_picture(path, _dtype(spec), spec.shape, value_range)

    def choose(names: Sequence[str]) -> Sequence[str]:
        if len(names) != 1 and spec.name not in names:
            raise bad_input(
                path,
                f"the file contains {count_text(len(names), 'array')}, but no array with the name of {kind} "
                f"'{spec.name}'",
                f"Name the array for this {kind} '{spec.name}'.",
            )
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
            Status.UNSUPPORTED,
            f"the elements of tensor '{spec.name}' have the type {spec.dtype}, which NumPy does not support",
        ) from None


def _given_twice(path: str, name: str, origin: str, kind: str) -> LiteRtError:
    source = "this file" if origin == path else origin
    what = f"{kind} '{name}' already has a value from {source}"
    return LiteRtError(Status.INVALID_ARGUMENT, what, path, f"Give only one file for each {kind}.")


def _none_left(path: str, found: Mapping[str, InputArray], kind: str) -> LiteRtError:
    given = ", ".join(f"{array.origin} for '{name}'" for name, array in found.items())
    what = f"there is a file for each {kind} already: {given}" if given else f"there are no {kind}s"
    return LiteRtError(Status.INVALID_ARGUMENT, what, path, "Omit this file.")


_SUFFIXES = (".npy", ".npz", ".png")


def plan_outputs(texts: Sequence[str], specs: Sequence[TensorSpec]) -> list[tuple[str, list[str]]]:
    """Returns the path of each output file, and the names of the outputs to write to it.

    The function is called before the model runs.

    Args:
      texts: Arguments `[output=]file`, with the output's name or index. Without `output=`, a .npz file is for all
        outputs, and any other file is for the next output that has no file.
      specs: Specifications of all outputs.
    """
    from litert.model.atomic_file import check_place  # here: --help must not wait for it

    plan: list[tuple[str, list[str]]] = []
    for text in texts:
        spec, path = split_target(text, specs, "output", "output")
        if not path.lower().endswith(_SUFFIXES):
            what = "the name of an output file must end in .npy, .npz or .png"
            hint = "Give another file name with --output."
            raise LiteRtError(Status.INVALID_ARGUMENT, what, path, hint)
        check_place(path)
        if any(os.path.realpath(path) == os.path.realpath(other) for other, _ in plan):
            what, hint = "two --output flags name the same file", "Give each output its own file."
            raise LiteRtError(Status.INVALID_ARGUMENT, what, path, hint)
        if spec is not None:
            names = [spec.name]
        elif path.lower().endswith(".npz"):
            names = [s.name for s in specs]
        else:
            taken = {name for _, names in plan for name in names}
            names = [s.name for s in specs if s.name not in taken][:1]
            if not names:
                what = "there is a file for each output already"
                if not specs:
                    what = "the model has no outputs"
                raise LiteRtError(Status.INVALID_ARGUMENT, what, path, "Omit this file.")
        plan.append((path, names))
    return plan


def write_outputs(
    plan: Sequence[tuple[str, Sequence[str]]],
    outputs: Mapping[str, Array],
    value_range: Range,
    sources: Sequence[str],
) -> None:
    """Writes outputs to files; each file is written completely or not at all.

    If an output file is also a source file (`[tensor=]file`), raises an error.
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
    """Writes arrays with any names to a .npz file; `numpy.savez` does not support all names, such as `file`."""
    import numpy as np

    with zipfile.ZipFile(file, "w") as entries:
        for name, array in arrays.items():
            with entries.open(f"{name}.npy", "w", force_zip64=True) as entry:
                np.lib.format.write_array(entry, np.asanyarray(array), allow_pickle=False)

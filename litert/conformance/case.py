"""One NPU call to check a dispatch library with: byte code of the vendor's compiler, inputs, what comes out."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from litert.analysis.difference import Difference, find_difference
from litert.core.element_type import ElementType
from litert.core.tensor_type import RankedTensorType


@dataclass(frozen=True, slots=True)
class Case:
    """A function of a byte code module.

    Attributes:
      name: of the partition that it was compiled from, for people.
      source: the model's name; a probe's, for one.
      inputs, outputs: types, all dimensions known.
      data: of the inputs.
      expected: of the outputs, as LiteRT's CPU kernels have them; None where they do not have the op.
      magnitudes: of what is accumulated for each element of the outputs; None where nothing tells.
      num_ops: that it was compiled from.
      found: where its outputs are written to, to be reported.
      assets: by name, companions first.
      tensors: of the partition that has a name of its own, by name.
      tapped: byte code that keeps these names, and the function in it; None where it was not asked for.
    """

    name: str
    source: str
    byte_code: bytes
    function: str
    inputs: Sequence[RankedTensorType]
    outputs: Sequence[RankedTensorType]
    data: Sequence[bytes]
    expected: Sequence[bytes] | None
    magnitudes: Sequence[bytes] | None
    num_ops: int
    found: Sequence[str]
    assets: Mapping[str, bytes]
    tensors: Mapping[str, RankedTensorType]
    tapped: tuple[bytes, str] | None

    def types(self, kind: str) -> Sequence[RankedTensorType]:
        """Those of its `input`s or `output`s."""
        return self.inputs if kind == "input" else self.outputs

    def differences(self, found: Sequence[bytes], tolerance: float) -> list[Difference]:
        """Of each output from what is expected, which is there; see `find_difference`."""
        assert self.expected is not None
        return [
            find_difference(
                _elements(tensor_type, self.expected[index]),
                _elements(tensor_type, found[index]),
                tolerance=tolerance,
                magnitudes=None
                if self.magnitudes is None
                else _elements(tensor_type, self.magnitudes[index]),
                num_roundings=self.num_ops,
            )
            for index, tensor_type in enumerate(self.outputs)
        ]


def _elements(tensor_type: RankedTensorType, data: bytes) -> Any:
    """An output's elements; there may be more behind them."""
    import numpy as np

    dtype = tensor_type.element_type.numpy_dtype
    return np.frombuffer(data[: tensor_type.size_bytes], dtype)[: tensor_type.num_elements]


def read_case(case: Mapping[str, Any], assets: Mapping[str, bytes]) -> Case:
    """Reads what `litert.conformance.case_files` and `expected` have written, as JSON has it."""
    return Case(
        case["name"],
        case["source"],
        read_file(case["byte_code"]),
        case["function"],
        read_types(case["inputs"]),
        read_types(case["outputs"]),
        [array.tobytes() for array in input_arrays(case)],
        _read_files(case["expected"]),
        _read_files(case["magnitudes"]),
        len(case["ops"]),
        [f"{case['model']}.found_{index}" for index in range(len(case["outputs"]))],
        assets,
        dict(zip(case["tensors"], read_types(case["tensors"].values()), strict=True)),
        (read_file(case["tapped"][0]), case["tapped"][1]) if "tapped" in case else None,
    )


def read_types(types: Collection[tuple[int, Sequence[int]]]) -> list[RankedTensorType]:
    """Types of inputs or outputs, each of which a case has as an element type and a shape."""
    return [RankedTensorType.of(ElementType(kind), tuple(shape)) for kind, shape in types]


def input_arrays(case: Mapping[str, Any]) -> list[Any]:
    """A case's inputs in the checks."""
    types = read_types(case["inputs"])
    return [make_array(each, seed, *case["range"]) for seed, each in enumerate(types)]


def read_file(path: str) -> bytes:
    """A file's bytes."""
    with open(path, "rb") as file:
        return file.read()


def _read_files(paths: Sequence[str] | None) -> list[bytes] | None:
    return None if paths is None else [read_file(path) for path in paths]


def make_data(tensor_type: RankedTensorType, seed: int) -> bytes:
    """Values for an input, as `make_array`."""
    data: bytes = make_array(tensor_type, seed).tobytes()
    return data


def make_array(
    tensor_type: RankedTensorType, seed: int, lowest: float = -1, highest: float = 1
) -> Any:
    """An array for an input: floats of a range, small integers of all signs, and 0 or 1 as an index might be."""
    import numpy as np

    generator = np.random.default_rng(seed)
    shape, dtype = tensor_type.shape, tensor_type.element_type.numpy_dtype
    if dtype.kind not in "iub":
        return generator.uniform(lowest, highest, shape).astype(dtype)
    low, high = 0, 2
    if dtype.kind != "b" and dtype.itemsize == 1:
        low, high = np.iinfo(dtype).min, np.iinfo(dtype).max + 1
    return generator.integers(low, high, shape).astype(dtype)

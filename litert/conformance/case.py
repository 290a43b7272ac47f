"""A test case for a dispatch library: one NPU call with its byte code, inputs and expected outputs."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from litert.analysis.difference import Difference, find_difference
from litert.core.element_type import ElementType
from litert.core.tensor_type import RankedTensorType


@dataclass(frozen=True, slots=True)
class Case:
    """A test case: an NPU call of a function in a byte code module, with inputs and expected outputs.

    Attributes:
      name: Name of the compiled partition, for messages.
      source: Name of the model or probe that contains the partition.
      inputs, outputs: Tensor types of the inputs and outputs; all dimensions are known.
      data: Bytes of each input.
      expected: Expected bytes of each output, which LiteRT's CPU kernels computed; None if LiteRT has no kernel
        for an op.
      magnitudes: For each element of each output, the sum of the absolute values of its summands; None if unknown.
      num_ops: Number of ops in the partition.
      found: Paths of files to which the vendor's outputs are written, for the report.
      assets: Bytes of the assets, by name; companion files come before their asset.
      tensors: Types of the partition's tensors, by name; only tensors with unique names are included.
      tapped: A pair of byte code and the name of its function. This byte code contains the names of tensors. None
        if such byte code was not compiled.
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
        """Returns the types of the inputs (kind "input") or of the outputs (kind "output")."""
        return self.inputs if kind == "input" else self.outputs

    def differences(self, found: Sequence[bytes], tolerance: float) -> list[Difference]:
        """Compares each output with the expected output by `find_difference`; `expected` must not be None."""
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
    """Returns an output's elements without the padding after the last element."""
    import numpy as np

    dtype = tensor_type.element_type.numpy_dtype
    return np.frombuffer(data[: tensor_type.size_bytes], dtype)[: tensor_type.num_elements]


def read_case(case: Mapping[str, Any], assets: Mapping[str, bytes]) -> Case:
    """Makes a case from the JSON object that `litert.conformance.case_files` and `expected` wrote."""
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
    """Converts the pairs of element type and shape in a case's JSON object to tensor types."""
    return [RankedTensorType.of(ElementType(kind), tuple(shape)) for kind, shape in types]


def input_arrays(case: Mapping[str, Any]) -> list[Any]:
    """Makes the input arrays of a case's JSON object."""
    types = read_types(case["inputs"])
    return [make_array(each, seed, *case["range"]) for seed, each in enumerate(types)]


def read_file(path: str) -> bytes:
    """Reads a file's bytes."""
    with open(path, "rb") as file:
        return file.read()


def _read_files(paths: Sequence[str] | None) -> list[bytes] | None:
    return None if paths is None else [read_file(path) for path in paths]


def make_data(tensor_type: RankedTensorType, seed: int) -> bytes:
    """Makes random bytes for an input; see `make_array`."""
    data: bytes = make_array(tensor_type, seed).tobytes()
    return data


def make_array(
    tensor_type: RankedTensorType, seed: int, lowest: float = -1, highest: float = 1
) -> Any:
    """Makes a random array: floats from a range, 8-bit integers from the full range, wider integers 0 or 1."""
    import numpy as np

    generator = np.random.default_rng(seed)
    shape, dtype = tensor_type.shape, tensor_type.element_type.numpy_dtype
    if dtype.kind not in "iub":
        return generator.uniform(lowest, highest, shape).astype(dtype)
    low, high = 0, 2
    if dtype.kind != "b" and dtype.itemsize == 1:
        low, high = np.iinfo(dtype).min, np.iinfo(dtype).max + 1
    return generator.integers(low, high, shape).astype(dtype)

"""One NPU call to check a dispatch library with: byte code of the vendor's compiler, inputs, what comes out."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from litert.core.element_type import ElementType
from litert.core.tensor_type import RankedTensorType


@dataclass(frozen=True, slots=True)
class Case:
    """A function of a byte code module.

    Attributes:
      name: of the model that it was compiled from, for people.
      inputs, outputs: types, all dimensions known.
      data: of the inputs.
      expected: of the outputs, as LiteRT's CPU kernels have them; None where they do not have the op.
      assets: by name, companions first.
    """

    name: str
    byte_code: bytes
    function: str
    inputs: Sequence[RankedTensorType]
    outputs: Sequence[RankedTensorType]
    data: Sequence[bytes]
    expected: Sequence[bytes] | None
    assets: Mapping[str, bytes]

    def types(self, kind: str) -> Sequence[RankedTensorType]:
        """Those of its `input`s or `output`s."""
        return self.inputs if kind == "input" else self.outputs


def read_case(case: Mapping[str, Any], assets: Mapping[str, bytes]) -> Case:
    """Reads what `litert.conformance.case_files` has written, as JSON has it."""
    expected = case["expected"]
    return Case(
        case["name"],
        read_file(case["byte_code"]),
        case["function"],
        read_types(case["inputs"]),
        read_types(case["outputs"]),
        input_data(case),
        None if expected is None else [read_file(path) for path in expected],
        assets,
    )


def read_types(types: Sequence[tuple[int, Sequence[int]]]) -> list[RankedTensorType]:
    """Types of inputs or outputs, each of which a case has as an element type and a shape."""
    return [RankedTensorType.of(ElementType(kind), tuple(shape)) for kind, shape in types]


def input_data(case: Mapping[str, Any]) -> list[bytes]:
    """What a case's inputs are in the checks."""
    return [make_data(each, seed) for seed, each in enumerate(read_types(case["inputs"]))]


def read_file(path: str) -> bytes:
    """A file's bytes."""
    with open(path, "rb") as file:
        return file.read()


def make_data(tensor_type: RankedTensorType, seed: int) -> bytes:
    """Values for an input: floats from -1 to 1, small integers of all signs, and 0 or 1 as an index might be."""
    import numpy as np

    generator = np.random.default_rng(seed)
    shape, dtype = tensor_type.shape, tensor_type.element_type.numpy_dtype
    if dtype.kind not in "iub":
        return generator.uniform(-1, 1, shape).astype(dtype).tobytes()
    low, high = 0, 2
    if dtype.kind != "b" and dtype.itemsize == 1:
        low, high = np.iinfo(dtype).min, np.iinfo(dtype).max + 1
    return generator.integers(low, high, shape).astype(dtype).tobytes()


def add_expected(case: dict[str, Any]) -> None:
    """Sets `expected` of a case: a file for each output of LiteRT's CPU kernels; None where they lack an op."""
    outputs = _run_on_cpu(case["model"], case)
    case["expected"] = None if outputs is None else []
    for index, data in enumerate(outputs or ()):
        path = f"{case['model']}.output_{index}"
        with open(path, "wb") as file:
            file.write(data)
        case["expected"].append(path)


def _run_on_cpu(path: str, case: Mapping[str, Any]) -> Sequence[bytes] | None:
    """Outputs of a model for a case's inputs; None where LiteRT refuses it."""
    import numpy as np
    from ai_edge_litert.interpreter import Interpreter

    try:
        interpreter = Interpreter(path)
        interpreter.allocate_tensors()
    except (RuntimeError, ValueError):  # a custom op that nobody has registered
        return None
    details = interpreter.get_input_details()
    types = read_types(case["inputs"])
    for detail, tensor_type, data in zip(details, types, input_data(case), strict=True):
        values = np.frombuffer(data, tensor_type.element_type.numpy_dtype)
        interpreter.set_tensor(detail["index"], values.reshape(tensor_type.shape))
    interpreter.invoke()
    return [
        interpreter.get_tensor(detail["index"]).tobytes()
        for detail in interpreter.get_output_details()
    ]


def find_difference(
    tensor_type: RankedTensorType, expected: bytes, found: bytes, tolerance: float
) -> str:
    """How an output differs from the CPU's beyond what an NPU's arithmetic may do; "" where it does not.

    Args:
      tensor_type: of the output.
      expected: as the CPU has it.
      found: as the NPU has it; there may be more behind it.
      tolerance: for floats, as a part of the largest that is expected, or of 1 where that is more.
    """
    import numpy as np

    dtype = tensor_type.element_type.numpy_dtype
    size = tensor_type.size_bytes
    want: Any = np.frombuffer(expected, dtype)[: tensor_type.num_elements].astype(np.float64)
    have: Any = np.frombuffer(found[:size], dtype)[: tensor_type.num_elements].astype(np.float64)
    if dtype.kind in "iub":
        limit = 1.0 if dtype.itemsize < 4 and dtype.kind != "b" else 0.0
    else:
        limit = tolerance * max(1.0, float(np.max(np.abs(want), initial=0)))
    with np.errstate(invalid="ignore"):
        away = np.abs(have - want)
    away = np.where(np.isnan(have) & np.isnan(want) | (have == want), 0, away)
    away = np.where(np.isnan(away), np.inf, away)
    if not away.size or float(away.max()) <= limit:
        return ""
    worst = int(np.argmax(away))
    return f"element {worst} is {have[worst]:g}, and {want[worst]:g} on the CPU; {limit:g} may be between"

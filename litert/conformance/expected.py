"""Computes the expected outputs of a case with LiteRT's CPU kernels and with references of custom ops."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from litert.analysis.reference_function import Functions, call_function
from litert.conformance.case import input_arrays
from litert.core.errors import LiteRtError

NO_KERNEL = "LiteRT has no kernel for its custom op; give a reference function with --reference"


def add_expected(case: dict[str, Any], references: Functions) -> None:
    """Adds the keys `expected` and `magnitudes` to a case.

    The value of each key is a list of paths of files, one for each output; None if the data are unknown.

    Raises:
      LiteRtError: A reference function raised an error, or returned an output with a wrong shape.
    """
    arrays = input_arrays(case)
    outputs = _run_on_cpu(case["model"], arrays)
    if outputs is None:
        outputs = _run_with_references(case["model"], arrays, references)
    case["expected"] = _write(f"{case['model']}.output", outputs)
    magnitudes = None
    if outputs is not None and case["signs"] is not None:
        pairs = zip(case["signs"], arrays, strict=True)
        magnitudes = _run_on_cpu(case["terms"], [sign * abs(array) for sign, array in pairs])
    case["magnitudes"] = _write(f"{case['model']}.magnitude", magnitudes)


def _write(path: str, arrays: Sequence[Any] | None) -> list[str] | None:
    if arrays is None:
        return None
    paths = [f"{path}_{index}" for index in range(len(arrays))]
    for name, array in zip(paths, arrays, strict=True):
        with open(name, "wb") as file:
            file.write(array.tobytes())
    return paths


def _run_on_cpu(path: str, arrays: Sequence[Any]) -> list[Any] | None:
    """Runs a model and returns its outputs; None if LiteRT refuses the model."""
    from ai_edge_litert.interpreter import Interpreter

    try:
        interpreter = Interpreter(path)
        interpreter.allocate_tensors()
    except (RuntimeError, ValueError):  # a custom op without a kernel
        return None
    for detail, array in zip(interpreter.get_input_details(), arrays, strict=True):
        interpreter.set_tensor(detail["index"], array)
    interpreter.invoke()
    return [interpreter.get_tensor(d["index"]) for d in interpreter.get_output_details()]


def _run_with_references(
    path: str, arrays: Sequence[Any], references: Functions
) -> list[Any] | None:
    """Runs a model op by op and returns its outputs; None if an op has neither a reference nor a kernel."""
    from compiler_plugin.transformations.stock_inference import run
    from litert.model.reader import read_model
    from litert.model.tensor_data import decode_constant

    with read_model(path) as model:
        (subgraph,) = model.subgraphs
        if any(op.is_custom and op.name not in references for op in subgraph.ops):
            return None
        values = {
            tensor: decode_constant(tensor.element_type, tensor.shape, tensor.data)
            for tensor in subgraph.tensors
            if tensor.is_constant
        }
        values |= dict(zip(subgraph.inputs, arrays, strict=True))
        for op in subgraph.ops:
            if op.is_custom:
                inputs = [None if tensor is None else values[tensor] for tensor in op.inputs]
                results = call_function(references[op.name], op, inputs)
            else:
                try:
                    results = run([op], values.get, op.outputs)
                except LiteRtError:
                    return None
            values |= dict(zip(op.outputs, results, strict=True))
        return [values[tensor].copy() for tensor in subgraph.outputs]

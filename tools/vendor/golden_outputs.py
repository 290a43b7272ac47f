"""What LiteRT's CPU kernels make of the inputs that the checks give a vendor's dispatch library."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from dispatch.conformance.serving import input_data, input_types


def add_expected(case: dict[str, Any]) -> None:
    """Sets `expected` of a case: a file for each output, or None where the CPU does not have an op."""
    outputs = run_on_cpu(case["model"], case)
    case["expected"] = None
    if outputs is not None:
        case["expected"] = []
        for index, data in enumerate(outputs):
            path = f"{case['model']}.output_{index}"
            with open(path, "wb") as file:
                file.write(data)
            case["expected"].append(path)


def run_on_cpu(path: str, case: Mapping[str, Any]) -> Sequence[bytes] | None:
    """Outputs of a model for a case's inputs; None where LiteRT refuses it."""
    import numpy as np
    from ai_edge_litert.interpreter import Interpreter

    try:
        interpreter = Interpreter(path)
        interpreter.allocate_tensors()
    except (RuntimeError, ValueError):  # a custom op that nobody has registered
        return None
    details = interpreter.get_input_details()
    for detail, tensor_type, data in zip(details, input_types(case), input_data(case), strict=True):
        values = np.frombuffer(data, tensor_type.element_type.numpy_dtype)
        interpreter.set_tensor(detail["index"], values.reshape(tensor_type.shape))
    interpreter.invoke()
    return [
        interpreter.get_tensor(detail["index"]).tobytes()
        for detail in interpreter.get_output_details()
    ]

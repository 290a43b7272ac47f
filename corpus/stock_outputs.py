"""Runs models on random inputs in stock LiteRT, including models with custom ops.

Stock LiteRT cannot run custom ops that it does not know. This module removes such an op from the model: the inputs
of the op become outputs of the model, and the outputs of the op become inputs of the model. Stock LiteRT then runs
all other ops.
"""

from __future__ import annotations

import zlib
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, TypeAlias

import numpy as np

from litert.model.graph import Tensor
from litert.model.reader import read_model
from litert.model.tensor_data import decode_constant
from litert.model.writer import to_bytes

Array: TypeAlias = np.ndarray[Any, Any]


@dataclass(frozen=True, slots=True)
class Opened:
    """A model without custom ops, which stock LiteRT can run.

    Attributes:
      data: Bytes of the model file.
      values: The values for comparisons, by name; each is the name of a tensor, or a constant value.
    """

    data: bytes
    values: Mapping[str, str | Array]


def open_model(data: bytes) -> Opened:
    """Removes the custom ops from the main subgraph of a model.

    The values are the model's outputs, and the inputs of each custom op. If a model was made from another model,
    the values of both have the same names.
    """
    model = read_model(data)
    subgraph = model.subgraphs[0]
    values: dict[str, Tensor] = {tensor.name: tensor for tensor in subgraph.outputs}
    custom = [op for op in subgraph.ops if op.is_custom]
    for op in custom:
        for index, tensor in enumerate(op.inputs):
            if tensor is not None:
                values[f"{op.outputs[0].name}, input {index}"] = tensor
    if not custom:
        return Opened(data, {name: tensor.name for name, tensor in values.items()})
    written = [tensor for op in custom for tensor in op.outputs]
    for op in custom:
        op.release()
        subgraph.ops.remove(op)
    subgraph.inputs.extend(written)
    constants = {t: value for t in values.values() if (value := _find_constant(t)) is not None}
    outputs = [t for t in values.values() if t not in constants and t.producer is not None]
    subgraph.outputs[:] = dict.fromkeys(outputs)
    model.signatures.clear()
    found = {
        name: constants.get(tensor, tensor.name)
        for name, tensor in values.items()
        if tensor in constants or tensor.producer is not None
    }
    return Opened(bytes(to_bytes(model)), found)


def interpreter_of(opened: Opened, with_xnnpack: bool, seed: int = 0) -> Any:
    """Returns stock LiteRT's interpreter for a model, with random inputs, on one thread.

    Args:
      opened: The model.
      with_xnnpack: Whether XNNPACK runs the ops that it supports; otherwise stock's plain kernels run all ops.
      seed: Seed of the inputs, which are between 0 and 1; inputs with the same name have equal values.
    """
    from ai_edge_litert.interpreter import Interpreter, OpResolverType

    kind = (
        OpResolverType.BUILTIN if with_xnnpack else OpResolverType.BUILTIN_WITHOUT_DEFAULT_DELEGATES
    )
    interpreter = Interpreter(
        model_content=opened.data, num_threads=1, experimental_op_resolver_type=kind
    )
    interpreter.allocate_tensors()
    for detail in interpreter.get_input_details():
        random = np.random.default_rng([seed, zlib.crc32(detail["name"].encode())])
        value = random.uniform(size=detail["shape"]).astype(detail["dtype"])
        interpreter.set_tensor(detail["index"], value)
    return interpreter


def read_values(opened: Opened, interpreter: Any) -> dict[str, Array]:
    """Returns the values of a model after a run."""
    indices = {detail["name"]: detail["index"] for detail in interpreter.get_output_details()}
    return {
        name: interpreter.get_tensor(indices[value]) if isinstance(value, str) else value
        for name, value in opened.values.items()
    }


def run_values(opened: Opened, with_xnnpack: bool, seed: int = 0) -> dict[str, Array]:
    """Runs a model on random inputs, and returns its values."""
    interpreter = interpreter_of(opened, with_xnnpack, seed)
    interpreter.invoke()
    return read_values(opened, interpreter)


def largest_difference(expected: Mapping[str, Array], found: Mapping[str, Array]) -> float:
    """Returns the largest difference of any element, relative to the largest magnitude in its value.

    Raises:
      ValueError: The names, types or shapes differ, or a value contains NaN or infinity.
    """
    if expected.keys() != found.keys():
        raise ValueError(f"values {sorted(found)}, and not {sorted(expected)}")
    largest = 0.0
    for name, before in expected.items():
        after = found[name]
        if (before.dtype, before.shape) != (after.dtype, after.shape):
            raise ValueError(
                f"'{name}' is {after.dtype} {after.shape}, and not {before.dtype} {before.shape}"
            )
        wide = before.astype(np.float64)
        if not (np.isfinite(wide).all() and np.isfinite(after).all()):
            raise ValueError(f"'{name}' has numbers that are none")
        size = np.abs(wide).max(initial=0.0) or 1.0
        largest = max(largest, float(np.abs(wide - after).max(initial=0.0) / size))
    return largest


def _find_constant(tensor: Tensor) -> Array | None:
    """Returns the value of a constant, also one stored as float16, because XNNPACK does not output constants."""
    if tensor.producer is not None and tensor.producer.name == "DEQUANTIZE":
        stored = tensor.producer.inputs[0]
        if stored is not None and stored.is_constant and stored.quantization is None:
            half: Array = decode_constant(stored.element_type, stored.shape, stored.data)
            return half.astype(np.float32)
    if not tensor.is_constant:
        return None
    value: Array = decode_constant(tensor.element_type, tensor.shape, tensor.data)
    return value

"""Damaged models, transformed and compiled for the reference vendor as a whole, loaded and run once."""

from __future__ import annotations

from collections.abc import Sequence
from math import prod

import numpy as np

from compiler_plugin.pipeline import ApplyOptions, apply_in_memory
from compiler_plugin.transform_options import TransformOptions
from litert import CompiledModel, HardwareAccelerator
from litert.core.compiler_options import CompilerOptions
from litert.model.writer import to_bytes
from tests.fuzz.models import network, varied
from tests.fuzz.target import Target

_MOST_ELEMENTS = 1 << 24


def compiled(model: bytes, reference_ops: str) -> bytes:
    """The compiled file, with such ops on the NPU."""
    compiler = CompilerOptions(vendor_options={"reference_ops": reference_ops})
    with apply_in_memory(model, ApplyOptions(compiler=compiler, transform=TransformOptions())) as (
        made,
        _,
    ):
        return bytes(to_bytes(made))


def run(file: bytes) -> None:
    """Loads a file, and runs each signature once on zeros, where they are of a type and size that arrays have."""
    accelerators = HardwareAccelerator.NPU | HardwareAccelerator.CPU
    with CompiledModel.from_buffer(file, accelerators) as model:
        for key in model.get_signature_list():
            details = model.get_input_tensor_details(key)
            if all(_is_small(d["shape"], d["dtype"]) for d in details.values()):
                inputs = {name: np.zeros(d["shape"], d["dtype"]) for name, d in details.items()}
                model.run(inputs, key)


def _is_small(shape: Sequence[int], dtype: str) -> bool:
    try:
        np.dtype(dtype)
    except TypeError:
        return False
    return prod(shape) <= _MOST_ELEMENTS


def _seeds() -> Sequence[bytes]:
    return [*(network(op) for op in ("ADD", "RELU", "SUB")), varied("ABS")]


TARGET = Target(_seeds, lambda data: run(compiled(data, "all")), test_runs=30)

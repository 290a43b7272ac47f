"""Damaged models, transformed and compiled for the reference vendor as a whole, loaded and run once."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from compiler_plugin.pipeline import ApplyOptions, apply_in_memory
from compiler_plugin.transform_options import TransformOptions
from litert import CompiledModel, HardwareAccelerator
from litert.core.compiler_options import CompilerOptions
from litert.model.writer import to_bytes
from tests.fuzz.models import network, varied
from tests.fuzz.target import Target


def compiled(model: bytes, reference_ops: str) -> bytes:
    """The compiled file, with such ops on the NPU."""
    compiler = CompilerOptions(vendor_options={"reference_ops": reference_ops})
    with apply_in_memory(model, ApplyOptions(compiler=compiler, transform=TransformOptions())) as (
        made,
        _,
    ):
        return bytes(to_bytes(made))


def run(file: bytes) -> None:
    """Loads a file, and runs each signature once on zeros."""
    accelerators = HardwareAccelerator.NPU | HardwareAccelerator.CPU
    with CompiledModel.from_buffer(file, accelerators) as model:
        for key in model.get_signature_list():
            details = model.get_input_tensor_details(key)
            inputs = {name: np.zeros(d["shape"], d["dtype"]) for name, d in details.items()}
            model.run(inputs, key)


def _seeds() -> Sequence[bytes]:
    return [*(network(op) for op in ("ADD", "RELU", "SUB")), varied("ABS")]


TARGET = Target(_seeds, lambda data: run(compiled(data, "all")), test_runs=30)

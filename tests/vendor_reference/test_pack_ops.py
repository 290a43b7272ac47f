"""The kernels that bring tensors into blocks and back, on each OpenCL device."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from dispatch.tensor_buffer import TensorBuffer
from litert.core.element_type import ElementType
from litert.core.tensor_type import RankedTensorType
from tests.vendor_reference.executables import byte_code, in_, out
from vendor_reference.compiler.ir.types import tensor_type
from vendor_reference.compiler.levels.blocks import PackOp, UnpackOp, layout_attributes
from vendor_reference.device.module import Module
from vendor_reference.executable.cpu_op import MemoryLayout
from vendor_reference.executable.executable import (
    ArgumentKind,
    Executable,
    Function,
    KernelTask,
    Program,
)

LAYOUTS = {
    "nChw8c": ((2, 3, 4, 20), MemoryLayout((0, 3, 1, 2, 3), (0, 0, 0, 0, 8))),
    "nChw16c, whole blocks": ((1, 2, 2, 32), MemoryLayout((0, 3, 1, 2, 3), (0, 0, 0, 0, 16))),
    "one channel": ((2, 3, 1, 1), MemoryLayout((0, 3, 1, 2, 3), (0, 0, 0, 0, 4))),
    "two blocked": ((5, 7, 3), MemoryLayout((1, 0, 2, 0, 1), (0, 0, 0, 4, 2))),
    "of rank 1": ((10,), MemoryLayout((0, 0), (0, 4))),
    "block not last": ((6, 5), MemoryLayout((0, 0, 1), (0, 4, 0))),
}


@pytest.mark.parametrize("dtype", ["float32", "int8", "int64"])
@pytest.mark.parametrize("case", LAYOUTS)
def test_blocks_hold_the_tensor_and_zeros(device: Any, case: str, dtype: str) -> None:
    shape, layout = LAYOUTS[case]
    element_type = ElementType.from_numpy(np.dtype(dtype))
    plain = RankedTensorType.of(element_type, shape)
    packed = RankedTensorType.of(element_type, layout.dims(shape))
    types = {t: tensor_type(t.element_type, t.shape) for t in (plain, packed)}
    attributes = layout_attributes(layout)
    programs, tasks, functions = [], [], []
    for number, (op, source, target) in enumerate(
        ((PackOp, plain, packed), (UnpackOp, packed, plain))
    ):
        spec = op.kernel_spec([types[source]], [types[target]], attributes)
        programs.append(Program(spec.text, ()))
        sizes = [int(size) for size in spec.global_size]
        tasks.append(KernelTask(op.name, number, spec.entry, [in_(), out()], sizes))
        functions.append(Function(f"f{number}", [source], [target], [tasks[-1]]))
    code = byte_code(Executable("EMU8", functions, programs, []))
    module = Module(device, code.view, {})
    array = np.arange(1, plain.num_elements + 1).reshape(shape).astype(dtype)
    blocks = _run(device, module, functions[0], array)
    strides = layout.strides(shape)
    expected = np.zeros(packed.num_elements, dtype)
    block_of = {d: b for d, b in zip(layout.order, layout.blocks, strict=True) if b}
    for index, value in np.ndenumerate(array):
        memory = [
            index[d] % b if b else index[d] // block_of.get(d, 1)
            for d, b in zip(layout.order, layout.blocks, strict=True)
        ]
        expected[sum(m * s for m, s in zip(memory, strides, strict=True))] = value
    assert np.array_equal(blocks.ravel(), expected)
    assert np.array_equal(_run(device, module, functions[1], blocks), array)


def _run(device: Any, module: Module, function: Function, array: Any) -> Any:
    loaded = module.load(function)
    x, y = TensorBuffer.allocate(function.inputs[0]), TensorBuffer.allocate(function.outputs[0])
    memory = [device.share(b.address, b.size) for b in (x, y)]
    loaded.attach(ArgumentKind.INPUT, 0, memory[0])
    loaded.attach(ArgumentKind.OUTPUT, 0, memory[1])
    x.array()[...] = array
    loaded.run()
    return y.array().copy()

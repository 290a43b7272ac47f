"""Tests the commands that pack tensors into blocks and unpack them, on each OpenCL device."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from litert.core.element_type import ElementType
from tests.vendor_reference.library_runs import run_specs
from vendor_reference.compiler.ir.types import tensor_type, view_of
from vendor_reference.compiler.levels.blocks import PackOp, UnpackOp, layout_attributes, packed_type
from vendor_reference.executable.cpu_op import MemoryLayout

NCHW8C = MemoryLayout((0, 3, 1, 2, 3), (0, 0, 0, 0, 8))
LAYOUTS = {
    "nChw8c": ((2, 3, 4, 20), NCHW8C),
    "nChw8c, less than a block": ((2, 3, 4, 3), NCHW8C),
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
    array = (np.arange(np.prod(shape)) % 100 + 1).reshape(shape).astype(dtype)
    plain = tensor_type(ElementType.from_numpy(array.dtype), shape)
    packed, attributes = packed_type(plain, layout), layout_attributes(layout)
    expected = blocks_of(array, layout)
    pack = PackOp.kernel_spec([plain], [packed], attributes)
    unpack = UnpackOp.kernel_spec([packed], [plain], attributes)
    calls = [(pack, [array.ravel()], [view_of(packed)]), (unpack, [expected], [view_of(plain)])]
    blocks, back = run_specs(device, calls)
    assert np.array_equal(blocks.ravel(), expected)
    assert np.array_equal(back, array)


def blocks_of(array: Any, layout: MemoryLayout) -> Any:
    """Returns the memory of a tensor in a block layout."""
    strides, block_of = layout.strides(array.shape), layout.block_of
    memory = np.zeros(layout.num_elements(array.shape), array.dtype)
    for index, value in np.ndenumerate(array):
        place = [
            index[d] % b if b else index[d] // block_of.get(d, 1)
            for d, b in zip(layout.order, layout.blocks, strict=True)
        ]
        memory[sum(p * s for p, s in zip(place, strides, strict=True))] = value
    return memory


@pytest.mark.parametrize("shape", [(2, 0, 4, 20), (2, 3, 4, 0)])
def test_a_tensor_without_elements_has_commands_that_do_nothing(shape: tuple[int, ...]) -> None:
    plain = tensor_type(ElementType.FLOAT32, shape)
    packed, attributes = packed_type(plain, NCHW8C), layout_attributes(NCHW8C)
    assert len(PackOp.kernel_spec([plain], [packed], attributes).commands) == 1
    assert len(UnpackOp.kernel_spec([packed], [plain], attributes).commands) == 1

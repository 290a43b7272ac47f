"""Tests memory with guards, which detect writes outside a tensor."""

from __future__ import annotations

import ctypes

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dispatch.tensor_buffer import ALIGNMENT
from litert.core.element_type import ElementType
from litert.core.tensor_type import RankedTensorType
from vendor_reference.authoring.device_call import GuardedTensor


def memory(*shape: int) -> GuardedTensor:
    return GuardedTensor(RankedTensorType.of(ElementType.FLOAT32, shape))


@given(st.integers(0, 50), st.integers(-4000, 4000))
def test_a_byte_outside_is_noticed_and_one_inside_is_none_of_it(size: int, place: int) -> None:
    guarded = memory(size)
    guarded.fill_guards(0x41)
    assert guarded.damage() is None
    ctypes.c_ubyte.from_address(guarded.buffer.address + place).value = 1
    assert guarded.damage() == (None if 0 <= place < size * 4 else place)


@pytest.mark.parametrize("shape", [(), (1,), (3, 5), (0, 4)])
def test_memory_is_aligned_and_holds_the_tensor(shape: tuple[int, ...]) -> None:
    guarded = memory(*shape)
    assert guarded.buffer.address % ALIGNMENT == 0
    assert guarded.array.shape == shape and guarded.buffer.size == guarded.array.nbytes
    guarded.fill(0x41)
    assert set(guarded.content()) <= {0x41} and guarded.damage() is None
    guarded.array[...] = 1
    assert guarded.content() == guarded.array.tobytes()

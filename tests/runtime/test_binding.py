"""Tests that results do not depend on where the caller's buffers lie."""

from __future__ import annotations

import mmap
from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dispatch.tensor_buffer import TensorBuffer as HostBuffer
from litert.compiled_model import CompiledModel
from litert.core.element_type import ElementType
from litert.core.errors import LiteRtError
from litert.core.tensor_type import RankedTensorType
from litert.environment import Environment
from litert.runtime.host_memory import CPU_OVERREAD, allocate, is_fit_for_cpu, overlap
from litert.tensor_buffer import TensorBuffer
from tests.runtime.conftest import Load
from tests.runtime.npu_models import FLOAT, VENDORS, NpuModelBuilder, cpu_around_npu, one_call

SIZE = 5
BLOCK = 64


def chain(on_npu: Sequence[bool], **wishes: int) -> bytes:
    """Returns a chain of doublings, one for each element of `on_npu`: on the NPU or on the CPU."""
    builder = NpuModelBuilder(wishes)
    value = builder.input("x", FLOAT, (SIZE,))
    for index, is_npu in enumerate(on_npu):
        output = [(f"t{index}", FLOAT, (SIZE,))]
        make = builder.npu if is_npu else builder.op
        name, inputs = ("double", [value]) if is_npu else ("ADD", [value, value])
        value = make(name, inputs, output)
    builder.output(value)
    return builder.bytes()


@settings(deadline=None, max_examples=60)
@given(
    on_npu=st.lists(st.booleans(), min_size=1, max_size=4),
    places=st.lists(st.tuples(*[st.integers(0, BLOCK - SIZE)] * 2), min_size=2, max_size=4),
    alignment=st.sampled_from([1, 4, 64, 4096]),
    padding=st.sampled_from([0, 12]),
)
def test_buffers_may_lie_anywhere_and_overlap(
    on_npu: list[bool], places: list[tuple[int, int]], alignment: int, padding: int
) -> None:
    environment = Environment.create(dispatch_library_path=str(VENDORS))
    data = chain(on_npu, alignment=alignment, padding=padding)
    block = np.zeros(BLOCK, np.float32)
    with CompiledModel.from_buffer(data, environment=environment) as model:
        for source, result in places:
            block[:] = np.arange(BLOCK)
            x, y = block[source : source + SIZE], block[result : result + SIZE]
            expected = x * 2 ** len(on_npu)
            around = np.delete(block, np.arange(result, result + SIZE))
            model.run_by_index(
                0,
                [TensorBuffer.create_from_host_memory(x)],
                [TensorBuffer.create_from_host_memory(y)],
            )
            np.testing.assert_array_equal(y, expected)
            np.testing.assert_array_equal(
                np.delete(block, np.arange(result, result + SIZE)), around
            )


@given(st.integers(0, 3 * mmap.PAGESIZE), st.integers(1, 2 * mmap.PAGESIZE))
def test_memory_for_the_cpu_is_aligned_and_has_something_behind_it(address: int, size: int) -> None:
    buffer = HostBuffer(RankedTensorType.of(ElementType.INT8, (size,)), address, size)
    pages_read = {(address + size - 1) // mmap.PAGESIZE, (address + size + 15) // mmap.PAGESIZE}
    assert is_fit_for_cpu(buffer, size) == (address % 16 == 0 and len(pages_read) == 1)


@pytest.mark.parametrize("size", [4, mmap.PAGESIZE, 3 * mmap.PAGESIZE - 8])
def test_what_the_runtime_allocates_has_something_behind_it(size: int) -> None:
    buffer = allocate(RankedTensorType.of(ElementType.INT8, (size,)), size)
    assert buffer.size == size
    assert is_fit_for_cpu(buffer, size)
    behind = HostBuffer(buffer.tensor_type, buffer.address, size + CPU_OVERREAD, buffer)
    assert behind.view[size:].tobytes() == bytes(CPU_OVERREAD)


@given(st.integers(0, 40), st.integers(1, 20), st.integers(0, 40), st.integers(1, 20))
def test_buffers_overlap_where_they_have_a_byte_in_common(a: int, m: int, b: int, n: int) -> None:
    some = RankedTensorType.of(ElementType.INT8, (1,))
    found = overlap(HostBuffer(some, a, m), HostBuffer(some, b, n))
    assert found == bool({*range(a, a + m)} & {*range(b, b + n)})


@pytest.mark.parametrize("make", [one_call, cpu_around_npu], ids=["NPU alone", "with the CPU"])
def test_memory_at_the_end_of_a_page_is_as_good(load: Load, make: Any) -> None:
    memory = mmap.mmap(-1, mmap.PAGESIZE)  # the page after it may not be accessible
    array = np.frombuffer(memory, np.float32)[-4:].reshape(1, 4)
    model = load(make())
    for value in (1, 2):
        array[:] = value
        buffer = TensorBuffer.create_from_host_memory(array)
        model.run_by_index(0, [buffer], [buffer])
        np.testing.assert_array_equal(
            array, np.full((1, 4), value * (2 if make is one_call else 6))
        )


def test_an_input_that_is_a_constant_is_refused(load: Load) -> None:
    builder = NpuModelBuilder()
    x = builder.input("x", FLOAT, (1, 4))
    c = builder.constant("c", np.ones((1, 4), np.float32))
    builder.graph.inputs.append(c)  # some converters list constants as inputs
    builder.output(builder.op("ADD", [x, c], [("y", FLOAT, (1, 4))]))
    model = load(builder.bytes())
    with pytest.raises(
        LiteRtError, match="input 'c' cannot be set, because this tensor is a constant"
    ):
        model.run({"x": np.ones((1, 4), np.float32), "c": np.zeros((1, 4), np.float32)})


def test_memory_that_is_for_reading_alone_is_no_output(load: Load) -> None:
    model = load(one_call())
    array = np.frombuffer(bytes(16), np.float32).reshape(1, 4)
    buffer = TensorBuffer.create_from_host_memory(array)
    with pytest.raises(LiteRtError, match="read-only"):
        model.run_by_index(0, [buffer], [buffer])
    with pytest.raises(ValueError, match="read-only"):
        buffer.write(np.ones((1, 4), np.float32))
    model.run_by_index(0, [buffer], model.create_output_buffers(0))

"""Tests that `litert-npu layer` gives inputs in the op's order, not in the network's."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import permutations
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from litert_npu_tools.array_files import InputArray
from litert_npu_tools.layer.op_arrays import all_inputs, input_specs

from litert.model.builder import ModelBuilder
from litert.model.writer import write_model
from tests.tools.conftest import LitertNpu
from vendor_reference.authoring.subject import OpChoice, Subject, find_subjects

NUM_INPUTS, NUM_COMPUTED, NUM_TENSORS = 4, 6, 8


def network(operands: Sequence[int | None], order: Sequence[int]) -> ModelBuilder:
    """Builds a network around one op `Mine` that reads the operands; tensor `i` has the shape `[i + 1]`.

    The first tensors are the network's inputs, declared in `order`. The next ones are results of other ops. The
    last two are constants; one of them is the result of a DEQUANTIZE.
    """
    b = ModelBuilder()
    tensors = {i: b.input(f"t{i}", "float32", (i + 1,)) for i in order}
    for i in range(NUM_INPUTS, NUM_COMPUTED):
        tensors[i] = b.custom("Other", [tensors[0]], [(f"t{i}", "float32", (i + 1,))])
    stored = b.constant("stored", np.full(7, 6, np.float16))
    tensors[6] = b.op("DEQUANTIZE", [stored], [("t6", "float32", (7,))])
    tensors[7] = b.constant("t7", np.full(8, 7, np.float32))
    inputs = [None if i is None else tensors[i] for i in operands]
    b.output(b.custom("Mine", inputs, [("y", "float32", (9,))]))
    return b


def subject_of(builder: ModelBuilder) -> Subject:
    (subject,) = find_subjects(OpChoice("m.tflite"), "Mine", builder.build())
    return subject


@settings(deadline=None)
@given(
    st.lists(st.sampled_from([None, *range(NUM_TENSORS)]), min_size=1),
    st.permutations(range(NUM_INPUTS)),
)
def test_any_inputs_are_in_the_order_of_the_op(
    operands: list[int | None], order: list[int]
) -> None:
    subject = subject_of(network(operands, order))
    expected = [i for i in dict.fromkeys(operands) if i is not None and i < NUM_COMPUTED]
    specs = input_specs(subject)
    assert [tensor.shape for tensor in subject.model.subgraphs[0].inputs] == [
        (i + 1,) for i in expected
    ]
    assert [spec.shape for spec in specs] == [(i + 1,) for i in expected]
    assert [spec.index for spec in specs] == [operands.index(i) for i in expected]
    values = {spec.name: InputArray(np.full(spec.shape, len(spec.name)), "") for spec in specs}
    shapes = [None if array is None else array.shape for array in all_inputs(subject.op, values)]
    assert shapes == [None if i is None else (i + 1,) for i in operands]


@pytest.mark.usefixtures("in_this_process")
@pytest.mark.parametrize("order", list(permutations("xpc")), ids="".join)
def test_kernel_and_reference_get_the_same_inputs(
    author: Path, litert_npu: LitertNpu, order: Sequence[str]
) -> None:
    b = ModelBuilder()
    x = b.input("x", "float32", (4,))
    p = b.custom("Other", [x], [("p", "float32", (4,))])
    tensors = {"x": x, "p": p, "c": b.constant("c", np.arange(4, dtype=np.float32))}
    b.output(b.custom("Mine", [tensors[n] for n in order], [("y", "float32", (4,))]))
    write_model(b.build(), "mine.tflite")
    (author / "Mine.cl").write_text(
        "__kernel void Mine(__global float* a, __global float* b, __global float* c, __global float* y)\n"
        "{ size_t i = get_global_id(0); y[i] = a[i] - 2 * b[i] + 4 * c[i]; }\n"
    )
    (author / "mine.py").write_text(
        "def mine(inputs, options):\n"
        "    a, b, c = inputs\n"
        "    assert inputs[INDEX].tolist() == [1, 2, 3, 5]\n"
        "    return a - 2 * b + 4 * c\n".replace("INDEX", str(order.index("p")))
    )
    np.save("p.npy", np.array([1, 2, 3, 5], np.float32))
    run = (
        "layer",
        "run",
        "Mine.cl",
        "--model=mine.tflite",
        "--reference=mine.py:mine",
        "--repeat=0",
    )
    for name in ("p", order.index("p")):
        assert litert_npu(*run, f"--input={name}=p.npy") == 0

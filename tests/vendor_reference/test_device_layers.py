"""Tests library layers on a device: joined to one launch, between kernels, and measured one by one."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from litert.core.errors import LiteRtError
from litert.core.sizes import Dimension, Size
from litert.core.status import Status
from tests.vendor_reference.executables import (
    DOUBLE,
    Array,
    const,
    constant,
    ddr,
    executable,
    floats,
    in_,
    out,
    task,
)
from tests.vendor_reference.firmware_runs import clamp_fields
from tests.vendor_reference.runner import Runner, stop_measuring
from vendor_reference.device.command_stream import find_layer_runs
from vendor_reference.device.layer_run import MOST_SLOTS
from vendor_reference.device.opencl_memory import read_constant
from vendor_reference.executable.executable import (
    Argument,
    Executable,
    Function,
    LayerCommand,
    LayerTask,
    ShapeKind,
    ShapeValue,
    Task,
)
from vendor_reference.firmware.instructions import instruction_set

pytestmark = pytest.mark.each_driver


def clamp(source: Argument, result: Argument, size: Size, low: float, high: float) -> LayerTask:
    fields = {"input": 1, "result": 2, **clamp_fields(size, low, high)}
    words = instruction_set()["Pool"].words(fields)
    return LayerTask("RELU", [source, result], [LayerCommand("Pool", words)])


def made_of(tasks: Sequence[Task], inputs: int, outputs: int, **parts: Any) -> Executable:
    made = executable(DOUBLE, [], [floats(4)] * inputs, [floats(4)] * outputs, **parts)
    functions = [replace(made.functions[0], tasks=tasks)]
    return replace(made, functions=functions, instructions=[instruction_set()["Pool"]])


def test_layers_and_kernels_run_in_their_order(device: Any) -> None:
    tasks: Sequence[Task] = [
        clamp(in_(), ddr(0, 16), 4, -1, 9),
        clamp(ddr(0, 16), ddr(64, 16), 4, 0, 8),
        task("MyOp", [ddr(64, 16), ddr(0, 16)], [4]),
        clamp(ddr(0, 16), out(), 4, 1, 10),
        clamp(const(0), out(1), 4, -1, 1),
    ]
    stored = [constant(np.array([-3, 0.5, 2, -1], np.float32))]
    run = Runner(device, made_of(tasks, 1, 2, constants=stored, ddr_size=128), DOUBLE)
    assert list(run.function._tasks.launches) == [0, 2, 3]
    for _ in range(3):
        assert run([-2, 0.25, 3, 20]).tolist() == [1, 1, 6, 10]
        assert run.outputs[1].array().tolist() == [-1, 0.5, 1, -1]


def test_each_layer_is_measured(device: Any) -> None:
    tasks = [clamp(in_(), ddr(0, 16), 4, -1, 9), clamp(ddr(0, 16), out(), 4, 0, 8)]
    run = Runner(device, made_of(tasks, 1, 1, ddr_size=128), DOUBLE)
    run.function.start_measuring(with_tasks=True)
    assert run([-2, 1, 3, 20]).tolist() == [0, 1, 3, 8]
    metrics, names = stop_measuring(run.function)
    assert names == [f"task {i}, kernel 'Pool' of op 'RELU', mean_us" for i in range(2)]
    assert all(metrics[name] > 0 for name in names)
    assert run([-2, 2, 3, 20]).tolist() == [0, 2, 3, 8]


def test_more_inputs_and_outputs_than_a_launch_can_name(device: Any) -> None:
    count = 20
    tasks = [clamp(in_(i), out(i), 4, -i, i) for i in range(count)]
    run = Runner(device, made_of(tasks, count, count), DOUBLE)
    run(*[[-99, -1, 1, 99]] * count)
    for i, buffer in enumerate(run.outputs):
        assert buffer.array().tolist() == np.clip([-99, -1, 1, 99], -i, i).tolist()
    runs = find_layer_runs(tasks, MOST_SLOTS)
    assert [len(run) for run in runs.values()] == [6, 6, 6, 2]


def test_a_size_that_a_run_tells(device: Any) -> None:
    whole = made_of([clamp(in_(), out(), Dimension(0, 0), 0, 6)], 1, 1, ddr_size=64)
    told = ShapeValue("x", ShapeKind.INPUT, (-1,), (4,), 0)
    functions: list[Function] = [replace(whole.functions[0], shapes=[told])]
    run = Runner(device, replace(whole, functions=functions), DOUBLE)
    for size in (4, 2, 3, 4):
        run.outputs[0].array()[...] = -1
        run.function.set_input_shape(0, (size,))
        assert run([7, 8, 9, 10]).tolist() == [6] * size + [-1] * (4 - size)


def test_an_instruction_with_other_fields_is_refused(device: Any) -> None:
    made = made_of([clamp(in_(), out(), 4, 0, 6)], 1, 1)
    known = made.instructions[0]
    other = replace(known, fields=(*known.fields[:-1], replace(known.fields[-1], name="most")))
    with pytest.raises(LiteRtError) as error:
        Runner(device, replace(made, instructions=[other]), DOUBLE)
    assert error.value.status is Status.INCOMPATIBLE_BYTE_CODE_VERSION
    assert "'Pool'" in error.value.what and "apply_plugin" in error.value.hint


@given(
    st.lists(st.integers(1, 5), min_size=1, max_size=4),
    st.sampled_from([1, 4, 16]),
    st.data(),
)
def test_constants_in_panels(shape: Sequence[int], panel: int, data: st.DataObject) -> None:
    order = data.draw(st.permutations(range(len(shape))))
    array = np.arange(np.prod(shape), dtype=np.float32).reshape(shape) + 1
    stored = replace(constant(array), order=order, panel=panel)
    found: Array = read_constant(stored)
    rows = array.transpose(order).reshape(-1, shape[order[-1]])
    assert found.nbytes == stored.size_bytes
    panels = found.view(np.float32).reshape(-1, len(rows), panel)
    columns = np.concatenate(list(panels), axis=1)
    assert np.array_equal(columns[:, : rows.shape[1]], rows)
    assert not columns[:, rows.shape[1] :].any()

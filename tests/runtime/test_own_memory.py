"""Tests vendors that do not accept host memory: the host and the device take turns with the vendor's memory.

When the device receives its memory, the library overwrites the content that the host saw. It also records each run
on memory that the host has not unlocked. A host that reads too late or too early gets wrong results.
"""

from __future__ import annotations

import gc
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

from litert.compiled_model import CompiledModel
from litert.core.errors import LiteRtError
from litert.core.status import Status
from litert.environment import Environment
from litert.model.builder import SubgraphBuilder
from litert.options import HardwareAccelerator, Options
from litert.tensor_buffer import TensorBuffer
from tests.native_probe import OWN, MakeProbe, Probe
from tests.runtime.npu_models import FLOAT, NpuModelBuilder

X = np.array([[1, 2, 3, 4]], np.float32)
SHAPE = X.shape
KINDS = {"steady": {"own": 1}, "elsewhere each time": {"moving": 1}}


@pytest.fixture
def probe(make_probe: MakeProbe) -> Iterator[Probe]:
    """A library that computes `y = x + 1`; at the end it must have noted no host error and hold no memory."""
    made = make_probe()
    yield made
    gc.collect()
    assert not made.broken
    assert made.num_memories == 0


def load(probe: Probe, data: bytes, *, isolated: bool = False) -> CompiledModel:
    environment = Environment.create(dispatch_library_path=str(probe.path.parent))
    both = HardwareAccelerator.NPU | HardwareAccelerator.CPU
    options = Options(both, isolated=True) if isolated else None
    return CompiledModel.from_buffer(data, environment=environment, options=options)


def one_call(shape: tuple[int, ...] = SHAPE, **words: int) -> bytes:
    """Returns a model of `y = x + 1` on the NPU."""
    builder = NpuModelBuilder(words, manufacturer="Probe")
    x = builder.input("x", FLOAT, shape)
    builder.output(builder.npu("main", [x], [("y", FLOAT, shape)]))
    return builder.bytes()


def two_calls(**words: int) -> bytes:
    """Returns a model of `y = x + 2`, in two NPU calls."""
    builder = NpuModelBuilder(words, manufacturer="Probe")
    x = builder.input("x", FLOAT, SHAPE)
    between = builder.npu("first", [x], [("between", FLOAT, SHAPE)])
    builder.output(builder.npu("second", [between], [("y", FLOAT, SHAPE)]))
    return builder.bytes()


def between_cpu_ops(**words: int) -> bytes:
    """Returns a model of `z = 2x + (2x + 1)`: the NPU adds 1, and the CPU computes `2x` and the last sum."""
    builder = NpuModelBuilder(words, manufacturer="Probe")
    x = builder.input("x", FLOAT, SHAPE)
    a = builder.op("ADD", [x, x], [("a", FLOAT, SHAPE)])
    b = builder.npu("main", [a], [("b", FLOAT, SHAPE)])
    builder.output(builder.op("ADD", [a, b], [("z", FLOAT, SHAPE)]))
    return builder.bytes()


def cpu_reads_input_and_output(**words: int) -> bytes:
    """Returns a model of two outputs: `y = x + 1` on the NPU, and `z = x - y` on the CPU."""
    builder = NpuModelBuilder(words, manufacturer="Probe")
    x = builder.input("x", FLOAT, SHAPE)
    y = builder.npu("main", [x], [("y", FLOAT, SHAPE)])
    builder.output(y)
    builder.output(builder.op("SUB", [x, y], [("z", FLOAT, SHAPE)]))
    return builder.bytes()


MODELS: dict[str, tuple[Any, Any]] = {
    "one call": (one_call, lambda x: [x + 1]),
    "two calls": (two_calls, lambda x: [x + 2]),
    "between CPU ops": (between_cpu_ops, lambda x: [4 * x + 1]),
    "input and output are the CPU's too": (
        cpu_reads_input_and_output,
        lambda x: [x + 1, -np.ones_like(x)],
    ),
}


@pytest.mark.parametrize("isolated", [False, True], ids=["here", "in a process of its own"])
@pytest.mark.parametrize("words", [*KINDS.values(), {}], ids=[*KINDS, "the host's"])
@pytest.mark.parametrize("model", MODELS)
def test_results_are_right_run_after_run(
    probe: Probe, model: str, words: Any, isolated: bool
) -> None:
    make, expected = MODELS[model]
    with load(probe, make(**words), isolated=isolated) as loaded:
        inputs, outputs = loaded.create_input_buffers(0), loaded.create_output_buffers(0)
        for value in (X, X * 3, -X):
            inputs[0].write(value)
            loaded.run_by_index(0, inputs, outputs)
            for output, wanted in zip(outputs, expected(value), strict=True):
                np.testing.assert_array_equal(output.read(SHAPE, np.float32), wanted)
        np.testing.assert_array_equal(inputs[0].read(SHAPE, np.float32), -X)
        results = list(loaded.run({"x": X * 5}).values())  # from and to arrays
        for result, wanted in zip(results, expected(X * 5), strict=True):
            np.testing.assert_array_equal(result, wanted)


@pytest.mark.parametrize("words", KINDS.values(), ids=KINDS)
@pytest.mark.parametrize("model", MODELS)
def test_arrays_of_the_caller_s_are_copied(probe: Probe, model: str, words: Any) -> None:
    make, expected = MODELS[model]
    with load(probe, make(**words)) as loaded:
        given = X.copy()
        results = [np.zeros(SHAPE, np.float32) for _ in expected(X)]
        inputs = [TensorBuffer.create_from_host_memory(given)]
        outputs = [TensorBuffer.create_from_host_memory(result) for result in results]
        for value in (X, X * 3):
            given[:] = value
            loaded.run_by_index(0, inputs, outputs)
            for result, wanted in zip(results, expected(value), strict=True):
                np.testing.assert_array_equal(result, wanted)


def test_a_model_s_buffers_are_the_vendor_s_and_nothing_is_copied(probe: Probe) -> None:
    with load(probe, one_call(own=1)) as model:
        inputs, outputs = model.create_input_buffers(0), model.create_output_buffers(0)
        inputs[0].write(X)
        model.run_by_index(0, inputs, outputs)
        probe.forget()
        for _ in range(3):
            model.run_by_index(0, inputs, outputs)
        assert set(probe.calls) == {"set_scheduling_info", "set_options", "invoke"}
        np.testing.assert_array_equal(outputs[0].read(SHAPE, np.float32), X + 1)
        assert probe.notes.count("lock_memory 2") == 1


def test_memory_between_two_calls_stays_the_device_s(probe: Probe) -> None:
    with load(probe, two_calls(own=1)) as model:
        inputs, outputs = model.create_input_buffers(0), model.create_output_buffers(0)
        model.run_by_index(0, inputs, outputs)
        probe.forget()
        model.run_by_index(0, inputs, outputs)
        assert "lock_memory" not in probe.calls


def test_an_array_over_the_vendor_s_memory_is_good_between_runs(probe: Probe) -> None:
    with load(probe, one_call(own=1)) as model:
        inputs, outputs = model.create_input_buffers(0), model.create_output_buffers(0)
        x, y = inputs[0].array(), outputs[0].array()
        for value in (X, X * 3):
            x[:] = value
            model.run_by_index(0, inputs, outputs)
            np.testing.assert_array_equal(y, value + 1)
    np.testing.assert_array_equal(y, X * 3 + 1)  # the array keeps the memory alive after the model
    del inputs, outputs, x, y


def test_memory_that_moves_away_from_under_an_array_is_an_error(
    make_probe: MakeProbe, monkeypatch: pytest.MonkeyPatch
) -> None:
    probe = make_probe()
    with load(probe, one_call(own=1)) as model:
        inputs, outputs = model.create_input_buffers(0), model.create_output_buffers(0)
        y = outputs[0].array()
        model.run_by_index(0, inputs, outputs)
        monkeypatch.setenv("PROBE_FAULT", "moves")
        with pytest.raises(
            LiteRtError,
            match=r"lock returned the address 0x[0-9a-f]+, but the host still has an array at",
        ) as error:
            for _ in range(2):
                model.run_by_index(0, inputs, outputs)
        assert error.value.where == f"vendor 'Probe Inc.', in lock of buffer type {OWN}"
        with pytest.raises(
            LiteRtError, match="an array cannot share the memory of a buffer of type 150"
        ) as error:
            outputs[0].array()
        assert error.value.status is Status.UNSUPPORTED
        inputs[0].write(X)
        model.run_by_index(0, inputs, outputs)  # a run without a shared array succeeds
        np.testing.assert_array_equal(outputs[0].read(SHAPE, np.float32), X + 1)
    del y


@pytest.mark.parametrize("model", ["between CPU ops", "input and output are the CPU's too"])
def test_memory_that_begins_to_move_is_followed(
    make_probe: MakeProbe, monkeypatch: pytest.MonkeyPatch, model: str
) -> None:
    probe = make_probe()
    make, expected = MODELS[model]
    with load(probe, make(own=1)) as loaded:
        inputs, outputs = loaded.create_input_buffers(0), loaded.create_output_buffers(0)
        loaded.run_by_index(0, inputs, outputs)
        monkeypatch.setenv("PROBE_FAULT", "moves")
        for value in (X, X * 3, -X):
            inputs[0].write(value)
            loaded.run_by_index(0, inputs, outputs)
            for output, wanted in zip(outputs, expected(value), strict=True):
                np.testing.assert_array_equal(output.read(SHAPE, np.float32), wanted)
    assert not probe.broken


def test_host_memory_is_taken_where_the_vendor_takes_both(probe: Probe) -> None:
    with load(probe, one_call(both=1)) as model:
        np.testing.assert_array_equal(model.run({"x": X})["y"], X + 1)
    assert "create_memory" not in probe.calls


def test_memory_is_made_as_large_as_the_vendor_asks(probe: Probe) -> None:
    with load(probe, one_call(own=1, padded=1)) as model:
        np.testing.assert_array_equal(model.run({"x": X})["y"], X + 1)
    made = [line for line in probe.notes if line.startswith("create_memory")]
    assert made and set(made) == {f"create_memory {OWN} 116 16 rank 2"}


def test_a_vendor_that_takes_only_what_nobody_has_is_refused(probe: Probe) -> None:
    with load(probe, one_call(dma=1)) as model, pytest.raises(LiteRtError) as error:
        model.run({"x": X})
    assert (
        "its buffer type is HOST_MEMORY, but the vendor supports only DMA_BUF" in error.value.what
    )


def test_strides_that_are_not_row_order_are_refused(probe: Probe) -> None:
    data = one_call((2, 4), strided=1)  # a stride of one element in both dimensions
    with load(probe, data) as model, pytest.raises(LiteRtError) as error:
        model.run({"x": np.ones((2, 4), np.float32)})
    assert "strides of [1, 1] elements are required" in error.value.what


def test_a_buffer_goes_from_model_to_model_as_it_is(probe: Probe) -> None:
    with load(probe, one_call(own=1)) as first, load(probe, between_cpu_ops(own=1)) as second:
        inputs, between = first.create_input_buffers(0), first.create_output_buffers(0)
        outputs = second.create_output_buffers(0)
        probe.forget()
        for value in (X, X * 3):
            inputs[0].write(value)
            first.run_by_index(0, inputs, between)
            second.run_by_index(0, between, outputs)
            np.testing.assert_array_equal(outputs[0].read(SHAPE, np.float32), 4 * (value + 1) + 1)
        assert "create_memory" not in probe.calls


def test_another_vendor_s_memory_is_copied_though_its_number_is_the_same(
    make_probe: MakeProbe,
) -> None:
    one, other = make_probe(), make_probe()
    with load(one, one_call(own=1)) as first, load(other, one_call(own=1)) as second:
        inputs, between = first.create_input_buffers(0), first.create_output_buffers(0)
        outputs = second.create_output_buffers(0)
        for value in (X, X * 3):
            inputs[0].write(value)
            first.run_by_index(0, inputs, between)
            second.run_by_index(0, between, outputs)
            np.testing.assert_array_equal(outputs[0].read(SHAPE, np.float32), value + 2)
    assert not one.broken and not other.broken


def test_a_run_that_does_not_wait_leaves_memory_to_the_device(make_probe: MakeProbe) -> None:
    probe = make_probe(capabilities=3)
    with load(probe, two_calls(own=1, slow=1)) as model:
        inputs, outputs = model.create_input_buffers(0), model.create_output_buffers(0)
        for value in (X, X * 3):
            inputs[0].write(value)
            model.run_async_by_index(0, inputs, outputs)
            np.testing.assert_array_equal(outputs[0].read(SHAPE, np.float32), value + 2)
    assert "invoke" not in probe.calls and not probe.broken


def test_a_loop_s_body_works_in_the_vendor_s_memory(probe: Probe) -> None:
    """Runs `while x < 10: x = (x + 1) * 1` with the condition on the CPU."""
    builder = NpuModelBuilder({"own": 1}, manufacturer="Probe")
    x = builder.input("x", FLOAT, (1,))
    condition, body = builder.subgraph("condition"), builder.subgraph("body")
    fill_loop(builder, condition, body)
    out = [("y", FLOAT, (1,))]
    builder.output(builder.op("WHILE", [x], out, cond_subgraph_index=1, body_subgraph_index=2))
    with load(probe, builder.bytes()) as model:
        for start in (0, 7.5):
            result = model.run({"x": np.array([start], np.float32)})["y"]
            assert result == (10 if start == 0 else 10.5)


def fill_loop(builder: NpuModelBuilder, condition: SubgraphBuilder, body: SubgraphBuilder) -> None:
    limit = condition.constant("limit", np.array([10], np.float32))
    now = condition.input("now", FLOAT, (1,))
    condition.output(condition.op("LESS", [now, limit], [("go_on", "bool", (1,))]))
    before = body.input("before", FLOAT, (1,))
    one = body.constant("one", np.array([1], np.float32))
    after = builder.npu("main", [before], [("after", FLOAT, (1,))], graph=body)
    body.output(body.op("MUL", [after, one], [("product", FLOAT, (1,))]))


@pytest.mark.parametrize(
    "fault", ["refuse-create_memory", "null-memory", "null-address", "refuse-lock_memory"]
)
def test_memory_that_cannot_be_made_is_an_error(make_probe: MakeProbe, fault: str) -> None:
    probe = make_probe(fault)
    with pytest.raises(LiteRtError) as error:
        load(probe, one_call(own=1))
    assert f"of buffer type {OWN}" in error.value.where and "Probe Inc." in error.value.where
    assert probe.calls.count("device_context_destroy") == 1

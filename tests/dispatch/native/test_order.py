"""Tests that a library's functions are called in stock's order with the right arguments."""

from __future__ import annotations

import gc
import os
import threading
from collections.abc import Sequence

import pytest

from dispatch.api import MemBuffer, Metric, SchedulingInfo, TensorBuffer
from dispatch.call import Call
from dispatch.session import Session
from litert.core.element_type import ElementType
from litert.core.environment_options import EnvironmentOptions
from litert.core.errors import LiteRtError
from litert.core.status import Status
from litert.core.tensor_type import RankedTensorType
from tests.native_probe import MakeProbe, Probe

FLOATS = RankedTensorType.of(ElementType.FLOAT32, (2, 2))


def open_session(probe: Probe, **assets: bytes) -> Session:
    """Opens a session with these assets."""
    return Session(
        probe.table,
        environment_options=EnvironmentOptions(dispatch_library_path="/some/folder"),
        options={"tiles": "4"},
        assets=[(name, MemBuffer.from_memory(data)) for name, data in assets.items()],
    )


def open_call(session: Session, words: bytes = b"", inputs: int = 1, outputs: int = 1) -> Call:
    byte_code = MemBuffer.from_memory(b"...." + words, 4)
    return session.open_call(byte_code, "main", [FLOATS] * inputs, [FLOATS] * outputs)


def bind_all(call: Call, values: Sequence[float] = (1, 2, 3, 4)) -> list[TensorBuffer]:
    """Binds new buffers in the memory that the call requires: inputs with these values, then outputs."""
    made = []
    for bind, requirements in (
        (call.bind_input, call.input_requirements),
        (call.bind_output, call.output_requirements),
    ):
        for index, wanted in enumerate(requirements):
            buffer: TensorBuffer = call.allocate(wanted, FLOATS, wanted.size) or (
                TensorBuffer.allocate(FLOATS, wanted.size)
            )
            buffer.array()[:] = [values[:2], values[2:]]
            bind(index, buffer)
            made.append(buffer)
    return made


def values(buffer: TensorBuffer) -> list[float]:
    return [float(value) for value in buffer.copy().ravel()]


def test_a_model_s_life_is_as_in_stock(make_probe: MakeProbe) -> None:
    probe = make_probe()
    with open_session(probe, Gain=b"3", **{"Gain/table.bin": b"xyz"}) as session:
        call = open_call(session, b"gain", inputs=2)
        y = bind_all(call)[2]
        call.invoke()
        call.invoke()
        assert values(y) == [7, 13, 19, 25]
        bind_all(call)[2].array()
    assert probe.notes == [
        "initialize tiles = 4",
        "folder /some/folder",
        "get_vendor_id",
        "get_build_id",
        "get_capabilities",
        "check_runtime_compatibility 0.1.0",
        "device_context_create tiles = 4",
        "register_asset Gain 3",
        "register_asset Gain/table.bin xyz",
        "invocation_context_create 2 main 2 1",
        "get_input_requirements 0",
        "get_input_requirements 1",
        "get_output_requirements 0",
        *(
            line
            for kind, index, handle in (("input", 0, 0), ("input", 1, 1), ("output", 0, 2))
            for line in (
                "register_tensor_buffer type 1 size 16 packed 16 offset 0",
                f"attach_{kind} {index} {handle}",
            )
        ),
        *["set_scheduling_info 15 1 '' 0 0", "set_options none", "invoke"] * 2,
        *(
            line
            for kind, index, old, new in (
                ("input", 0, 0, 3),
                ("input", 1, 1, 0),
                ("output", 0, 2, 1),
            )
            for line in (
                "register_tensor_buffer type 1 size 16 packed 16 offset 0",
                f"attach_{kind} {index} {new}",
                f"detach_{kind} {index} {old}",
                f"unregister_tensor_buffer {old}",
            )
        ),
        "detach_output 0 1",
        "detach_input 1 0",
        "detach_input 0 3",
        "unregister_tensor_buffer 1",
        "unregister_tensor_buffer 0",
        "unregister_tensor_buffer 3",
        "invocation_context_destroy",
        "device_context_destroy",
    ]
    assert (probe.table.vendor_id, probe.table.build_id) == ("Probe Inc.", "build 7")


def test_it_is_initialized_once_for_all_models(make_probe: MakeProbe) -> None:
    probe = make_probe()
    for _ in range(3):
        open_session(probe).close()
    assert [probe.calls.count(c) for c in ("initialize", "device_context_create")] == [1, 3]


def test_runs_are_told_what_was_set(make_probe: MakeProbe) -> None:
    probe = make_probe()
    with open_session(probe) as session:
        call = open_call(session)
        bind_all(call)
        call.set_scheduling_info(
            SchedulingInfo(
                original_uid=os.getuid(),
                debug_feature_id="camera",
                priority=7,
                job_group_id=bytes(range(16)),
            )
        )
        call.set_options({"probe.power": "low"})
        call.invoke()
        call.set_options(None)
        call.invoke()
    told = [line for line in probe.notes if line.startswith("set_")]
    assert told == [
        "set_scheduling_info 15 1 'camera' 7 15",
        'set_options power = "low"',
        "set_scheduling_info 15 1 'camera' 7 15",
        "set_options none",
    ]


def test_metrics_of_each_kind_come_back(make_probe: MakeProbe) -> None:
    probe = make_probe()
    with open_session(probe) as session:
        call = open_call(session)
        bind_all(call)
        call.start_metrics(3)
        call.invoke()
        call.invoke()
        assert call.stop_metrics() == [
            Metric("runs", 2),
            Metric("power", 0.5),
            Metric("note", "well"),
            Metric("cold", True),
        ]
    assert "start_metrics_collection 3" in probe.notes
    assert probe.calls.count("destroy_metrics") == 1


def test_a_missing_asset_is_the_library_s_to_refuse(make_probe: MakeProbe) -> None:
    with open_session(make_probe()) as session:
        call = open_call(session, b"gain")
        bind_all(call)
        with pytest.raises(LiteRtError) as error:
            call.invoke()
    assert error.value.status is Status.NOT_FOUND
    assert error.value.where == "vendor 'Probe Inc.', in invoke of 'main'"


def test_what_an_asset_is_described_by_lives_as_long_as_the_asset(make_probe: MakeProbe) -> None:
    """The library keeps the pointer to the asset's description, and does not copy the description."""
    from litert.abi.definitions import ffi

    other = ffi.new("char[]", b"9")
    with open_session(make_probe(), Gain=b"2") as session:
        call = open_call(session, b"gain")
        output = bind_all(call)[1]
        gc.collect()
        kept = [ffi.new("LiteRtMemBuffer*", [-1, other, 0, 1, 0]) for _ in range(1000)]
        call.invoke()
        assert values(output) == [3, 5, 7, 9]
    assert len(kept) == 1000


def test_slots_that_may_be_null_are_not_called(make_probe: MakeProbe) -> None:
    slots = (
        "invocation_context_set_scheduling_info", "invocation_context_set_options",
        "start_metrics_collection", "device_context_destroy", "unregister_tensor_buffer",
        "invocation_context_destroy", "detach_input", "detach_output",
    )  # fmt: skip
    probe = make_probe(",".join(f"null-{slot}" for slot in slots))
    with open_session(probe) as session:
        call = open_call(session)
        y = bind_all(call)[1]
        call.invoke()
        bind_all(call)
        call.invoke()
        with pytest.raises(LiteRtError) as error:
            call.start_metrics()
    assert error.value.status is Status.UNSUPPORTED
    assert values(y) == [2, 3, 4, 5]
    assert probe.calls.count("invoke") == 2 and not probe.broken


def test_what_a_library_lacks_is_in_the_log(
    make_probe: MakeProbe, caplog: pytest.LogCaptureFixture
) -> None:
    make_probe("null-detach_input,null-device_context_destroy,null-get_metric")
    first, second = caplog.messages
    assert "lacks device_context_destroy, detach_input: objects are not released" in first
    assert "lacks get_metric: metrics of the library are not used" in second


def test_copies_of_a_library_do_not_share_contexts(make_probe: MakeProbe) -> None:
    one, other = make_probe(), make_probe()
    with open_session(one, Gain=b"2") as first, open_session(other, Gain=b"5") as second:
        calls = [open_call(session, b"gain") for session in (first, second)]
        outputs = [bind_all(call)[1] for call in calls]
        for call in calls:
            call.invoke()
        assert [values(output)[0] for output in outputs] == [3, 6]
    assert not one.broken and not other.broken


def test_a_released_session_leaves_nothing_behind(make_probe: MakeProbe) -> None:
    probe = make_probe()
    sizes = []
    for _ in range(3):
        with open_session(probe, Gain=b"1") as session:
            call = open_call(session, b"own")
            bind_all(call)
            call.invoke()
            call.set_options({"a": "b"})
            call.invoke()
        del call
        gc.collect()
        sizes.append((len(probe.table.runtime.handles._objects), probe.num_memories))  # type: ignore[attr-defined]
    assert sizes[0] == sizes[1] == sizes[2] and sizes[0][1] == 0
    assert not probe.broken


def test_the_host_s_other_functions_answer_as_stock_s(
    make_probe: MakeProbe, caplog: pytest.LogCaptureFixture
) -> None:
    probe = make_probe("check-host")
    files = len(os.listdir("/proc/self/fd"))
    open_session(probe).close()
    assert not probe.broken
    assert probe.calls.count("freed") == 1
    missing = "called get_tensor_buffer_opencl_memory, which this host does not implement"
    assert [line for line in caplog.messages if missing in line] == [f"vendor 'Probe' {missing}"]
    assert len(os.listdir("/proc/self/fd")) <= files + 1  # the fence's, which stays open


def test_sessions_run_side_by_side_in_threads(make_probe: MakeProbe) -> None:
    probe = make_probe()
    found: list[list[float]] = []

    def run(gain: bytes) -> None:
        with open_session(probe, Gain=gain) as session:
            call = open_call(session, b"gain,own")
            output = bind_all(call)[1]
            for _ in range(100):
                call.invoke()
            found.append(values(output))

    threads = [threading.Thread(target=run, args=[b"%d" % gain]) for gain in range(1, 5)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    expected = [[gain * value + 1 for value in (1, 2, 3, 4)] for gain in range(1, 5)]
    assert sorted(found) == expected and not probe.broken


@pytest.mark.parametrize("element_type", [ElementType.FLOAT32, ElementType.INT4])
def test_strides_come_as_elements(make_probe: MakeProbe, element_type: ElementType) -> None:
    rows = RankedTensorType.of(element_type, (2, 2))
    with open_session(make_probe()) as session:
        byte_code = MemBuffer.from_memory(b"....strided", 4)
        call = session.open_call(byte_code, "main", [rows], [rows])
        (wanted,) = call.input_requirements
        assert list(wanted.strides) == [1, 1]
        with pytest.raises(LiteRtError, match=r"strides of \[1, 1\] elements are required"):
            call.bind_input(0, TensorBuffer.allocate(rows, wanted.size))

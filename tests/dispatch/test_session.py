"""Tests that a session calls the dispatch table's functions in LiteRT's order, and releases in reverse order."""

from __future__ import annotations

import logging

import pytest

from dispatch.mem_buffer import MemBuffer
from dispatch.scheduling import SchedulingInfo
from dispatch.tensor_buffer import TensorBuffer
from litert.core.element_type import ElementType
from litert.core.errors import LiteRtError
from litert.core.status import Status
from litert.core.tensor_type import RankedTensorType
from tests.dispatch.strict_vendor import FLOATS, StrictDispatch, bind_all, open_call, open_session


def test_calls_come_in_the_order_of_litert() -> None:
    vendor = StrictDispatch()
    with open_session(vendor, ["MyOp/kernel.h", "MyOp"]) as session:
        call = open_call(session, inputs=2, outputs=1)
        buffers = bind_all(call)
        call.invoke()
        call.invoke()
        assert list(buffers[2].array()) == [1, 1, 1, 1]
    assert vendor.calls == [
        "initialize",
        "check_runtime_compatibility",
        "device_context_create",
        "register_asset MyOp/kernel.h",
        "register_asset MyOp",
        "invocation_context_create f",
        "get_input_requirements 0",
        "get_input_requirements 1",
        "get_output_requirements 0",
        "register_tensor_buffer 0",
        "attach_input 0 0",
        "register_tensor_buffer 1",
        "attach_input 1 1",
        "register_tensor_buffer 2",
        "attach_output 0 2",
        "set_scheduling_info",
        "set_options",
        "invoke",
        "set_scheduling_info",
        "set_options",
        "invoke",
        "detach_output 0 2",
        "detach_input 1 1",
        "detach_input 0 0",
        "unregister_tensor_buffer 2",
        "unregister_tensor_buffer 1",
        "unregister_tensor_buffer 0",
        "invocation_context_destroy",
        "device_context_destroy",
    ]
    assert not vendor.broken


def test_another_buffer_is_attached_before_the_one_before_goes() -> None:
    vendor = StrictDispatch()
    with open_session(vendor) as session:
        call = open_call(session)
        bind_all(call)
        vendor.calls.clear()
        call.bind_input(0, TensorBuffer.allocate(FLOATS))
        assert vendor.calls == [
            "register_tensor_buffer 2",
            "attach_input 0 2",
            "detach_input 0 0",
            "unregister_tensor_buffer 0",
        ]
    assert not vendor.broken


def test_binding_the_same_buffer_again_calls_nobody() -> None:
    vendor = StrictDispatch()
    with open_session(vendor) as session:
        call = open_call(session)
        source, target = bind_all(call)
        vendor.calls.clear()
        call.bind_input(0, source)
        call.bind_output(0, target)
        assert vendor.calls == []


def test_a_buffer_between_calls_is_registered_once_and_until_its_last_use() -> None:
    vendor = StrictDispatch()
    with open_session(vendor) as session:
        first, second = open_call(session, name="first"), open_call(session, name="second")
        between = TensorBuffer.allocate(FLOATS)
        first.bind_output(0, between)
        second.bind_input(0, between)
        assert vendor.count("register_tensor_buffer") == 1
        first.close()
        assert vendor.count("unregister_tensor_buffer") == 0
        second.close()
        assert vendor.count("unregister_tensor_buffer") == 1
    assert not vendor.broken


def test_a_buffer_that_comes_back_is_registered_anew() -> None:
    vendor = StrictDispatch()
    with open_session(vendor) as session:
        call = open_call(session)
        one, other = TensorBuffer.allocate(FLOATS), TensorBuffer.allocate(FLOATS)
        for buffer in (one, other, one):
            call.bind_input(0, buffer)
        assert vendor.count("register_tensor_buffer") == 3
        assert vendor.count("unregister_tensor_buffer") == 2
    assert not vendor.broken


def test_the_last_opened_call_is_closed_first() -> None:
    vendor = StrictDispatch()
    closed: list[str] = []
    vendor.destroyed = closed.append
    with open_session(vendor) as session:
        for name in ("one", "two", "three"):
            open_call(session, name=name)
    assert closed == ["three", "two", "one", "the device context"]


def test_a_table_is_initialized_once_for_all_sessions() -> None:
    vendor = StrictDispatch()
    for _ in range(3):
        open_session(vendor).close()
    assert vendor.count("initialize") == 1
    assert vendor.count("check_runtime_compatibility") == 3


def test_initialize_is_tried_again_after_an_error() -> None:
    vendor = StrictDispatch()
    vendor.failing = "initialize"
    with pytest.raises(LiteRtError, match="vendor 'Strict', in initialize"):
        open_session(vendor)
    vendor.failing = ""
    open_session(vendor).close()
    assert vendor.count("initialize") == 2


def test_closing_twice_is_closing_once() -> None:
    vendor = StrictDispatch()
    session = open_session(vendor)
    call = open_call(session)
    for close in (call.close, call.close, session.close, session.close):
        close()
    assert vendor.count("invocation_context_destroy") == 1
    assert vendor.count("device_context_destroy") == 1


def test_a_closed_call_says_so() -> None:
    vendor = StrictDispatch()
    session = open_session(vendor)
    call = open_call(session)
    bind_all(call)
    session.close()
    for use in (call.invoke, call.invoke_async, call.start_metrics, call.stop_metrics):
        with pytest.raises(LiteRtError, match=r"the NPU call is closed \(function 'f'\)"):
            use()
    with pytest.raises(LiteRtError, match="the NPU call is closed"):
        call.bind_input(0, TensorBuffer.allocate(FLOATS))
    with pytest.raises(LiteRtError, match="the session is closed"):
        open_call(session)
    assert not vendor.broken


def test_a_run_without_all_buffers_names_those_that_lack() -> None:
    vendor = StrictDispatch()
    with open_session(vendor) as session:
        call = open_call(session, inputs=2)
        call.bind_input(0, TensorBuffer.allocate(FLOATS))
        with pytest.raises(LiteRtError, match="no buffer is bound to input 1, output 0") as error:
            call.invoke()
    assert error.value.status is Status.MISSING_INPUT_TENSOR
    assert vendor.count("invoke") == 0


OTHER_TYPE = RankedTensorType.of(ElementType.INT32, (4,))
OTHER_SHAPE = RankedTensorType.of(ElementType.FLOAT32, (5,))


@pytest.mark.parametrize(
    ("buffer", "reason"),
    {
        "another element type": (
            TensorBuffer.allocate(OTHER_TYPE),
            "its tensor type is tensor<4xi32>, but tensor<4xf32> is required",
        ),
        "another shape": (
            TensorBuffer.allocate(OTHER_SHAPE),
            "its tensor type is tensor<5xf32>, but tensor<4xf32> is required",
        ),
        "too small": (
            TensorBuffer(FLOATS, TensorBuffer.allocate(FLOATS).address, 15),
            "its size is 15 bytes, but 16 bytes are required",
        ),
        "not aligned": (
            TensorBuffer(FLOATS, 0x1001, 16),
            "its address 0x1001 is not a multiple of 64 bytes",
        ),
    }.values(),
)
def test_a_buffer_that_does_not_fit_never_reaches_the_vendor(
    buffer: TensorBuffer, reason: str
) -> None:
    vendor = StrictDispatch()
    with open_session(vendor) as session:
        call = open_call(session)
        source, _ = bind_all(call)
        vendor.calls.clear()
        with pytest.raises(LiteRtError, match=reason) as error:
            call.bind_input(0, buffer)
        assert error.value.status is Status.INVALID_ARGUMENT
        assert "input 0 of 'f'" in error.value.where
        assert vendor.calls == []
        call.invoke()  # the earlier buffer is still bound
        call.bind_input(0, source)
        assert vendor.count("attach_input") == 0


@pytest.mark.parametrize("index", [-1, 1, 1000])
def test_an_index_out_of_range_is_named(index: int) -> None:
    with open_session(StrictDispatch()) as session:
        call = open_call(session)
        with pytest.raises(
            LiteRtError, match=f"output index {index} is out of range: the only output has index 0"
        ):
            call.bind_output(index, TensorBuffer.allocate(FLOATS))


def test_runs_are_told_their_scheduling_and_options() -> None:
    vendor = StrictDispatch()
    with open_session(vendor) as session:
        call = open_call(session)
        bind_all(call)
        call.invoke()
        call.set_scheduling_info(SchedulingInfo(priority=500))
        call.set_options({"power": "low"})
        call.invoke()
    assert [info.priority for info in vendor.scheduled] == [0, 500]
    assert vendor.run_options == [None, {"power": "low"}]


@pytest.mark.parametrize("status", [Status.UNSUPPORTED, Status.RUNTIME_FAILURE])
def test_a_run_goes_on_without_its_scheduling_info(
    status: Status, caplog: pytest.LogCaptureFixture
) -> None:
    vendor = StrictDispatch()
    vendor.failing, vendor.error = "set_scheduling_info", LiteRtError(status, "no such thing")
    with open_session(vendor) as session:
        call = open_call(session)
        bind_all(call)
        with caplog.at_level(logging.WARNING):
            call.invoke()
    assert vendor.count("invoke") == 1
    assert ("no such thing" in caplog.text) is (status is not Status.UNSUPPORTED)


def test_options_that_a_vendor_lacks_fail_only_the_runs_that_have_some() -> None:
    vendor = StrictDispatch()
    vendor.failing, vendor.error = "set_options", LiteRtError(Status.UNSUPPORTED, "no options")
    with open_session(vendor) as session:
        call = open_call(session)
        bind_all(call)
        call.invoke()
        call.set_options({"power": "low"})
        with pytest.raises(LiteRtError, match="no options"):
            call.invoke()


@pytest.mark.parametrize(
    ("info", "reason"),
    [
        ({"priority": -1}, "the priority of a run is -1, which is out of range"),
        ({"priority": 1001}, "the priority of a run is 1001, which is out of range"),
        ({"job_group_id": b"short"}, "the job group id has 5 bytes, which is the wrong length"),
    ],
)
def test_scheduling_info_out_of_range_is_refused(info: dict[str, object], reason: str) -> None:
    with pytest.raises(LiteRtError, match=reason):
        SchedulingInfo(**info)  # type: ignore[arg-type]


def test_metrics_are_what_the_vendor_measured() -> None:
    with open_session(StrictDispatch()) as session:
        call = open_call(session)
        bind_all(call)
        call.start_metrics(detail=2)
        with pytest.raises(LiteRtError, match="the collection of metrics is already started"):
            call.start_metrics()
        call.invoke()
        assert [(m.name, m.value) for m in call.stop_metrics()] == [("runs", 1)]
        with pytest.raises(LiteRtError, match="the collection of metrics is not started"):
            call.stop_metrics()


def test_the_device_keeps_what_it_was_given() -> None:
    """A bound buffer stays alive even if its creator drops it."""
    vendor = StrictDispatch()
    with open_session(vendor) as session:
        call = open_call(session)
        target = TensorBuffer.allocate(FLOATS)
        call.bind_input(0, TensorBuffer.allocate(FLOATS))
        call.bind_output(0, target)
        for _ in range(3):
            TensorBuffer.allocate(FLOATS).array()[:] = 9  # may reuse freed memory
            call.invoke()
        assert list(target.array()) == [1, 1, 1, 1]


def test_types_with_unknown_dimensions_take_any_shape_of_that_rank() -> None:
    class Dynamic(StrictDispatch):
        def get_input_requirements(self, *_: object) -> object:  # type: ignore[override]
            from dispatch.tensor_buffer import TensorBufferRequirements

            return TensorBufferRequirements(0)

    rows = RankedTensorType.of(ElementType.FLOAT32, (-1, 4))
    with open_session(Dynamic()) as session:
        call = session.open_call(MemBuffer.from_memory(b""), "f", [rows], [])
        for n in (1, 3):
            type_ = RankedTensorType.of(ElementType.FLOAT32, (n, 4))
            call.bind_input(0, TensorBuffer.allocate(type_))
        with pytest.raises(LiteRtError, match=r"tensor<\?x4xf32> is required"):
            call.bind_input(0, TensorBuffer.allocate(FLOATS))

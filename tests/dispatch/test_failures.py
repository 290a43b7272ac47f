"""Tests a failure in each vendor function: the error names the function, and everything opened is released."""

from __future__ import annotations

import logging

import pytest

from dispatch.session import Session
from dispatch.tensor_buffer import TensorBuffer
from litert.core.errors import LiteRtError
from litert.core.status import Status
from litert.core.tensor_type import RankedTensorType
from tests.dispatch.strict_vendor import FLOATS, StrictDispatch, bind_all, open_call, open_session


def use(vendor: StrictDispatch) -> None:
    """Uses everything that a model needs of a device: two assets, two calls, runs, other buffers, metrics."""
    with open_session(vendor, ["A", "B"]) as session:
        calls = [open_call(session, inputs=2, outputs=2, name=name) for name in ("f", "g")]
        for call in calls:
            bind_all(call)
            call.start_metrics()
            call.invoke()
        for call in calls:
            call.bind_input(1, TensorBuffer.allocate(FLOATS))
            call.bind_output(0, TensorBuffer.allocate(FLOATS))
            call.invoke()
            call.stop_metrics()


def count_calls() -> dict[str, int]:
    vendor = StrictDispatch()
    use(vendor)
    assert not vendor.broken
    return {
        function: vendor.count(function) for call in vendor.calls for function in call.split()[:1]
    }


CALLS = count_calls()
LOGGED = {
    "detach_input",
    "detach_output",
    "unregister_tensor_buffer",
    "invocation_context_destroy",
    "device_context_destroy",
    "set_scheduling_info",
}
"""Functions whose errors are only logged: those that release something, and one that LiteRT does not require."""


@pytest.mark.parametrize(
    ("function", "after"),
    [(function, after) for function, count in CALLS.items() for after in range(count)],
)
def test_a_function_that_fails_is_named_and_all_is_released(
    function: str, after: int, caplog: pytest.LogCaptureFixture
) -> None:
    vendor = StrictDispatch()
    vendor.failing, vendor.after = function, after
    caplog.set_level(logging.WARNING)
    if function in LOGGED:
        use(vendor)
        assert f"vendor 'Strict', in {function}" in caplog.text
        assert "ValueError: the queue is full" in caplog.text
    else:
        with pytest.raises(LiteRtError) as error:
            use(vendor)
        assert f"vendor 'Strict', in {function}" in error.value.where
        assert "strict_vendor.py" in error.value.where  # the file that raised
        assert "ValueError: the queue is full" in error.value.what
        assert error.value.status is Status.RUNTIME_FAILURE
        assert isinstance(error.value.__cause__, ValueError)
    if function not in LOGGED:  # a device whose release fails keeps its buffers and contexts
        assert not vendor.open
        assert not vendor.broken
    assert vendor.count("device_context_destroy") == int(any(map(is_opened, vendor.calls)))


def is_opened(call: str) -> bool:
    """Returns whether a call shows that a device context exists."""
    return call.split()[0] not in (
        "initialize", "check_runtime_compatibility", "device_context_create",
    )  # fmt: skip


@pytest.mark.parametrize("function", sorted(LOGGED - {"set_scheduling_info"}))
def test_cleanup_goes_on_after_an_error(function: str) -> None:
    """When one release fails, all others are still tried, each once."""
    vendor = StrictDispatch()
    vendor.failing = function
    use(vendor)
    for name in LOGGED - {"set_scheduling_info"}:
        assert vendor.count(name) == CALLS[name], name


@pytest.mark.parametrize("function", ["register_asset", "attach_input", "invoke"])
@pytest.mark.parametrize("error", [KeyboardInterrupt(), SystemExit(3)])
def test_an_interrupt_passes_and_all_is_released(function: str, error: BaseException) -> None:
    vendor = StrictDispatch()
    vendor.failing, vendor.after, vendor.error = function, 1, error
    with pytest.raises(type(error)):
        use(vendor)
    assert not vendor.open
    assert not vendor.broken


@pytest.mark.parametrize("function", ["register_asset", "attach_input", "invoke"])
def test_what_only_python_raises_is_an_error_of_the_vendor(function: str) -> None:
    """A `GeneratorExit` that the host lets pass would silently end a generator of the host."""
    vendor = StrictDispatch()
    vendor.failing, vendor.after, vendor.error = function, 1, GeneratorExit("done")
    with pytest.raises(LiteRtError, match="GeneratorExit: done") as error:
        use(vendor)
    assert error.value.status is Status.RUNTIME_FAILURE and function in error.value.where
    assert not vendor.open and not vendor.broken


def test_an_interrupt_while_cleaning_up_comes_after_the_cleanup() -> None:
    vendor = StrictDispatch()
    vendor.failing, vendor.error = "invocation_context_destroy", KeyboardInterrupt()
    with pytest.raises(KeyboardInterrupt):
        use(vendor)
    assert vendor.count("device_context_destroy") == 1


def test_an_error_of_the_vendor_keeps_its_status_and_hint() -> None:
    vendor = StrictDispatch()
    vendor.failing = "device_context_create"
    vendor.error = LiteRtError(Status.NOT_FOUND, "no device", "/dev/npu0", "Load its module.")
    with pytest.raises(LiteRtError) as error:
        open_session(vendor)
    assert str(error.value) == (
        "NOT_FOUND: no device (/dev/npu0; vendor 'Strict', in device_context_create). Load its module."
    )


def test_a_vendor_out_of_memory_says_so() -> None:
    vendor = StrictDispatch()
    vendor.failing, vendor.error = "device_context_create", MemoryError()
    with pytest.raises(LiteRtError) as error:
        open_session(vendor)
    assert error.value.status is Status.MEMORY_ALLOCATION_FAILURE


def test_a_call_runs_again_after_an_error() -> None:
    vendor = StrictDispatch()
    with open_session(vendor) as session:
        call = open_call(session)
        _, target = bind_all(call)
        vendor.failing = "invoke"
        with pytest.raises(LiteRtError):
            call.invoke()
        vendor.failing = ""
        call.invoke()
        assert list(target.array()) == [1, 1, 1, 1]


@pytest.mark.parametrize("function", ["get_input_requirements", "get_output_requirements"])
def test_a_call_that_could_not_be_reshaped_asks_for_all_again(function: str) -> None:
    """The vendor may have taken an input's shape before it failed, so that no run is allowed."""
    vendor = StrictDispatch()
    other = RankedTensorType.of(FLOATS.element_type, (1, 4))
    asks = ["get_input_requirements 0", "get_input_requirements 1", "get_output_requirements 0"]
    with open_session(vendor) as session:
        call = open_call(session, inputs=2)
        bind_all(call)
        vendor.failing, vendor.after = function, vendor.count(function)
        with pytest.raises(LiteRtError, match=function):
            call.reshape([other, other], [other])
        with pytest.raises(LiteRtError, match="no valid shapes, because its last reshape failed"):
            call.invoke()
        vendor.failing, vendor.calls = "", []
        call.reshape([FLOATS, other], [other])
        assert vendor.calls == asks
        call.bind_input(1, TensorBuffer.allocate(other))
        call.bind_input(0, TensorBuffer.allocate(FLOATS))
        call.bind_output(0, TensorBuffer.allocate(other))
        call.invoke()
    assert not vendor.broken


def test_a_buffer_that_cannot_be_registered_leaves_the_one_before() -> None:
    vendor = StrictDispatch()
    with open_session(vendor) as session:
        call = open_call(session)
        bind_all(call)
        vendor.failing = "register_tensor_buffer"
        with pytest.raises(LiteRtError, match="register_tensor_buffer"):
            call.bind_input(0, TensorBuffer.allocate(FLOATS))
        call.invoke()
    assert not vendor.broken


def test_a_buffer_that_cannot_be_attached_leaves_none() -> None:
    """The vendor may or may not still have the earlier buffer, so that no run may use it."""
    vendor = StrictDispatch()
    with open_session(vendor) as session:
        call = open_call(session)
        bind_all(call)
        vendor.failing = "attach_output"
        with pytest.raises(LiteRtError, match="attach_output 0 of 'f'"):
            call.bind_output(0, TensorBuffer.allocate(FLOATS))
        assert vendor.count("unregister_tensor_buffer") == 2
        with pytest.raises(LiteRtError, match="no buffer is bound to output 0"):
            call.invoke()
        vendor.failing = ""
        call.bind_output(0, TensorBuffer.allocate(FLOATS))
        call.invoke()
    assert not vendor.broken


def test_a_session_that_failed_to_open_holds_no_device() -> None:
    vendor = StrictDispatch()
    vendor.failing = "register_asset"
    with pytest.raises(LiteRtError, match="register_asset 'A'"):
        open_session(vendor, ["A"])
    assert not vendor.open
    vendor.failing = ""
    assert isinstance(open_session(vendor, ["A"]), Session)

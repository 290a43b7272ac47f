"""Tests that a library that breaks the contract causes an error with its name and the function's, and no leak."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from dispatch.loader import load_library
from litert.core.errors import LiteRtError
from litert.core.status import Status
from tests.dispatch.native.test_order import bind_all, open_call, open_session, values
from tests.native_probe import MakeProbe

NEEDED = (
    "initialize", "get_vendor_id", "get_build_id", "get_capabilities", "device_context_create",
    "get_input_requirements", "get_output_requirements", "register_tensor_buffer",
    "invocation_context_create", "attach_input", "attach_output", "invoke",
    "check_runtime_compatibility",
)  # fmt: skip


@pytest.mark.parametrize("slot", NEEDED)
def test_a_slot_that_stock_needs_is_missed_at_load(make_probe: MakeProbe, slot: str) -> None:
    with pytest.raises(
        LiteRtError, match=f"`interface` of the dispatch library lacks the function {slot}"
    ) as error:
        make_probe(f"null-{slot}")
    assert error.value.status is Status.DYNAMIC_LOADING
    assert error.value.where.endswith("libLiteRtDispatch_Probe.so")


AT_LOAD = {
    "refuse-api": (Status.TIMEOUT_EXPIRED, "LiteRtDispatchGetApi failed"),
    "version": (Status.WRONG_VERSION, "the dispatch library has version 0.1.5"),
    "null-interface": (Status.DYNAMIC_LOADING, "did not set the field `interface`"),
    "null-lock_func": (
        Status.DYNAMIC_LOADING,
        "the buffer handlers of the dispatch library lack the function lock_func",
    ),
    "handlers-host": (Status.DYNAMIC_LOADING, r"the memory types \[150, 1\]"),
    "handlers-number": (Status.DYNAMIC_LOADING, "have 1000 memory types"),
}


@pytest.mark.parametrize("fault", AT_LOAD)
def test_a_broken_table_is_not_loaded(make_probe: MakeProbe, fault: str) -> None:
    status, sentence = AT_LOAD[fault]
    with pytest.raises(LiteRtError, match=sentence) as error:
        make_probe(fault)
    assert error.value.status is status
    assert "libLiteRtDispatch_Probe.so" in error.value.where


def test_a_library_of_another_kind_is_not_loaded(tmp_path: Path) -> None:
    path = tmp_path / "libLiteRtDispatch_Acme.so"
    source = tmp_path / "acme.c"
    source.write_text("int nothing(void) { return 0; }\n")
    try:
        subprocess.run(["cc", "-shared", "-fPIC", "-o", path, source], check=True)
    except FileNotFoundError:
        pytest.skip("no C compiler")
    with pytest.raises(LiteRtError, match="does not export LiteRtDispatchGetApi"):
        load_library(str(path))


def test_a_library_that_is_not_built_is_not_said_to_lack_others(tmp_path: Path) -> None:
    path = tmp_path / "libLiteRtDispatch_Acme.so"
    with pytest.raises(LiteRtError, match="No such file") as error:
        load_library(str(path))
    assert error.value.hint.startswith("Build the library")
    path.write_bytes(b"no library")
    with pytest.raises(LiteRtError) as error:
        load_library(str(path))
    assert error.value.hint.startswith("The file exists, but is damaged or")


AT_START = {
    "refuse-initialize": (Status.TIMEOUT_EXPIRED, "the library's function failed", "initialize"),
    "refuse-get_vendor_id": (Status.TIMEOUT_EXPIRED, "function failed", "initialize"),
    "null-id": (Status.RUNTIME_FAILURE, "the vendor's id is NULL", "initialize"),
    "refuse-check_runtime_compatibility": (
        Status.TIMEOUT_EXPIRED,
        "function failed",
        "check_runtime_compatibility",
    ),
    "refuse-device_context_create": (Status.TIMEOUT_EXPIRED, "failed", "device_context_create"),
    "null-device": (
        Status.RUNTIME_FAILURE,
        "the device context that the library returned is NULL",
        "device_context_create",
    ),
    "refuse-register_asset": (Status.TIMEOUT_EXPIRED, "failed", "register_asset 'Gain'"),
}


@pytest.mark.parametrize("fault", AT_START)
def test_a_start_that_fails_names_the_function(make_probe: MakeProbe, fault: str) -> None:
    status, sentence, where = AT_START[fault]
    probe = make_probe(fault)
    with pytest.raises(LiteRtError, match=sentence) as error:
        open_session(probe, Gain=b"1")
    assert error.value.status is status
    assert error.value.where.endswith(where) and "Probe" in error.value.where
    opened = probe.calls.count("device_context_create") if "asset" in fault else 0
    assert probe.calls.count("device_context_destroy") == opened and not probe.broken


@pytest.mark.parametrize(
    ("capabilities", "fault", "sentence"),
    [
        (0, "", "the capabilities of the library are 0, but must include BASIC"),
        (6, "", "the capabilities of the library are 6, but must include BASIC"),
        (3, "null-async_interface", "needs `async_interface`, but this field is NULL"),
        (
            3,
            "null-invoke_async",
            "`async_interface` of the dispatch library lacks the function invoke_async",
        ),
        (
            5,
            "null-add_edge",
            "`graph_interface` of the dispatch library lacks the function add_edge",
        ),
    ],
)
def test_capabilities_that_are_not_there_are_refused(
    make_probe: MakeProbe, capabilities: int, fault: str, sentence: str
) -> None:
    probe = make_probe(fault, capabilities)
    with pytest.raises(LiteRtError, match=sentence):
        open_session(probe)


def test_a_part_without_its_capability_is_not_used(make_probe: MakeProbe) -> None:
    probe = make_probe("null-invoke_async")
    with open_session(probe) as session:
        call = open_call(session)
        y = bind_all(call)[1]
        call.invoke_async()[0].wait()
        assert values(y) == [2, 3, 4, 5]
    assert "invoke" in probe.calls and "invoke_async" not in probe.calls


AT_CALL = {
    "refuse-invocation_context_create": (Status.TIMEOUT_EXPIRED, "function failed"),
    "null-context": (
        Status.RUNTIME_FAILURE,
        "the invocation context that the library returned is NULL",
    ),
    "refuse-get_input_requirements": (Status.TIMEOUT_EXPIRED, "function failed"),
    "refuse-get_output_requirements": (Status.TIMEOUT_EXPIRED, "function failed"),
    "nonsense-null": (
        Status.INVALID_ARGUMENT,
        "the caller passed NULL instead of a handle of type TensorBufferRequirements",
    ),
    "nonsense-garbage": (
        Status.INVALID_ARGUMENT,
        "0x1230 is not the handle of an existing TensorBufferRequirements",
    ),
    "nonsense-types": (Status.RUNTIME_FAILURE, "supported_types is"),
    "nonsense-number": (Status.INVALID_ARGUMENT, "function failed"),
    "nonsense-strides": (
        Status.RUNTIME_FAILURE,
        "the vendor requires 7 strides, but tensor<2x2xf32> has 2 dimensions",
    ),
}


@pytest.mark.parametrize("fault", AT_CALL)
def test_a_call_that_cannot_be_made_leaves_nothing_open(make_probe: MakeProbe, fault: str) -> None:
    status, sentence = AT_CALL[fault]
    probe = make_probe(fault)
    with open_session(probe) as session, pytest.raises(LiteRtError, match=sentence) as error:
        open_call(session)
    assert error.value.status is status
    assert "vendor 'Probe Inc.'" in error.value.where and "'main'" in error.value.where
    made = probe.calls.count("invocation_context_create") if "context" not in fault else 0
    assert probe.calls.count("invocation_context_destroy") == made
    assert probe.calls[-1] == "device_context_destroy" and not probe.broken


@pytest.mark.parametrize(
    "function", ["register_tensor_buffer", "attach_input", "attach_output", "invoke", "set_options"]
)
def test_a_run_that_fails_can_be_tried_again(
    make_probe: MakeProbe, monkeypatch: pytest.MonkeyPatch, function: str
) -> None:
    probe = make_probe()
    with open_session(probe) as session:
        call = open_call(session)
        monkeypatch.setenv("PROBE_FAULT", f"refuse-{function}")
        with pytest.raises(LiteRtError) as error:
            bind_all(call)
            call.invoke()
        monkeypatch.setenv("PROBE_FAULT", "")
        y = bind_all(call)[1]
        call.invoke()
        assert values(y) == [2, 3, 4, 5]
    assert error.value.status is Status.TIMEOUT_EXPIRED and function in error.value.where
    assert not probe.broken


def test_what_a_release_answers_is_logged_and_the_rest_released(
    make_probe: MakeProbe, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    probe = make_probe()
    releases = (
        "detach_input", "detach_output", "unregister_tensor_buffer", "invocation_context_destroy",
        "device_context_destroy",
    )  # fmt: skip
    with open_session(probe) as session:
        bind_all(open_call(session))
        monkeypatch.setenv("PROBE_FAULT", ",".join(f"refuse-{name}" for name in releases))
        caplog.clear()
    for name in releases:
        assert sum(f"vendor 'Probe Inc.', in {name}" in line for line in caplog.messages) >= 1


@pytest.mark.parametrize(
    ("fault", "sentence"),
    [
        ("nonsense-metrics", "the library reports -3 metrics"),
        ("null-metric", "the name of metric 0 is NULL"),
        ("refuse-get_metric", "function failed"),
    ],
)
def test_metrics_that_are_none_are_destroyed_too(
    make_probe: MakeProbe, fault: str, sentence: str
) -> None:
    probe = make_probe(fault)
    with open_session(probe) as session:
        call = open_call(session)
        bind_all(call)
        call.start_metrics()
        call.invoke()
        with pytest.raises(LiteRtError, match=sentence) as error:
            call.stop_metrics()
    assert "stop_metrics_collection of 'main'" in error.value.where
    assert probe.calls.count("destroy_metrics") == 1

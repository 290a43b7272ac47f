"""Checks that all functions of a dispatch library return a status, and refuse NULL.

Each check passes NULL for one argument. This is an argument through which a function returns a result, or a
context that the function needs.
"""

from __future__ import annotations

from contextlib import nullcontext
from typing import Any

from litert.abi.definitions import ffi
from litert.abi.tensor_types import new_type
from litert.conformance.checks import Check, Rules, Stage, null_check
from litert.conformance.dispatch_subject import CheckedCall, DispatchSubject
from litert.conformance.vendor_calls import check_statuses, expect_status
from litert.core.status import Status

_PLACES = {
    "get_vendor_id": (0,), "get_build_id": (0,), "get_capabilities": (0,),
    "device_context_create": (2,), "device_context_destroy": (0,),
    "get_input_requirements": (0, 3), "get_output_requirements": (0, 3),
    "register_tensor_buffer": (0, 2), "unregister_tensor_buffer": (0,),
    "invocation_context_create": (1, 7), "invocation_context_destroy": (0,),
    "invocation_context_set_scheduling_info": (0,), "attach_input": (0,), "attach_output": (0,),
    "detach_input": (0,), "detach_output": (0,), "invoke": (0,), "start_metrics_collection": (0,),
    "stop_metrics_collection": (0, 1), "get_num_metrics": (0, 1), "get_metric": (0, 2),
    "destroy_metrics": (0,), "invocation_context_set_options": (0,),
}  # fmt: skip
"""For each function, the indices of the arguments that must not be NULL."""


def _refuses_null(subject: DispatchSubject, function: str, place: int) -> None:
    subject.need(function)
    with nullcontext() if function in _WITHOUT_CALL else subject.call() as call:
        arguments = _arguments(subject, function, call)
        arguments[place] = ffi.NULL
        status = subject.ready().call(function, *arguments)
        if call is not None:
            call.run(subject.case.data)  # no other call has been made
    expect_status(
        f"{function}, called with NULL as argument number {place + 1},",
        status,
        Status.INVALID_ARGUMENT,
    )


_WITHOUT_CALL = {
    "get_vendor_id", "get_build_id", "get_capabilities", "device_context_create",
    "device_context_destroy", "get_num_metrics", "get_metric", "destroy_metrics",
}  # fmt: skip
"""Functions that are checked without an invocation context; functions that take metrics get NULL instead."""


def _arguments(subject: DispatchSubject, slot: str, call: CheckedCall | None) -> list[Any]:
    """Makes valid arguments for a function; metrics are NULL, because only a run makes metrics."""
    table = subject.table.host.table
    if call is None:
        return {
            "device_context_create": [table, ffi.NULL, None],
            "get_num_metrics": [ffi.NULL, ffi.new("int*")],
            "get_metric": [ffi.NULL, 0, ffi.new("LiteRtMetric*")],
        }.get(slot, [None])
    context, device, case = call.context, call.device.handle, subject.case
    if slot == "invocation_context_create":
        function = ffi.new("char[]", case.function.encode())
        byte_code = call.device.keep(case.byte_code)
        made = ffi.new("LiteRtDispatchInvocationContext*")
        counts = [len(case.inputs), len(case.outputs)]
        return [table, device, 2, byte_code, function, *counts, made]
    if slot.endswith("_requirements"):
        made = ffi.new("LiteRtTensorBufferRequirements*")
        return [context, 0, new_type(case.outputs[0]), made]
    buffer = call.outputs[0] if slot.endswith("output") else call.inputs[0]
    return {
        "register_tensor_buffer": [
            device,
            ffi.cast("LiteRtTensorBuffer", buffer.handle),
            ffi.new("LiteRtTensorBufferHandle*"),
        ],
        "unregister_tensor_buffer": [device, buffer.registered],
        "invocation_context_set_scheduling_info": [context, ffi.new("LiteRtSchedulingInfo*")],
        "start_metrics_collection": [context, 0],
        "stop_metrics_collection": [context, ffi.new("LiteRtDispatchMetrics*")],
        "invocation_context_set_options": [context, ffi.NULL],
    }.get(
        slot,
        [context, 0, buffer.registered] if slot.startswith(("attach", "detach")) else [context],
    )


_BASE = ("api.loads", "api.interface", "initialize.no_options")

_NULL = [
    null_check(
        "dispatch.null_arguments",
        _refuses_null,
        function,
        place,
        _BASE if function in _WITHOUT_CALL else (*_BASE, "dispatch.runs"),
    )
    for function, places in _PLACES.items()
    for place in places
]

RULES = Rules(
    Stage.ANSWERS,
    (*_NULL, Check("dispatch.statuses", check_statuses, needs=("api.loads",))),
)

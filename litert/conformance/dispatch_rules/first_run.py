"""Checks a dispatch library up to its first run: table, id, capabilities, byte code, buffer requirements."""

from __future__ import annotations

from functools import partial
from typing import Any

from dispatch.native.dispatch_library import new_api, plain_api
from litert.abi.definitions import ffi
from litert.abi.tensor_types import new_type
from litert.conformance.checks import BrokenRuleError, Check, Rules, Stage, UnseenError
from litert.conformance.dispatch_subject import (
    KINDS,
    CheckedCall,
    DispatchSubject,
    create_invocation,
)
from litert.conformance.dispatch_table import GET_API, METRICS_SLOTS, OPTIONAL_SLOTS
from litert.conformance.vendor_calls import (
    expect_no_index,
    expect_ok,
    expect_status,
    expect_utf8,
)
from litert.core.status import Status

_VERSION = (0, 1, 0)
_BASIC, _ASYNC, _GRAPH = 1, 2, 4
_PARTS = (("async_interface", _ASYNC, "Async"), ("graph_interface", _GRAPH, "Graph"))


def _version(subject: DispatchSubject) -> None:
    version = subject.vendor.api.version
    found = (version.major, version.minor, version.patch)
    if found != _VERSION:
        wanted = ".".join(map(str, _VERSION))
        raise BrokenRuleError(
            f"the API version is {'.'.join(map(str, found))}, but must be {wanted}"
        )


def _interface(subject: DispatchSubject) -> None:
    table = subject.table
    for slot in dir(table.api.interface):
        if slot not in OPTIONAL_SLOTS and not table.has(slot):
            raise BrokenRuleError(f"{slot} is NULL, but the contract requires it")
    again = new_api()
    expect_ok(f"{GET_API}, called again,", table.call_plain(GET_API, plain_api(again)))
    if again.interface != table.api.interface:
        raise BrokenRuleError(f"{GET_API} returns another `interface` when it is called again")


def _room(subject: DispatchSubject) -> None:
    small = new_api()
    small.abi_header.struct_size = ffi.sizeof("LiteRtDispatchApi")
    mark = small.register_asset = ffi.cast(ffi.typeof(small.register_asset), -1)
    expect_ok(GET_API, subject.vendor.call_plain(GET_API, plain_api(small)))
    if small.register_asset != mark:
        room = ffi.sizeof("LiteRtDispatchApi")
        raise BrokenRuleError(f"{GET_API} writes beyond the {room} bytes of the host's table")


def _null_api(subject: DispatchSubject) -> None:
    status = subject.vendor.call_plain(GET_API, ffi.NULL)
    expect_status(f"{GET_API}(NULL)", status, Status.INVALID_ARGUMENT)


def _no_options(subject: DispatchSubject) -> None:
    if subject.ready().options:
        raise UnseenError("the device context has the user's options")


def _initialize_again(subject: DispatchSubject) -> None:
    table = subject.ready()
    table.succeed("initialize", table.host.table, ffi.NULL, table.options)


def _compatibility(subject: DispatchSubject) -> None:
    version = ffi.new("LiteRtApiVersion*", _VERSION)
    table = subject.ready()
    table.succeed("check_runtime_compatibility", version[0], ffi.NULL, table.options)


def _text(subject: DispatchSubject, slot: str) -> None:
    table = subject.ready()
    first, second = (
        ffi.string(answer) if (answer := table.answer(slot, "const char*")) else None
        for _ in range(2)
    )
    if first is None:
        raise BrokenRuleError(f"{slot} returns OK, but writes NULL")
    if not first and slot == "get_vendor_id":
        raise BrokenRuleError(f"{slot} returns an empty text")
    if first != second:
        raise BrokenRuleError(f"{slot} returns {first!r:.80} first, and then {second!r:.80}")
    expect_utf8(first, slot)


def _basic(subject: DispatchSubject) -> None:
    capabilities = subject.ready().answer("get_capabilities", "int")
    if not capabilities & _BASIC:
        raise BrokenRuleError(
            f"the capabilities are {capabilities}, but must include Basic ({_BASIC})"
        )


def _parts(subject: DispatchSubject) -> None:
    table = subject.ready()
    capabilities = table.answer("get_capabilities", "int")
    for part, bit, name in _PARTS:
        interface = getattr(table.api, part)
        if bool(interface) != bool(capabilities & bit):
            include = "include" if capabilities & bit else "do not include"
            filled = "not NULL" if interface else "NULL"
            raise BrokenRuleError(f"the capabilities {include} {name}, but {part} is {filled}")
        for slot in dir(interface[0]) if interface else ():
            if not getattr(interface, slot):
                raise BrokenRuleError(f"the capabilities include {name}, but its {slot} is NULL")


def _metrics_slots(subject: DispatchSubject) -> None:
    table = subject.table
    filled = [slot for slot in METRICS_SLOTS if table.has(slot)]
    if not filled:
        raise UnseenError("the vendor has no metrics")
    if len(filled) < len(METRICS_SLOTS):
        missing = next(slot for slot in METRICS_SLOTS if slot not in filled)
        raise BrokenRuleError(f"the vendor implements {filled[0]}, but {missing} is NULL")


def _device_many(subject: DispatchSubject) -> None:
    with subject.device() as first:
        with subject.device() as second:
            if first.handle == second.handle:
                raise BrokenRuleError("two device contexts have the same handle")
        with subject.device():
            pass


def _device_failure(subject: DispatchSubject) -> None:
    made, status = _create_without_runtime(subject)
    if not status:
        subject.table.call("device_context_destroy", made)
        raise UnseenError("device_context_create does not fail, even without a runtime context")
    if made:
        raise BrokenRuleError("device_context_create fails, but returns a device context")


def _create_without_runtime(subject: DispatchSubject) -> tuple[Any, int]:
    made = ffi.new("LiteRtDispatchDeviceContext*")
    status = subject.ready().call("device_context_create", ffi.NULL, ffi.NULL, made)
    return made[0], status


def _null_runtime(subject: DispatchSubject) -> None:
    _, status = _create_without_runtime(subject)
    expect_status(
        "device_context_create, called without a runtime context,",
        status,
        Status.OK,
        Status.INVALID_ARGUMENT,
    )


def _takes_byte_code(subject: DispatchSubject) -> None:
    case = subject.case
    with subject.device(case) as device:
        status, made = create_invocation(device, case, device.keep(case.byte_code))
        expect_ok("invocation_context_create", status)
        device.table.succeed("invocation_context_destroy", made)


def _requirements_fresh(subject: DispatchSubject) -> None:
    """Gets the requirements twice; the vendor must make new objects, because the host releases each object."""
    with subject.device(subject.case) as device, CheckedCall(device, subject.case) as call:
        for _ in range(2):
            call.require("input", 0, subject.case.inputs[0])
            call.require("output", 0, subject.case.outputs[0])


def _requirements_size(subject: DispatchSubject) -> None:
    for case in subject.cases or [subject.case]:
        with subject.device(case) as device, CheckedCall(device, case) as call:
            for (kind, index), wanted in call.wanted.items():
                tensor_type = case.types(kind)[index]
                if wanted.size < tensor_type.size_bytes:
                    raise BrokenRuleError(
                        f"{case.name}: the vendor requires {wanted.size} bytes for {kind} {index}, "
                        f"but its type {tensor_type} has {tensor_type.size_bytes}"
                    )


def _requirements_types(subject: DispatchSubject) -> None:
    with subject.device(subject.case) as device, CheckedCall(device, subject.case) as call:
        for (kind, index), wanted in call.wanted.items():
            if not wanted.supported_types:
                raise BrokenRuleError(
                    f"the vendor's requirements for {kind} {index} contain no buffer type"
                )


def _runs(subject: DispatchSubject) -> None:
    with subject.call() as call:
        call.run(subject.case.data)


def _requirements_index(subject: DispatchSubject) -> None:
    case = subject.case
    with subject.device(case) as device, CheckedCall(device, case) as call:
        for kind in KINDS:
            number, slot = len(case.types(kind)), f"get_{kind}_requirements"
            made = ffi.new("LiteRtTensorBufferRequirements*")
            c_type = new_type(case.outputs[0])
            status = call.table.call(slot, call.context, number, c_type, made)
            expect_no_index(slot, number, number, status)


_BASE = ("api.loads", "api.interface", "initialize.no_options")
_TAKEN = (*_BASE, "invocation.ok")
_REQUIRED = (*_TAKEN, "requirements.size", "requirements.types", "requirements.fresh")
RUNS = (*_REQUIRED, "dispatch.runs")
"""Names of the rules that checks need if they run an NPU call."""
RUNS_THE_SAME = (*RUNS, "invoke.repeatable")
"""Names of the rules that checks need if they compare the outputs of runs."""

_NULL_RUNTIME = Check(
    "dispatch.null_arguments", _null_runtime, "device_context_create, argument 0", _BASE
)

RULES = Rules(
    Stage.BEGINNING,
    (
        Check("api.loads", lambda subject: subject.vendor),
        Check("api.version", _version, needs=("api.loads",)),
        Check("api.interface", _interface, needs=("api.loads",)),
        Check("api.room", _room, needs=("api.loads",)),
        Check("api.null", _null_api, needs=("api.loads",)),
        Check("initialize.no_options", _no_options, needs=_BASE[:2]),
        Check("initialize.again", _initialize_again, needs=_BASE),
        Check("runtime_compatibility.ours", _compatibility, needs=_BASE),
        Check("ids.text", partial(_text, slot="get_vendor_id"), needs=_BASE),
        Check("ids.build", partial(_text, slot="get_build_id"), needs=_BASE),
        Check("capabilities.basic", _basic, needs=_BASE),
        Check("capabilities.parts", _parts, needs=_BASE),
        Check("metrics.slots", _metrics_slots, needs=_BASE[:2]),
        Check("device.many", _device_many, needs=_BASE),
        _NULL_RUNTIME,
        Check("device.failure", _device_failure, needs=(*_BASE, _NULL_RUNTIME.key)),
        Check("invocation.ok", _takes_byte_code, needs=_BASE),
        Check("requirements.fresh", _requirements_fresh, needs=_TAKEN),
        Check("requirements.size", _requirements_size, needs=(*_TAKEN, "requirements.fresh")),
        Check("requirements.types", _requirements_types, needs=(*_TAKEN, "requirements.fresh")),
        Check("dispatch.runs", _runs, needs=_REQUIRED),
        Check("requirements.index", _requirements_index, needs=RUNS),
    ),
)

"""Checks of the table itself, and of what it says about the vendor; nothing is run."""

from __future__ import annotations

from typing import Any

from dispatch.conformance.subject import DispatchSubject
from dispatch.conformance.table import METRICS_SLOTS, OPTIONAL_SLOTS, expect_ok, new_api
from litert.abi.conformance.checks import BrokenRuleError, Check, UnseenError
from litert.abi.conformance.statuses import expect_status
from litert.abi.definitions import ffi
from litert.core.status import Status

_VERSION = (0, 1, 0)
_BASIC, _ASYNC, _GRAPH = 1, 2, 4
_PARTS = (("async_interface", _ASYNC, "Async"), ("graph_interface", _GRAPH, "Graph"))


def _loads(subject: DispatchSubject) -> None:
    _ = subject.loaded


def _version(subject: DispatchSubject) -> None:
    version = subject.loaded.api.version
    found = (version.major, version.minor, version.patch)
    if found != _VERSION:
        raise BrokenRuleError(f"the version is {'.'.join(map(str, found))}")


def _interface(subject: DispatchSubject) -> None:
    table = subject.table
    for slot in dir(table.api.interface):
        if slot not in OPTIONAL_SLOTS and not table.has(slot):
            raise BrokenRuleError(f"{slot} is NULL, and not optional")
    if table.get_api is None:
        return
    again = new_api()
    expect_ok("LiteRtDispatchGetApi, called again,", table.fill(again))
    if again.interface != table.api.interface:
        raise BrokenRuleError(
            "LiteRtDispatchGetApi gives another `interface` when it is called again"
        )


def _null_api(subject: DispatchSubject) -> None:
    table = subject.loaded
    if table.get_api is None:
        raise UnseenError("the table was made in this process")
    expect_status("LiteRtDispatchGetApi(NULL)", table.fill(ffi.NULL), Status.INVALID_ARGUMENT)


def _no_options(subject: DispatchSubject) -> None:
    if subject.ready().options:
        raise UnseenError("the user has options for it")


def _initialize_again(subject: DispatchSubject) -> None:
    table = subject.ready()
    table.succeed("initialize", table.host.table, ffi.NULL, table.options)


def _compatibility(subject: DispatchSubject) -> None:
    version = ffi.new("LiteRtApiVersion*", _VERSION)
    table = subject.ready()
    table.succeed("check_runtime_compatibility", version[0], ffi.NULL, table.options)


def _vendor_id(subject: DispatchSubject) -> None:
    _check_text(subject, "get_vendor_id", may_be_empty=False)


def _build_id(subject: DispatchSubject) -> None:
    _check_text(subject, "get_build_id", may_be_empty=True)


def _check_text(subject: DispatchSubject, slot: str, *, may_be_empty: bool) -> None:
    table = subject.ready()
    first, second = table.text(slot), table.text(slot)
    if first is None:
        raise BrokenRuleError(f"{slot} answers OK, and gives NULL")
    if not first and not may_be_empty:
        raise BrokenRuleError(f"{slot} gives empty text")
    if first != second:
        raise BrokenRuleError(f"{slot} gives {first!r:.80} first, and then {second!r:.80}")
    try:
        first.decode()
    except UnicodeDecodeError:
        raise BrokenRuleError(f"{slot} gives {first!r:.80}, which is no text in UTF-8") from None


def _basic(subject: DispatchSubject) -> None:
    capabilities = subject.ready().capabilities()
    if not capabilities & _BASIC:
        raise BrokenRuleError(f"the capabilities are {capabilities}, without Basic ({_BASIC})")


def _parts(subject: DispatchSubject) -> None:
    table = subject.ready()
    capabilities = table.capabilities()
    for part, bit, name in _PARTS:
        interface = getattr(table.api, part)
        if bool(interface) != bool(capabilities & bit):
            said = "said" if capabilities & bit else "not said"
            filled = "filled" if interface else "NULL"
            raise BrokenRuleError(f"{name} is {said}, and {part} is {filled}")
        empty = (
            [slot for slot in dir(interface[0]) if not getattr(interface, slot)]
            if interface
            else []
        )
        if empty:
            raise BrokenRuleError(f"{name} is said, and its {empty[0]} is NULL")


def _metrics_slots(subject: DispatchSubject) -> None:
    table = subject.table
    filled = [slot for slot in METRICS_SLOTS if table.has(slot)]
    if not filled:
        raise UnseenError("the vendor has no metrics")
    if len(filled) < len(METRICS_SLOTS):
        missing = next(slot for slot in METRICS_SLOTS if slot not in filled)
        raise BrokenRuleError(f"{filled[0]} is filled, and {missing} is not")


def _device_many(subject: DispatchSubject) -> None:
    with subject.device() as first:
        with subject.device() as second:
            if first.handle == second.handle:
                raise BrokenRuleError("two device contexts have one handle")
        with subject.device():
            pass


def _device_failure(subject: DispatchSubject) -> None:
    made, status = _create_without_runtime(subject)
    if not status:
        subject.table.call("device_context_destroy", made)
        raise UnseenError("device_context_create did not fail, not even without a runtime context")
    if made:
        raise BrokenRuleError("device_context_create fails, and leaves a device context behind")


def _create_without_runtime(subject: DispatchSubject) -> tuple[Any, int]:
    made = ffi.new("LiteRtDispatchDeviceContext*")
    status = subject.ready().call("device_context_create", ffi.NULL, ffi.NULL, made)
    return made[0], status


def _null_runtime(subject: DispatchSubject) -> None:
    _, status = _create_without_runtime(subject)
    expect_status("it", status, Status.OK, Status.INVALID_ARGUMENT)


_BASE = ("api.loads", "api.interface", "initialize.no_options")

_NULL_RUNTIME = Check(
    "dispatch.null_arguments", _null_runtime, "device_context_create, argument 0", _BASE
)

CHECKS = (
    Check("api.loads", _loads),
    Check("api.version", _version, needs=("api.loads",)),
    Check("api.interface", _interface, needs=("api.loads",)),
    Check("api.null", _null_api, needs=("api.loads",)),
    Check("initialize.no_options", _no_options, needs=_BASE[:2]),
    Check("initialize.again", _initialize_again, needs=_BASE),
    Check("runtime_compatibility.ours", _compatibility, needs=_BASE),
    Check("ids.text", _vendor_id, needs=_BASE),
    Check("ids.build", _build_id, needs=_BASE),
    Check("capabilities.basic", _basic, needs=_BASE),
    Check("capabilities.parts", _parts, needs=_BASE),
    Check("metrics.slots", _metrics_slots, needs=_BASE[:2]),
    Check("device.many", _device_many, needs=_BASE),
    _NULL_RUNTIME,
    Check("device.failure", _device_failure, needs=(*_BASE, _NULL_RUNTIME.key)),
)

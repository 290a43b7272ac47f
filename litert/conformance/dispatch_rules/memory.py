"""Checks buffers (registered, attached, replaced, detached, too small), and memory that the vendor allocates."""

from __future__ import annotations

from typing import Any

from dispatch.api import LockMode
from dispatch.native.library_parts import NativeBufferHandlers
from litert.abi.definitions import ffi
from litert.conformance.checks import BrokenRuleError, Check, Rules, Stage, UnseenError
from litert.conformance.dispatch_subject import CheckedCall, DispatchSubject, for_each_kind
from litert.core.errors import LiteRtError

_ROUNDS = 3
_NO_HANDLE = 0x7E57_0000_0000_0001


def _handles(subject: DispatchSubject) -> None:
    with subject.call() as call:
        call.retired += [call.register(call.make("input", 0)) for _ in range(3)]
        handles = [each.registered for each in [*call.inputs, *call.outputs, *call.retired]]
        if len(set(handles)) < len(handles):
            raise BrokenRuleError(
                f"registered buffers have the handles {handles}, which must differ"
            )


def _again(subject: DispatchSubject) -> None:
    with subject.call() as call:
        expected = call.run(subject.case.data)
        buffer, slot = call.inputs[0], "unregister_tensor_buffer"
        for _ in range(2):
            call.table.succeed("detach_input", call.context, 0, buffer.registered)
            call.table.succeed(slot, call.device.handle, buffer.registered)
            call.register(buffer)
            call.table.succeed("attach_input", call.context, 0, buffer.registered)
        call.expect(expected, "the outputs are wrong after a buffer was registered again")


def _size(subject: DispatchSubject, kind: str) -> None:
    """Registers a buffer of half the required size, directly before a protected page."""
    case = subject.case
    size = case.types(kind)[0].size_bytes
    small = size // 2
    with subject.call() as call:
        call.write(case.data)
        buffer = call.make(kind, 0, small)
        memory = buffer.memory
        if memory is None:
            call.table.host.drop_buffer(buffer)
            raise UnseenError("the vendor itself allocates the memory of its buffers")
        try:
            call.register(buffer)
        except BrokenRuleError:  # the vendor refuses the small buffer
            return
        status = call.table.call(f"attach_{kind}", call.context, 0, buffer.registered)
        if not status:
            group = call.group(kind)
            group[0], buffer = buffer, group[0]
            status = call.table.call("invoke", call.context)
        call.retired.append(buffer)
        if damage := memory.find_damage():
            raise BrokenRuleError(damage)
        if not status:
            raise BrokenRuleError(
                f"a run accepts a buffer of {small} bytes for {kind} 0, which needs {size}"
            )


def _unknown(subject: DispatchSubject) -> None:
    slot = "unregister_tensor_buffer"
    with subject.call() as call:
        if not call.table.call(slot, call.device.handle, _NO_HANDLE):
            raise BrokenRuleError(f"{slot} accepts a handle that the vendor never returned")
        gone = call.register(call.make("input", 0)).registered
        call.table.succeed(slot, call.device.handle, gone)
        if not call.table.call(slot, call.device.handle, gone):
            raise BrokenRuleError(f"{slot} accepts the same handle twice")
        call.run(subject.case.data)


def _replaces(subject: DispatchSubject, kind: str) -> None:
    data, other = subject.case.data, subject.other_data(3)
    with subject.call() as call:
        expected = call.run(data)
        call.run(other)
        for index in range(len(call.group(kind))):
            call.attach(kind, index, call.register(call.make(kind, index)))
        kept = [buffer.read() for buffer in call.retired]
        if call.run(data) != expected:
            raise BrokenRuleError(
                f"a run does not use the buffers that were attached last as {kind}s"
            )
        if [buffer.read() for buffer in call.retired] != kept:
            raise BrokenRuleError(f"a run writes to a buffer that was replaced as an {kind}")


def _index(subject: DispatchSubject, kind: str) -> None:
    with subject.call() as call:
        group = call.group(kind)
        slot, number = f"attach_{kind}", len(group)
        if not call.table.call(slot, call.context, number, group[0].registered):
            raise BrokenRuleError(
                f"{slot} accepts index {number}, but there are only {number} {kind}s"
            )
        call.run(subject.case.data)


def _attach_unknown(subject: DispatchSubject, kind: str) -> None:
    with subject.call() as call:
        call.write(subject.case.data)
        if call.table.call(f"attach_{kind}", call.context, 0, _NO_HANDLE):
            return
        if not call.table.call("invoke", call.context):
            raise BrokenRuleError(
                f"attach_{kind} accepts a handle that the vendor never returned, and a run succeeds"
            )


def _stale(subject: DispatchSubject, kind: str) -> None:
    with subject.call() as call:
        expected = call.run(subject.case.data)
        call.attach(kind, 0, call.register(call.make(kind, 0)))
        old = call.retired[-1]
        slot = f"detach_{kind}"
        call.table.call(slot, call.context, 0, old.registered)
        call.expect(expected, f"{slot} of a replaced buffer changes which buffers a run uses")


def _lock(subject: DispatchSubject) -> None:
    """Checks that two blocks of memory keep their bytes while the blocks are locked and unlocked."""
    handlers = _handlers(subject)
    with subject.call() as call:
        pieces = [_make(handlers, call) for _ in range(2)]
        size = call.wanted["input", 0].size
        data = [b"", b""]
        for turn in range(_ROUNDS):
            for number, memory in enumerate(pieces):
                before, data[number] = data[number], bytes([1 + turn + 16 * number]) * size
                if _swap(handlers, memory, data[number]) != before and turn:
                    raise BrokenRuleError(
                        "memory has lost bytes that the host wrote during an earlier lock"
                    )
        for memory in pieces:
            handlers.destroy(memory)
        call.run(subject.case.data)


def _ends(subject: DispatchSubject) -> None:
    handlers = _handlers(subject)
    with subject.call() as call:
        memory = _make(handlers, call)
        _swap(handlers, memory, b"\x01" * call.wanted["input", 0].size)
    try:
        handlers.destroy(memory)
    except LiteRtError as error:
        raise BrokenRuleError(f"destroy_func returns {error.status.name}") from None


def _handlers(subject: DispatchSubject) -> NativeBufferHandlers:
    definition = subject.vendor.api.tensor_buffer_handlers_def
    if not definition:
        raise UnseenError("the vendor has no buffer handlers")
    try:
        return NativeBufferHandlers(definition, "")
    except LiteRtError as error:
        raise BrokenRuleError(error.what) from None


def _make(handlers: NativeBufferHandlers, call: CheckedCall) -> Any:
    """Allocates memory for the first input, of a buffer type in the vendor's requirements."""
    wanted = call.wanted["input", 0]
    for kind in wanted.supported_types:
        if kind in handlers.supported_types:
            memory = handlers.create(call.case.inputs[0], int(kind), wanted.size)
            if memory is None:
                raise BrokenRuleError("create_func returns OK, but allocates no memory")
            return memory
    raise UnseenError(
        "the vendor's requirements contain no buffer type that its buffer handlers support"
    )


def _swap(handlers: NativeBufferHandlers, memory: Any, data: bytes) -> bytes:
    """Replaces the bytes of memory, and returns the old bytes."""
    address = handlers.lock(memory, LockMode.READ_WRITE)
    if not address:
        raise BrokenRuleError("lock_func gives NULL")
    shown = ffi.buffer(ffi.cast("char*", address), len(data))
    found = bytes(shown)
    shown[:] = data
    handlers.unlock(memory)
    return found


_BASE = ("api.loads", "api.interface", "initialize.no_options", "dispatch.runs")
_SAME = (*_BASE, "invoke.repeatable")

_OWN = (*_BASE[:3], "memory.handlers", "dispatch.runs")

RULES = Rules(
    Stage.VARIATIONS,
    (
        Check("buffers.handles", _handles, needs=_BASE),
        Check("buffers.again", _again, needs=_SAME),
        *for_each_kind("buffers.size", _size, _BASE),
        Check("buffers.unknown", _unknown, needs=_BASE),
        *for_each_kind("attach.replaces", _replaces, _SAME),
        *for_each_kind("attach.index", _index, _BASE),
        *for_each_kind("attach.unknown", _attach_unknown, _BASE),
        *for_each_kind("detach.stale", _stale, (*_SAME, "attach.replaces")),
        Check("memory.handlers", _handlers, needs=("api.loads",)),
        Check("memory.lock", _lock, needs=_OWN),
        Check("memory.ends", _ends, needs=_OWN),
    ),
)

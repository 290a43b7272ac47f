"""Checks of buffers: registered, attached, replaced, detached, too small. And of the vendor's own memory."""

from __future__ import annotations

from functools import partial
from typing import Any

from dispatch.api import LockMode
from dispatch.native.library_parts import NativeBufferHandlers
from litert.abi.definitions import ffi
from litert.conformance.checks import BrokenRuleError, Check, Rules, Stage, UnseenError
from litert.conformance.dispatch_subject import KINDS, Attached, CheckedCall, DispatchSubject
from litert.core.errors import LiteRtError

_ROUNDS = 3
_NO_HANDLE = 0x7E57_0000_0000_0001


def _handles(subject: DispatchSubject) -> None:
    with subject.call() as call:
        extra = [call.register(call.make("input", 0)) for _ in range(3)]
        call.retired += extra
        handles = [attached.handle for attached in [*call.inputs, *call.outputs, *extra]]
        if len(set(handles)) < len(handles):
            raise BrokenRuleError(f"registrations that are all alive have the handles {handles}")


def _again(subject: DispatchSubject) -> None:
    with subject.call() as call:
        expected = call.run(subject.case.data)
        attached = call.inputs[0]
        for _ in range(2):
            call.table.succeed("detach_input", call.context, 0, attached.handle)
            slot = "unregister_tensor_buffer"
            call.table.succeed(slot, call.device.handle, attached.handle)
            attached = call.inputs[0] = call.register(attached.buffer)
            call.table.succeed("attach_input", call.context, 0, attached.handle)
        call.expect(expected, "a buffer that was registered anew gives other outputs")


def _size(subject: DispatchSubject, kind: str) -> None:
    """Registers a buffer of half the size; nobody may touch what follows it."""
    case = subject.case
    types = case.types(kind)
    small = types[0].size_bytes // 2
    with subject.call() as call:
        call.write(case.data)
        buffer = call.make(kind, 0, small)
        if buffer.memory is None:
            call.table.host.drop_buffer(buffer)
            raise UnseenError("the vendor makes the memory of its buffers itself")
        handle = ffi.new("LiteRtTensorBufferHandle*")
        passed = ffi.cast("LiteRtTensorBuffer", buffer.handle)
        status = call.table.call("register_tensor_buffer", call.device.handle, passed, handle)
        if status:
            return
        attached = Attached(buffer, int(handle[0]))
        status = call.table.call(f"attach_{kind}", call.context, 0, attached.handle)
        if not status:
            group = call.group(kind)
            call.retired.append(group[0])
            group[0] = attached
            status = call.table.call("invoke", call.context)
        else:
            call.retired.append(attached)
        if damage := buffer.memory.find_damage():
            raise BrokenRuleError(damage)
        if not status:
            raise BrokenRuleError(
                f"a run takes a buffer of {small} bytes for {kind} 0, which has {types[0].size_bytes}"
            )


def _unknown(subject: DispatchSubject) -> None:
    slot = "unregister_tensor_buffer"
    with subject.call() as call:
        for handle, what in ((_NO_HANDLE, "a handle that was never given"), (None, "one twice")):
            if handle is None:
                attached = call.register(call.make("input", 0))
                handle = attached.handle
                call.table.succeed(slot, call.device.handle, handle)
            if not call.table.call(slot, call.device.handle, handle):
                raise BrokenRuleError(f"{slot} takes {what}")
        call.run(subject.case.data)


def _replaces(subject: DispatchSubject, kind: str) -> None:
    data, other = subject.case.data, subject.other_data(3)
    with subject.call() as call:
        expected = call.run(data)
        call.run(other)
        group = call.group(kind)
        for index in range(len(group)):
            call.attach(kind, index, call.register(call.make(kind, index)))
        kept = [attached.buffer.read() for attached in call.retired]
        if call.run(data) != expected:
            raise BrokenRuleError(
                f"a run does not use the buffers that were attached as {kind}s last"
            )
        if [attached.buffer.read() for attached in call.retired] != kept:
            raise BrokenRuleError(
                f"a run writes a buffer that another was attached in the place of, {kind}s"
            )


def _index(subject: DispatchSubject, kind: str) -> None:
    with subject.call() as call:
        group = call.group(kind)
        if not call.table.call(f"attach_{kind}", call.context, len(group), group[0].handle):
            raise BrokenRuleError(
                f"attach_{kind} takes index {len(group)}, where there are {len(group)}"
            )
        call.run(subject.case.data)


def _attach_unknown(subject: DispatchSubject, kind: str) -> None:
    with subject.call() as call:
        call.write(subject.case.data)
        if call.table.call(f"attach_{kind}", call.context, 0, _NO_HANDLE):
            return
        if not call.table.call("invoke", call.context):
            raise BrokenRuleError(
                f"attach_{kind} takes a handle that was never given, and a run succeeds"
            )


def _stale(subject: DispatchSubject, kind: str) -> None:
    with subject.call() as call:
        expected = call.run(subject.case.data)
        call.attach(kind, 0, call.register(call.make(kind, 0)))
        old = call.retired[-1]
        call.table.call(f"detach_{kind}", call.context, 0, old.handle)
        call.expect(
            expected, f"detach_{kind} of a buffer that was replaced changes what a run uses"
        )


def _handlers(subject: DispatchSubject) -> None:
    _read(subject)


def _lock(subject: DispatchSubject) -> None:
    """Two pieces of memory keep different bytes, however often they are locked."""
    handlers = _read(subject)
    with subject.call() as call:
        pieces = [_make(handlers, call) for _ in range(2)]
        size = call.wanted["input", 0].size
        data = [bytes(size), bytes(size)]
        for round_number in range(_ROUNDS):
            for number, memory in enumerate(pieces):
                found = _swap(
                    handlers, memory, size, bytes([1 + round_number + 16 * number]) * size
                )
                if round_number and found != data[number]:
                    raise BrokenRuleError("a lock does not show what was written at the one before")
                data[number] = bytes([1 + round_number + 16 * number]) * size
        for memory in pieces:
            handlers.destroy(memory)
        call.run(subject.case.data)


def _ends(subject: DispatchSubject) -> None:
    handlers = _read(subject)
    with subject.call() as call:
        memory = _make(handlers, call)
        size = call.wanted["input", 0].size
        _swap(handlers, memory, size, b"\x01" * size)
    try:
        handlers.destroy(memory)
    except LiteRtError as error:
        raise BrokenRuleError(f"destroy_func answers {error.status.name}") from None


def _read(subject: DispatchSubject) -> NativeBufferHandlers:
    definition = subject.vendor.api.tensor_buffer_handlers_def
    if not definition:
        raise UnseenError("the vendor makes no memory of its own")
    try:
        return NativeBufferHandlers(definition, "")
    except LiteRtError as error:
        raise BrokenRuleError(error.what) from None


def _make(handlers: NativeBufferHandlers, call: CheckedCall) -> Any:
    """Memory for the first input, of a type that the vendor asks for."""
    wanted = call.wanted["input", 0]
    for kind in wanted.supported_types:
        if kind in handlers.supported_types:
            memory = handlers.create(call.case.inputs[0], int(kind), wanted.size)
            if memory is None:
                raise BrokenRuleError("create_func answers OK, and makes nothing")
            return memory
    raise UnseenError("the vendor asks for none of the memory that it makes")


def _swap(handlers: NativeBufferHandlers, memory: Any, size: int, data: bytes) -> bytes:
    """What memory holds, and then other bytes in its place."""
    address = handlers.lock(memory, LockMode.READ_WRITE)
    if not address:
        raise BrokenRuleError("lock_func gives NULL")
    shown = ffi.buffer(ffi.cast("char*", address), size)
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
        *(Check("buffers.size", partial(_size, kind=kind), kind, _BASE) for kind in KINDS),
        Check("buffers.unknown", _unknown, needs=_BASE),
        *(Check("attach.replaces", partial(_replaces, kind=kind), kind, _SAME) for kind in KINDS),
        *(Check("attach.index", partial(_index, kind=kind), kind, _BASE) for kind in KINDS),
        *(
            Check("attach.unknown", partial(_attach_unknown, kind=kind), kind, _BASE)
            for kind in KINDS
        ),
        *(
            Check("detach.stale", partial(_stale, kind=kind), kind, (*_SAME, "attach.replaces"))
            for kind in KINDS
        ),
        Check("memory.handlers", _handlers, needs=("api.loads",)),
        Check("memory.lock", _lock, needs=_OWN),
        Check("memory.ends", _ends, needs=_OWN),
    ),
)

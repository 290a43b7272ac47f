"""Checks of the vendor's own memory: made, locked, destroyed."""

from __future__ import annotations

from typing import Any

from dispatch.api import LockMode
from dispatch.conformance.session import Call
from dispatch.conformance.subject import DispatchSubject
from dispatch.native.buffer_handlers import NativeBufferHandlers
from litert.abi.conformance.checks import BrokenRuleError, Check, UnseenError
from litert.abi.definitions import ffi
from litert.core.errors import LiteRtError

_ROUNDS = 3


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
    table = subject.loaded
    definition = table.api.tensor_buffer_handlers_def
    if not definition:
        raise UnseenError("the vendor makes no memory of its own")
    try:
        return NativeBufferHandlers(definition, "")
    except LiteRtError as error:
        raise BrokenRuleError(error.what) from None


def _make(handlers: NativeBufferHandlers, call: Call) -> Any:
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


_BASE = ("api.loads", "api.interface", "initialize.no_options", "memory.handlers", "dispatch.runs")

CHECKS = (
    Check("memory.handlers", _handlers, needs=("api.loads",)),
    Check("memory.lock", _lock, needs=_BASE),
    Check("memory.ends", _ends, needs=_BASE),
)

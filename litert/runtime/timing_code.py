"""Machine code that measures the ops that the interpreter calls, and the operators that XNNPACK reports.

A Python function around each op would take as long as a small op, and would hold the GIL. The code reads the clock
of `time.perf_counter_ns` before and after an op, and writes an event to a log.
"""

from __future__ import annotations

import ctypes
import mmap
import os
import struct
from collections.abc import Iterator, Sequence
from functools import cache
from typing import NamedTuple

from litert.core.machine_code import Executable, for_machine

CAPACITY = 1 << 17
"""Largest number of events in one run. The log has 12 MiB, but only pages with events take memory."""

_EVENT = struct.Struct("<q4Q56s")
_OPERATOR_EVENT = struct.Struct("<q3Q64s")
_XNNPACK = -1  # written instead of an op's number
_OPERATOR = 8  # `DELEGATE_PROFILED_OPERATOR_INVOKE_EVENT`
_HEADER = 4  # words before the originals: clock, address of the next event, end of the log, number of lost events
_NUM_SLOTS = 16  # slots of the profiler's table; only some of them are known
_ADD_EVENT = 5  # the slot of `AddEvent`, after two destructors, `BeginEvent` and two `EndEvent`
_STUB_SIZE = 16


class OpEvent(NamedTuple):
    """A run of an op, with start and end as times of `time.perf_counter_ns`, in nanoseconds."""

    number: int
    start_ns: int
    end_ns: int


class OperatorEvent(NamedTuple):
    """A run of one of XNNPACK's operators, as a part of the op whose event comes next in the log."""

    name: str
    duration_us: int


class Profiler:
    """The object to which `TfLiteContext.profiler` points.

    XNNPACK adds an event to this object for each of its operators.

    An interpreter's contexts contain the object's address, so the object must live as long as the interpreter.
    """

    def __init__(self) -> None:
        """Ignores all events until the object has a log.

        Raises:
          LiteRtError: UNSUPPORTED, if this kind of machine is not supported, or the system does not allow
            generated code.
        """
        code = _profiler_code()
        nothing = code.address + _EVENT_SIZES[os.uname().machine]
        self._table = (ctypes.c_size_t * _NUM_SLOTS)(*[nothing] * _NUM_SLOTS)
        self._table[_ADD_EVENT] = code.address
        self._object = (ctypes.c_size_t * 2)(ctypes.addressof(self._table), 0)

    @property
    def address(self) -> int:
        """Address of the C++ object; its first word points to its virtual function table."""
        return ctypes.addressof(self._object)

    def write_to(self, log: EventLog | None) -> None:
        """Sets the log to which events are written from now on; with None, events are ignored."""
        self._object[1] = log.address if log is not None else 0


class EventLog:
    """Machine code functions that measure ops, and the measurements that they made."""

    def __init__(self, originals: Sequence[int]) -> None:
        """Creates a measuring function for each original function; the measuring function calls the original.

        Raises:
          LiteRtError: UNSUPPORTED, in the same cases as in `Profiler`.
        """
        clock = ctypes.cast(ctypes.CDLL(None).clock_gettime, ctypes.c_void_p).value or 0
        self._memory = mmap.mmap(-1, CAPACITY * _EVENT.size)
        start = ctypes.addressof(ctypes.c_char.from_buffer(self._memory))
        self._start, end = start, start + CAPACITY * _EVENT.size
        self._state = (ctypes.c_size_t * (_HEADER + len(originals)))(
            clock, start, end, 0, *originals
        )
        self._code = Executable(measuring_code(os.uname().machine, self.address, len(originals)))

    @property
    def address(self) -> int:
        """Address of the state that the machine code reads and updates."""
        return ctypes.addressof(self._state)

    @property
    def functions(self) -> Sequence[int]:
        """Addresses of the measuring functions."""
        first, count = self._code.address, len(self._state) - _HEADER
        return range(first, first + count * _STUB_SIZE, _STUB_SIZE)

    def take(self) -> tuple[list[OpEvent | OperatorEvent], int]:
        """Returns the events since the last call, ordered by the ops' end times, and the number of lost events."""
        size, lost = self._state[1] - self._start, self._state[3]
        self._state[1], self._state[3] = self._start, 0
        return list(_read(self._memory[:size])), lost


def _read(data: bytes) -> Iterator[OpEvent | OperatorEvent]:
    for place, event in enumerate(_EVENT.iter_unpack(data)):
        number, start_s, start_ns, end_s, end_ns, _ = event
        if number != _XNNPACK:
            yield OpEvent(number, start_s * 10**9 + start_ns, end_s * 10**9 + end_ns)
            continue
        _, kind, duration_us, _, name = _OPERATOR_EVENT.unpack_from(data, place * _EVENT.size)
        if kind & 0xFFFFFFFF == _OPERATOR:
            text = name.partition(b"\0")[0].decode(errors="replace")
            yield OperatorEvent(text, duration_us)


@cache
def _profiler_code() -> Executable:
    """Returns the code of `AddEvent`, and of a function that does nothing."""
    return Executable(profiler_code(os.uname().machine))


def profiler_code(machine: str) -> bytes:
    """Code of `AddEvent(this, tag, kind, microseconds, index)`, followed by a function that returns 0.

    The second word of `this` points to the log, or is NULL.
    """
    return for_machine(_PROFILERS, machine)


def measuring_code(machine: str, state: int, count: int) -> bytes:
    """A 16-byte `function(context, node)` for each original function, and the code that these functions share.

    The state contains the address of a function like `clock_gettime`, the address of the next event, the end of
    the log, the number of lost events, and the addresses of the original functions.
    """
    common = for_machine(_COMMON, machine).replace(_PLACEHOLDER, struct.pack("<Q", state))
    stubs = b""
    for number in range(count):
        distance = (count - number) * _STUB_SIZE
        if machine == "x86_64":  # mov eax, number; jmp common
            stub = struct.pack("<BiBi", 0xB8, number, 0xE9, distance - 10)
        else:  # movz w9, number; movk w9, number, lsl 16; b common
            low, high = 0x52800009 | (number & 0xFFFF) << 5, 0x72A00009 | (number >> 16) << 5
            stub = struct.pack("<III", low, high, 0x14000000 | (distance - 8) // 4)
        stubs += stub.ljust(_STUB_SIZE, b"\0")
    return stubs + common


_PLACEHOLDER = b"\x88\x77\x66\x55\x44\x33\x22\x11"

_COMMON = {
    "x86_64": bytes.fromhex(
        "53"  # push rbx
        "55"  # push rbp
        "4883ec38"  # sub rsp, 56
        "89c3"  # mov ebx, eax
        "48bd8877665544332211"  # mov rbp, state
        "48897c2420"  # mov [rsp + 32], rdi
        "4889742428"  # mov [rsp + 40], rsi
        "bf01000000"  # mov edi, CLOCK_MONOTONIC: that of `time.perf_counter_ns`
        "4889e6"  # mov rsi, rsp
        "ff5500"  # call [rbp]: the clock
        "488b7c2420"  # mov rdi, [rsp + 32]
        "488b742428"  # mov rsi, [rsp + 40]
        "ff54dd20"  # call [rbp + 8 * rbx + 32]: the original
        "89442420"  # mov [rsp + 32], eax
        "bf01000000"  # mov edi, CLOCK_MONOTONIC
        "488d742410"  # lea rsi, [rsp + 16]
        "ff5500"  # call [rbp]: the clock
        "488b5508"  # mov rdx, [rbp + 8]: the next event
        "483b5510"  # cmp rdx, [rbp + 16]: the end
        "731e"  # jae lost
        "48891a"  # mov [rdx], rbx
        "0f100424"  # movups xmm0, [rsp]
        "0f114208"  # movups [rdx + 8], xmm0
        "0f10442410"  # movups xmm0, [rsp + 16]
        "0f114218"  # movups [rdx + 24], xmm0
        "4883c260"  # add rdx, 96
        "48895508"  # mov [rbp + 8], rdx
        "eb04"  # jmp done
        "48ff4518"  # lost: inc [rbp + 24]
        "8b442420"  # done: mov eax, [rsp + 32]
        "4883c438"  # add rsp, 56
        "5d"  # pop rbp
        "5b"  # pop rbx
        "c3"  # ret
    ),
    "aarch64": struct.pack(
        "<38IQ",
        0xA9BB7BFD,  # stp x29, x30, [sp, -80]!
        0x910003FD,  # mov x29, sp
        0xA90153F3,  # stp x19, x20, [sp, 16]
        0x2A0903F3,  # mov w19, w9
        0x58000454,  # ldr x20, state
        0xA90207E0,  # stp x0, x1, [sp, 32]
        0x52800020,  # mov w0, CLOCK_MONOTONIC
        0x9100C3E1,  # add x1, sp, 48
        0xF9400288,  # ldr x8, [x20]: the clock
        0xD63F0100,  # blr x8
        0xA94207E0,  # ldp x0, x1, [sp, 32]
        0x91008288,  # add x8, x20, 32
        0xF8737908,  # ldr x8, [x8, x19, lsl 3]: the original
        0xD63F0100,  # blr x8
        0xB90023E0,  # str w0, [sp, 32]
        0x52800020,  # mov w0, CLOCK_MONOTONIC
        0x910103E1,  # add x1, sp, 64
        0xF9400288,  # ldr x8, [x20]: the clock
        0xD63F0100,  # blr x8
        0xA940AA89,  # ldp x9, x10, [x20, 8]: the next event, the end
        0xEB0A013F,  # cmp x9, x10
        0x54000122,  # b.hs lost
        0xA9432FEA,  # ldp x10, x11, [sp, 48]
        0xA94437EC,  # ldp x12, x13, [sp, 64]
        0xF9000133,  # str x19, [x9]
        0xA900AD2A,  # stp x10, x11, [x9, 8]
        0xA901B52C,  # stp x12, x13, [x9, 24]
        0x91018129,  # add x9, x9, 96
        0xF9000689,  # str x9, [x20, 8]
        0x14000004,  # b done
        0xF9400E89,  # lost: ldr x9, [x20, 24]
        0x91000529,  # add x9, x9, 1
        0xF9000E89,  # str x9, [x20, 24]
        0xB94023E0,  # done: ldr w0, [sp, 32]
        0xA94153F3,  # ldp x19, x20, [sp, 16]
        0xA8C57BFD,  # ldp x29, x30, [sp], 80
        0xD65F03C0,  # ret
        0xD503201F,  # nop
        0x1122334455667788,  # state
    ),
}
"""Code that the measuring functions share; the op's number is in register eax (x86-64) or w9 (aarch64)."""

_ADD = {
    "x86_64": bytes.fromhex(
        "488b4708"  # mov rax, [rdi + 8]
        "4885c0"  # test rax, rax
        "743c"  # jz done
        "4c8b4808"  # mov r9, [rax + 8]: the next event
        "4c3b4810"  # cmp r9, [rax + 16]: the end
        "7333"  # jae lost
        "49c701ffffffff"  # mov [r9], -1
        "49895108"  # mov [r9 + 8], rdx
        "49894910"  # mov [r9 + 16], rcx
        "4d894118"  # mov [r9 + 24], r8
        "498d7920"  # lea rdi, [r9 + 32]
        "4983c160"  # add r9, 96
        "4c894808"  # mov [rax + 8], r9
        "8a0e"  # copy: mov cl, [rsi]
        "880f"  # mov [rdi], cl
        "84c9"  # test cl, cl
        "740b"  # jz done
        "48ffc6"  # inc rsi
        "48ffc7"  # inc rdi
        "4c39cf"  # cmp rdi, r9
        "72ed"  # jb copy
        "c3"  # done: ret
        "48ff4018"  # lost: inc [rax + 24]
        "c3"  # ret
    ),
    "aarch64": struct.pack(
        "<21I",
        0xF9400409,  # ldr x9, [x0, 8]
        0xB40001E9,  # cbz x9, done
        0xA940AD2A,  # ldp x10, x11, [x9, 8]: the next event, the end
        0xEB0B015F,  # cmp x10, x11
        0x540001A2,  # b.hs lost
        0x9280000B,  # mov x11, -1
        0xA900094B,  # stp x11, x2, [x10]
        0xA9011143,  # stp x3, x4, [x10, 16]
        0x9100814C,  # add x12, x10, 32
        0x9101814A,  # add x10, x10, 96
        0xF900052A,  # str x10, [x9, 8]
        0x3840142B,  # copy: ldrb w11, [x1], 1
        0x3800158B,  # strb w11, [x12], 1
        0x3400006B,  # cbz w11, done
        0xEB0A019F,  # cmp x12, x10
        0x54FFFF83,  # b.lo copy
        0xD65F03C0,  # done: ret
        0xF9400D2A,  # lost: ldr x10, [x9, 24]
        0x9100054A,  # add x10, x10, 1
        0xF9000D2A,  # str x10, [x9, 24]
        0xD65F03C0,  # ret
    ),
}
_NOTHING = {
    "x86_64": bytes.fromhex("31c0c3"),  # xor eax, eax; ret
    "aarch64": struct.pack("<2I", 0x52800000, 0xD65F03C0),  # mov w0, 0; ret
}
_EVENT_SIZES = {machine: len(code) for machine, code in _ADD.items()}
_PROFILERS = {machine: code + _NOTHING[machine] for machine, code in _ADD.items()}

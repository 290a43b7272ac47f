"""Prints a last message if native code crashes a command, after the stack trace of `faulthandler`.

The signal handlers that print the message are machine code, because Python code cannot run after a crash.
"""

from __future__ import annotations

import ctypes
import faulthandler
import os
import signal
import struct
from contextlib import suppress

from litert.core.errors import LiteRtError
from litert.core.machine_code import Executable, for_machine
from litert.core.mapped_files import SIGACTION

_SIGNALS = (signal.SIGSEGV, signal.SIGBUS, signal.SIGILL, signal.SIGFPE, signal.SIGABRT)
_ON_STACK = 0x08000000
_WAIT_NS = 200_000_000


def install_crash_note(text: str) -> None:
    """Installs the signal handlers; does nothing if the system forbids generated code."""
    libc, note = ctypes.CDLL(None), ctypes.create_string_buffer(text.encode())
    with suppress(LiteRtError):
        calls = (getattr(libc, name) for name in ("signal", "raise"))
        signal_, raise_ = (ctypes.cast(call, ctypes.c_void_p).value or 0 for call in calls)
        size = ctypes.c_uint64(len(note.value))
        places = ctypes.addressof(note), ctypes.addressof(size)
        code = Executable(note_code(os.uname().machine, *places, signal_, raise_))
        # These references stay forever, because the process may crash while it ends.
        ctypes.pythonapi.Py_IncRef(ctypes.py_object((note, size, code)))
        of_mapped_files = ctypes.create_string_buffer(struct.calcsize(SIGACTION))
        libc.sigaction(signal.SIGBUS, None, of_mapped_files)
        # After its stack trace, `faulthandler` calls the handlers that it found when it was enabled.
        faulthandler.disable()
        action = struct.pack(SIGACTION, code.address, bytes(128), _ON_STACK, 0)
        for number in _SIGNALS:
            libc.sigaction(number, action, None)
        faulthandler.enable()
        libc.sigaction(signal.SIGBUS, of_mapped_files, None)


def note_code(machine: str, text: int, size: int, signal_: int, raise_: int) -> bytes:
    """Returns the machine code of a handler that writes a text to standard error, and then ends the process.

    Several threads may crash: the handler waits first, so that the stack trace of the first crash is complete.

    Args:
      machine: Processor architecture: x86_64 or aarch64.
      text: Address of the text.
      size: Address of the text's size in bytes, a number of 64 bits; the handler sets it to 0, so that it writes
        the text only once.
      signal_: Address of a function with the same behavior as C's `signal`.
      raise_: Address of a function with the same behavior as C's `raise`.

    Raises:
      LiteRtError: UNSUPPORTED, if there is no code for this processor architecture.
    """
    values = struct.pack("<6Q", text, size, signal_, raise_, 0, _WAIT_NS)
    return for_machine(_HANDLERS, machine) + values


_HANDLERS = {
    "x86_64": bytes.fromhex(
        "57"  # push rdi: the signal's number
        "488d3d5b000000"  # lea rdi, [rip + 91]: wait
        "31f6"  # xor esi, esi
        "b823000000"  # mov eax, nanosleep
        "0f05"  # syscall
        "bf02000000"  # mov edi, 2
        "488b3526000000"  # mov rsi, [rip + 38]: text
        "488b0527000000"  # mov rax, [rip + 39]: size
        "31d2"  # xor edx, edx
        "488710"  # xchg [rax], rdx
        "b801000000"  # mov eax, write
        "0f05"  # syscall
        "488b3c24"  # mov rdi, [rsp]
        "31f6"  # xor esi, esi: SIG_DFL
        "ff1517000000"  # call [rip + 23]: signal
        "5f"  # pop rdi
        "ff2518000000"  # jmp [rip + 24]: raise
    ),
    "aarch64": struct.pack(
        "<22I",
        0xA9BE7BFD,  # stp x29, x30, [sp, -32]!
        0xF9000BE0,  # str x0, [sp, 16]: the signal's number
        0x10000380,  # adr x0, wait
        0xD2800001,  # mov x1, 0
        0xD2800CA8,  # mov x8, nanosleep
        0xD4000001,  # svc 0
        0xD2800040,  # mov x0, 2
        0x580001E1,  # ldr x1, text
        0x58000209,  # ldr x9, size
        0xF9400122,  # ldr x2, [x9]
        0xF900013F,  # str xzr, [x9]
        0xD2800808,  # mov x8, write
        0xD4000001,  # svc 0
        0xF9400BE0,  # ldr x0, [sp, 16]
        0xD2800001,  # mov x1, SIG_DFL
        0x58000169,  # ldr x9, signal
        0xD63F0120,  # blr x9
        0xF9400BE0,  # ldr x0, [sp, 16]
        0xA8C27BFD,  # ldp x29, x30, [sp], 32
        0x58000129,  # ldr x9, raise
        0xD61F0120,  # br x9
        0xD503201F,  # nop
    ),
}
"""In memory, the arguments and the time to wait follow the code."""

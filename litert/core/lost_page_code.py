"""Machine code of a SIGBUS handler, which maps zeros where a mapped file has lost bytes, and sets a flag."""

from __future__ import annotations

import struct

from litert.core.machine_code import for_machine

_PLACEHOLDER = b"\x88\x77\x66\x55\x44\x33\x22\x11"


def handler_code(machine: str, page_size: int, note: int, next_function: int) -> bytes:
    """Returns the machine code of a signal handler with the signature `handler(number, info, context)`.

    Args:
      machine: Processor architecture: x86_64, whose pages have 4096 bytes, or aarch64.
      page_size: Size of a memory page, in bytes.
      note: Address of a 32-bit flag, which the handler sets to 1.
      next_function: Address of the handler that is called for all other signals.

    Raises:
      LiteRtError: UNSUPPORTED, if there is no code for this processor architecture.
    """
    code = for_machine(_HANDLERS, machine)
    if machine == "aarch64":
        return code + struct.pack("<3Q", page_size, note, next_function)
    for word in (note, next_function):
        code = code.replace(_PLACEHOLDER, struct.pack("<Q", word), 1)
    return code


def default_code(machine: str, signal: int, raise_: int) -> bytes:
    """Returns the machine code of a handler that performs a signal's default action.

    Args:
      machine: Processor architecture: x86_64 or aarch64.
      signal: Address of a function with the same behavior as C's `signal`.
      raise_: Address of a function with the same behavior as C's `raise`.

    Raises:
      LiteRtError: UNSUPPORTED, if there is no code for this processor architecture.
    """
    code = for_machine(_DEFAULTS, machine)
    if machine == "aarch64":
        return code + struct.pack("<2Q", signal, raise_)
    for word in (signal, raise_):
        code = code.replace(_PLACEHOLDER, struct.pack("<Q", word), 1)
    return code


_HANDLERS = {
    "x86_64": bytes.fromhex(
        "837e0802"  # cmp dword [rsi + 8], BUS_ADRERR
        "754b"  # jne next
        "57"  # push rdi
        "56"  # push rsi
        "52"  # push rdx
        "488b7e10"  # mov rdi, [rsi + 16]: where it was
        "4881e700f0ffff"  # and rdi, -4096
        "be00100000"  # mov esi, 4096
        "ba01000000"  # mov edx, PROT_READ
        "41ba32000000"  # mov r10d, MAP_PRIVATE | MAP_FIXED | MAP_ANONYMOUS
        "49c7c0ffffffff"  # mov r8, -1
        "4531c9"  # xor r9d, r9d
        "b809000000"  # mov eax, mmap
        "0f05"  # syscall
        "5a"  # pop rdx
        "5e"  # pop rsi
        "5f"  # pop rdi
        "483d00f0ffff"  # cmp rax, -4096
        "7711"  # ja next: an error
        "48b88877665544332211"  # mov rax, note
        "c70001000000"  # mov dword [rax], 1
        "c3"  # ret
        "48b88877665544332211"  # next: mov rax, next_function
        "ffe0"  # jmp rax
    ),
    "aarch64": struct.pack(
        "<28I",
        0xB9400829,  # ldr w9, [x1, 8]
        0x7100093F,  # cmp w9, BUS_ADRERR
        0x54000301,  # b.ne next
        0xAA0003E9,  # mov x9, x0
        0xAA0103EA,  # mov x10, x1
        0xAA0203EB,  # mov x11, x2
        0xF9400820,  # ldr x0, [x1, 16]: where it was
        0x580002A1,  # ldr x1, page_size
        0xCB0103EC,  # neg x12, x1
        0x8A0C0000,  # and x0, x0, x12
        0x52800022,  # mov w2, PROT_READ
        0x52800643,  # mov w3, MAP_PRIVATE | MAP_FIXED | MAP_ANONYMOUS
        0x92800004,  # mov x4, -1
        0xD2800005,  # mov x5, 0
        0xD2801BC8,  # mov x8, mmap
        0xD4000001,  # svc 0
        0xB140041F,  # cmn x0, 4096
        0xAA0903E0,  # mov x0, x9
        0xAA0A03E1,  # mov x1, x10
        0xAA0B03E2,  # mov x2, x11
        0x540000C8,  # b.hi next: an error
        0x58000129,  # ldr x9, note
        0x5280002A,  # mov w10, 1
        0xB900012A,  # str w10, [x9]
        0xD65F03C0,  # ret
        0xD503201F,  # nop
        0x580000C9,  # next: ldr x9, next_function
        0xD61F0120,  # br x9
    ),
}
"""In memory, the values page_size, note and next_function follow the code for aarch64."""

_DEFAULTS = {
    "x86_64": bytes.fromhex(
        "50"  # push rax
        "bf07000000"  # mov edi, SIGBUS
        "31f6"  # xor esi, esi: SIG_DFL
        "48b88877665544332211"  # mov rax, signal
        "ffd0"  # call rax
        "bf07000000"  # mov edi, SIGBUS
        "58"  # pop rax
        "48b88877665544332211"  # mov rax, raise
        "ffe0"  # jmp rax
    ),
    "aarch64": struct.pack(
        "<10I",
        0xA9BF7BFD,  # stp x29, x30, [sp, -16]!
        0x528000E0,  # mov w0, SIGBUS
        0xD2800001,  # mov x1, SIG_DFL
        0x580000E9,  # ldr x9, signal
        0xD63F0120,  # blr x9
        0x528000E0,  # mov w0, SIGBUS
        0xA8C17BFD,  # ldp x29, x30, [sp], 16
        0x580000A9,  # ldr x9, raise
        0xD61F0120,  # br x9
        0xD503201F,  # nop
    ),
}
"""In memory, the addresses signal and raise follow the code for aarch64."""

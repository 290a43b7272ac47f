"""A system call filter for this process and its child processes, for calls that Landlock does not restrict.

The filter has a list of denied calls instead of allowed calls, because native code may freely use its own memory
and threads, and the files that Landlock allows. A denied call fails with EPERM. A call that is newer than this
module's list fails as if the kernel did not have it.
"""

from __future__ import annotations

import ctypes
import errno
import os
import platform
import struct
import sys
from collections.abc import Sequence
from typing import NamedTuple

_DENIED = """
socket 41 198, socketpair 53 199
ptrace 101 117, process_vm_readv 310 270, process_vm_writev 311 271, process_madvise 440 440
pidfd_getfd 438 438, kcmp 312 272, perf_event_open 298 241, process_mrelease 448 448
rt_sigqueueinfo 129 138, rt_tgsigqueueinfo 297 240, pidfd_send_signal 424 424, tkill 200 130
setsid 112 157, setpgid 109 154
setpriority 141 140, ioprio_set 251 30, sched_setscheduler 144 119, sched_setparam 142 118, sched_setattr 314 274
setrlimit 160 164, memfd_create 319 279, memfd_secret 447 447
mount 165 40, umount2 166 39, pivot_root 155 41, chroot 161 51, open_tree 428 428, move_mount 429 429
fsopen 430 430, fsconfig 431 431, fsmount 432 432, fspick 433 433, mount_setattr 442 442
unshare 272 97, setns 308 268, open_by_handle_at 304 265, name_to_handle_at 303 264
bpf 321 280, keyctl 250 219, add_key 248 217, request_key 249 218, userfaultfd 323 282
io_uring_setup 425 425, io_uring_enter 426 426, io_uring_register 427 427
fanotify_init 300 262, truncate 76 45
chmod 90 -, fchmod 91 52, fchmodat 268 53, chown 92 -, lchown 94 -, fchown 93 55, fchownat 260 54
setxattr 188 5, lsetxattr 189 6, fsetxattr 190 7, removexattr 197 14, lremovexattr 198 15, fremovexattr 199 16
getxattr 191 8, lgetxattr 192 9, fgetxattr 193 10, listxattr 194 11, llistxattr 195 12, flistxattr 196 13
utime 132 -, utimes 235 -, futimesat 261 -, utimensat 280 88
shmget 29 194, shmat 30 196, shmctl 31 195, semget 64 190, semop 65 193, semctl 66 191, semtimedop 220 192
msgget 68 186, msgsnd 69 189, msgrcv 70 188, msgctl 71 187, mq_open 240 180, mq_unlink 241 181
kexec_load 246 104, kexec_file_load 320 294, init_module 175 105, finit_module 313 273, delete_module 176 106
reboot 169 142, swapon 167 224, swapoff 168 225, acct 163 89, syslog 103 116, vhangup 153 58
settimeofday 164 170, clock_settime 227 112, adjtimex 159 171, clock_adjtime 305 266
sethostname 170 161, setdomainname 171 162, iopl 172 -, ioperm 173 -, modify_ldt 154 -
quotactl 179 60, quotactl_fd 443 443, lookup_dcookie 212 18, migrate_pages 256 238, move_pages 279 239
"""
"""Denied system calls, each with its numbers on x86-64 and aarch64.

The calls concern the network; other processes, signals and sessions; priorities, limits, and memory outside the
limits; mounts; keys; programs in the kernel; files of other processes; owners, modes and attributes of files;
System V shared memory; and the machine. `truncate` is denied here, because Landlock does not restrict it before
Linux 6.2. `socketpair` is denied, since a datagram socket of a pair can send to any path.
"""

_STARTING = "fork 57 -, vfork 58 -, execve 59 221, execveat 322 281"
_DISGUISED = "execveat 322 281"
"""Calls that start a program without a path, which Landlock does not restrict."""

_NEWEST = 451
_MACHINES = {"x86_64": (0, 0xC000003E), "amd64": (0, 0xC000003E), "aarch64": (1, 0xC00000B7)}
"""Column of each machine type in the list of calls, and the kernel's number for the machine type."""

_CLONE, _CLONE3, _OPENAT2 = (56, 220), (435, 435), (437, 437)
_KILL, _TGKILL, _PRLIMIT = (62, 129), (234, 131), (302, 261)
_SECCOMP = (317, 277)
_CLONE_THREAD, _CLONE_NAMESPACES = 0x10000, 0x7E020000

_NO_CALL = 0xFFFF
_OPEN, _OPENAT, _MMAP, _FCNTL, _IOCTL = (2, _NO_CALL), (257, 56), (9, 222), (72, 25), (16, 29)
_DENIED_BITS = (
    (_OPEN, 1, 0x203, 0x200),  # O_RDONLY | O_TRUNC, which Landlock sees since Linux 6.2
    (_OPENAT, 2, 0x203, 0x200),
    (_MMAP, 3, 0x21, 0x21),  # MAP_SHARED | MAP_ANONYMOUS: not counted by the data limit
    (_MMAP, 3, 0x100, 0x100),  # MAP_GROWSDOWN: same
    (_FCNTL, 1, 0xFFFFFFFF, 8),  # F_SETOWN: sets the process that receives a file's signals
    (_FCNTL, 1, 0xFFFFFFFF, 15),  # F_SETOWN_EX
    (_FCNTL, 1, 0xFFFFFFFF, 1024),  # F_SETLEASE: makes others wait when they open the file
    (_IOCTL, 1, 0xFFFFFFFF, 0x40086602),  # FS_IOC_SETFLAGS: needs only a readable file
    (_IOCTL, 1, 0xFFFFFFFF, 0x401C5820),  # FS_IOC_FSSETXATTR
    (_IOCTL, 1, 0xFFFFFFFF, 0x8901),  # FIOSETOWN
    (_IOCTL, 1, 0xFFFFFFFF, 0x8902),  # SIOCSPGRP
)
"""Calls that are denied if some bits of an argument have a certain value: call number, argument, bits, value."""

_LOAD, _IS, _EXCEEDS, _HAS_BITS, _AND, _RETURN = 0x20, 0x15, 0x25, 0x45, 0x54, 0x06
_NUMBER, _MACHINE, _ARGUMENTS = 0, 4, 16
"""Offsets of fields in the data that the kernel passes to a filter."""

_ALLOW, _ERROR, _KILL_PROCESS = 0x7FFF0000, 0x00050000, 0x80000000
_SET_FILTER, _ACTION_AVAILABLE, _ALL_THREADS = 1, 2, 1


class _Step(NamedTuple):
    """Packs an instruction of the kernel's filter machine; a jump gives the numbers of skipped instructions."""

    code: int
    value: int
    skip_if: int = 0
    skip_else: int = 0


def why_no_filter() -> str:
    """Returns the reason why this system has no system call filters; "" if it has them."""
    if platform.machine() not in _MACHINES or sys.maxsize < 1 << 32:
        return f"there is no system call filter for {platform.machine()}"
    action = ctypes.c_uint32(_ERROR)
    if _seccomp(_ACTION_AVAILABLE, 0, ctypes.byref(action)):
        return f"no seccomp: {os.strerror(ctypes.get_errno()).lower()}"
    return ""


def deny_calls(*, may_start_programs: bool) -> None:
    """Permanently denies, in all threads, system calls that compilers and kernels do not need.

    Args:
      may_start_programs: Whether the process may still fork and execute programs.

    Raises:
      OSError: The kernel refuses the filter.
    """
    column = _column()
    names = _DENIED + (_DISGUISED if may_start_programs else _STARTING)
    numbers = [found for call in names.replace("\n", ",").split(",") if (found := _number(call))]
    install(
        [*((number, errno.EPERM) for number in numbers)],
        _argument_checks(column, may_start_programs),
    )


def install(errors: Sequence[tuple[int, int]], checks: Sequence[_Step] = ()) -> None:
    """Makes system calls with the given numbers fail.

    `checks` are filter steps that run first and check arguments.

    Raises:
      OSError: The kernel refuses the filter.
    """
    machine = _MACHINES[platform.machine()][1]
    steps = [
        _Step(_LOAD, _MACHINE),
        _Step(_IS, machine, skip_if=1),
        _Step(_RETURN, _KILL_PROCESS),  # a 32-bit call
        *checks,
        _Step(_LOAD, _NUMBER),
    ]
    for number, error in errors:
        steps += [_Step(_IS, number, skip_else=1), _Step(_RETURN, _ERROR | error)]
    steps.append(_Step(_RETURN, _ALLOW))
    code = b"".join(struct.pack("=HBBI", s.code, s.skip_if, s.skip_else, s.value) for s in steps)
    buffer = ctypes.create_string_buffer(code, len(code))
    program = struct.pack("@HP", len(steps), ctypes.addressof(buffer))
    if _seccomp(_SET_FILTER, _ALL_THREADS, program):
        raise OSError(ctypes.get_errno(), "the kernel refuses the system call filter")


def _argument_checks(column: int, may_start_programs: bool) -> list[_Step]:
    """Returns steps for calls that depend on their arguments; all other calls leave the steps undecided."""
    deny, allow = _Step(_RETURN, _ERROR | errno.EPERM), _Step(_RETURN, _ALLOW)
    absent = _Step(_RETURN, _ERROR | errno.ENOSYS)
    steps = [_Step(_LOAD, _NUMBER), _Step(_EXCEEDS, _NEWEST, skip_else=1), absent]
    for call in (_CLONE3, _OPENAT2):  # a filter cannot see their flags
        steps += [_Step(_IS, call[column], skip_else=1), absent]
    threads_only = [] if may_start_programs else [_Step(_HAS_BITS, _CLONE_THREAD, skip_if=1), deny]
    steps += _for_call(
        _CLONE[column],
        [_Step(_HAS_BITS, _CLONE_NAMESPACES, skip_else=1), deny, *threads_only, allow],
    )
    own = os.getpid()
    for call in (_KILL, _TGKILL):  # 0 is the process group, which may contain other processes
        steps += _for_call(call[column], [_Step(_IS, own, skip_if=1), deny, allow])
    limits = [  # 0 is this process; the third argument, an address, points to the new limit
        *(_Step(_IS, 0, skip_if=2), _Step(_IS, own, skip_if=1), deny),
        *(_Step(_LOAD, _ARGUMENTS + 8 * 2), _Step(_IS, 0, skip_if=1), deny),
        *(_Step(_LOAD, _ARGUMENTS + 8 * 2 + 4), _Step(_IS, 0, skip_if=1), deny, allow),
    ]
    steps += _for_call(_PRLIMIT[column], limits)
    for numbers, argument, mask, value in _DENIED_BITS:
        bits = [_Step(_AND, mask), _Step(_IS, value, skip_else=1), deny, _Step(_LOAD, _NUMBER)]
        steps += _for_call(numbers[column], bits, argument)
    return steps


def _for_call(number: int, steps: Sequence[_Step], argument: int = 0) -> list[_Step]:
    """Returns steps for one call, with the lower half of an argument loaded.

    The steps decide, or load the call number again.
    """
    load = _Step(_LOAD, _ARGUMENTS + 8 * argument)
    return [_Step(_IS, number, skip_else=len(steps) + 1), load, *steps]


def _column() -> int:
    return _MACHINES[platform.machine()][0]


def _number(call: str) -> int | None:
    """Returns a call's number on this machine; None if the machine lacks the call."""
    numbers = call.split()[1:]
    return int(numbers[_column()]) if numbers and numbers[_column()] != "-" else None


def _seccomp(operation: int, flags: int, argument: object) -> int:
    library = ctypes.CDLL(None, use_errno=True)
    return int(library.syscall(_SECCOMP[_column()], operation, flags, argument))

"""Writes a planned file; where possible, the operating system's kernel copies the data.

The file has a temporary name until it is complete. On file systems that can share blocks between files, the new
file shares the source's blocks (as after `cp --reflink`). On other file systems, the module allocates all blocks
of the target first, and copies the data through a pipe of 1 MiB. The copy through this pipe takes 0.6 of the time
of `copy_file_range` and `sendfile`, which internally use a pipe of 16 pages (measured on ext4, Linux 6).
"""

from __future__ import annotations

import errno
import os
import struct
from collections.abc import Callable
from contextlib import closing, suppress

from litert.core.errors import LiteRtError
from litert.core.progress import tell
from litert.core.status import Status
from litert.model.atomic_file import open_atomic
from litert.model.blob import MappedFile
from litert.model.placement import Plan

_STEP = "write"
_PIECE = 64 << 20  # so that progress is reported, and Ctrl-C works
_BLOCK = 64 << 10  # a copy is fastest from this position
_SMALL_FILE = 8 << 20  # such a file is written from memory at once

_BUFFERED_PIECE = 1 << 20
_PIPE_SIZE = 1 << 20  # the default limit in /proc/sys/fs/pipe-max-size for unprivileged users
_SYNC_FILE_RANGE_WRITE = 2  # linux/fs.h
_FICLONERANGE = 0x4020940D  # linux/fs.h
_NO_KERNEL_COPY = {
    errno.EXDEV, errno.EINVAL, errno.ENOSYS, errno.EOPNOTSUPP, errno.EPERM, errno.EBADF,
    errno.ETXTBSY, errno.ENOTSOCK, errno.ENODEV, errno.ENOTTY, errno.EMFILE, errno.ENFILE,
}  # fmt: skip
_Way = Callable[[int, int, int, int], int]
"""Function that copies bytes from a source file.

The arguments are the descriptor of the source file, the offset in the source, the offset in the target, and the
size; the result is the number of bytes that were copied.
"""


def plan_bytes(plan: Plan) -> bytes:
    """Returns the planned file's content as bytes."""
    try:
        out = bytearray(plan.size)
    except MemoryError as error:
        what = f"not enough memory for the {plan.size} bytes of the model"
        raise LiteRtError(Status.MEMORY_ALLOCATION_FAILURE, what) from error
    view = memoryview(out)
    for run in plan.runs:
        view[run.target : run.target + run.size] = run.file.view[run.source : run.source + run.size]
        for source, data in run.gaps:
            target = run.target + source - run.source
            view[target : target + len(data)] = data
    for target, text in plan.texts:
        view[target : target + len(text)] = text
    if plan.finish is not None:
        target, text = plan.finish(lambda start, count: view[start : start + count])
        view[target : target + len(text)] = text
    view.release()
    return bytes(out)


def write_plan(plan: Plan, path: str, permissions: int | None = None) -> None:
    """Writes a planned file; replaces an old file at this path only when the new file is complete.

    Raises:
      LiteRtError: FILE_IO, if writing fails; INVALID_ARGUMENT, if the path cannot be a file.
    """
    with open_atomic(path, permissions) as fd:
        if plan.size <= _SMALL_FILE:
            write_at(fd, plan_bytes(plan), 0)
        else:
            tell(_STEP, 0, plan.size)
            with closing(FileCopy(fd, plan.size)) as copy:
                _copy_runs(fd, copy, plan)
            for target, text in plan.texts:
                write_at(fd, text, target)
            os.ftruncate(fd, plan.size)  # zeros at the end are not written
            if plan.finish is not None:
                target, text = plan.finish(lambda start, count: os.pread(fd, count, start))
                write_at(fd, text, target)
            tell(_STEP, plan.size, plan.size)


def _copy_runs(fd: int, copy: FileCopy, plan: Plan) -> None:
    write_back = _write_back()
    done = 0
    for run in plan.runs:
        start = 0
        while start < run.size:
            to_boundary = _PIECE - (run.target + start) % _PIECE
            first = -(run.target + start) % _BLOCK or to_boundary
            size = min(first, run.size - start)
            copy.copy(run.file, run.source + start, run.target + start, size)
            write_back(fd, run.target + start, size)
            start += size
            done += size
            tell(_STEP, min(done, plan.size), plan.size)
        for source, data in run.gaps:
            if not run.file.is_open or os.pread(run.file.fd, len(data), source) != data:
                write_at(fd, data, run.target + source - run.source)


def _write_back() -> Callable[[int, int, int], object]:
    """Returns a function that gets a file, an offset and a size, and starts writing this range to the disk.

    The caller must still wait until all bytes are on the disk. On systems that lack such a system call, the
    returned function does nothing.
    """
    import ctypes  # imported here, because few models are so large

    try:
        function = ctypes.CDLL(None).sync_file_range
    except (AttributeError, OSError):
        return lambda *_: None
    offset = ctypes.c_int64
    return lambda fd, start, size: function(fd, offset(start), offset(size), _SYNC_FILE_RANGE_WRITE)


def write_at(fd: int, data: bytes | bytearray | memoryview, target: int) -> None:
    """Writes all bytes of `data` at an offset of a file."""
    view = memoryview(data)
    while view:
        count = os.pwrite(fd, view[:_PIECE], target)
        view = view[count:]
        target += count


class FileCopy:
    """Copies ranges into a file with the fastest method that works; methods that failed are not tried again."""

    def __init__(self, fd: int, size: int) -> None:
        """Takes the target file's descriptor, which the caller must close later, and the file's final size."""
        self._fd = fd
        self._size = size
        self._has_disk = os.major(os.fstat(fd).st_dev) != 0
        self._pipe: tuple[int, int] | None = None
        self._ways: list[_Way] = [self._read_and_write]
        if hasattr(os, "sendfile"):
            self._ways.append(self._send)
        if hasattr(os, "splice"):
            self._ways.append(self._splice)
        if hasattr(os, "copy_file_range") and not self._has_disk:
            self._ways.append(self._copy_range)  # a file server may copy
        self._ways.append(self._clone)

    def copy(self, file: MappedFile, source: int, target: int, size: int) -> None:
        """Copies a range of a source file into the target file.

        Raises:
          OSError: Writing to the target file failed.
          LiteRtError: FILE_IO, if the source file has become shorter.
        """
        if not file.is_open:
            write_at(self._fd, file.view[source : source + size], target)
            return
        left = size
        while left:
            try:
                count = self._ways[-1](file.fd, source, target, left)
            except OSError as error:
                if error.errno not in _NO_KERNEL_COPY or len(self._ways) == 1:
                    raise
                self._ways.pop()
                continue
            if not count:
                if len(self._ways) > 1:  # some file systems return 0 for an unsupported operation
                    self._ways.pop()
                    continue
                raise LiteRtError(
                    Status.FILE_IO, "the file became shorter while it was copied", file.path
                )
            source, target, left = source + count, target + count, left - count

    def close(self) -> None:
        """Closes the pipe through which data are copied."""
        if self._pipe is not None:
            for end in self._pipe:
                os.close(end)
            self._pipe = None

    def _clone(self, fd: int, source: int, target: int, size: int) -> int:
        import fcntl

        fcntl.ioctl(self._fd, _FICLONERANGE, struct.pack("qQQQ", fd, source, size, target))
        return size

    def _copy_range(self, fd: int, source: int, target: int, size: int) -> int:
        return os.copy_file_range(fd, self._fd, size, source, target)

    def _splice(self, fd: int, source: int, target: int, size: int) -> int:
        out, into = self._open_pipe()
        count = os.splice(fd, into, min(size, _PIPE_SIZE), offset_src=source)
        done = 0
        try:
            while done < count:
                done += os.splice(out, self._fd, count - done, offset_dst=target + done)
        except BaseException:
            self.close()  # with the bytes that are left in the pipe
            raise
        return count

    def _open_pipe(self) -> tuple[int, int]:
        if self._pipe is None:
            import fcntl

            # On other file systems, the C library might reserve by writing zeros
            if self._has_disk:
                os.posix_fallocate(self._fd, 0, self._size)
            self._pipe = os.pipe()
            # A user with many open pipes gets a small pipe, which works, too
            with suppress(OSError):
                fcntl.fcntl(self._pipe[1], fcntl.F_SETPIPE_SZ, _PIPE_SIZE)
        return self._pipe

    def _send(self, fd: int, source: int, target: int, size: int) -> int:
        os.lseek(self._fd, target, os.SEEK_SET)
        return os.sendfile(self._fd, fd, source, size)

    def _read_and_write(self, fd: int, source: int, target: int, size: int) -> int:
        data = os.pread(fd, min(size, _BUFFERED_PIECE), source)
        write_at(self._fd, data, target)
        return len(data)

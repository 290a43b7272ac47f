"""A planned file, written: in the kernel where it can be, beside its target, and renamed when complete."""

from __future__ import annotations

import os

from litert.model.atomic_file import open_atomic
from litert.model.blob import Progress
from litert.model.file_copy import FileCopy, write_at
from litert.model.placement import Plan

_PIECE = 64 << 20  # so that progress shows, and Ctrl-C is heard
_BLOCK = 64 << 10  # a copy from here on is fastest
_SMALL_FILE = 8 << 20  # written from memory, in one go


def plan_bytes(plan: Plan) -> bytes:
    """The file in memory."""
    out = bytearray(plan.size)
    view = memoryview(out)
    for run in plan.runs:
        view[run.target : run.target + run.size] = run.file.view[run.source : run.source + run.size]
        for source, data in run.gaps:
            target = run.target + source - run.source
            view[target : target + len(data)] = data
    for target, text in plan.texts:
        view[target : target + len(text)] = text
    view.release()
    return bytes(out)


def write_plan(plan: Plan, path: str, progress: Progress | None = None) -> None:
    """Writes a file, which appears when it is complete; what was there stays until then.

    Raises:
      LiteRtError: FILE_IO, or INVALID_ARGUMENT for a path that is no place for a file.
    """
    with open_atomic(path) as fd:
        _fill(fd, plan, progress)


def _fill(fd: int, plan: Plan, progress: Progress | None) -> None:
    if plan.size <= _SMALL_FILE:
        write_at(fd, plan_bytes(plan), 0)
        if progress is not None:
            progress(plan.size, plan.size)
        return
    with FileCopy(fd, plan.size) as copy:
        _copy_runs(fd, copy, plan, progress)
    for target, text in plan.texts:
        write_at(fd, text, target)
    os.ftruncate(fd, plan.size)  # zeros at the end are not written
    if progress is not None:
        progress(plan.size, plan.size)


def _copy_runs(fd: int, copy: FileCopy, plan: Plan, progress: Progress | None) -> None:
    done = 0
    for run in plan.runs:
        start = 0
        while start < run.size:
            to_boundary = _PIECE - (run.target + start) % _PIECE
            first = -(run.target + start) % _BLOCK or to_boundary
            size = min(first, run.size - start)
            copy.copy(run.file, run.source + start, run.target + start, size)
            start += size
            done += size
            if progress is not None:
                progress(min(done, plan.size), plan.size)
        for source, data in run.gaps:
            if not run.file.is_open or os.pread(run.file.fd, len(data), source) != data:
                write_at(fd, data, run.target + source - run.source)

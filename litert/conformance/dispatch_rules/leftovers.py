"""Checks that runs and device contexts do not leak memory, threads or open files."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Mapping
from functools import partial

from litert.conformance.checks import BrokenRuleError, Check, Rules, Stage, UnseenError
from litert.conformance.dispatch_rules.async_runs import ASYNC_RUNS, need_async, run_async
from litert.conformance.dispatch_rules.first_run import RUNS
from litert.conformance.dispatch_subject import CheckedCall, DispatchSubject

_FILES, _THREADS, _STATUS = "/proc/self/fd", "/proc/self/task", "/proc/self/status"
_ROUNDS = 6
_SETTLED_S, _ENDED_S = 0.1, 2.0  # threads may still be ending
_BLOCKS, _LEAST_RUNS, _MOST_RUNS, _ENOUGH_S, _SURE_S = 8, 4, 32, 1.0, 5.0
_LEAK = 16 << 10
"""Least growth per run that counts as a leak, in bytes.

Memory allocators keep fewer bytes per run, on average over a block of runs.
"""

_Run = Callable[[DispatchSubject, CheckedCall], object]


def _run(subject: DispatchSubject, call: CheckedCall) -> None:
    call.run(subject.case.data)


def _run_async(subject: DispatchSubject, call: CheckedCall) -> None:
    need_async(subject)
    call.write(subject.case.data)
    run_async(subject, call)


def _left(subject: DispatchSubject, folder: str, what: str, run: _Run) -> None:
    """Creates and destroys device contexts, and counts threads or open files by the entries of a /proc folder."""
    if not os.path.isdir(folder):
        raise UnseenError("this system does not list a process's threads and open files")
    counts: list[int] = []
    for rounds in (2, _ROUNDS):  # the first context may open files that stay open
        for _ in range(rounds):
            with subject.call() as call:
                run(subject, call)
        most = counts[0] + _ROUNDS if counts else 0
        counts.append(_count(folder, most))
    if counts[1] >= counts[0] + _ROUNDS:
        left = counts[1] - counts[0]
        raise BrokenRuleError(f"{left} {what} after {_ROUNDS} device contexts were destroyed")


def _count(folder: str, too_many: int) -> int:
    time.sleep(_SETTLED_S)
    end = time.monotonic() + _ENDED_S
    while (number := len(os.listdir(folder))) >= too_many > 0 and time.monotonic() < end:
        time.sleep(_SETTLED_S)
    return number


def _memory(subject: DispatchSubject, run: _Run) -> None:
    """Fails if memory grows in each block of runs, because caches and stacks grow only in some blocks."""
    if not os.path.isfile(_STATUS):
        raise UnseenError("this system does not report a process's memory")
    with subject.call() as call:
        _growth(lambda: run(subject, call))  # fills caches
        growths, end = list[int](), time.monotonic() + _SURE_S
        while len(growths) < _BLOCKS // 2 or (len(growths) < _BLOCKS and time.monotonic() < end):
            growths.append(_growth(lambda: run(subject, call)))
            if growths[-1] < _LEAK:
                return
    raise BrokenRuleError(f"memory grows by {min(growths) >> 10} KiB with each run")


def _growth(run: Callable[[], object]) -> int:
    """Measures by how many bytes the memory of the process grows with each run."""
    before, end = _data_bytes(), time.monotonic() + _ENOUGH_S
    number = 0
    while number < _LEAST_RUNS or (number < _MOST_RUNS and time.monotonic() < end):
        run()
        number += 1
    return (_data_bytes() - before) // number


def _data_bytes() -> int:
    """Returns the size of the process's private memory, including pages that were not accessed, in bytes."""
    with open(_STATUS, encoding="ascii", errors="replace") as file:
        return next(int(line.split()[1]) << 10 for line in file if line.startswith("VmData:"))


_THREADS_RULE = "device.threads"
_RULES: Mapping[str, Callable[..., None]] = {
    _THREADS_RULE: partial(_left, folder=_THREADS, what="threads go on"),
    "device.closes": partial(_left, folder=_FILES, what="files stay open"),
    "invoke.memory": _memory,
}
_WAITING, _NOT_WAITING = "runs that wait", "asynchronous runs"


def _check(rule: str, run: _Run, case: str, *needs: str) -> Check[DispatchSubject]:
    """Makes a check that runs after the check of threads, because threads that did not end keep memory."""
    before = (f"{_THREADS_RULE} ({case})",) if _RULES[rule] is _memory else ()
    return Check(rule, partial(_RULES[rule], run=run), case, (*needs, *before))


RULES = Rules(
    Stage.OPTIONAL_PARTS,
    (
        *(_check(rule, _run, _WAITING, *RUNS) for rule in _RULES),
        *(
            _check(rule, _run_async, _NOT_WAITING, *ASYNC_RUNS, f"{rule} ({_WAITING})")
            for rule in _RULES
        ),
    ),
)

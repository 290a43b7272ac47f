"""Checks of what runs and device contexts leave behind: memory, threads and open files."""

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
_SETTLED_S, _ENDED_S = 0.1, 2.0  # threads may be ending still
_BLOCKS, _LEAST_RUNS, _MOST_RUNS, _ENOUGH_S, _SURE_S = 8, 4, 32, 1.0, 5.0
_LEAK = 16 << 10
"""Bytes per run that count as a leak. Allocators keep less than that, on average over a block of runs."""

_Run = Callable[[DispatchSubject, CheckedCall], object]


def _run(subject: DispatchSubject, call: CheckedCall) -> None:
    call.run(subject.case.data)


def _run_async(subject: DispatchSubject, call: CheckedCall) -> None:
    need_async(subject)
    call.write(subject.case.data)
    run_async(subject, call)


def _left(subject: DispatchSubject, folder: str, what: str, run: _Run) -> None:
    """Counts a folder's entries, each of which the process has one of, as device contexts come and go."""
    if not os.path.isdir(folder):
        raise UnseenError("this system does not list what a process has")
    counts: list[int] = []
    for rounds in (2, _ROUNDS):  # the first may open what stays
        for _ in range(rounds):
            with subject.call() as call:
                run(subject, call)
        most = counts[0] + _ROUNDS if counts else 0
        counts.append(_count(folder, most))
    if counts[1] >= counts[0] + _ROUNDS:
        left = counts[1] - counts[0]
        raise BrokenRuleError(f"{left} {what}, once {_ROUNDS} device contexts are gone")


def _count(folder: str, too_many: int) -> int:
    time.sleep(_SETTLED_S)
    end = time.monotonic() + _ENDED_S
    while (number := len(os.listdir(folder))) >= too_many > 0 and time.monotonic() < end:
        time.sleep(_SETTLED_S)
    return number


def _memory(subject: DispatchSubject, run: _Run) -> None:
    """A leak shows in each block of runs; caches and threads' stacks, which have a limit, in some alone."""
    if not os.path.isfile(_STATUS):
        raise UnseenError("this system does not tell a process's memory")
    with subject.call() as call:
        _growth(lambda: run(subject, call))  # caches are filled
        growths, end = list[int](), time.monotonic() + _SURE_S
        while len(growths) < _BLOCKS // 2 or (len(growths) < _BLOCKS and time.monotonic() < end):
            growths.append(_growth(lambda: run(subject, call)))
            if growths[-1] < _LEAK:
                return
    raise BrokenRuleError(f"memory grows by {min(growths) >> 10} KiB with each run")


def _growth(run: Callable[[], object]) -> int:
    """How many bytes of memory the process has more after each of some runs."""
    before, end = _data_bytes(), time.monotonic() + _ENOUGH_S
    number = 0
    while number < _LEAST_RUNS or (number < _MOST_RUNS and time.monotonic() < end):
        run()
        number += 1
    return (_data_bytes() - before) // number


def _data_bytes() -> int:
    """Memory that the process alone has, whether it was touched or not."""
    with open(_STATUS, encoding="ascii", errors="replace") as file:
        return next(int(line.split()[1]) << 10 for line in file if line.startswith("VmData:"))


_THREADS_RULE = "device.threads"
_RULES: Mapping[str, Callable[..., None]] = {
    _THREADS_RULE: partial(_left, folder=_THREADS, what="threads go on"),
    "device.closes": partial(_left, folder=_FILES, what="files stay open"),
    "invoke.memory": _memory,
}
_WAITING, _NOT_WAITING = "runs that wait", "runs that do not wait"


def _check(rule: str, run: _Run, case: str, *needs: str) -> Check[DispatchSubject]:
    """Threads that go on have memory, so that they are looked for first."""
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

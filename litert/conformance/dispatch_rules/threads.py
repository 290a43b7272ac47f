"""Checks invocation contexts that run at the same time in several threads."""

from __future__ import annotations

import threading
import time
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack

from litert.conformance.case import make_data
from litert.conformance.checks import BrokenRuleError, Check, Rules, Stage
from litert.conformance.dispatch_subject import CheckedCall, DispatchSubject

_NUM_THREADS = 3
_LEAST_RUNS, _MOST_RUNS, _ENOUGH_S = 6, 1000, 0.5  # runs of each context: short runs rarely overlap


def _threads(subject: DispatchSubject) -> None:
    """Runs invocation contexts at the same time; other calls with the shared device context do not overlap."""
    case = max(subject.cases or [subject.case], key=lambda case: case.outputs[0].size_bytes)
    start = threading.Barrier(_NUM_THREADS)
    with subject.device(case) as device, ExitStack() as stack:
        byte_code = device.keep(case.byte_code)
        data = [
            [make_data(tensor_type, 10 + index) for tensor_type in case.inputs]
            for index in range(_NUM_THREADS)
        ]
        expected = [device.run(case, byte_code, values) for values in data]
        calls = [stack.enter_context(CheckedCall(device, case, byte_code)) for _ in data]
        for call in calls:
            call.attach_all()

        def work(index: int) -> None:
            start.wait()
            end = time.monotonic() + _ENOUGH_S
            for number in range(_MOST_RUNS):
                if number >= _LEAST_RUNS and time.monotonic() > end:
                    break
                if calls[index].run(data[index]) != expected[index]:
                    raise BrokenRuleError("the outputs differ from the outputs of a single run")

        with ThreadPoolExecutor(_NUM_THREADS) as pool:
            runs = [pool.submit(work, index) for index in range(_NUM_THREADS)]
        error = next(filter(None, (run.exception() for run in runs)), None)
    if error:
        raise BrokenRuleError(f"{_NUM_THREADS} contexts in {_NUM_THREADS} threads: {error}")


RULES = Rules(
    Stage.VARIATIONS,
    (
        Check(
            "invoke.threads",
            _threads,
            needs=("dispatch.runs", "invoke.repeatable", "invocation.many", "buffers.handles"),
        ),
    ),
)

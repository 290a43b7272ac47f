"""Measures the runs of a loaded model, from `start_metrics_collection` to `stop_metrics_collection`."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress

from litert.core.errors import LiteRtError
from litert.core.status import Status
from litert.runtime.metrics import (
    OP_DETAIL_LEVEL,
    CallMeter,
    CallMetrics,
    RunMetrics,
)
from litert.runtime.npu_kernel import NpuKernel
from litert.runtime.op_timer import OpTimer
from litert.runtime.planned_subgraph import PlannedSubgraph
from litert.runtime.subgraph import InterpreterSubgraph
from litert.runtime.timing_code import Profiler


class Collection:
    """What is measured of one model; whoever has it holds the model's lock."""

    def __init__(
        self,
        kernels: Sequence[NpuKernel],
        subgraphs: Mapping[int, InterpreterSubgraph],
        planned: Sequence[PlannedSubgraph],
        profiler: Profiler | None,
        detail_level: int,
    ) -> None:
        """Starts.

        Args:
          kernels: the model's NPU calls.
          subgraphs: all, by their index in the file.
          planned: those that callers run.
          profiler: which the model was loaded with.
          detail_level: for vendors; from `OP_DETAIL_LEVEL` on, each op is measured, too.

        Raises:
          LiteRtError: a vendor's. Nothing is measured then.
        """
        self._kernels = kernels
        self._planned = planned
        self._times_s: list[float] = []
        self._problems: list[str] = []
        self._timer: OpTimer | None = None
        try:
            for kernel in kernels:
                kernel.meter = CallMeter(kernel.call, detail_level)
        except BaseException:
            with suppress(LiteRtError):  # the first error is the one to tell
                self._stop_meters()
            raise
        if detail_level >= OP_DETAIL_LEVEL:
            indices = {subgraph.context: index for index, subgraph in subgraphs.items()}
            functions = {(indices[k.subgraph.context], k.op_index): k.name for k in kernels}
            self._start_timer(OpTimer(subgraphs, functions, profiler))

    def run(self, action: Callable[[], None]) -> None:
        """Measures a run of the model."""
        start = time.perf_counter()
        try:
            action()
        except BaseException:
            if self._timer is not None:
                self._timer.drop_run()
            raise
        self._times_s.append(time.perf_counter() - start)
        if self._timer is not None:
            self._timer.take_run()

    def stop(self) -> RunMetrics:
        """Ends, with what was measured.

        Raises:
          LiteRtError: a vendor's. Nothing is measured any more then.
        """
        timer, self._timer = self._timer, None
        for planned in self._planned:
            planned.on_plan = None
        if timer is not None:
            timer.uninstall()
        calls = self._stop_meters()
        ops = timer.metrics(len(self._times_s)) if timer is not None else []
        problems = [*self._problems, *(timer.problems if timer is not None else ())]
        return RunMetrics(self._times_s, calls, ops, problems)

    def _start_timer(self, timer: OpTimer) -> None:
        """Measures the ops, too, where that can be done."""
        try:
            timer.install()
        except LiteRtError as error:
            if error.status is not Status.UNSUPPORTED:
                raise
            self._problems.append(f"ops are not measured: {error.what}")
            return
        self._timer = timer
        for planned in self._planned:
            planned.on_plan = timer.install

    def _stop_meters(self) -> list[CallMetrics]:
        """Stops what measures the calls, each of them, and raises the first vendor's error then."""
        meters = [kernel.meter for kernel in self._kernels if kernel.meter is not None]
        for kernel in self._kernels:
            kernel.meter = None
        calls, errors = [], []
        for meter in meters:
            try:
                calls.append(meter.stop())
            except LiteRtError as error:
                errors.append(error)
        if errors:
            raise errors[0]
        return calls

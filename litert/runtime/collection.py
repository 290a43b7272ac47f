"""Measures the runs of a loaded model, from `start_metrics_collection` to `stop_metrics_collection`."""

from __future__ import annotations

import gc
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, nullcontext, suppress

from litert.core.errors import LiteRtError
from litert.core.status import Status
from litert.core.tracing import Span, is_recording, record
from litert.runtime.metrics import (
    OP_DETAIL_LEVEL,
    CallMeter,
    CallMetrics,
    RunMetrics,
)
from litert.runtime.npu_kernel import NpuKernel
from litert.runtime.op_rows import OpRows
from litert.runtime.op_timer import OpTimer
from litert.runtime.planned_subgraph import PlannedSubgraph
from litert.runtime.subgraph import InterpreterSubgraph
from litert.runtime.timing_code import Profiler


class Collection:
    """Collects the measurements of one model; callers must hold the model's lock."""

    def __init__(
        self,
        kernels: Sequence[NpuKernel],
        subgraphs: Mapping[int, InterpreterSubgraph],
        planned: Sequence[PlannedSubgraph],
        profiler: Profiler | None,
        detail_level: int,
        warm_up: int,
    ) -> None:
        """Starts.

        Args:
          kernels: NPU calls of the model.
          subgraphs: All subgraphs by their index in the file.
          planned: Subgraphs that signatures run.
          profiler: Profiler with which the model was loaded.
          detail_level: Level of detail, which vendors get; if it is `OP_DETAIL_LEVEL` or higher, each op is
            measured, too.
          warm_up: Number of runs at the start that are not measured.

        Raises:
          LiteRtError: An error of a vendor. If an error is raised, no measurement is active.
        """
        self._kernels = kernels
        self._planned = planned
        self._times_s: list[float] = []
        self._problems: list[str] = []
        self._warm_up = warm_up
        indices = {subgraph.context: index for index, subgraph in subgraphs.items()}
        functions = {(indices[k.subgraph.context], k.op_index): k.name for k in kernels}
        self._rows = OpRows(subgraphs, functions)
        self._timer: OpTimer | None = None
        self._has_profiler = profiler is not None
        try:
            for kernel in kernels:
                kernel.meter = CallMeter(kernel.call, detail_level)
        except BaseException:
            with suppress(LiteRtError):  # the first error is the one to report
                self._stop_meters()
            raise
        if detail_level >= OP_DETAIL_LEVEL:
            self._start_timer(OpTimer(subgraphs, profiler))

    def run(self, action: Callable[[], None]) -> None:
        """Measures a run of the model."""
        has_spans = self._timer is not None and bool(self._kernels)
        if self._timer is not None:
            self._timer.drop_runs()
        with (
            record(own_thread=True) if has_spans else nullcontext() as recording,
            _without_collector(),
        ):
            start = time.perf_counter()
            action()
            time_s = time.perf_counter() - start
        self._add_run(time_s, recording.spans if recording is not None else ())

    def stop(self) -> RunMetrics:
        """Ends the collection and returns the measurements.

        Raises:
          LiteRtError: An error of a vendor. If an error is raised, no measurement is active.
        """
        for planned in self._planned:
            planned.on_plan = None
        if self._timer is not None:
            self._timer.uninstall()
        calls = self._stop_meters()
        ops = self._rows.metrics()
        return RunMetrics(self._times_s, calls, ops, list(self._find_problems()))

    def _add_run(self, time_s: float, spans: Sequence[Span]) -> None:
        runs = self._timer.take_run() if self._timer is not None else []
        if self._warm_up:
            self._warm_up -= 1
            for kernel in self._kernels:
                if kernel.meter is not None:
                    kernel.meter.forget()
            return
        self._times_s.append(time_s)
        self._rows.add_run(runs, spans)
        if is_recording():
            self._rows.tell_recordings(runs)

    def _find_problems(self) -> Iterator[str]:
        """Returns sentences about missing measurements."""
        yield from self._problems
        if self._timer is not None and self._timer.num_lost:
            yield f"a run has too many ops to record: {self._timer.num_lost} op runs are missing"
        if self._rows.has_untold_parts:
            yield (
                "all ops that a delegate runs form one row, since the delegate does not report "
                "its ops"
                if self._has_profiler
                else "all ops that XNNPACK runs form one row; Options.enable_profiling separates them"
            )

    def _start_timer(self, timer: OpTimer) -> None:
        """Also measures the ops, where possible."""
        try:
            timer.install()
        except LiteRtError as error:
            if error.status is not Status.UNSUPPORTED:
                raise
            self._problems.append(f"cannot measure ops: {error.what}")
            return
        self._timer = timer
        for planned in self._planned:
            planned.on_plan = timer.install

    def _stop_meters(self) -> list[CallMetrics]:
        """Stops the measurement of each call, and then raises the first vendor's error."""
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


@contextmanager
def _without_collector() -> Iterator[None]:
    """Pauses Python's garbage collection, since its time would be added to a single row."""
    is_enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if is_enabled:
            gc.enable()

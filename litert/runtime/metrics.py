"""What NPU calls cost, measured around them and by the vendor."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass

from dispatch.api import Metric
from dispatch.call import Call
from litert.core.errors import LiteRtError
from litert.core.status import Status


@dataclass(frozen=True, slots=True)
class CallMetrics:
    """One NPU call, from the start of a collection to its end.

    Attributes:
      name: of the function in the byte code.
      times_s: seconds of each run as the host sees it; more runs than the model's, in a loop's body.
      vendor: the vendor's own measurements; empty where it has none.
    """

    name: str
    times_s: Sequence[float]
    vendor: Sequence[Metric]


class CallMeter:
    """Measures one call's runs; a context manager around each."""

    __slots__ = ("_call", "_detail_level", "_start", "_times_s", "_vendor", "_vendor_measures")

    def __init__(self, call: Call, detail_level: int) -> None:
        """Starts; a higher level of detail is finer and may be slower. A vendor may have no metrics."""
        self._times_s: list[float] = []
        self._vendor: list[Metric] = []
        self._detail_level = detail_level
        self._start = 0.0
        self.follow(call)

    def follow(self, call: Call) -> None:
        """Goes on with a call that stands in place of the former; errors as when it started."""
        self._call = call
        self._vendor_measures = False
        try:
            call.start_metrics(self._detail_level)
            self._vendor_measures = True
        except LiteRtError as error:
            if error.status is not Status.UNSUPPORTED:
                raise

    def collect(self) -> None:
        """Takes what the vendor has measured, before the call is closed, or at the end."""
        if self._vendor_measures:
            self._vendor_measures = False
            self._vendor += self._call.stop_metrics()

    def stop(self) -> CallMetrics:
        """Ends, with what was measured."""
        self.collect()
        return CallMetrics(self._call.function_name, self._times_s, self._vendor)

    def __enter__(self) -> None:
        self._start = time.perf_counter()

    def __exit__(self, kind: object, error: object, trace: object) -> None:
        self._times_s.append(time.perf_counter() - self._start)

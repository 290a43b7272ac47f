"""What a vendor measures of a call's runs, between a start and a stop."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from dispatch.api import Metric
from dispatch.vendor import Vendor
from litert.core.errors import LiteRtError
from litert.core.status import Status


class RunMetrics:
    """Collects metrics of one call's runs."""

    def __init__(self, vendor: Vendor, context: Any, of_this: str) -> None:
        """Collects nothing yet.

        Args:
          vendor: that measures.
          context: of the invocation.
          of_this: follows a function's name in messages.
        """
        self._vendor = vendor
        self._context = context
        self._of_this = of_this
        self._is_collecting = False

    def start(self, detail: int) -> None:
        """Starts a collection; errors as `Call.start_metrics`."""
        if self._is_collecting:
            raise self._wrong_order("metrics are being collected already")
        self._call("start_metrics_collection", detail)
        self._is_collecting = True

    def stop(self) -> Sequence[Metric]:
        """Ends a collection: what was measured; errors as `Call.stop_metrics`."""
        if not self._is_collecting:
            raise self._wrong_order("no metrics are being collected")
        self._is_collecting = False
        metrics = self._call("stop_metrics_collection")
        if not isinstance(metrics, Sequence) or not all(map(_is_metric, metrics)):
            raise self._vendor.nonsense(
                f"stop_metrics_collection{self._of_this}",
                f"it returned {metrics!r:.80}, not a sequence of Metric",
                "Return a list of Metric(name, value).",
            )
        return metrics

    def _call(self, function: str, *args: object) -> Any:
        return self._vendor.call(function, self._context, *args, detail=self._of_this)

    def _wrong_order(self, what: str) -> LiteRtError:
        return LiteRtError(
            Status.RUNTIME_FAILURE, what, f"function{self._of_this.removeprefix(' of')}"
        )


def _is_metric(value: object) -> bool:
    return (
        isinstance(value, Metric)
        and isinstance(value.name, str)
        and isinstance(value.value, (bool, int, float, str))
    )

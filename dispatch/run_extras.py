"""What a call's runs have beside them: settings before each, and metrics between a start and a stop."""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from dispatch.api import Metric, is_filled
from dispatch.scheduling import SchedulingInfo
from dispatch.vendor import Vendor
from litert.core.errors import LiteRtError
from litert.core.status import Status

_LOG = logging.getLogger(__name__)


class RunSettings:
    """The settings of one call's runs.

    Attributes:
      scheduling_info: complete, as LiteRT gives it.
      options: None is none.
      are_taken: whether the vendor has a function of its own for one of them. The defaults do nothing, and are
        not called.
    """

    __slots__ = ("_set_options", "_set_scheduling_info", "are_taken", "options", "scheduling_info")

    def __init__(self, vendor: Vendor, invocation_context: Any, of_call: str) -> None:
        def bind(function: str) -> Callable[[object], object] | None:
            if not is_filled(vendor.dispatch, function):
                return None
            return vendor.bind(function, invocation_context, detail=of_call)

        self.scheduling_info = SchedulingInfo().with_defaults()
        self.options: Mapping[str, str] | None = None
        self._set_scheduling_info = bind("set_scheduling_info")
        self._set_options = bind("set_options")
        self.are_taken = bool(self._set_scheduling_info or self._set_options)

    def give(self) -> None:
        """Tells the vendor, before a run.

        Raises:
          LiteRtError: the vendor's, for options. Without its scheduling info a run goes on, as in LiteRT.
        """
        if self._set_scheduling_info:
            try:
                self._set_scheduling_info(self.scheduling_info)
            except LiteRtError as error:
                if error.status is not Status.UNSUPPORTED:
                    _LOG.warning("A run goes on without its scheduling info: %s", error)
        if self._set_options:
            try:
                self._set_options(self.options)
            except LiteRtError as error:
                if error.status is not Status.UNSUPPORTED or self.options is not None:
                    raise


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

"""Settings that the host passes to a vendor before each run of an NPU call: scheduling info and options."""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping
from typing import Any

from dispatch.api import is_filled
from dispatch.scheduling import SchedulingInfo
from dispatch.vendor import Vendor
from litert.core.errors import LiteRtError
from litert.core.status import Status

_LOG = logging.getLogger(__name__)


class RunSettings:
    """The settings for the runs of one NPU call.

    Attributes:
      scheduling_info: Scheduling info in which all fields are set, as in LiteRT.
      options: Options of the runs; None means no options.
      are_taken: Whether the vendor overrides `set_scheduling_info` or `set_options`. The host calls the functions
        for settings only if the vendor overrides them.
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
        """Passes the settings to the vendor; errors of `set_options` end the run, and other errors are logged."""
        if self._set_scheduling_info:
            try:
                self._set_scheduling_info(self.scheduling_info)
            except LiteRtError as error:
                if error.status is not Status.UNSUPPORTED:
                    _LOG.warning(
                        "a run continues without scheduling info, because the vendor refused the "
                        "scheduling info: %s",
                        error,
                    )
        if self._set_options:
            try:
                self._set_options(self.options)
            except LiteRtError as error:
                if error.status is not Status.UNSUPPORTED or self.options is not None:
                    raise

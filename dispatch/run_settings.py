"""Settings that the host gives a vendor before each run of a call: scheduling info and options."""

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
    """The settings of one call's runs.

    Attributes:
      scheduling_info: Scheduling info with all fields set, as LiteRT gives it.
      options: None means no options.
      are_taken: Whether the vendor overrides one of the functions for settings. The host does not call functions
        that the vendor does not override.
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
        """Gives the vendor the settings; an error in the options ends the run, in the scheduling info not."""
        if self._set_scheduling_info:
            try:
                self._set_scheduling_info(self.scheduling_info)
            except LiteRtError as error:
                if error.status is not Status.UNSUPPORTED:
                    _LOG.warning("A run continues without its scheduling info: %s", error)
        if self._set_options:
            try:
                self._set_options(self.options)
            except LiteRtError as error:
                if error.status is not Status.UNSUPPORTED or self.options is not None:
                    raise

"""What a vendor is told before each run of a call: how it stands among others, and its options."""

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
        """Tells the vendor; without its scheduling info a run goes on, as in LiteRT, without options it fails."""
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

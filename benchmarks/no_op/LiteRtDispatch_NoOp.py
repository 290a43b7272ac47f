"""A vendor whose runs do nothing, to measure the cost of a call."""

from __future__ import annotations

from collections.abc import Mapping

from dispatch.api import Dispatch, HostInvocationContext


class NoOpDispatch(Dispatch[object, HostInvocationContext]):
    """Does nothing."""

    vendor_id = "NoOp"

    def device_context_create(self, options: Mapping[str, str]) -> object:
        return object()

    def invoke(self, invocation_context: HostInvocationContext) -> None:
        pass


DISPATCH = NoOpDispatch()

"""The part of the dispatch table for `Capability.ASYNC`: runs that do not wait."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import Generic, TypeVar

from dispatch.event import Event

InvocationContext = TypeVar("InvocationContext")


class AsyncInterface(ABC, Generic[InvocationContext]):
    """Starts runs; a call is left alone until the events of its run are signaled.

    A vendor without this part gets `invoke` in a thread of the host's.
    """

    @abstractmethod
    def attach_input_event(
        self, invocation_context: InvocationContext, index: int, event: Event
    ) -> None:
        """The next run reads input `index` only after the event."""

    @abstractmethod
    def invoke_async(self, invocation_context: InvocationContext) -> Sequence[Event]:
        """Starts a run.

        Returns:
          One event for each output: signaled once it is written, or failed. Several may be the same one.
        """

"""Runs that their caller does not wait for, in a thread of the model's."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from typing import TypeVar

from dispatch.event import Event
from litert.runtime.events import wait_for_all

_Result = TypeVar("_Result")


class AsyncRuns:
    """A thread that runs jobs in the order they came; there is none until the first."""

    def __init__(self) -> None:
        self._executor: ThreadPoolExecutor | None = None

    def submit(self, job: Callable[[], _Result]) -> Future[_Result]:
        """Queues a job."""
        if self._executor is None:
            self._executor = ThreadPoolExecutor(1, "litert")
        return self._executor.submit(job)

    def start(self, run: Callable[[], None], waits: Sequence[Event]) -> Event:
        """Queues a run.

        Args:
          run: the run.
          waits: what must happen before.

        Returns:
          An event that happens when the run has ended, or fails with what it or one of `waits` raised.
        """
        ended = Event()

        def job() -> None:
            try:
                wait_for_all(waits)
                run()
            except BaseException as error:  # this thread is ours: who waits gets it
                ended.fail(error)
            else:
                ended.signal()

        self.submit(job)
        return ended

    def close(self, *, must_wait: bool = True) -> None:
        """Ends the thread after all jobs, and waits for that, unless it is that thread which calls."""
        executor, self._executor = self._executor, None
        if executor is not None:
            executor.shutdown(wait=must_wait)

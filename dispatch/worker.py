"""A thread that runs jobs in the order in which they were added; the first job starts the thread."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import TYPE_CHECKING, TypeVar

from dispatch.event import Event

if TYPE_CHECKING:
    from concurrent.futures import Future, ThreadPoolExecutor

_Result = TypeVar("_Result")


class Worker:
    """Runs jobs in a separate thread, so that the owner need not wait; jobs can be added from any thread."""

    __slots__ = ("_executor", "_lock", "_name", "_thread_id")

    def __init__(self, name: str) -> None:
        """Stores the thread's name, which debuggers show."""
        self._name = name
        self._lock = threading.Lock()
        self._executor: ThreadPoolExecutor | None = None
        self._thread_id: int | None = None

    def submit(self, job: Callable[[], _Result]) -> Future[_Result]:
        """Adds a job to the queue."""
        with self._lock:
            if self._executor is None:
                from concurrent.futures import ThreadPoolExecutor  # here: few programs need it

                self._executor = ThreadPoolExecutor(1, self._name, self._note_thread)
            return self._executor.submit(job)

    def start(self, run: Callable[[], object]) -> Event:
        """Adds a run to the queue.

        Returns:
          An event that is signaled when the run ends, or that fails with the run's error.
        """
        ended = Event()

        def job() -> None:
            try:
                run()
            except (
                BaseException
            ) as error:  # the thread must go on; waiting for the event raises the error
                ended.fail(error)
            else:
                ended.signal()

        self.submit(job)
        return ended

    def close(self, *, must_wait: bool = True) -> None:
        """Ends the thread after all jobs; waits for its end, except if the thread itself calls this method."""
        with self._lock:
            executor, self._executor = self._executor, None
        if executor is not None:
            executor.shutdown(wait=must_wait and threading.get_ident() != self._thread_id)

    def _note_thread(self) -> None:
        self._thread_id = threading.get_ident()

"""A thread that runs jobs in the order they came; there is none until the first job."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import TYPE_CHECKING, TypeVar

from dispatch.event import Event

if TYPE_CHECKING:
    from concurrent.futures import Future, ThreadPoolExecutor

_Result = TypeVar("_Result")


class Worker:
    """Runs what its owner does not wait for; any thread may use it."""

    __slots__ = ("_executor", "_lock", "_name", "_thread_id")

    def __init__(self, name: str) -> None:
        """Names the thread, for debuggers."""
        self._name = name
        self._lock = threading.Lock()
        self._executor: ThreadPoolExecutor | None = None
        self._thread_id: int | None = None

    def submit(self, job: Callable[[], _Result]) -> Future[_Result]:
        """Queues a job."""
        with self._lock:
            if self._executor is None:
                from concurrent.futures import ThreadPoolExecutor  # here: few programs need it

                self._executor = ThreadPoolExecutor(1, self._name, self._note_thread)
            return self._executor.submit(job)

    def start(self, run: Callable[[], object]) -> Event:
        """Queues a run.

        Returns:
          An event that happens when the run has ended, or fails with what it raised.
        """
        ended = Event()

        def job() -> None:
            try:
                run()
            except BaseException as error:  # this thread is ours: who waits gets it
                ended.fail(error)
            else:
                ended.signal()

        self.submit(job)
        return ended

    def close(self, *, must_wait: bool = True) -> None:
        """Ends the thread after all jobs, and waits for that, unless it is that thread which calls."""
        with self._lock:
            executor, self._executor = self._executor, None
        if executor is not None:
            executor.shutdown(wait=must_wait and threading.get_ident() != self._thread_id)

    def _note_thread(self) -> None:
        self._thread_id = threading.get_ident()

"""A thread that runs jobs in the order they came; there is none until the first job."""

from __future__ import annotations

import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor


class Worker:
    """Runs what a vendor without asynchronous runs does not."""

    __slots__ = ("_executor", "_lock")

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._executor: ThreadPoolExecutor | None = None

    def submit(self, job: Callable[[], None]) -> None:
        """Queues a job, which must not raise."""
        with self._lock:
            if self._executor is None:
                self._executor = ThreadPoolExecutor(1, "dispatch")
            self._executor.submit(job)

    def close(self) -> None:
        """Waits for the jobs, and ends the thread."""
        with self._lock:
            if self._executor is not None:
                self._executor.shutdown()
                self._executor = None

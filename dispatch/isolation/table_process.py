"""A child process that runs a vendor's dispatch table, in a sandbox if required."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack
from typing import Any

from dispatch.isolation.limits import Limits
from dispatch.isolation.watched_invoke import MOST_CALLS, TASKS
from litert.core.errors import ChildEndedError, LiteRtError
from litert.core.status import Status
from litert.host.child import folder_for_child
from litert.host.child_side import load_function
from litert.host.sandbox import DRIVER_VARIABLES, Sandbox, usable
from litert.host.service import Service
from litert.host.serving import CALL_WORD, RUN_WORD, TASK_WORD

_MEMORY_STATUSES = (Status.MEMORY_ALLOCATION_FAILURE, Status.DYNAMIC_LOADING, Status.UNKNOWN)
"""Statuses of errors that a driver reports if it gets too little memory and does not crash."""


class TableProcess:
    """A child process for a dispatch table; it can be started again after its end, and the owner must close it.

    Attributes:
      service: Service through which the host sends requests to the child process.
    """

    def __init__(
        self,
        target: str,
        table: tuple[str, str, dict[str, str]],
        limits: Limits,
        answers: Mapping[str, Callable[[Any], object]],
        *,
        subject: str,
        where: str = "",
        shared: Sequence[int] = (),
        readable: Sequence[str] = (),
        is_watched: bool = False,
        describe: Callable[[str], str] = str,
    ) -> None:
        """Starts the child process without waiting until it is ready.

        Args:
          target: Function, as `package.module:function`, that the child process calls to get the handlers. The
            handler `load` must call `load_table` with the request's arguments, and return the table's `host_side`.
          table: Manufacturer, library path, and the vendor's options.
          limits: Time and memory limits of the child process.
          answers: Functions that handle requests from the child process, by name of the request; all other
            requests go to the table's `host_side`.
          subject: Name of the child process in messages.
          where: Value of the field `where` in errors.
          shared: File descriptors that the child process inherits, with the same numbers.
          readable: Paths of the files that the child process may open.
          is_watched: Whether this object enforces the time limit of each run of an NPU call. If False, the code
            that starts the run must enforce the time limit.
          describe: Function that returns more details of a request for messages; not used for runs of NPU calls.

        Raises:
          LiteRtError: UNSUPPORTED, if a sandbox is required, but the system does not support sandboxes.
        """
        self._target = target
        self._limits = limits
        self._answers = {**answers, TASKS: self._note_tasks}
        self._describe_others = describe
        self._subject, self._where = subject, where
        self._shared = shared
        self._is_watched = is_watched
        self._options = table[2]
        self._host_side: Any = None
        self._calls: dict[int, tuple[str, Sequence[str]]] = {}
        self._seen, self._seen_s = (0, 0), 0.0
        self._sandbox = usable(Sandbox(variables=DRIVER_VARIABLES, mode=limits.sandbox), subject)
        self._resources = ExitStack()
        self._folder = ""
        if self._sandbox is not None:
            self._folder = self._resources.enter_context(folder_for_child())
        self._request = [*table, self._folder, list(readable)]
        try:
            self.start()
        except BaseException:
            self._resources.close()
            raise

    def start(self) -> None:
        """Starts the child process, or starts a new child process if the previous process has ended."""
        self.service = service = Service(
            self._target,
            timeout_s=self._limits.call_timeout_s,
            subject=self._subject,
            where=self._where,
            sandbox=self._sandbox,
            enters_later=self._sandbox is not None,
            temporary_folder=self._folder,
            shared=self._shared,
            memory_bytes=self._limits.most_bytes,
            answer=self._answer,
            describe=self._describe,
            watch=self._find_limit if self._is_watched else None,
        )
        self._calls.clear()
        try:
            service.begin("load", self._request)
        except BaseException:
            service.close()
            raise

    def load(self) -> None:
        """Waits until the child process has loaded the dispatch table and entered its sandbox."""
        # The process reads no part of the model before it answers; therefore the answer can be trusted.
        host_side = self.service.ask("load", self._request, self._limits.build_timeout_s)
        self._host_side = load_function(host_side) if host_side else None

    def memory_hint(self, error: LiteRtError) -> str:
        """Returns a hint that names the memory limit, if the limit may have caused an error; otherwise "".

        Libraries do not say that a memory limit was the cause. Therefore each error that such a limit can cause
        gets this hint, provided that the user has set a limit.
        """
        is_crash = isinstance(error, ChildEndedError) and error.status is Status.RUNTIME_FAILURE
        if not self._limits.memory_bytes or not (is_crash or error.status in _MEMORY_STATUSES):
            return ""
        return (
            f"The device's process may use only {self._limits.memory_bytes >> 20} MiB of memory; if this is too "
            "little, increase the limit (Options.device_memory_bytes, --device_memory)."
        )

    def close(self) -> None:
        """Ends it."""
        self.service.close()
        self._resources.close()

    def _answer(self, question: str, argument: Any) -> object:
        start_s = time.monotonic()
        try:
            if question in self._answers:
                return self._answers[question](argument)
            if self._host_side is None:
                raise LiteRtError(
                    Status.UNSUPPORTED,
                    f"the device's process sent the request '{question}', which the host does not support",
                )
            return self._host_side(self._options, question, argument)
        finally:
            self._seen_s += time.monotonic() - start_s

    def _note_tasks(self, argument: Any) -> None:
        number, name, tasks = argument
        self._calls[int(number) % (MOST_CALLS + 1)] = str(name), list(map(str, tasks))

    def _describe(self, call: str) -> str:
        """Describes what the process is doing, for the error if it ends."""
        words = self.service.words  # which the process may change at any time
        number, task = words[CALL_WORD], words[TASK_WORD]
        if number not in self._calls:
            return self._describe_others(call)
        name, tasks = self._calls[number]
        what = f"invoke of '{name}'"
        tasks = tasks if not task else tasks[task - 1 : task]
        if len(tasks) == 1:
            return f"{what}, {tasks[0]}"
        return f"{what}, in one of these tasks: {'; '.join(tasks)}" if tasks else what

    def _find_limit(self) -> tuple[float, float]:
        """Returns the remaining seconds for the current run of an NPU call, and the time limit of the run."""
        words = self.service.words
        seen = words[CALL_WORD], words[RUN_WORD]
        if seen != self._seen:
            self._seen, self._seen_s = seen, time.monotonic()
        limits = self._limits
        if not seen[0]:
            return float("inf"), 0
        limit_s = limits.build_timeout_s if seen[1] == 1 else limits.call_timeout_s
        return self._seen_s + limit_s - time.monotonic(), limit_s

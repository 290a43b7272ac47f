"""Writes the current NPU call and task of a child process to a memory page that is shared with the host."""

from __future__ import annotations

from collections.abc import Callable
from itertools import count
from typing import Any

from dispatch.vendor import Vendor
from litert.host.serving import (
    CALL_WORD,
    RUN_WORD,
    TASK_WORD,
    ask_host,
    has_host,
    shared_words,
)

MOST_CALLS = 1 << 14
"""Number of NPU calls whose tasks the host stores; further NPU calls reuse the numbers of old NPU calls."""

TASKS = "tasks"
"""Name of the request that sends the number, the name and the tasks of an NPU call to the host."""

_numbers = count()


def watched_invoke(
    vendor: Vendor, context: Any, function_name: str, invoke: Callable[..., Any]
) -> Callable[..., Any]:
    """Returns a function that runs an NPU call and reports its current task; without a host, returns `invoke`.

    Raises:
      LiteRtError: Any error of the vendor.
    """
    if not has_host():
        return invoke
    words, number, runs = shared_words(), next(_numbers) % MOST_CALLS + 1, count(1)
    task = words[TASK_WORD : TASK_WORD + 1]
    tasks = vendor.call("watch_tasks", context, task, detail=f" of '{function_name}'")
    ask_host(TASKS, [number, function_name, list(tasks)])

    def invoke_watched(*args: Any) -> Any:
        words[TASK_WORD], words[RUN_WORD] = 0, next(runs) & 0xFFFFFFFF
        words[CALL_WORD] = number
        try:
            return invoke(*args)
        finally:
            words[CALL_WORD] = 0

    return invoke_watched

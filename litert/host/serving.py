"""The child's side of a service: answers calls, says which native function runs, and ends with its parent."""

from __future__ import annotations

import gc
import json
import logging
import mmap
import os
import select
import signal
import sys
import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, nullcontext
from typing import IO, Any, TypeAlias

from litert.core.tracing import SpanKind, record, span
from litert.host.child_side import become_child, error_message, load_function, set_alarm

FILE_START = 4096
"""Where the shared file is free: what is before has the name of the native function that is running."""

Handlers: TypeAlias = Mapping[str, Callable[[Any], object]]
"""What the child answers each call with, by the call's name: JSON in, JSON out."""

_EXIT_S = 1

_page: mmap.mmap | None = None
"""In the child: the start of the shared file, with the name of the native function that is running."""


def serve(target: str, fd: str, log_level: str) -> None:
    """The child's side: reads a line for each call, and writes one for each answer."""
    global _page
    gc.set_threshold(100_000)  # imports and models make many objects, and no garbage
    channel = _Channel(become_child())
    root = logging.getLogger()
    root.addHandler(channel)
    root.setLevel(int(log_level))
    _page = mmap.mmap(int(fd), FILE_START)
    is_busy = threading.Event()
    threading.Thread(target=_end_with_parent, args=[is_busy], daemon=True).start()
    handlers: Handlers = {}
    for line in sys.stdin.buffer:
        is_busy.set()
        request = json.loads(line)
        set_alarm(request["timeout_s"])
        with record() if request["is_recorded"] else nullcontext() as recording:
            try:
                handlers = handlers or load_function(target)(int(fd))
                answer: dict[str, object] = {
                    "answer": handlers[request["call"]](request["argument"])
                }
            except Exception as error:
                answer = error_message(error, f"{target}, {request['call']}")
        if recording is not None:
            answer["spans"] = recording.to_plain()
        set_alarm(0)
        is_busy.clear()
        channel.say(answer)
    gc.freeze()  # the collections at exit find nothing to do
    set_alarm(_EXIT_S)  # what native code does at exit may hang as well


@contextmanager
def native_call(name: str) -> Iterator[None]:
    """Measures a native function of a plugin; in the child also says that it runs, should it be the last."""
    with span(SpanKind.PLUGIN, name):
        if _page is None:
            yield
            return
        data = name.encode()[:255]
        _page[: 1 + len(data)] = bytes([len(data)]) + data
        try:
            yield
        finally:
            _page[0] = 0


class _Channel(logging.Handler):
    """In the child: answers, and log records of any thread, each a line."""

    def __init__(self, stream: IO[str]) -> None:
        super().__init__()
        self._stream = stream
        self._speaking = threading.RLock()

    def say(self, message: Mapping[str, object]) -> None:
        with self._speaking:
            print(json.dumps(message), file=self._stream, flush=True)

    def emit(self, record: logging.LogRecord) -> None:
        self.say({"log": [record.name, record.levelno, self.format(record)]})


def _end_with_parent(is_busy: threading.Event) -> None:
    """In the child: a thread that waits for the parent's end, which an idle child sees by itself."""
    poll = select.poll()
    poll.register(0, 0)  # hang-ups are always reported
    poll.poll()
    is_busy.wait()  # a last call may still be in the pipe
    if os.getpgrp() == os.getpid():  # with the children that native code has started
        os.killpg(0, signal.SIGKILL)
    os._exit(1)

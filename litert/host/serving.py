"""The child's side of a service: handles calls, records which native function runs, and ends with its parent."""

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
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager, nullcontext
from typing import IO, Any, TypeAlias

from litert.core.errors import LiteRtError, memory_text
from litert.core.mapped_files import check_mapped_files
from litert.core.status import Status
from litert.core.tracing import SpanKind, record, span
from litert.host.child_side import (
    become_child,
    error_message,
    load_function,
    raise_error,
    set_alarm,
)
from litert.host.sandbox import Sandbox, enter

PAGE_SIZE = 4096
"""Size of the shared memory page in bytes; the page contains the running native function's name, then numbers."""

NUMBER_WORD = 64
"""Index of the word in the shared memory page to which `Service.ring` writes the number."""

CALL_WORD, RUN_WORD = 66, 67
"""Indices of the words to which the child writes the current NPU call (0 for none) and the call's run number."""

OP_WORD = 68
"""Index of the word to which the child may write the number of the current CPU op."""

TASK_WORD = 80
"""Index of the word to which the child may write the current task's number; this word is aligned for devices."""

RING = "ring"
"""Name of the handler that is called in the child with the number when the host calls `Service.ring`."""

Handlers: TypeAlias = Mapping[str, Callable[[Any], object]]
"""Functions that handle calls in the child, by the call's name; arguments and results are JSON data."""

_MOST_LETTERS = 4 * NUMBER_WORD - 1
_EXIT_S = 1
_LOOK_S = 0.05

_NO_WORK = nullcontext()

_server: _Server | None = None
"""The server of this process; None if this process is not the child of a service."""


def serve(target: str, settings: str) -> None:
    """Runs in the child: reads a line for each call, and writes a line for each reply."""
    global _server
    given = json.loads(settings)
    gc.set_threshold(100_000)  # imports and models make many objects, but no garbage
    channel = _Channel(become_child())
    root = logging.getLogger()
    root.addHandler(channel)
    root.setLevel(given["log_level"])
    page = mmap.mmap(given["page"], PAGE_SIZE)
    _server = _Server(target, given["fd"], page, channel)
    _server.has_answers = given["has_answers"]
    if not given["enters_later"]:
        _server.watch_parent()
    _server.serve(*given["bells"])
    gc.freeze()  # the collections at exit find no objects
    set_alarm(_EXIT_S)  # native code may hang at exit as well


@contextmanager
def native_call(name: str) -> Iterator[None]:
    """Measures the time of a native function of a plugin.

    A child process also records the function's name, in case the function crashes.
    """
    with span(SpanKind.PLUGIN, name), at_work(name):
        yield


def at_work(name: str) -> AbstractContextManager[None]:
    """In a child process, records which function the `with` block runs, in case the function crashes.

    In other processes, the context manager does nothing.
    """
    return _NO_WORK if _server is None else _server.at_work(name)


def ask_host(question: str, argument: object) -> Any:
    """Sends a request to the host during a call in the child, and returns the reply.

    Raises:
      LiteRtError: The error in the host's reply.
    """
    assert _server is not None
    return _server.ask(question, argument)


def has_host() -> bool:
    """Returns whether this process handles calls of a host, so that `ask_host` can be used during calls."""
    return _server is not None and _server.has_answers


def enter_sandbox(sandbox: Sandbox) -> None:
    """Enters a sandbox in the child before untrusted data are read.

    The sandbox restricts all threads that start later.

    Raises:
      LiteRtError: UNSUPPORTED, if other threads already run, since they would stay unrestricted.
      OSError: The kernel refuses a call.
    """
    assert _server is not None
    if len(os.listdir("/proc/self/task")) > 1:
        raise LiteRtError(
            Status.UNSUPPORTED,
            "other threads already run before the sandbox is entered",
            hint="If a module starts threads on import, import it inside a function; or run without a sandbox.",
        )
    enter(sandbox.to_json())
    _server.watch_parent()


def shared_words() -> memoryview[int]:
    """Returns the words of the shared memory page; for use in the child."""
    assert _server is not None
    return memoryview(_server.page).cast("I")


class _Server:
    """Answers calls one after another."""

    def __init__(self, target: str, fd: int, page: mmap.mmap, channel: _Channel) -> None:
        self.page = page
        self._target = target
        self._fd = fd
        self._channel = channel
        self.has_answers = False
        self._is_busy = False
        self._handlers: Handlers = {}

    def watch_parent(self) -> None:
        """Starts the thread that ends this process when its parent ends."""
        threading.Thread(target=self._end_with_parent, daemon=True).start()

    def serve(self, bell: int, answer_bell: int) -> None:
        """Runs until the parent has no more calls."""
        poll = select.poll()
        poll.register(0, select.POLLIN)
        poll.register(bell, select.POLLIN)
        rung = [(bell, select.POLLIN)]
        words = memoryview(self.page).cast("I")
        while True:
            if poll.poll() == rung:
                os.eventfd_read(bell)
                self._is_busy = True
                self._answer_ring(words[NUMBER_WORD], answer_bell)
            else:
                line = sys.stdin.buffer.readline()
                if not line:
                    return
                self._is_busy = True
                self._answer(json.loads(line))
            self._is_busy = False

    @contextmanager
    def at_work(self, name: str) -> Iterator[None]:
        """Records in the shared page which function the block runs."""
        page, data = self.page, name.encode(errors="replace")[:_MOST_LETTERS]
        before = page[: 1 + page[0]]
        page[: 1 + len(data)] = bytes([len(data)]) + data
        try:
            yield
        finally:
            page[: len(before)] = before

    def ask(self, question: str, argument: object) -> Any:
        """Asks the parent a question and returns its answer."""
        self._channel.say({"question": [question, argument]})
        try:
            reply = json.loads(sys.stdin.buffer.readline() or b'{"answer": null}')
        except MemoryError as error:  # the next call could read the rest of the reply
            sys.exit(memory_text(error))
        raise_error(reply)
        return reply["answer"]

    def _end_with_parent(self) -> None:
        """Runs a thread that waits for the parent's end; an idle child notices the end by itself."""
        poll = select.poll()
        poll.register(0, 0)  # hang-ups are always reported
        poll.poll()
        while not self._is_busy:  # a last call may still be in the pipe
            time.sleep(_LOOK_S)
        if os.getpgrp() == os.getpid():  # with the children that native code has started
            os.killpg(0, signal.SIGKILL)
        os._exit(1)

    def _answer(self, request: dict[str, Any]) -> None:
        set_alarm(request["timeout_s"])
        with record() if request["is_recorded"] else nullcontext() as recording:
            try:
                answer = {"answer": self._find(request["call"])(request["argument"])}
                check_mapped_files()
            except Exception as error:
                answer = error_message(error, f"{self._target}, {request['call']}")
        if recording is not None:
            answer["spans"] = recording.take_plain()
        set_alarm(0)
        self._channel.say(answer)

    def _answer_ring(self, number: int, bell: int) -> None:
        """Rings back, unless there is a message to send."""
        said = self._channel.count
        try:
            self._find(RING)(number)
            check_mapped_files()
        except Exception as error:
            self._channel.say(error_message(error, f"{self._target}, {RING}"))
            return
        if self._channel.count == said:
            os.eventfd_write(bell, 1)
        else:
            self._channel.say({"answer": None})

    def _find(self, call: str) -> Callable[[Any], object]:
        self._handlers = self._handlers or load_function(self._target)(self._fd)
        return self._handlers[call]


class _Channel(logging.Handler):
    """Sends answers and log records of any thread from the child, one line each.

    Attributes:
      count: Number of lines so far.
    """

    def __init__(self, stream: IO[str]) -> None:
        super().__init__()
        self.count = 0
        self._stream = stream
        self._speaking = threading.RLock()

    def say(self, message: Mapping[str, object]) -> None:
        with self._speaking:
            self.count += 1
            print(json.dumps(message), file=self._stream, flush=True)

    def emit(self, record: logging.LogRecord) -> None:
        self.say({"log": [record.name, record.levelno, self.format(record)]})

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
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager, nullcontext
from typing import IO, Any, TypeAlias

from litert.core.errors import LiteRtError
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
"""Of the page that both processes have: the name of the native function that is running, and words behind it."""

NUMBER_WORD = 64
"""The word of the page that has the number of a call that is rung."""

CALL_WORD, RUN_WORD = 66, 67
"""The words where the child says which NPU call it is at, 0 for none, and in which of its runs."""

OP_WORD = 68
"""The word where the child may say which op of the CPU it is at."""

TASK_WORD = 80
"""The word where the child may say which task it is at; devices want it aligned."""

RING = "ring"
"""The handler of calls that are rung; it gets the number."""

Handlers: TypeAlias = Mapping[str, Callable[[Any], object]]
"""What the child answers each call with, by the call's name: JSON in, JSON out."""

_MOST_LETTERS = 4 * NUMBER_WORD - 1
_EXIT_S = 1
_LOOK_S = 0.05

_NO_WORK = nullcontext()

_server: _Server | None = None
"""In the child."""


def serve(target: str, settings: str) -> None:
    """The child's side: reads a line for each call, and writes one for each answer."""
    global _server
    given = json.loads(settings)
    gc.set_threshold(100_000)  # imports and models make many objects, and no garbage
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
    gc.freeze()  # the collections at exit find nothing to do
    set_alarm(_EXIT_S)  # what native code does at exit may hang as well


@contextmanager
def native_call(name: str) -> Iterator[None]:
    """Measures a native function of a plugin; in the child also says that it runs, should it be the last."""
    with span(SpanKind.PLUGIN, name), at_work(name):
        yield


def at_work(name: str) -> AbstractContextManager[None]:
    """In the child: says what runs in the block, should it be the last; elsewhere it does nothing."""
    return _NO_WORK if _server is None else _server.at_work(name)


def ask_host(question: str, argument: object) -> Any:
    """In the child, in a call: has the host answer a question.

    Raises:
      LiteRtError: what the host's answer raised.
    """
    assert _server is not None
    return _server.ask(question, argument)


def has_host() -> bool:
    """Whether this process answers the calls of a host that answers `ask_host` in them."""
    return _server is not None and _server.has_answers


def enter_sandbox(sandbox: Sandbox) -> None:
    """In the child, before it reads what is not to be trusted: enters a sandbox, for all threads to come.

    Raises:
      LiteRtError: UNSUPPORTED, where threads run already, which would stay free.
      OSError: the kernel refuses it.
    """
    assert _server is not None
    if len(os.listdir("/proc/self/task")) > 1:
        raise LiteRtError(
            Status.UNSUPPORTED,
            "threads run before the sandbox is entered",
            hint="Import what starts threads inside functions, or run without a sandbox.",
        )
    enter(sandbox.to_json())
    _server.watch_parent()


def shared_words() -> memoryview[int]:
    """In the child: the words of the page that both processes have."""
    assert _server is not None
    return memoryview(_server.page).cast("I")


class _Server:
    """Answers calls, one after the other."""

    def __init__(self, target: str, fd: int, page: mmap.mmap, channel: _Channel) -> None:
        self.page = page
        self._target = target
        self._fd = fd
        self._channel = channel
        self.has_answers = False
        self._is_busy = False
        self._handlers: Handlers = {}

    def watch_parent(self) -> None:
        """Starts the thread that ends this process with its parent."""
        threading.Thread(target=self._end_with_parent, daemon=True).start()

    def serve(self, bell: int, answer_bell: int) -> None:
        """Until the parent has no more calls."""
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
        """Has the page say what runs in the block."""
        page, data = self.page, name.encode(errors="replace")[:_MOST_LETTERS]
        before = page[: 1 + page[0]]
        page[: 1 + len(data)] = bytes([len(data)]) + data
        try:
            yield
        finally:
            page[: len(before)] = before

    def ask(self, question: str, argument: object) -> Any:
        """Has the parent answer a question."""
        self._channel.say({"question": [question, argument]})
        reply = json.loads(sys.stdin.buffer.readline() or b'{"answer": null}')
        raise_error(reply)
        return reply["answer"]

    def _end_with_parent(self) -> None:
        """A thread that waits for the parent's end, which an idle child sees by itself."""
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
        """Rings back, unless there is something to say."""
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
    """In the child: answers, and log records of any thread, each a line.

    Attributes:
      count: of the lines so far.
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

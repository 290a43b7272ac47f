"""Calls a function in a child process, where it may crash or hang without harm to this one.

The function gets one JSON value and yields others; each comes over a pipe as soon as it is there. How far it is,
which it tells as code in this process does, comes the same way. What native code prints in the child goes to its
standard error, whose end is in the error of a child that fails.
"""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager, nullcontext
from typing import IO, Any

from litert.core.mapped_files import check_mapped_files
from litert.core.progress import Progress, is_heard, listening, tell
from litert.core.tracing import Recording, is_recording, record, take_in
from litert.host.child_process import ChildProcess
from litert.host.child_side import (
    become_child,
    error_message,
    load_function,
    raise_error,
    set_alarm,
)
from litert.host.sandbox import Sandbox

_PROGRESS_INTERVAL_S = 0.1  # a message each time would cost more than many a step


def call_in_child(
    target: str,
    argument: object,
    *,
    timeout_s: float,
    subject: str,
    hear: Callable[[bytes], object] | None = None,
    is_for_each: bool = False,
    end_s: float = 0,
    memory_bytes: int = 0,
    sandbox: Sandbox | None = None,
) -> Iterator[object]:
    """Calls a generator function in a new process, and yields what it yields.

    The child is killed when the caller stops early, be it by an exception or Ctrl-C, and its temporary files are
    removed.

    Args:
      target: `package.module:function`; imported in the child.
      argument: what it is called with, as JSON has it.
      timeout_s: until its end; a child that outlives this process ends a little later by itself.
      is_for_each: whether the time limit is for each answer, and begins anew with it.
      subject: who failed, for messages: "the OpenCL compiler".
      hear: gets what the child prints, as it comes; errors then do not repeat it.
      end_s: if not 0, it is an error if the process does not end after so many seconds, with status 0.
      memory_bytes: how much data the process may have in memory; 0 for no limit.
      sandbox: what it may use, beside a temporary folder of its own; None for all that this process may.

    Raises:
      LiteRtError: what the function raised; TIMEOUT_EXPIRED; RUNTIME_FAILURE, if the child crashed;
        DYNAMIC_LOADING, if it could not be started; UNSUPPORTED, if this system lacks a sandbox that is required.
    """
    with ExitStack() as stack:
        numbers = (timeout_s, int(is_heard()), int(is_recording()))
        child = ChildProcess(
            "litert.host.child:serve",
            [target, *map(str, numbers)],
            subject=subject,
            where=target,
            hear=hear,
            memory_bytes=memory_bytes,
            temporary_folder=stack.enter_context(folder_for_child()),
            sandbox=sandbox,
        )
        stack.callback(child.end)
        child.set_time_limit(timeout_s)
        for line in child.lines(json.dumps(argument).encode(), is_last=True):
            message: dict[str, Any] = json.loads(line)
            if "progress" in message:
                tell(*message["progress"])
                continue
            take_in(message.get("spans", ()), subject)
            if "answer" not in message:
                child.set_time_limit(end_s)
                child.await_end()
            if "end" in message:
                if end_s and not child.has_ended_well:
                    raise child.early_end()
                return
            raise_error(message)
            if is_for_each:
                child.set_time_limit(timeout_s)
            yield message["answer"]
        raise child.early_end()


@contextmanager
def folder_for_child() -> Iterator[str]:
    """For temporary files of a child, which is killed before it removes them; "" where no folder can be made."""
    from litert.model.atomic_file import temporary_folder  # here: the child needs none

    with ExitStack() as stack:
        try:
            folder = stack.enter_context(temporary_folder())
        except OSError:
            folder = ""
        yield folder


def serve(target: str, timeout: str, heard: str, recorded: str) -> None:
    """The child's side: reads the argument, writes a line for each answer."""
    channel = become_child()
    timeout_s = float(timeout)
    set_alarm(timeout_s)
    argument = json.load(sys.stdin)
    hear = _progress_sender(channel) if int(heard) else None
    with record() if int(recorded) else nullcontext() as recording:
        try:
            with listening(hear):
                for answer in load_function(target)(argument):
                    check_mapped_files()
                    _say(channel, {"answer": answer}, recording)
                    set_alarm(timeout_s)
            last: dict[str, object] = {"end": True}
        except Exception as error:
            last = error_message(error, target)
    _say(channel, last, recording)


def _say(channel: IO[str], message: dict[str, object], recording: Recording | None) -> None:
    """In the child: says something, with what was measured since the last time: the parent may stop at any."""
    if recording is not None:
        message["spans"] = recording.take_plain()
    print(json.dumps(message), file=channel, flush=True)


def _progress_sender(channel: IO[str]) -> Progress:
    """In the child: sends the parent what is told, as far as somebody can read it."""
    step, due_s = "", 0.0

    def send(told_step: str, done: int, total: int) -> None:
        nonlocal step, due_s
        now = time.monotonic()
        if told_step != step or now >= due_s:
            step, due_s = told_step, now + _PROGRESS_INTERVAL_S
            print(json.dumps({"progress": [step, done, total]}), file=channel, flush=True)

    return send

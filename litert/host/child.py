"""Calls a function in a child process, so that a crash or hang of the function does not harm this process.

The function takes one JSON value and yields JSON values, each of which arrives through a pipe as soon as it is
yielded. The function reports progress as usual, and its progress reports arrive through the same pipe. Output of
native code goes to the child's standard error. If the child fails, the error contains the end of this output.
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

_PROGRESS_INTERVAL_S = 0.1  # a message for each report would cost more than many steps


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
    """Calls a generator function in a new process, and yields the function's values.

    If the caller stops early, because of an exception or Ctrl-C, the child is killed and its temporary files are
    removed.

    Args:
      target: Function as `package.module:function`, which the child imports.
      argument: Argument of the function, as JSON data.
      timeout_s: Time limit for the whole call, in seconds. If this process ends before the child, the child ends
        by itself a little after the time limit.
      is_for_each: Whether the time limit applies to each single value instead of the whole call.
      subject: Name of the child for messages, for example "the OpenCL compiler".
      hear: Function that receives the child's output as soon as it is printed; errors then do not repeat the
        output.
      end_s: Time limit, in seconds, for the child to end with status 0 after its last value; 0 for no check.
      memory_bytes: Maximum size of the child's data in memory, in bytes; 0 for no limit.
      sandbox: Access rights of the child, in addition to its own temporary directory; None for all rights of this
        process.

    Raises:
      LiteRtError: The error that the function raised; TIMEOUT_EXPIRED, if a time limit is exceeded;
        RUNTIME_FAILURE, if the child crashed; DYNAMIC_LOADING, if the child could not start; UNSUPPORTED, if a
        sandbox is required and this system has none.
    """
    with ExitStack() as stack:
        numbers = (timeout_s, int(is_heard()), int(is_recording()))
        child = ChildProcess(
            "litert.host.child:serve",
            [target, *map(str, numbers)],
            subject=subject,
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
    """Creates a directory for temporary files of a child that may be killed; yields "" if this is not possible."""
    # Imported here, because the child does not need it
    from litert.model.atomic_file import temporary_folder

    with ExitStack() as stack:
        try:
            folder = stack.enter_context(temporary_folder())
        except OSError:
            folder = ""
        yield folder


def serve(target: str, timeout: str, heard: str, recorded: str) -> None:
    """Runs in the child: reads the argument and writes a line for each value."""
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
    """Runs in the child: sends a message with the latest measurements, because the parent may stop at any time."""
    if recording is not None:
        message["spans"] = recording.take_plain()
    print(json.dumps(message), file=channel, flush=True)


def _progress_sender(channel: IO[str]) -> Progress:
    """Runs in the child: sends progress to the parent, at a rate that people can read."""
    step, due_s = "", 0.0

    def send(told_step: str, done: int, total: int) -> None:
        nonlocal step, due_s
        now = time.monotonic()
        if told_step != step or now >= due_s:
            step, due_s = told_step, now + _PROGRESS_INTERVAL_S
            print(json.dumps({"progress": [step, done, total]}), file=channel, flush=True)

    return send

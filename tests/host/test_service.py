"""Tests a child process that answers many calls: errors, crashes, hangs; it never outlives its parent."""

from __future__ import annotations

import json
import logging
import os
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import pytest

from litert.core.errors import ChildEndedError, LiteRtError
from litert.core.status import Status
from litert.core.tracing import SpanKind, record
from litert.host.child_process import Watch
from litert.host.service import Service
from litert.host.serving import PAGE_SIZE, TASK_WORD

FUNCTIONS = """
import ctypes, logging, os, signal, subprocess, sys, threading, time
from litert.core.errors import LiteRtError
from litert.core.status import Status
from litert.host.serving import TASK_WORD, ask_host, at_work, native_call, shared_words

def handlers(fd):
    state = []

    def count(argument):
        state.append(argument)
        return state

    def write(text):
        os.pwrite(fd, text.encode(), 0)
        return len(text)

    def print_and_refuse(status):
        print("printed by Python", flush=True)
        os.system("echo INFO: what LiteRT does; echo printed by native code")
        raise LiteRtError(Status(status), "what", "where", "Hint.")

    def crash(argument):
        with native_call("LiteRtCrash"):
            os.write(2, b"about to crash")
            ctypes.string_at(0)

    def hang(argument):
        with native_call("LiteRtHang"):
            time.sleep(60)

    def hang_and_ignore_the_world(path):
        with open(path, "w") as stream:
            stream.write(str(os.getpid()))
        with native_call("LiteRtHang"):
            time.sleep(60)

    def hang_with_a_child(path):
        with open(path, "w") as stream:
            stream.write(str(subprocess.Popen(["sleep", "60"]).pid))
        with native_call("LiteRtHang"):
            time.sleep(60)

    def leave(status):
        ctypes.CDLL(None).exit(status)

    def log(argument):
        thread = threading.Thread(target=logging.getLogger("a.vendor").warning, args=["%s %d", "x", 1])
        thread.start()
        thread.join()

    def ask(number):
        return ask_host("square", number)

    def ring(number):
        shared_words()[TASK_WORD] = (number + 1) % 2**32
        if number == 1:
            raise LiteRtError(Status.NOT_FOUND, "nothing rings")
        if number == 2:
            ctypes.string_at(0)
        if number == 3:
            time.sleep(60)
        if number == 4:
            logging.getLogger("a.vendor").warning("it rang")
        if number == 5:
            print("x" * 200_000, flush=True)
        if number == 6:
            state.append(ask_host("square", 7))

    def ask_for_ever(argument):
        while True:
            ask_host("square", 7)

    def say(line):
        from litert.host import serving
        print(line, file=serving._server._channel._stream, flush=True)
        time.sleep(60)

    def fail(argument):
        raise ZeroDivisionError("of a kind")

    def after_a_native_call(argument):
        with native_call("LiteRtFine"):
            pass
        os.kill(os.getpid(), signal.SIGABRT)

    def nested(inner):
        with at_work("LiteRtOuter"):
            with at_work(inner or "LiteRtFine"):
                if inner:
                    os.abort()
            os.abort()

    def measured(argument):
        with native_call("LiteRtFine"):
            return argument

    return {name: f for name, f in locals().items() if callable(f)}

def no_handlers(fd):
    raise LiteRtError(Status.DYNAMIC_LOADING, "no library")
"""


@pytest.fixture(autouse=True)
def functions(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "functions_of_test_service.py").write_text(FUNCTIONS)
    monkeypatch.syspath_prepend(str(tmp_path))


def start(timeout_s: float = 30, function: str = "handlers", watch: Watch | None = None) -> Service:
    target = f"functions_of_test_service:{function}"
    return Service(
        target,
        timeout_s=timeout_s,
        subject="the plugin libX.so",
        where="/x/libX.so",
        watch=watch,
    )


@pytest.fixture
def service() -> Iterator[Service]:
    with start() as service:
        yield service


def fails(service: Service, call: str, argument: object = None) -> LiteRtError:
    with pytest.raises(LiteRtError) as error:
        service.ask(call, argument)
    return error.value


def pid_of(service: Service) -> int:
    return service._child.pid


def is_alive(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()[0] != "Z"
    except FileNotFoundError:
        return False


def test_one_child_answers_all_calls(service: Service) -> None:
    assert service.ask("count", "ä") == ["ä"]
    assert service.ask("count", {"a": [1.5, None]}) == ["ä", {"a": [1.5, None]}]


def test_a_long_argument_and_a_long_answer_pass(service: Service) -> None:
    text = "x" * (3 << 20)
    assert service.ask("count", text) == [text]


def test_both_sides_have_the_file(service: Service) -> None:
    assert service.ask("write", "hello") == 5
    assert os.pread(service.fd, 10, 0) == b"hello"


def test_an_error_keeps_status_place_and_hint_and_the_child_lives_on(service: Service) -> None:
    error = fails(service, "print_and_refuse", int(Status.NOT_FOUND))
    said = "what; it printed:\nprinted by Python\nprinted by native code"
    assert error.args == (Status.NOT_FOUND, said, "where", "Hint.")
    assert service.ask("count", 1) == [1]


def test_a_refusal_is_an_answer_without_what_was_printed(service: Service) -> None:
    assert fails(service, "print_and_refuse", int(Status.UNSUPPORTED)).what == "what"


def test_any_other_exception_is_named(service: Service) -> None:
    error = fails(service, "fail")
    assert error.status is Status.UNKNOWN and "ZeroDivisionError: of a kind" in error.what


def test_what_cannot_be_loaded_is_said_at_the_first_call() -> None:
    with start(function="no_handlers") as service:
        assert fails(service, "count").args[:2] == (Status.DYNAMIC_LOADING, "no library")


def test_a_crash_names_the_native_function(service: Service) -> None:
    error = fails(service, "crash")
    assert isinstance(error, ChildEndedError) and error.status is Status.RUNTIME_FAILURE
    assert error.what.startswith("the plugin libX.so crashed in LiteRtCrash (SIGSEGV")
    assert "about to crash" in error.what and error.where == "/x/libX.so"


def test_an_abort_between_native_functions_names_the_call(service: Service) -> None:
    what = fails(service, "after_a_native_call").what
    assert what.startswith("the plugin libX.so crashed in after_a_native_call (SIGABRT")


@pytest.mark.parametrize("status", [0, 3])
def test_an_exit_is_an_error(service: Service, status: int) -> None:
    how = (
        "with status 3 in leave"
        if status
        else "with status 0 in leave, before it had sent its reply"
    )
    assert fails(service, "leave", status).what.startswith(f"the plugin libX.so ended {how}")


def test_a_hang_ends_with_the_time_limit() -> None:
    with start(1.5) as service:
        assert service.ask("count", 1) == [1]
        error = fails(service, "hang")
        assert error.status is Status.TIMEOUT_EXPIRED
        assert error.what == (
            "the plugin libX.so did not finish within 1.5 s, and was stopped in LiteRtHang"
        )


def test_a_lost_child_fails_all_later_calls(service: Service) -> None:
    assert fails(service, "crash") is fails(service, "count")


def test_records_of_the_childs_log_are_records_here(
    service: Service, caplog: pytest.LogCaptureFixture
) -> None:
    service.ask("log")
    (record,) = [record for record in caplog.records if record.name == "a.vendor"]
    assert record.levelno == logging.WARNING and record.getMessage() == "x 1"


def test_neither_process_nor_files_are_left() -> None:
    before = len(os.listdir("/proc/self/fd"))
    for call in ("count", "crash"):
        with start() as service:
            pid = pid_of(service)
            with suppress(LiteRtError):
                service.ask(call)
        assert not is_alive(pid)
    assert len(os.listdir("/proc/self/fd")) == before


def test_a_forgotten_child_ends() -> None:
    service = start()
    pid = pid_of(service)
    assert service.ask("count", 1) == [1]
    del service
    assert not is_alive(pid)


@pytest.mark.parametrize("call", ["hang_and_ignore_the_world", "hang_with_a_child", "count"])
def test_a_killed_parent_leaves_no_child(tmp_path: Path, call: str) -> None:
    path = tmp_path / "pid"
    script = (
        f"import sys, time; sys.path.insert(0, {str(tmp_path)!r})\n"
        "from litert.host.service import Service\n"
        "target = 'functions_of_test_service:handlers'\n"
        "service = Service(\n"
        f"    target, timeout_s=600, subject='x', where='')\n"
        "print(service._child.pid, flush=True)\n"
        f"service.ask({call!r}, {str(path)!r})\n"
        "print('idle', flush=True)\n"
        "time.sleep(60)\n"
    )
    parent = subprocess.Popen([sys.executable, "-c", script], stdout=subprocess.PIPE)
    assert parent.stdout is not None
    pid = int(parent.stdout.readline())
    if call == "count":
        assert parent.stdout.readline() == b"idle\n"
    else:
        while not path.exists() or not path.read_text():
            time.sleep(0.01)
    pids = {
        pid,
        pid if call == "count" else int(path.read_text()),
    }  # the calls write their own process ID, or their child's
    parent.send_signal(signal.SIGKILL)
    parent.wait(30)
    parent.stdout.close()
    deadline = time.monotonic() + 30
    while any(map(is_alive, pids)) and time.monotonic() < deadline:
        time.sleep(0.01)
    assert not any(map(is_alive, pids))


def test_a_call_that_the_killed_parent_had_sent_does_not_hang_alone(tmp_path: Path) -> None:
    script = (
        f"import sys; sys.path.insert(0, {str(tmp_path)!r})\n"
        "from litert.host.serving import serve\n"
        "serve('functions_of_test_service:handlers', sys.argv[1])\n"
    )
    request = json.dumps({"call": "hang", "argument": None, "timeout_s": 600}) + "\n"
    with tempfile.TemporaryFile() as file:
        file.truncate(PAGE_SIZE)
        fd, bell = file.fileno(), os.eventfd(0)
        settings = {
            "fd": fd, "page": fd, "bells": [bell, bell], "log_level": 30,
            "enters_later": False, "has_answers": False,
        }  # fmt: skip
        command = [sys.executable, "-c", script, json.dumps(settings)]
        ended = subprocess.run(command, input=request.encode(), timeout=30, pass_fds=[fd, bell])
        os.close(bell)
    assert ended.returncode != 0


def test_a_program_without_standard_streams_has_one(tmp_path: Path) -> None:
    path = tmp_path / "answer"
    script = (
        f"import os, sys; sys.path.insert(0, {str(tmp_path)!r})\n"
        "from litert.host.service import Service\n"
        "for fd in range(3): os.close(fd)\n"
        "service = Service(\n"
        "    'functions_of_test_service:handlers', timeout_s=60, subject='x', where='')\n"
        "answer = service.ask('count', 7)\n"
        f"open({str(path)!r}, 'w').write(str(answer))\n"
    )
    subprocess.run([sys.executable, "-c", script], check=True)
    assert path.read_text() == "[7]"


def test_native_functions_of_a_child_are_spans_here(service: Service) -> None:
    assert service.ask("measured", 1) == 1
    with record() as recording:
        assert service.ask("measured", 2) == 2
    (span,) = recording.spans
    assert (span.kind, span.name) == (SpanKind.PLUGIN, "LiteRtFine")
    assert span.track == service.subject


def test_a_call_that_is_rung_has_a_number(service: Service) -> None:
    for number in (7, 0, 4_000_000_000):
        service.ring("run", number, 30)
        assert service.words[TASK_WORD] == (number + 1) % 2**32
    assert service.ask("count", 1) == [1]


def test_a_call_that_is_rung_can_fail(service: Service) -> None:
    with pytest.raises(LiteRtError, match="nothing rings") as error:
        service.ring("run", 1, 30)
    assert error.value.status is Status.NOT_FOUND
    service.ring("run", 0, 30)


@pytest.mark.parametrize(
    "number, what", [(2, "crashed in run, task 3 .SIGSEGV"), (3, "within 0.5 s")]
)
def test_a_call_that_is_rung_may_be_the_last(number: int, what: str) -> None:
    with Service(
        "functions_of_test_service:handlers",
        timeout_s=30,
        subject="it",
        where="",
        describe=lambda call: f"{call}, task {found[0].words[TASK_WORD]}",
    ) as service:
        found = [service]
        service.ask("count")
        with pytest.raises(ChildEndedError, match=what):
            service.ring("run", number, 0.5)
        assert not service.is_alive


def test_what_is_logged_and_printed_in_a_call_that_is_rung_arrives(
    service: Service, caplog: pytest.LogCaptureFixture
) -> None:
    for number in (4, 5, 0, 4):
        service.ring("run", number, 30)
    assert [record.message for record in caplog.records] == ["it rang"] * 2


def test_a_child_may_ask_in_a_call() -> None:
    def answer(question: str, argument: int) -> object:
        assert question == "square"
        if argument == 8:
            raise LiteRtError(Status.NOT_FOUND, "no square")
        return [argument * argument, "x" * (3 << 20)]

    with Service(
        "functions_of_test_service:handlers", timeout_s=30, subject="it", where="", answer=answer
    ) as service:
        service.ring("run", 6, 30)
        ((number, text),) = service.ask("count", 0)[:-1]
        assert (number, len(text)) == (49, 3 << 20)
        with pytest.raises(LiteRtError, match="no square"):
            service.ask("ask", 8)


@pytest.mark.parametrize(
    "line",
    ["[" * 100_000, "7", "{}", '{"question": 7}', '{"question": ["square"]}', '{"log": 7}', '{"error": [7]}'],
)  # fmt: skip
def test_a_child_that_talks_nonsense_is_ended(service: Service, line: str) -> None:
    with pytest.raises(ChildEndedError, match="sent a reply that cannot be read"):
        service.ask("say", line)
    assert not service.is_alive


def test_questions_without_end_do_not_keep_a_call_from_ending() -> None:
    with Service(
        "functions_of_test_service:handlers",
        timeout_s=1,
        subject="x",
        where="",
        answer=lambda question, argument: argument,
    ) as service:
        with pytest.raises(ChildEndedError) as error:
            service.ask("ask_for_ever")
        assert error.value.status is Status.TIMEOUT_EXPIRED


def test_what_a_child_is_at_has_a_limit_of_its_own() -> None:
    """The call may take longer: first the child has no task, then its task exceeds the task's limit."""
    left = iter([(float("inf"), 0.0), (3.0, 3.0), (0.0, 3.0)])
    with start(watch=lambda: next(left)) as service:
        with pytest.raises(
            ChildEndedError, match="within 3 s, and was stopped in LiteRtHang"
        ) as error:
            service.ask("hang")
        assert error.value.status is Status.TIMEOUT_EXPIRED


def test_an_answer_that_cannot_be_read_makes_no_sense() -> None:
    with start() as service:
        assert service.ask("count", 1, read=len) == 1
        with pytest.raises(ChildEndedError, match=r"sent a reply that cannot be read: .*int"):
            service.ask("count", 1, read=int)
        assert not service.is_alive


def test_what_is_at_work_inside_of_something_is_told_and_then_that() -> None:
    with start() as service, pytest.raises(ChildEndedError, match=r"in LiteRtOuter \(SIGABRT"):
        service.ask("nested", "")
    with start() as service, pytest.raises(ChildEndedError, match=r"in LiteRt\?Inner \(SIGABRT"):
        service.ask("nested", "LiteRt\udcffInner")

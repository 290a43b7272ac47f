"""Tests functions in a child process: answers, errors, crashes and hangs; no resources are left."""

from __future__ import annotations

import os
import resource
import subprocess
import sys
import time
from collections.abc import Generator
from contextlib import suppress
from functools import partial
from pathlib import Path

import pytest

from litert.core.errors import LiteRtError
from litert.core.progress import listening
from litert.core.status import Status
from litert.core.tracing import SpanKind, record
from litert.host.child import call_in_child

FUNCTIONS = """
import os, signal, time
from litert.core.errors import LiteRtError
from litert.core.status import Status
from litert.core.tracing import SpanKind, span

def echo(argument):
    yield argument
    yield from (1, None, {"a": ["b", 2.5]})

def chatter(argument):
    print("printed by Python", flush=True)
    os.system("echo printed by native code")
    yield "answer"

def measure(argument):
    with span(SpanKind.BUILD, argument, bytes=3):
        yield "answer"

def measure_first(argument):
    with span(SpanKind.BUILD, argument):
        pass
    yield "answer"
    yield "another"

def crash(argument):
    yield "before"
    os.write(2, b"about to crash")
    os.kill(os.getpid(), signal.SIGSEGV)

def hang(argument):
    yield "before"
    time.sleep(60)

def refuse(argument):
    yield "before"
    raise LiteRtError(Status.NOT_FOUND, "what", "where", "Hint.")

def fail(argument):
    yield from ()
    raise ZeroDivisionError("of a kind")

def leave(argument):
    yield "before"
    os._exit(7)

def flood(argument):
    while True:
        yield "x" * (1 << 20)

def eat(argument):
    yield "before"
    bytearray(argument)
    yield "eaten"

def leave_a_child_behind(argument):
    if os.fork() == 0:
        time.sleep(60)
    yield os.getpid()

def tidy_up(path):
    import atexit
    open(path, "w").close()
    atexit.register(lambda: (time.sleep(0.2), os.unlink(path)))
    yield "made"

def tidy_up_after_an_error(path):
    yield from tidy_up(path)
    raise LiteRtError(Status.NOT_FOUND, "what")

def say_pid_and_hang(argument):
    with open(argument, "w") as stream:
        stream.write(str(os.getpid()))
    yield "started"
    time.sleep(60)

def take_it_easy(argument):
    for number in range(6):
        yield number
        time.sleep(0.4)

def leave_a_file(argument):
    import tempfile
    yield tempfile.NamedTemporaryFile(delete=False).name
    time.sleep(60)

def tell_steps(argument):
    from litert.core.progress import tell, told
    for number in told("build", range(1000)):
        pass
    tell("write", 0, 0)
    yield "done"

def have_a_child_that_hangs(argument):
    from litert.host.child import call_in_child
    target = "functions_of_test_child:say_pid_and_hang"
    yield from call_in_child(target, argument, timeout_s=60, subject="the child's child")
"""


@pytest.fixture(autouse=True)
def functions(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "functions_of_test_child.py").write_text(FUNCTIONS)
    monkeypatch.syspath_prepend(str(tmp_path))


def call(function: str, argument: object = None, timeout_s: float = 30) -> list[object]:
    target = f"functions_of_test_child:{function}"
    return list(call_in_child(target, argument, timeout_s=timeout_s, subject="the child"))


def fails(function: str, timeout_s: float = 30) -> LiteRtError:
    with pytest.raises(LiteRtError) as error:
        call(function, None, timeout_s)
    return error.value


def num_open_files() -> int:
    return len(os.listdir("/proc/self/fd"))


def is_alive(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()[0] != "Z"
    except FileNotFoundError:
        return False


def test_answers_come_as_they_were_given() -> None:
    assert call("echo", "ä") == ["ä", 1, None, {"a": ["b", 2.5]}]


def test_a_megabyte_goes_there_and_back() -> None:
    argument = "x" * (1 << 20)
    assert call("echo", argument)[0] == argument


def test_what_the_child_prints_is_no_answer() -> None:
    assert call("chatter") == ["answer"]


def test_an_error_keeps_status_place_and_hint() -> None:
    assert fails("refuse").args == (Status.NOT_FOUND, "what", "where", "Hint.")


def test_any_other_exception_is_named() -> None:
    error = fails("fail")
    assert error.status is Status.UNKNOWN and "ZeroDivisionError: of a kind" in error.what


def test_a_crash_is_an_error_that_names_the_signal() -> None:
    error = fails("crash")
    assert error.status is Status.RUNTIME_FAILURE
    assert "the child crashed (SIGSEGV" in error.what and "about to crash" in error.what


def test_a_child_that_leaves_early_is_an_error() -> None:
    assert "status 7" in fails("leave").what


def test_a_hang_ends_with_the_time_limit() -> None:
    error = fails("hang", timeout_s=0.5)
    assert error.status is Status.TIMEOUT_EXPIRED and "0.5 s" in error.what


def test_answers_before_a_crash_are_not_lost() -> None:
    answers = call_in_child(
        "functions_of_test_child:crash", None, timeout_s=30, subject="the child"
    )
    assert next(answers) == "before"
    with pytest.raises(LiteRtError):
        next(answers)


def test_a_child_that_says_too_much_is_stopped() -> None:
    assert "64 MiB" in fails("flood").what


def test_a_module_that_is_not_there_is_an_error() -> None:
    with pytest.raises(LiteRtError) as error:
        list(call_in_child("no_such_module:f", None, timeout_s=30, subject="the child"))
    assert "no_such_module" in error.value.what


@pytest.mark.parametrize("function", ["tidy_up", "tidy_up_after_an_error"])
def test_a_child_that_is_done_may_tidy_up(tmp_path: Path, function: str) -> None:
    path = tmp_path / "made"
    with suppress(LiteRtError):
        assert call(function, str(path)) == ["made"]
    assert not path.exists()


def test_who_stops_listening_stops_the_child(tmp_path: Path) -> None:
    path = tmp_path / "pid"
    answers = call_in_child(
        "functions_of_test_child:say_pid_and_hang", str(path), timeout_s=60, subject="the child"
    )
    assert next(answers) == "started"
    del answers
    assert not is_alive(int(path.read_text()))


def test_a_child_s_own_child_ends_with_it(tmp_path: Path) -> None:
    path = tmp_path / "pid"
    target = "functions_of_test_child:have_a_child_that_hangs"
    answers = call_in_child(target, str(path), timeout_s=60, subject="the child")
    assert next(answers) == "started"
    del answers
    deadline = time.monotonic() + 10  # the kernel's init process may reap it later
    while is_alive(int(path.read_text())) and time.monotonic() < deadline:
        time.sleep(0.01)
    assert not is_alive(int(path.read_text()))


def test_a_time_limit_may_be_for_each_answer() -> None:
    target = "functions_of_test_child:take_it_easy"
    easy = call_in_child(target, None, timeout_s=2, subject="the child", is_for_each=True)
    assert list(easy) == list(range(6))
    with pytest.raises(LiteRtError, match="did not finish within 2 s"):
        list(call_in_child(target, None, timeout_s=2, subject="the child"))
    target = "functions_of_test_child:hang"
    with pytest.raises(LiteRtError, match="did not finish within 1 s"):
        list(call_in_child(target, None, timeout_s=1, subject="the child", is_for_each=True))


def test_what_a_child_prints_can_be_heard_as_it_comes() -> None:
    heard: list[bytes] = []
    target = "functions_of_test_child:chatter"
    answers = call_in_child(target, None, timeout_s=30, subject="the child", hear=heard.append)
    assert list(answers) == ["answer"]
    assert b"".join(heard) == b"printed by Python\nprinted by native code\n"


def test_ctrl_c_stops_parent_and_child(tmp_path: Path) -> None:
    script = (
        f"import sys; sys.path.insert(0, {str(tmp_path)!r})\n"
        "from litert.host.child import call_in_child\n"
        "target = 'functions_of_test_child:say_pid_and_hang'\n"
        f"for _ in call_in_child(target, {str(tmp_path / 'pid')!r}, timeout_s=60, subject='x'):\n"
        "    print('started', flush=True)\n"
    )
    parent = subprocess.Popen(
        [sys.executable, "-c", script], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL
    )
    assert parent.stdout is not None and parent.stdout.readline() == b"started\n"
    parent.send_signal(2)
    assert parent.wait(30) != 0
    parent.stdout.close()
    assert not is_alive(int((tmp_path / "pid").read_text()))


@pytest.mark.parametrize("function", ["echo", "crash", "hang", "leave_a_child_behind"])
def test_neither_processes_nor_files_are_left(function: str) -> None:
    before = num_open_files()
    pids: list[object] = []
    with suppress(LiteRtError):
        pids = call(function, None, 0.5 if function == "hang" else 30)
    assert num_open_files() == before
    assert not [f for f in all_processes() if f[0] == "Z" and f[1] == str(os.getpid())]
    if function == "leave_a_child_behind":
        assert isinstance(pids[0], int)
        deadline = time.monotonic() + 10  # the kernel's init process may reap it later
        while any_in_group(pids[0]) and time.monotonic() < deadline:
            time.sleep(0.01)
        assert not any_in_group(pids[0])


def any_in_group(group: int) -> bool:
    return any(f[2] == str(group) and f[0] != "Z" for f in all_processes())


def all_processes() -> list[list[str]]:
    """Returns the state, parent, process group and more of each process, from /proc."""
    found = []
    for path in Path("/proc").glob("[0-9]*/stat"):
        with suppress(OSError):  # the process has ended
            found.append(path.read_text().rsplit(")", 1)[1].split())
    return found


MANY_FILES = """
import os, resource
from litert.host.child import call_in_child

resource.setrlimit(resource.RLIMIT_NOFILE, (1400, resource.getrlimit(resource.RLIMIT_NOFILE)[1]))
files = [os.open("/dev/null", os.O_RDONLY) for _ in range(1100)]
print(*call_in_child("json:dumps", "x", timeout_s=30, subject="a child"))
"""


def test_a_program_with_more_than_a_thousand_open_files_may_have_children() -> None:
    if resource.getrlimit(resource.RLIMIT_NOFILE)[1] < 1400:
        pytest.skip("this user may not open as many files")
    done = subprocess.run([sys.executable, "-c", MANY_FILES], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert done.stdout.split() == list('"x"')


def test_a_child_has_the_memory_that_it_is_given_and_no_more() -> None:
    given = 1 << 30
    eat = partial(
        call_in_child,
        "functions_of_test_child:eat",
        timeout_s=30,
        subject="the child",
        memory_bytes=given,
    )
    assert list(eat(given // 4)) == ["before", "eaten"]
    with pytest.raises(LiteRtError, match=r"^MEMORY_ALLOCATION_FAILURE: out of memory"):
        list(eat(given))


def test_temporary_files_of_a_child_that_is_killed_go_with_it() -> None:
    target = "functions_of_test_child:leave_a_file"
    answers = call_in_child(target, None, timeout_s=30, subject="the child")
    path = next(answers)
    assert isinstance(path, str) and os.path.exists(path)
    assert isinstance(answers, Generator)
    answers.close()
    assert not os.path.exists(os.path.dirname(path))


def test_what_a_child_tells_of_its_progress_is_heard_here_and_not_a_thousand_times() -> None:
    heard: list[tuple[str, int, int]] = []
    with listening(lambda *now: heard.append(now)):
        assert call("tell_steps") == ["done"]
    assert heard[0] == ("build", 0, 1000) and heard[-1] == ("write", 0, 0)
    assert len(heard) < 500


def test_spans_of_a_child_are_in_the_recording_here() -> None:
    begin_ns = time.perf_counter_ns()
    with record() as recording:
        assert call("measure", "a \ud800 name") == ["answer"]
    (span,) = recording.spans
    assert (span.kind, span.name) == (SpanKind.BUILD, "a \ud800 name")
    assert (span.details, span.track) == ({"bytes": 3}, "the child")
    assert begin_ns < span.start_ns < span.start_ns + span.duration_ns < time.perf_counter_ns()


def test_spans_before_an_answer_are_here_though_no_more_answers_are_asked_for() -> None:
    target = "functions_of_test_child:measure_first"
    with record() as recording:
        answers = call_in_child(target, "first", timeout_s=30, subject="the child")
        assert next(answers) == "answer"
    assert [span.name for span in recording.spans] == ["first"]

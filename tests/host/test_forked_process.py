"""A fork as a child: of its parent it has the memory, and nothing else."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

START = """
import atexit, ctypes, json, os, signal, sys, tempfile, threading
from litert.host.forked_process import ForkedProcess

def fork(run, shared=(), new_session=True):
    return ForkedProcess(run, shared=shared, new_session=new_session)

def answer_of(run, **arguments):
    child = fork(run, **arguments)
    with child.stdout:
        text = child.stdout.read()
    return [json.loads(text) if text else None, child.wait()]

def say(value):
    print(json.dumps(value), flush=True)
"""


def run(script: str, tmp_path: Path, **process: Any) -> Any:
    """What a program says last; it forks, which only one without threads should do."""
    path = tmp_path / "script.py"
    path.write_text(START + script)
    done = subprocess.run(
        [sys.executable, str(path)], stdout=subprocess.PIPE, text=True, check=True, **process
    )
    return json.loads(done.stdout.splitlines()[-1])


def test_it_has_its_streams_and_what_is_shared_and_no_other_descriptor(tmp_path: Path) -> None:
    script = """
shared, other = tempfile.TemporaryFile(), tempfile.TemporaryFile()
def look():
    found = []
    for fd in range(1000):
        try:
            os.fstat(fd)
            found.append(fd)
        except OSError:
            pass
    return found
say([answer_of(lambda: say(look()), shared=[shared.fileno()]), shared.fileno()])
"""
    (descriptors, status), shared = run(script, tmp_path)
    assert (descriptors, status) == ([0, 1, 2, shared], 0)


def test_a_descriptor_above_a_limit_that_came_later_is_closed_too(tmp_path: Path) -> None:
    script = """
import resource
os.dup2(1, 500)
resource.setrlimit(resource.RLIMIT_NOFILE, (100, resource.getrlimit(resource.RLIMIT_NOFILE)[1]))
say(answer_of(lambda: say("500" in os.listdir("/proc/self/fd"))))
"""
    assert run(script, tmp_path) == [False, 0]


def test_a_signal_before_it_has_begun_ends_it_alone(tmp_path: Path) -> None:
    script = """
os.register_at_fork(after_in_child=lambda: os.kill(os.getpid(), signal.SIGINT))
try:
    said = answer_of(lambda: say("began"))
except KeyboardInterrupt:
    said = "the child ended as its parent does"
say(said)
"""
    assert run(script, tmp_path) == [None, -signal.SIGINT]


def test_its_streams_are_right_where_the_parent_has_closed_its_own(tmp_path: Path) -> None:
    script = """
out = os.dup(1)
for fd in (0, 1, 2):
    os.close(fd)
answer = answer_of(lambda: say("hears " + sys.stdin.read(0) + "and speaks"))
os.dup2(out, 1)
say(answer)
"""
    assert run(script, tmp_path) == ["hears and speaks", 0]


def test_its_streams_are_right_where_the_parent_has_streams_of_its_own(tmp_path: Path) -> None:
    script = """
sys.__stdin__ = sys.__stdout__ = None  # as where they were closed at the start
sys.stdin, sys.stdout = open(0), open(1, "w")
say(answer_of(lambda: say("hears " + sys.stdin.read(0) + "and speaks")))
"""
    assert run(script, tmp_path) == ["hears and speaks", 0]


def test_it_takes_none_of_the_parents_signal_handlers(tmp_path: Path) -> None:
    script = """
signal.signal(signal.SIGTERM, lambda *_: None)
signal.signal(signal.SIGUSR1, signal.SIG_IGN)
numbers = [signal.SIGINT, signal.SIGTERM, signal.SIGUSR1]
say(answer_of(lambda: say([int(signal.getsignal(number)) for number in numbers])))
"""
    assert run(script, tmp_path) == [[0, 0, 1], 0]  # as after exec: ignored stays ignored


@pytest.mark.parametrize("new_session", [True, False])
def test_its_session(new_session: bool, tmp_path: Path) -> None:
    script = f"""
say(answer_of(lambda: say(os.getsid(0) == os.getpid()), new_session={new_session}))
"""
    assert run(script, tmp_path) == [new_session, 0]


def test_what_the_parent_has_not_written_yet_is_written_once(tmp_path: Path) -> None:
    script = """
print("once")
child = fork(lambda: None)
child.wait()
print(json.dumps(0))
"""
    path = tmp_path / "script.py"
    path.write_text(START + script)
    done = subprocess.run([sys.executable, str(path)], stdout=subprocess.PIPE, text=True)
    assert done.stdout == "once\n0\n"


def test_it_ends_with_c_s_exit_functions_and_without_the_programs(tmp_path: Path) -> None:
    script = """
atexit.register(lambda: open(sys.argv[0] + ".python", "a").write(f"{os.getpid()} "))
libc = ctypes.CDLL(None)
@ctypes.CFUNCTYPE(None)
def at_exit():
    open(sys.argv[0] + ".c", "w").write("ended")
def work():
    libc.__cxa_atexit(at_exit, None, None)
child = fork(work)
child.wait()
say(os.getpid())
"""
    parent = run(script, tmp_path)
    assert (tmp_path / "script.py.c").read_text() == "ended"
    assert (tmp_path / "script.py.python").read_text() == f"{parent} "


def test_what_it_raises_is_on_its_error_stream(tmp_path: Path) -> None:
    script = """
def fail():
    raise ZeroDivisionError("of a kind")
child = fork(fail)
with child.stderr:
    text = child.stderr.read().decode()
say([text.splitlines()[-1], child.wait(), child.poll()])
"""
    assert run(script, tmp_path) == ["ZeroDivisionError: of a kind", 1, 1]


def test_a_kill_shows_in_its_status_and_more_of_them_do_no_harm(tmp_path: Path) -> None:
    script = """
child = fork(lambda: signal.pause())
running = child.poll()
child.kill()
status = child.wait()
child.kill()
say([running, status, child.poll(), int(signal.SIGKILL)])
"""
    running, status, again, kill = run(script, tmp_path)
    assert running is None
    assert status == again == -kill


def test_no_descriptor_is_left_where_there_are_too_few(tmp_path: Path) -> None:
    script = """
import resource
limit = resource.getrlimit(resource.RLIMIT_NOFILE)
before = len(os.listdir("/proc/self/fd"))
highest = max(map(int, os.listdir("/proc/self/fd")))
resource.setrlimit(resource.RLIMIT_NOFILE, (highest + 4, limit[1]))
try:
    fork(lambda: None)
    said = "forked"
except OSError as error:
    said = error.strerror
resource.setrlimit(resource.RLIMIT_NOFILE, limit)
say([said, len(os.listdir("/proc/self/fd")) - before])
"""
    assert run(script, tmp_path) == ["Too many open files", 0]

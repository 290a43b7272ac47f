"""Tests that a child in a sandbox can read, write, start and see only what the sandbox allows."""

from __future__ import annotations

import fcntl
import os
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest

from litert.core.errors import LiteRtError
from litert.core.status import Status
from litert.host.child import call_in_child
from litert.host.sandbox import Sandbox, SandboxMode, chosen_mode, find_programs, why_missing
from litert.host.service import Service

FUNCTIONS = '''
import ctypes, errno, os, threading

def attempt(calls):
    """Yields of each call, a Python expression, what became of it: its result, or the name of its error."""
    for call in calls:
        try:
            yield repr(eval(call))
        except OSError as error:
            yield errno.errorcode[error.errno]

def attempt_on_a_thread(calls):
    found = []
    thread = threading.Thread(target=lambda: found.extend(attempt(calls)))
    thread.start()
    thread.join()
    yield from found

def library_call(name, *arguments):
    function = getattr(ctypes.CDLL(None, use_errno=True), name)
    function.restype = ctypes.c_ssize_t if name == "mmap" else ctypes.c_int
    result = function(*[ctypes.c_long(a) if isinstance(a, int) else a for a in arguments])
    if result == -1:
        raise OSError(ctypes.get_errno(), "")
    return result

def run(*command):
    import subprocess
    return subprocess.run(command, capture_output=True, text=True).stdout

def answers(fd):
    return {"attempt": lambda calls: list(attempt(calls))}
'''
MODULE = "functions_of_test_sandbox"
SECRET = "what nobody may read"
NAMES = "['functions', 'out', 'secret']"
PLAIN = Sandbox()

needs_sandbox = pytest.mark.skipif(bool(why_missing()), reason=f"no sandbox here: {why_missing()}")


@pytest.fixture(autouse=True)
def functions(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = tmp_path / "functions"
    folder.mkdir()
    (folder / f"{MODULE}.py").write_text(FUNCTIONS)
    (tmp_path / "secret").write_text(SECRET)
    monkeypatch.syspath_prepend(str(folder))


def attempt(
    tmp_path: Path,
    *calls: str,
    sandbox: Sandbox = PLAIN,
    function: str = "attempt",
    memory_bytes: int = 0,
) -> list[object]:
    sandbox = replace(sandbox, readable=[*sandbox.readable, str(tmp_path / "functions")])
    target = f"{MODULE}:{function}"
    return list(
        call_in_child(
            target,
            calls,
            timeout_s=60,
            subject="the child",
            sandbox=sandbox,
            memory_bytes=memory_bytes,
        )
    )


@needs_sandbox
@pytest.mark.parametrize("function", ["attempt", "attempt_on_a_thread"])
def test_contents_of_files_outside_are_not_read(tmp_path: Path, function: str) -> None:
    secret = str(tmp_path / "secret")
    link = tmp_path / "functions" / "link"
    link.symlink_to(secret)
    ways = [
        f"open({secret!r}).read()",
        f"open({str(link)!r}).read()",
        f"open('/proc/self/root{secret}').read()",
        f"open('/proc/{os.getpid()}/environ').read()",
        f"os.listdir({str(tmp_path)!r})",
        "open('/etc/passwd').read()",
        f"open({secret!r}, 'a')",
        f"open({str(tmp_path / 'new')!r}, 'x')",
        f"os.unlink({secret!r})",
        f"os.rename({secret!r}, {secret + '2'!r})",
    ]
    found = attempt(tmp_path, *ways, function=function)
    assert len(found) == len(ways) and set(found) <= {"EACCES", "EXDEV"}
    assert (tmp_path / "secret").read_text() == SECRET


@needs_sandbox
def test_what_is_named_is_read_and_written(tmp_path: Path) -> None:
    (tmp_path / "out").mkdir()
    sandbox = Sandbox(
        readable=[str(tmp_path / "secret"), "/no/such/folder"],
        listed=[str(tmp_path)],
        writable=[str(tmp_path / "out")],
    )
    found = attempt(
        tmp_path,
        f"open({str(tmp_path / 'secret')!r}).read()",
        f"open({str(tmp_path / 'out' / 'new')!r}, 'x').write('12')",
        "__import__('tempfile').TemporaryFile().write(b'123')",
        "open('/dev/null', 'w').write('1')",
        f"sorted(os.listdir({str(tmp_path)!r}))",
        "__import__('numpy').arange(3).tolist()",
        sandbox=sandbox,
    )
    assert found == [repr(SECRET), "2", "3", "1", NAMES, "[0, 1, 2]"]
    assert (tmp_path / "out" / "new").read_text() == "12"


@needs_sandbox
def test_there_is_no_network_no_program_and_no_other_process(tmp_path: Path) -> None:
    own, priority = os.getpid(), os.getpriority(os.PRIO_PROCESS, 0)
    secret = str(tmp_path / "secret")
    found = attempt(
        tmp_path,
        "__import__('socket').socket()",
        "__import__('socket').socket(__import__('socket').AF_UNIX)",
        "__import__('socket').socketpair(__import__('socket').AF_UNIX, __import__('socket').SOCK_DGRAM)",
        "os.execv('/bin/true', ['true'])",
        "os.fork()",
        "run('/bin/true')",
        f"os.kill({own}, 0)",
        "os.kill(0, 0)",
        "os.kill(os.getppid(), 9)",
        f"__import__('resource').prlimit({own}, 0)",
        f"os.setpriority(os.PRIO_PROCESS, {own}, 19)",
        "os.setpriority(os.PRIO_USER, 0, 19)",
        f"os.sched_setscheduler({own}, os.SCHED_IDLE, os.sched_param(0))",
        f"__import__('fcntl').fcntl(1, {fcntl.F_SETOWN}, {own})",
        f"os.chmod({secret!r}, 0o777)",
        "os.setsid()",
    )
    assert len(found) == 16 and set(found) <= {"EPERM", "EACCES"}
    assert os.getpriority(os.PRIO_PROCESS, 0) == priority
    assert (tmp_path / "secret").stat().st_mode & 0o777 != 0o777


@needs_sandbox
@pytest.mark.parametrize("programs", [[], find_programs(["cat"])], ids=["alone", "with programs"])
def test_the_limit_of_memory_stays(tmp_path: Path, programs: list[str]) -> None:
    """Checks that the child can neither raise the limit nor allocate memory outside it."""
    found = attempt(
        tmp_path,
        "library_call('setrlimit', 2, (ctypes.c_long * 2)(-1, -1))",
        "library_call('prlimit', 0, 2, (ctypes.c_long * 2)(-1, -1), None)",
        "library_call('mmap', None, 1 << 30, 3, 0x21, -1, 0)",
        "library_call('mmap', None, 1 << 30, 3, 0x122, -1, 0)",
        "library_call('mmap', None, 1 << 30, 3, 0x22, -1, 0)",
        "os.memfd_create('x')",
        "open('/dev/zero', 'r+b')",
        "open('/dev/zero', 'rb').read(1)",
        sandbox=Sandbox(programs=programs),
        memory_bytes=1 << 29,
    )
    assert found == [*["EPERM"] * 4, "ENOMEM", "EPERM", "EACCES", "b'\\x00'"]


@needs_sandbox
def test_files_that_may_be_read_stay_as_they_are(tmp_path: Path) -> None:
    """Before Linux 6.2, Landlock does not control truncation; the sandbox must prevent it there, too."""
    own = str(tmp_path / "functions" / f"{MODULE}.py")
    found = attempt(
        tmp_path, f"os.truncate({own!r}, 0)", f"os.open({own!r}, os.O_RDONLY | os.O_TRUNC)"
    )
    assert found == ["EPERM"] * 2


@needs_sandbox
def test_files_that_may_be_read_keep_their_attributes_and_wait_for_nobody(tmp_path: Path) -> None:
    own = f"os.open({str(tmp_path / 'functions' / f'{MODULE}.py')!r}, os.O_RDONLY)"
    ioctl, fcntl_of = "__import__('fcntl').ioctl", "__import__('fcntl').fcntl"
    found = attempt(
        tmp_path,
        f"{ioctl}({own}, 0x40086602, bytes(8))",
        f"{ioctl}({own}, 0x401C5820, bytes(28))",
        f"{fcntl_of}({own}, {fcntl.F_SETLEASE}, {fcntl.F_RDLCK})",
        f"os.getxattr({str(tmp_path / 'secret')!r}, 'user.note')",
    )
    assert found == ["EPERM"] * 4


@needs_sandbox
def test_root_is_a_user_among_others(tmp_path: Path) -> None:
    """Only root may freeze a file system, so the first call gives EPERM; without a sandbox, root gets another."""
    found = attempt(
        tmp_path,
        "__import__('fcntl').ioctl(os.open('/proc/self/status', os.O_RDONLY), 0xC0045877, 0)",
        "os.setgroups([])",
        "__import__('numpy').arange(3).tolist()",
    )
    assert found == ["EPERM", "EPERM", "[0, 1, 2]"]


@needs_sandbox
def test_a_child_is_its_own_master(tmp_path: Path) -> None:
    found = attempt(
        tmp_path,
        "os.kill(os.getpid(), 0)",
        "__import__('resource').getrlimit(0) and None",
        "[os.close(fd) for fd in os.pipe()] and None",
    )
    assert found == ["None"] * 3
    with pytest.raises(LiteRtError, match="SIGABRT"):
        attempt(tmp_path, "os.abort()")


@needs_sandbox
def test_named_programs_run_in_the_same_sandbox(tmp_path: Path) -> None:
    secret = str(tmp_path / "secret")
    cat, true = find_programs(["cat", "true", "no-such-program"])
    found = attempt(
        tmp_path,
        f"run({cat!r}, {str(tmp_path / 'functions' / MODULE)!r} + '.py') != ''",
        f"run({cat!r}, {secret!r})",
        f"run({true!r})",
        "open('/proc/self/comm').read() != ''",
        "os.memfd_create('x')",
        sandbox=Sandbox(programs=[cat]),
    )
    assert found == ["True", "''", "EACCES", "True", "EPERM"]


@needs_sandbox
def test_variables_of_others_are_not_seen(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SERVICE_TOKEN", SECRET)
    monkeypatch.setenv("POCL_DEBUG", "1")
    names = "sorted({'SERVICE_TOKEN', 'POCL_DEBUG', 'PATH'} & set(os.environ))"
    found = attempt(tmp_path, names, sandbox=Sandbox(variables=["POCL_"]))
    assert found == ["['PATH', 'POCL_DEBUG']"]
    assert SECRET not in str(attempt(tmp_path, "open('/proc/self/environ').read()"))


@needs_sandbox
def test_a_service_runs_in_a_sandbox(tmp_path: Path) -> None:
    sandbox = Sandbox([str(tmp_path / "functions")])
    with Service(
        f"{MODULE}:answers", timeout_s=60, subject="the child", where="", sandbox=sandbox
    ) as service:
        found = service.ask("attempt", ["open('/etc/passwd')", "1 + 1"])
    assert found == ["EACCES", "2"]


def test_without_one_a_child_is_free_and_this_is_said_once(tmp_path: Path) -> None:
    found = without_landlock(tmp_path, SandboxMode.TRY)
    assert found.stdout.split("\n")[:2] == [repr(SECRET)] * 2
    assert found.stderr.count("without a sandbox") == 1
    assert "no Landlock: function not implemented" in found.stderr


def test_a_sandbox_that_is_required_must_be_there(tmp_path: Path) -> None:
    found = without_landlock(tmp_path, SandboxMode.REQUIRE)
    assert SECRET not in found.stdout + found.stderr
    assert (
        "UNSUPPORTED: the child must run in a sandbox, but this system does not support one"
        in found.stderr
    )


def test_without_a_wish_for_one_nothing_is_said(tmp_path: Path) -> None:
    found = without_landlock(tmp_path, SandboxMode.OFF)
    assert (found.stdout.split("\n")[0], found.stderr) == (repr(SECRET), "")


def test_the_environment_chooses(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("LITERT_NPU_SANDBOX", raising=False)
    assert chosen_mode() is SandboxMode.TRY
    monkeypatch.setenv("LITERT_NPU_SANDBOX", "require")
    assert chosen_mode() is SandboxMode.REQUIRE
    monkeypatch.setenv("LITERT_NPU_SANDBOX", "yes")
    with pytest.raises(LiteRtError, match="'yes' is not a sandbox mode") as error:
        chosen_mode()
    assert error.value.status is Status.INVALID_ARGUMENT


def without_landlock(tmp_path: Path, mode: SandboxMode) -> subprocess.CompletedProcess[str]:
    """Calls a child twice in a process where the kernel appears to lack Landlock."""
    program = f"""
import errno, logging
from litert.host.child import call_in_child
from litert.host.sandbox import Sandbox, SandboxMode
from litert.host.seccomp import install
import ctypes
ctypes.CDLL(None).prctl(38, 1, 0, 0, 0)
install([(444, errno.ENOSYS)])
sandbox = Sandbox([{str(tmp_path / "functions")!r}], mode=SandboxMode({mode.value!r}))
calls = ["open({str(tmp_path / "secret")!r}).read()"]
for _ in range(2):
    target = "{MODULE}:attempt"
    print(*call_in_child(target, calls, timeout_s=60, subject="the child", sandbox=sandbox))
"""
    path = os.pathsep.join(sys.path)
    return subprocess.run(
        [sys.executable, "-c", program],
        capture_output=True,
        text=True,
        env={**os.environ, "PYTHONPATH": path},
    )

"""Tests atomic writes: safe against other users' files, permissions like the inputs', no temporary files left."""

from __future__ import annotations

import errno
import os
import signal
import stat
import subprocess
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path

import pytest

from litert.core.errors import LiteRtError
from litert.core.input_file import common_permissions, open_input
from litert.core.status import Status
from litert.host.cache_entry import trim_folder
from litert.model import atomic_file
from litert.model.atomic_file import folder_beside, open_atomic, temporary_file

WAYS = [atomic_file._OPEN_FILES, "/nowhere"]
"""The paths of the kernel's list of open files: if it is missing, a new file has a name from the start."""


@pytest.fixture(params=WAYS, ids=["without a name", "with a name"], autouse=True)
def way(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> str:
    monkeypatch.setattr(atomic_file, "_OPEN_FILES", request.param)
    return str(request.param)


def write(path: Path, data: bytes = b"new") -> None:
    with open_atomic(str(path)) as fd:
        os.write(fd, data)


def mode(path: Path) -> int:
    return stat.S_IMODE(path.stat().st_mode)


def test_names_cannot_be_foretold(tmp_path: Path) -> None:
    names = {atomic_file._name_beside(str(tmp_path / "a")) for _ in range(100)}
    assert len(names) == 100
    assert not any(str(os.getpid()) in Path(name).name.split(".") for name in names)


def test_a_link_in_the_way_is_not_followed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Checks this for a link whose name was guessed."""
    (tmp_path / "precious").write_bytes(b"before")
    trap = tmp_path / ".out.trap"
    trap.symlink_to(tmp_path / "precious")
    monkeypatch.setattr(atomic_file, "_name_beside", lambda _: str(trap))
    with pytest.raises(LiteRtError) as error:
        write(tmp_path / "out")
    assert error.value.status is Status.FILE_IO
    assert (tmp_path / "precious").read_bytes() == b"before"


def test_a_link_of_another_user_gives_way(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "precious").write_bytes(b"before")
    (tmp_path / "out").symlink_to("precious")
    monkeypatch.setattr(os, "geteuid", lambda: os.getuid() + 1)
    write(tmp_path / "out")
    assert (tmp_path / "precious").read_bytes() == b"before"
    assert not (tmp_path / "out").is_symlink() and (tmp_path / "out").read_bytes() == b"new"


def test_links_of_this_user_lead_to_the_file(tmp_path: Path) -> None:
    (tmp_path / "folder").mkdir()
    (tmp_path / "first").symlink_to("folder/second")
    (tmp_path / "folder" / "second").symlink_to("third")
    write(tmp_path / "first")
    assert (tmp_path / "folder" / "third").read_bytes() == b"new"
    (tmp_path / "circle").symlink_to("circle")
    with pytest.raises(LiteRtError, match="too many levels"):
        write(tmp_path / "circle")


@pytest.mark.parametrize(
    ("inputs", "before", "after"),
    [
        ([], None, 0o644),
        ([0o644], None, 0o644),
        ([0o600], None, 0o600),
        ([0o400], None, 0o600),
        ([0o640], None, 0o640),
        ([0o664, 0o640, 0o604], None, 0o600),
        ([0o600], 0o664, 0o600),
        ([0o644], 0o755, 0o755),
        ([0o600], 0o755, 0o711),
        ([0o644], 0o600, 0o600),
    ],
)
def test_a_file_is_no_more_readable_than_its_inputs(
    tmp_path: Path, inputs: list[int], before: int | None, after: int
) -> None:
    old = os.umask(0o022)
    try:
        for index, permissions in enumerate(inputs):
            (tmp_path / str(index)).touch()
            (tmp_path / str(index)).chmod(permissions)
        if before is not None:
            (tmp_path / "out").touch()
            (tmp_path / "out").chmod(before)
        with common_permissions():
            for index in range(len(inputs)):
                open_input(tmp_path / str(index)).close()
            write(tmp_path / "out")
        assert mode(tmp_path / "out") == after
        write(tmp_path / "other")
        assert mode(tmp_path / "other") == 0o644  # earlier inputs do not count
    finally:
        os.umask(old)


def test_a_file_is_on_the_disk_before_it_has_its_place(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    steps = []

    def noted(name: str) -> None:
        real = getattr(os, name)

        def call(*arguments: object) -> None:
            steps.append(name)
            real(*arguments)

        monkeypatch.setattr(os, name, call)

    noted("fsync")
    noted("replace")
    write(tmp_path / "out")
    assert steps == ["fsync", "replace"]


@pytest.mark.parametrize(
    "function", ["fsync", "close", "replace", "dup", "open", "fchmod", "lstat"]
)
def test_a_call_of_the_system_that_fails_leaves_what_was_there(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, function: str
) -> None:
    (tmp_path / "out").write_bytes(b"before")
    real = getattr(os, function)

    def fails(*arguments: object, **named: object) -> None:
        if function == "close":
            real(*arguments)  # the system closes a file even if close fails
        raise OSError(errno.EIO, os.strerror(errno.EIO))

    with pytest.raises(LiteRtError) as error, open_atomic(str(tmp_path / "none")) as fd:
        os.write(fd, b"new")
        monkeypatch.setattr(os, function, fails)
        raise OSError(errno.EIO, os.strerror(errno.EIO))
    with pytest.raises(LiteRtError) as error:
        write(tmp_path / "out")
    monkeypatch.undo()
    assert error.value.status is Status.FILE_IO and "input/output error" in error.value.what
    assert os.listdir(tmp_path) == ["out"] and (tmp_path / "out").read_bytes() == b"before"


def test_a_file_system_that_cannot_tell_is_none_that_fails(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fails(_: int) -> None:
        raise OSError(errno.EINVAL, os.strerror(errno.EINVAL))

    monkeypatch.setattr(os, "fsync", fails)
    write(tmp_path / "out")
    assert (tmp_path / "out").read_bytes() == b"new"


def left_over_of_a_killed_process(target: Path, made_by: str = "open_atomic") -> Path:
    code = (
        "import os, signal, sys\n"
        "from litert.model import atomic_file\n"
        "atomic_file._OPEN_FILES = '/nowhere'\n"
        f"with atomic_file.{made_by}(sys.argv[1]) as made:\n"
        "    open(made + '/half', 'w') if isinstance(made, str) else os.write(made, b'half')\n"
        "    os.kill(os.getpid(), signal.SIGKILL)\n"
    )
    ended = subprocess.run([sys.executable, "-c", code, str(target)])
    assert ended.returncode == -signal.SIGKILL
    (found,) = target.parent.glob(f".{target.name}.*.tmp")
    return found


def test_a_later_write_sweeps_what_a_killed_process_has_left(tmp_path: Path) -> None:
    left_over_of_a_killed_process(tmp_path / "out")
    others = [".out.tmp", ".out.0123.tmp", ".other.0123456789abcdef.tmp", ".out.0123456789abcdef"]
    for name in others:
        (tmp_path / name).write_bytes(b"a user's")
    (tmp_path / ".out.0123456789abcdee.tmp").symlink_to("precious")
    write(tmp_path / "out")
    left = {*others, ".out.0123456789abcdee.tmp", "out"}
    assert set(os.listdir(tmp_path)) == left


def make_folder_beside(path: Path) -> None:
    with folder_beside(str(path)):
        pass


@pytest.mark.parametrize("next_one", [write, make_folder_beside])
def test_a_folder_that_a_killed_process_has_left_is_swept(
    tmp_path: Path, next_one: Callable[[Path], None]
) -> None:
    left = left_over_of_a_killed_process(tmp_path / "out", "folder_beside")
    assert (left / "half").exists()
    next_one(tmp_path / "out")
    assert not left.exists()


@pytest.mark.parametrize(
    "make",
    [
        "with atomic_file.temporary_folder() as made: kill()",
        "with atomic_file.temporary_file('name') as file: kill()",
        "atomic_file.make_temporary_folder(); kill()",
        "from litert.analysis.npu_files import working_folder\nwith working_folder('x.tflite'): kill()",
        "from litert_npu_tools.destinations import open_output\nwith open_output('-'): kill()",
    ],
)
def test_the_next_temporary_folder_sweeps_those_of_killed_processes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, make: str
) -> None:
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    kill = "kill = lambda: os.kill(os.getpid(), signal.SIGKILL)"
    code = f"import os, signal\nfrom litert.model import atomic_file\n{kill}\n{make}\n"
    environment = {**os.environ, "TMPDIR": str(tmp_path)}
    ended = subprocess.run([sys.executable, "-c", code], env=environment)
    assert ended.returncode == -signal.SIGKILL and os.listdir(tmp_path)
    with temporary_file("name") as file:
        (made,) = os.listdir(tmp_path)
        assert Path(file.name) == tmp_path / made / "name"
    assert not os.listdir(tmp_path)


def test_a_folder_is_there_until_its_block_ends(tmp_path: Path) -> None:
    with folder_beside(str(tmp_path / "out")) as first:
        with folder_beside(str(tmp_path / "out")) as second:
            assert first != second
        write(tmp_path / "out")
        assert os.stat(first).st_mode & 0o777 == 0o700
    assert os.listdir(tmp_path) == ["out"]


def test_what_is_being_written_is_not_swept(tmp_path: Path) -> None:
    with open_atomic(str(tmp_path / "out")) as fd:
        os.write(fd, b"first")
        write(tmp_path / "out", b"second")
    assert (tmp_path / "out").read_bytes() == b"first"
    assert os.listdir(tmp_path) == ["out"]


def test_a_cache_is_rid_of_what_a_killed_process_has_left(tmp_path: Path) -> None:
    import re

    left_over_of_a_killed_process(tmp_path / "a.bin")
    write(tmp_path / "b.bin")
    trim_folder(str(tmp_path), re.compile(r"\w\.bin"), 1 << 20)
    assert os.listdir(tmp_path) == ["b.bin"]


def test_a_folder_goes_also_where_a_call_fails_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    fstat, failures = os.fstat, [OSError(errno.EIO, "fails once")]

    def failing(fd: int) -> os.stat_result:
        if failures:
            raise failures.pop()
        return fstat(fd)

    with folder_beside(str(tmp_path / "out")) as folder:
        (Path(folder) / "file").touch()
        monkeypatch.setattr(os, "fstat", failing)
    assert not failures and not list(tmp_path.iterdir())

"""Runs a command once for each place that can fail, in a fork of this process, and checks the resulting files."""

from __future__ import annotations

import os
import re
import shutil
import signal
import sys
import tempfile
import time
import traceback
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from io import BytesIO
from pathlib import Path
from random import Random

import numpy as np

from litert.model.file_digest import DIGEST_OFFSET, MARK, RESERVED, check_digest
from tests.faults.children import follow
from tests.faults.commands import COMMANDS, COMPILED, Command, write_inputs
from tests.faults.hook import Hook
from tests.file_digests import with_right_digest
from vendor_reference.executable.binary_layer import unpack_binary_layer

_TIMEOUT_S = 120.0
_INTERRUPTED = 130
_BEFORE = b"what was there before"
_DEFECT = re.compile(
    r"This is a defect of|Traceback \(most recent call last\)|Exception ignored|Error in sys\.excepthook"
)
_REFUSES_OUTPUT = "ALREADY_EXISTS"
"""Status of commands that replace no files. The run after a kill may fail so if the killed run was complete."""
_TEMPORARY = re.compile(r"(.*/)?\.[^/]+\.tmp(/.*)?")


@dataclass(frozen=True)
class Problem:
    """A place at which a command fails in a wrong way, and a description of the problem."""

    place: str
    what: str


class CommandTrial:
    """Runs of one command, in subfolders of one folder."""

    def __init__(self, name: str, folder: Path) -> None:
        """Writes the inputs, and runs the command once without a fault, to record its outputs."""
        self._command = COMMANDS[name]
        self._folder = folder
        self._template, self._work = folder / "template", folder / "work"
        self._temporary = folder / "temporary"
        self._template.mkdir(parents=True)
        self._temporary.mkdir()
        os.environ["LITERT_NPU_CACHE_DIR"] = str(folder / "cache")
        os.environ["TMPDIR"] = tempfile.tempdir = str(self._temporary)
        write_inputs(self._template)
        for made, command in COMPILED.items():
            self._prepare(command, has_output=False)
            self._end(self._fork(command), made)
            shutil.copy(self._work / made, self._template)
        strange = with_right_digest((self._template / "npu.tflite").read_bytes())
        (self._template / "strange.tflite").write_bytes(strange)
        self._prepare(self._command, has_output=False)
        self._end(self._fork(self._command), name)
        self._made = _contents(self._work)

    def places(self) -> Sequence[str]:
        """Returns the places at which the command can fail, in the order in which the command reaches them."""
        self._prepare(self._command, has_output=True)
        self._end(self._fork(self._command), "watching")
        return list(dict.fromkeys((self._folder / "places").read_text().splitlines()))

    def try_places(self, places: Sequence[str], action: str) -> Iterator[Problem]:
        """Runs the command once for each place, with the action at this place; yields the problems."""
        for number, place in enumerate(places):
            self._prepare(self._command, has_output=number % 2 == 0)
            before = _contents(self._work)
            status = self._fork(self._command, place, action)
            for what in self._mistakes(action, status, before):
                yield Problem(place, what)

    def try_moments(self, count: int, random: Random) -> Iterator[Problem]:
        """Kills the command at `count` random moments, and each time runs it again; yields the problems."""
        start = time.monotonic()
        self._prepare(self._command, has_output=True)
        self._end(self._fork(self._command, watched=False), "measuring")
        duration_s = time.monotonic() - start
        for number in range(count):
            moment_s = random.uniform(0, duration_s)
            self._prepare(self._command, has_output=number % 2 == 0)
            before = _contents(self._work)
            status = self._fork(self._command, watched=False, kill_s=moment_s)
            found = list(self._mistakes("kill", status, before))
            is_whole = self._made.items() <= _contents(self._work).items()
            status = self._fork(self._command, watched=False)
            if status and not (is_whole and _REFUSES_OUTPUT in self._said()):
                found.append(f"the next run ends with {status}: {self._said()[-500:]}")
            left = {*_contents(self._work)} - {*self._made} | {*os.listdir(self._temporary)}
            if left:
                found.append(f"the next run leaves {', '.join(sorted(left))}")
            for what in found:
                yield Problem(f"{moment_s:.3f} s of {duration_s:.3f}", what)

    def _prepare(self, command: Command, *, has_output: bool) -> None:
        """Makes a new working folder with the inputs, and if `has_output`, with old files in place of outputs."""
        shutil.rmtree(self._work, ignore_errors=True)
        shutil.copytree(self._template, self._work)
        if command.is_cold:
            shutil.rmtree(self._folder / "cache", ignore_errors=True)
        for name in command.outputs if has_output else ():
            if "." in name:
                (self._work / name).write_bytes(_BEFORE)

    def _fork(
        self,
        command: Command,
        place: str = "",
        action: str = "fail",
        *,
        watched: bool = True,
        kill_s: float = _TIMEOUT_S,
    ) -> int:
        """Runs a command in a fork, with its output in files; returns its exit status or negative signal."""
        child = os.fork()
        if not child:
            status = 99
            try:
                hook = Hook(self._open("places"), place, action) if watched else None
                status = self._run(command, hook)
            except BaseException:
                traceback.print_exc()
            finally:
                sys.stderr.flush()
                os._exit(status)
        end = time.monotonic() + kill_s
        while not (ended := os.waitpid(child, os.WNOHANG))[0]:
            if time.monotonic() > end:
                os.kill(child, signal.SIGKILL)
                ended = os.waitpid(child, 0)
                if kill_s == _TIMEOUT_S:
                    return -signal.SIGALRM
                break
            time.sleep(0.002)
        return os.waitstatus_to_exitcode(ended[1])

    def _open(self, name: str) -> int:
        flags = os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_APPEND
        return os.open(self._folder / name, flags)

    def _run(self, command: Command, hook: Hook | None) -> int:
        """Runs the command in the forked process."""
        os.chdir(self._work)
        os.dup2(self._open("stdout"), 1)
        os.dup2(self._open("stderr"), 2)
        if hook is None:
            return command.run()
        follow(hook)
        hook.start()
        try:
            return command.run()
        finally:
            hook.stop()

    def _said(self) -> str:
        return (self._folder / "stderr").read_text(errors="replace")

    def _end(self, status: int, name: str) -> None:
        if status:
            raise RuntimeError(f"{name} ends with {status} without a fault: {self._said()}")

    def _mistakes(self, action: str, status: int, before: Mapping[str, bytes]) -> Iterator[str]:
        """Yields the mistakes in the end of the command, in its messages and in the files that remain."""
        said, after = self._said(), _contents(self._work)
        is_killed = action == "kill" and status == -signal.SIGKILL
        if status == -signal.SIGALRM:
            yield f"a hang: {said[-500:]}"
        elif status < 0 and not is_killed:
            yield f"{signal.Signals(-status).name}: {said[-500:]}"
        if found := _DEFECT.search(said):
            yield f"{found[0]!r}, exit status {status}: {said[-1500:]}"
        if status > 0 and not said.strip() and not (self._folder / "stdout").read_text().strip():
            yield f"exit status {status}, and no word"
        if action == "interrupt" and status not in (0, _INTERRUPTED):
            yield f"exit status {status} after Ctrl-C: {said[-500:]}"
        for name in sorted({*before, *after}):
            if (is_killed and _TEMPORARY.fullmatch(name)) or after.get(name) == before.get(name):
                continue
            if name in after and after[name] == self._made.get(name):
                continue  # complete: the failed call came later
            if is_killed and name not in self._command.outputs and name in self._made:
                continue  # in a new folder
            state = "gone" if name not in after else "left" if name not in before else "changed"
            yield f"{name} is {state}, exit status {status}: {said[-500:]}"
        if not status:
            for name in self._made:
                if after.get(name) != self._made[name]:
                    yield f"{name} is not as it should be, exit status 0: {said[-500:]}"


def _contents(folder: Path) -> dict[str, bytes]:
    """Returns the contents of the files in a folder, by path, without parts that differ from run to run.

    Files `.bin` and `.so` contain a compiler's code, and are only checked for completeness. Compiled files are
    compared without their digest and seal, because only some have the user's seal. For a `.npz` file, only the
    arrays are compared, because the other bytes differ if the file was written without random access.
    """
    found = {}
    for path in (path for path in folder.rglob("*") if path.is_file()):
        data = path.read_bytes()
        if data != _BEFORE and path.suffix == ".bin":
            unpack_binary_layer(data, path.name)
            data = b"whole"
        elif path.suffix == ".npz" and data != _BEFORE:
            arrays = np.load(BytesIO(data))
            data = b"".join(name.encode() + arrays[name].tobytes() for name in sorted(arrays))
        elif path.suffix == ".so" and data.startswith(b"\x7fELF"):
            data = b"whole"
        elif path.suffix == ".tflite" and data != _BEFORE:
            check_digest(memoryview(data), None, path.name)
            data = data[:DIGEST_OFFSET] + data[DIGEST_OFFSET + len(RESERVED) - len(MARK) :]
        found[str(path.relative_to(folder))] = data
    return found

"""Tests `--watch`: the command answers each edit at once, and Ctrl-C ends it cleanly."""

from __future__ import annotations

import os
import select
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.tools.layer.conftest import SHAPES, SOFTSIGN
from vendor_reference.authoring.compiled_layer import find_layer_files

COMMAND = (
    "import sys; from litert_npu_tools.litert_npu import run; sys.argv[0] = 'litert-npu'; run()"
)
PATIENCE_S = 60


class Watched:
    """A running command with `--watch`."""

    def __init__(self, *arguments: str) -> None:
        self.process = subprocess.Popen(
            [sys.executable, "-c", COMMAND, *arguments],
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
        )
        self.said = b""

    def wait_for(self, text: str) -> str:
        """Waits until the command prints the text; returns the output before it, and drops both."""
        assert self.process.stdout is not None
        deadline = time.monotonic() + PATIENCE_S
        while text.encode() not in self.said:
            left = deadline - time.monotonic()
            assert left > 0 and self.process.poll() is None, self.said.decode()
            if select.select([self.process.stdout], [], [], left)[0]:
                self.said += os.read(self.process.stdout.fileno(), 1 << 16)
        before, _, self.said = self.said.partition(text.encode())
        return before.decode()


@pytest.fixture
def watched(author: Path) -> Iterator[Watched]:
    (author / "f.h").write_text("#define F(x) (x)\n")
    (author / "Softsign.cl").write_text('#include "f.h"\n' + SOFTSIGN)
    command = Watched(
        "layer", "check", "Softsign.cl", *SHAPES, '--options={"alpha": 2.0}', "--watch"
    )
    yield command
    command.process.kill()
    command.process.wait()
    assert command.process.stdout is not None
    command.process.stdout.close()


def test_each_edit_is_answered_until_ctrl_c(author: Path, watched: Watched) -> None:
    assert "ok: the layer builds" in watched.wait_for("; Ctrl-C ends")
    (author / "f.h").write_text("#define F(x) (x)\nfloat broken() { return }\n")
    assert "f.h:2:25" in watched.wait_for("; Ctrl-C ends")
    (author / "f.h").unlink()  # some editors delete a file before they write it
    assert "'f.h' file not found" in watched.wait_for("; Ctrl-C ends")
    (author / "f.h").write_text("#define F(x) (x)\n")
    (author / "Softsign.cl").write_text(SOFTSIGN)
    watched.wait_for("ok: the layer builds")
    watched.wait_for("; Ctrl-C ends")  # after a finished check, Ctrl-C gives 0
    watched.process.send_signal(signal.SIGINT)
    assert watched.process.wait(PATIENCE_S) == 0
    assert b"Traceback" not in watched.said


def test_what_a_layer_names_and_includes_is_watched(author: Path) -> None:
    (author / "lib").mkdir()
    (author / "lib" / "g.h").write_text("")
    (author / "k.cl").write_text('#include "lib/g.h"\n')
    (author / "k.json").write_text('{"version": 1, "sources": ["k.cl"]}')
    names = [os.path.relpath(path) for path in find_layer_files("k.json", "", "op")]
    assert set(names) == {"k.json", "k.cl", "lib/g.h"}
    names = [os.path.relpath(path) for path in find_layer_files("k.json", str(author), "op")]
    assert set(names) == {"k.json", "k.cl", "lib/g.h"}


def test_while_a_layer_cannot_be_read_all_beside_it_is_watched(author: Path) -> None:
    (author / "k.json").write_text('{"version": 1, "sources": ["missing.cl"]}')
    names = {os.path.basename(path) for path in find_layer_files("k.json", "", "op")}
    assert {"k.json", "Softsign.cl"} <= names

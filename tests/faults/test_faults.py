"""Tests some commands of `make faults` at some places, where a call fails, is interrupted, or ends the process."""

from __future__ import annotations

import subprocess
import sys

import pytest

from tests.faults.__main__ import ROOT
from tests.faults.hook import ACTIONS


@pytest.mark.parametrize("action", ACTIONS)
@pytest.mark.parametrize("command", ["noop", "apply"])
def test_a_command_that_fails_says_so_and_leaves_nothing_half(command: str, action: str) -> None:
    try_command(command, f"--action={action}", "--most=8")


@pytest.mark.parametrize("command", ["layer_new", "vendor_new"])
def test_a_command_that_is_killed_leaves_a_whole_folder_or_none(command: str) -> None:
    try_command(command, "--moments=4")


def try_command(command: str, *arguments: str) -> None:
    child = subprocess.run(
        [sys.executable, "-W", "ignore", "-m", "tests.faults", "--here", *arguments, command],
        cwd=ROOT,
        capture_output=True,
        text=True,
    )
    assert not child.returncode, child.stdout + child.stderr
    assert f"{command}: " in child.stdout

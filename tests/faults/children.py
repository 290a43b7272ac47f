"""Installs the hook in the child processes that a command starts."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from litert.host import child_process
from litert.host.child_side import load_function
from litert.host.sandbox import Sandbox
from tests.faults.hook import Hook

_TESTS = Path(__file__).resolve().parents[1]
_BEGIN = "tests.faults.children:begin"
_SERVERS = ("litert.host.child:serve", "litert.host.serving:serve")
"""Functions whose first argument is the function that the child process serves."""


def follow(hook: Hook) -> None:
    """Installs a hook with the same place and action in all processes that this process starts from now on."""
    start: Any = child_process._start

    def start_watched(
        target: str,
        arguments: Sequence[str],
        shared: Sequence[int],
        memory_bytes: int,
        temporary_folder: str,
        sandbox: Sandbox | None,
        enters_later: bool,
    ) -> Any:
        if sandbox:
            sandbox = replace(sandbox, readable=[*sandbox.readable, str(_TESTS)])
        watched = [hook.wanted, hook.action, str(hook.log), target, *arguments]
        kept = [*shared, hook.log]
        return start(_BEGIN, watched, kept, memory_bytes, temporary_folder, sandbox, enters_later)

    child_process._start = start_watched


def begin(wanted: str, action: str, log: str, target: str, *arguments: str) -> None:
    """Installs the hook in the child process, and then runs the process's own function."""
    name = arguments[0] if target in _SERVERS else target
    hook = Hook(int(log), wanted, action, name)
    follow(hook)
    hook.start()
    load_function(target)(*arguments)

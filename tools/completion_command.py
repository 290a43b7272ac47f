"""`litert-npu completion`: prints a script that completes command lines of this project in a shell."""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping, Sequence

from .command import Command
from .command_line import FlagValues
from .console import print_text

SCRIPTS: Mapping[str, str] = {"bash": "bash_completion", "zsh": "zsh_completion"}
"""Modules that make the completion script, by the shell's name."""


def completion_script(shell: str) -> str:
    """Returns the script for a shell: bash or zsh."""
    from importlib import import_module

    from .command_words import find_programs

    module = import_module(f".{SCRIPTS[shell]}", __package__)
    write: Callable[..., str] = module.completion_script
    return write(find_programs())


def _run(_: FlagValues, arguments: Sequence[str]) -> int:
    print_text(completion_script(arguments[0]).rstrip("\n"), sys.stdout)
    return 0


COMMAND = Command(
    "SHELL\nPrints a completion script for a shell, bash or zsh. The script completes command "
    "lines of litert-npu and apply_plugin: commands, flags, values of flags, and file names. "
    "Completion is fast, because the script does not start Python. After you update litert-npu, "
    "write the script to its file again.\n\n  litert-npu completion bash > "
    "~/.litert_npu_completion; echo '. ~/.litert_npu_completion' >> ~/.bashrc\n  litert-npu "
    "completion zsh > ~/.litert_npu_completion; echo '. ~/.litert_npu_completion' >> "
    "~/.zshrc\n\nIn ~/.zshrc, the line that this command adds must be below the line that calls "
    "compinit.",
    (),
    _run,
    num_arguments=1,
    choices=tuple(SCRIPTS),
)

"""`litert-npu vendor`: what the author of a plugin and a dispatch table does with them.

Each command is a module of `vendor/`, `<command>_command.py`.
"""

from __future__ import annotations

from .command import CommandGroup

COMMAND = CommandGroup(
    "A vendor's compiler plugin and dispatch table, in Python or in shared libraries.",
    ".vendor.{}_command",
    {
        "check": "find the rules of the contract that a vendor breaks",
        "export": "make shared libraries of a Python vendor, for stock LiteRT",
        "new": "begin a vendor: a working one, in Python or in C",
    },
)

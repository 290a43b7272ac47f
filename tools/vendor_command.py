"""`litert-npu vendor`: commands for the author of a compiler plugin and a dispatch table.

Each command is a module of `vendor/`, `<command>_command.py`.
"""

from __future__ import annotations

from .command import CommandGroup

COMMAND = CommandGroup(
    "Commands for the author of a vendor's compiler plugin and dispatch table, in Python or in "
    "shared libraries.",
    ".vendor.{}_command",
    {
        "check": "check a vendor against each rule of the contract",
        "export": "make shared libraries from a Python vendor, for stock LiteRT",
        "new": "write a working vendor to start from, in Python, C or C++",
    },
)

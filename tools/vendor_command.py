"""`litert-npu vendor`: commands for authors of a compiler plugin and a dispatch table.

Each command is a module `<command>_command.py` in the folder `vendor/`.
"""

from __future__ import annotations

from .command import CommandGroup

COMMAND = CommandGroup(
    "Commands for the author of a vendor's compiler plugin and dispatch table, in Python or in "
    "shared libraries.",
    ".vendor.{}_command",
    {
        "check": "check that a vendor follows each rule of LiteRT's contract with vendors",
        "export": "make shared libraries for stock LiteRT from a vendor written in Python",
        "new": "write a working example of a vendor in Python, C or C++, as a starting point",
    },
)

"""`litert-npu layer`: what the author of a kernel does with it; each command is a module of `layer/`."""

from __future__ import annotations

from .command import CommandGroup

COMMAND = CommandGroup(
    "The loop of a kernel's author: an edit, a check, a run on one op, a measurement.",
    ".layer.{}",
    {
        "build": "compile a layer ahead, into a .bin",
        "check": "read, bind and build a layer; show what its kernel gets",
        "new": "begin a layer: a working skeleton from a model's op",
        "run": "run a layer on one op; compare it with a reference, and measure it",
        "stub": "make a layer that does nothing, to estimate what a network would gain",
        "tune": "measure local sizes, and write the best into the description",
    },
)

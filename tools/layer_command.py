"""`litert-npu layer`: commands for the author of a kernel; each command is a module of `layer/`."""

from __future__ import annotations

from .command import CommandGroup

COMMAND = CommandGroup(
    "Commands for the author of a kernel: create, check, run, measure and tune a layer for one "
    "custom op.",
    ".layer.{}",
    {
        "build": "compile a layer ahead of time, into a .bin file",
        "check": "read, bind and build a layer, and show the arguments of its kernel",
        "new": "write a working skeleton of a layer for an op of a model",
        "run": "run a layer on one op, compare the result with a reference, and measure the time",
        "stub": (
            "write a layer that does nothing, to estimate the largest possible gain of a kernel"
        ),
        "tune": "measure local sizes of a kernel, and write the best size into its description",
    },
)

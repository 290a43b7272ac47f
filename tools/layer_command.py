"""`litert-npu layer`: commands for authors of kernels; each command is a module in the folder `layer/`."""

from __future__ import annotations

from .command import CommandGroup

COMMAND = CommandGroup(
    "Commands for the author of a kernel: create, check, run, measure and tune a layer, which is "
    "the implementation of one op.",
    ".layer.{}",
    {
        "build": "compile a layer ahead of time, into a .bin file",
        "check": "read a layer, build its kernel, and show the arguments of the kernel",
        "new": "write a working skeleton of a layer for an op of a model",
        "run": "run a layer on one op, compare the result with a reference, and measure the time",
        "stub": (
            "write a layer whose kernel does nothing, to find out how much time a faster kernel "
            "can save at most"
        ),
        "tune": "measure a kernel with several local sizes (sizes of a work group), and write the best "
        "size into the layer's description",
    },
)

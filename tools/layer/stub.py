"""`litert-npu layer stub`: writes a kernel that does nothing, to estimate how much time a kernel can save."""

from __future__ import annotations

import sys
from collections.abc import Sequence

from litert.core.option import Flag

from ..command import Command
from ..command_line import FlagValues
from ..console import print_lines
from ..destinations import write_new_files
from .layer_flags import OP_FLAGS, given_vendor_options, open_ops


def _run(flags: FlagValues, arguments: Sequence[str]) -> int:
    from vendor_reference.authoring.stub_layer import stub_commands, stub_layer

    vendor_options = given_vendor_options(flags)
    with open_ops(flags) as (op_name, subjects):
        files = stub_layer(op_name, subjects)
    paths = write_new_files(flags.o or ".", files)
    commands = stub_commands(op_name, paths[-1], flags.model, vendor_options)
    lines = [
        *(f"Wrote {path}" for path in paths),
        "The layer's kernel does nothing. These commands measure the network's time if the layer takes "
        "no time. The largest",
        "possible gain of a faster kernel is the difference from the network's present time.",
        *(f"  {command}" for command in commands),
        "The layer's outputs are wrong, so the estimate is valid only if no branch and no loop depends "
        "on these outputs.",
    ]
    print_lines(lines, sys.stdout)
    return 0


COMMAND = Command(
    "--model=MODEL --op=NAME\nWrites a layer whose kernel does nothing. Before you write a real "
    "kernel, measure the time of the network with this layer: with a real kernel, the network "
    "cannot be faster.",
    (*OP_FLAGS, Flag("o", "", "Output folder. The default is the current folder.")),
    _run,
)

"""`litert-npu layer new`: writes a working skeleton of a layer for an op of a model."""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence

from litert.core.option import Flag

from ..command import Command
from ..command_line import FlagValues
from ..console import print_lines
from ..destinations import write_new_files
from .layer_flags import OP_FLAGS, given_vendor_options, open_ops

_FLAGS = (
    *OP_FLAGS,
    Flag(
        "kind",
        None,
        "Kind of the asset to write. The default is json if the op's options are a C struct, or "
        "if the kernel computes the shapes of outputs. For all other ops, the default is cl.",
        choices=["cl", "json", "xml"],
    ),
    Flag("o", "", "Output folder. The default is a folder with the op's name."),
)


def _run(flags: FlagValues, arguments: Sequence[str]) -> int:
    from vendor_reference.authoring.new_layer import c_name, choose_kind, new_layer

    with open_ops(flags) as (op_name, subjects):
        kind = flags.kind or choose_kind(subjects)
        folder = flags.o or c_name(op_name)
        model = min(os.path.relpath(flags.model, folder), os.path.abspath(flags.model), key=len)
        files = new_layer(kind, op_name, subjects, model, given_vendor_options(flags))
    paths = write_new_files(folder, files)
    lines = [f"Wrote {path}" for path in paths]
    print_lines(
        [*lines, f"The next commands are in {paths[-1]}: run these commands in {folder}."],
        sys.stdout,
    )
    return 0


COMMAND = Command(
    "--model=MODEL --op=NAME\nWrites a working skeleton of a layer for an op: a kernel with the "
    "op's arguments and options, a reference function in NumPy, and a README with the next "
    "commands. For the kinds json and xml (see --kind), the command also writes a description "
    "file, which says how the kernel's arguments correspond to the op's tensors and options. The "
    "skeleton builds and runs without changes.",
    _FLAGS,
    _run,
)

"""`litert-npu layer build`: compiles a layer ahead of time, into a `.bin` file that replaces its sources."""

from __future__ import annotations

import base64
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from litert.core.option import Flag
from litert.model.atomic_file import check_place, open_atomic
from litert.model.output import write_at

from ..command import Command
from ..command_line import FlagValues, usage_error
from ..destinations import writes
from ..progress_bar import ProgressBar
from .layer_flags import LAYER_FLAGS, layer_request, open_layer
from .safe_process import answer, run_safely, stage


def build(request: Mapping[str, Any]) -> Iterator[Mapping[str, object]]:
    """Compiles a layer in the child process, and yields the contents of the .bin file."""
    from vendor_reference.authoring.layer_build import build_layer

    with open_layer(request) as layer:
        yield stage(f"{layer.options.path} was being compiled")
        built = build_layer(layer.options, layer.op_name, layer.subjects, request["source"])
    values = {
        "devices": built.devices,
        "programs": built.num_programs,
        "data": base64.b64encode(built.data).decode(),
    }
    yield answer(True, built.to_text(request["o"]), values)


def _run(flags: FlagValues, arguments: Sequence[str]) -> int:
    request = layer_request(flags, arguments[0], "source", "o")
    if not flags.o.lower().endswith(".bin"):
        raise usage_error(
            f"-o is '{flags.o}', but the name of the output file must end in .bin",
            "Give another name with -o.",
        )
    check_place(flags.o)
    with writes([flags.o]):
        with ProgressBar():
            found = run_safely(f"{__name__}:build", request)
        assert isinstance(found.values, dict)
        with open_atomic(flags.o) as fd:
            write_at(fd, base64.b64decode(found.values["data"]), 0)
    return found.show("text")


COMMAND = Command(
    "FILE -o OUT.bin\nCompiles a layer ahead of time, for each device of this machine. The layer "
    "is compiled for the ops of a model (--model), or for given shapes (--inputs, --outputs). "
    "Ops with equal shapes, types and options share their machine code. Use the .bin file in "
    "place of FILE in --npu_custom_op_info. If the .bin file has no code for a device, or if "
    "machine code is not allowed, the sources in the .bin file are built when the model is "
    "loaded.",
    (
        *LAYER_FLAGS,
        Flag("o", "", "Path of the .bin file to write."),
        Flag(
            "source",
            True,
            "By default, the .bin file also contains the layer's source files. For a device without "
            "machine code in the .bin file, the kernel is built from these source files. With "
            "--nosource, the .bin file contains no source files.",
        ),
    ),
    _run,
    num_arguments=1,
)

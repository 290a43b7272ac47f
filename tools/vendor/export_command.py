"""`litert-npu vendor export`: shared libraries of a Python vendor, for stock LiteRT."""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence
from typing import TYPE_CHECKING, NamedTuple

from litert.core.errors import LiteRtError
from litert.core.option import Flag
from litert.core.status import Status

from ..command import Command
from ..command_line import FlagValues, usage_error
from ..console import print_lines
from ..destinations import writes
from ..progress_bar import ProgressBar
from .stock_trial import stock_limits
from .vendor_libraries import KINDS, find_installed

if TYPE_CHECKING:
    from litert.host.python_library.building import PlannedLibrary


class Origin(NamedTuple):
    """What a library is made of: its kind, and the place of the vendor's object, `module:attribute` or a file."""

    kind: str
    manufacturer: str
    place: str


def export(origins: Sequence[Origin], folder: str) -> list[str]:
    """Makes a vendor's libraries in a folder, and tries each; returns their paths.

    It makes all or none: after an error, what was there before is as it was.
    """
    from litert.abi.headers import INCLUDE_FOLDER
    from litert.host.python_library.building import Interpreter, build_libraries
    from litert.model.atomic_file import make_folder

    libraries = [_plan(origin, folder) for origin in origins]
    make_folder(folder)
    interpreter = Interpreter.of_this_process()
    outputs = [library.output for library in libraries]
    with writes(outputs):
        build_libraries(
            libraries,
            include_folder=INCLUDE_FOLDER,
            interpreter=interpreter,
            is_tried=bool(interpreter.libpython),
        )
    return outputs


def _plan(origin: Origin, folder: str) -> PlannedLibrary:
    from litert.host.python_library.bootstrap import find_vendor
    from litert.host.python_library.building import PlannedLibrary

    kind, manufacturer, place = origin
    spec = {
        "manufacturer": manufacturer,
        "origin": place,
        "constant": KINDS[kind].constant,
        "target": KINDS[kind].export,
    }
    vendor = find_vendor(spec)
    if isinstance(vendor, (str, os.PathLike)):
        raise LiteRtError(
            Status.INVALID_ARGUMENT,
            "it is a shared library already, and runs in stock LiteRT as it is",
            os.fspath(vendor),
        )
    output = os.path.join(folder, f"lib{KINDS[kind].stem}_{manufacturer}.so")
    return PlannedLibrary(kind, output, spec)


def read_origin(path: str) -> Origin:
    """What a vendor's file is by its name; its path is absolute."""
    name, suffix = os.path.splitext(os.path.basename(path))
    for kind, described in KINDS.items():
        prefix = f"{described.stem}_"
        if suffix == ".py" and name.startswith(prefix) and name != prefix:
            return Origin(kind, name.removeprefix(prefix), os.path.abspath(path))
    raise LiteRtError(
        Status.INVALID_TOOL_CONFIG,
        "not a vendor's file by its name",
        path,
        "Call it LiteRtCompilerPlugin_<manufacturer>.py or LiteRtDispatch_<manufacturer>.py.",
    )


_FLAGS = (
    Flag("manufacturer", "", "Name of an installed vendor."),
    Flag("output", "", "The folder to write to; by default this one.", short_name="o"),
)


def _run(flags: FlagValues, arguments: Sequence[str]) -> int:
    if bool(arguments) == bool(flags.manufacturer):
        raise usage_error("one of --manufacturer and FILES has to be given, and not both")
    if arguments:
        origins = [read_origin(path) for path in arguments]
    else:
        vendor = find_installed(flags.manufacturer)
        origins = [
            Origin(kind, vendor.manufacturer, place) for kind, place in vendor.origins.items()
        ]
    with ProgressBar():
        paths = export(origins, flags.output or ".")
        libraries = dict(zip([origin.kind for origin in origins], paths, strict=True))
        lines = [*(f"Wrote {path}" for path in paths), *_needs(), *stock_limits(libraries)]
    print_lines(lines, sys.stdout)
    return 0


def _needs() -> list[str]:
    """What the libraries need at run time, for people."""
    from litert.host.python_library.building import Interpreter

    interpreter = Interpreter.of_this_process()
    lines = [
        f"They start Python {interpreter.version} with the packages of {interpreter.program}: "
        "LITERT_NPU_PYTHON names another interpreter.",
    ]
    if interpreter.libpython:
        lines.append(f"libpython is {interpreter.libpython}: LITERT_NPU_LIBPYTHON names another.")
    else:
        lines.append(
            f"This Python has no shared libpython: only programs that are Python {interpreter.version} can load "
            "them, unless LITERT_NPU_LIBPYTHON names one."
        )
    return lines


COMMAND = Command(
    "(--manufacturer=NAME | FILES)\nMakes libLiteRtCompilerPlugin_NAME.so and libLiteRtDispatch_NAME.so of a "
    "Python vendor,\nwhich unmodified LiteRT loads, with the C compiler that is here. Each is tried at once.",
    _FLAGS,
    _run,
    num_arguments=2,
    num_optional=2,
)

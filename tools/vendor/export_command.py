"""`litert-npu vendor export`: makes shared libraries from a Python vendor, for stock LiteRT."""

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
    """The source of a library: the Python object of a vendor, at `module:attribute` or in a file."""

    kind: str
    manufacturer: str
    place: str


def export(origins: Sequence[Origin], folder: str) -> list[str]:
    """Builds a vendor's shared libraries in a folder, and tries to load each; returns their paths.

    The function writes either all libraries or none, so that old files are unchanged after an error.
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
            "the vendor's code is already a shared library, so there is nothing to export",
            os.fspath(vendor),
            "Stock LiteRT can load this library.",
        )
    output = os.path.join(folder, f"lib{KINDS[kind].stem}_{manufacturer}.so")
    return PlannedLibrary(kind, output, spec)


def read_origin(path: str) -> Origin:
    """Returns the kind and the manufacturer from the name of a vendor's file, and its absolute path."""
    name, suffix = os.path.splitext(os.path.basename(path))
    for kind, described in KINDS.items():
        prefix = f"{described.stem}_"
        if suffix == ".py" and name.startswith(prefix) and name != prefix:
            return Origin(kind, name.removeprefix(prefix), os.path.abspath(path))
    raise LiteRtError(
        Status.INVALID_TOOL_CONFIG,
        "a vendor's Python file must be called LiteRtCompilerPlugin_<manufacturer>.py or "
        "LiteRtDispatch_<manufacturer>.py",
        path,
        "Rename the file.",
    )


_FLAGS = (
    Flag(
        "manufacturer",
        "",
        ("Name of the installed vendor to export."),
    ),
    Flag("output", "", "Output folder. The default is the current folder.", short_name="o"),
)


def _run(flags: FlagValues, arguments: Sequence[str]) -> int:
    if bool(arguments) == bool(flags.manufacturer):
        both = "the command line has both --manufacturer and files"
        neither = "the command line has neither --manufacturer nor files"
        raise usage_error(both if arguments else neither, "Give one of the two. See --help.")
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
    """Returns sentences about the Python installation that the libraries need at run time."""
    from litert.host.python_library.building import Interpreter

    interpreter = Interpreter.of_this_process()
    lines = [
        f"The libraries start Python {interpreter.version} with the packages of "
        f"{interpreter.program}. To use another interpreter, set LITERT_NPU_PYTHON.",
    ]
    if interpreter.libpython:
        lines.append(
            f"The libraries load {interpreter.libpython}. To use another libpython, set LITERT_NPU_LIBPYTHON."
        )
    else:
        lines.append(
            f"This Python has no shared libpython. Only Python {interpreter.version} programs can "
            "load the libraries, unless LITERT_NPU_LIBPYTHON is the path of a libpython."
        )
    return lines


COMMAND = Command(
    "(--manufacturer=NAME | FILES)\nMakes two shared libraries from a Python vendor, "
    "libLiteRtCompilerPlugin_NAME.so and libLiteRtDispatch_NAME.so, which unmodified LiteRT can "
    "load. FILES are the vendor's LiteRtCompilerPlugin_NAME.py and LiteRtDispatch_NAME.py. The "
    "command needs a C compiler, and tests whether each new library loads.",
    _FLAGS,
    _run,
    num_arguments=2,
    num_optional=2,
)

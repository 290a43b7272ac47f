"""`litert-npu vendor export`: shared libraries of a Python vendor, for stock LiteRT."""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, NamedTuple

from litert.core.errors import LiteRtError
from litert.core.option import Flag
from litert.core.status import Status

from ..command import Command
from ..command_line import usage_error
from ..console import print_text

if TYPE_CHECKING:
    from absl.flags import FlagValues

    from litert.host.python_library.building import PlannedLibrary

_KINDS = {"compiler_plugin": "PLUGIN", "dispatch": "DISPATCH"}
_TARGETS = {
    "compiler_plugin": "compiler_plugin.native.export:export_plugin",
    "dispatch": "dispatch.native.export:export_library",
}
_LIBRARIES = {
    "compiler_plugin": "libLiteRtCompilerPlugin_{}.so",
    "dispatch": "libLiteRtDispatch_{}.so",
}


class Origin(NamedTuple):
    """What a library is made of.

    Attributes:
      kind: `compiler_plugin` or `dispatch`.
      manufacturer: whose it is.
      place: of the vendor's object: `module:attribute`, or a Python file.
    """

    kind: str
    manufacturer: str
    place: str


def export(origins: Sequence[Origin], folder: str) -> list[str]:
    """Makes a vendor's libraries, and tries each: all of them, or none.

    Args:
      origins: of the libraries to make.
      folder: that they are written to; it is made if it is not there.

    Returns:
      Their paths.

    Raises:
      LiteRtError: what is missing here, or wrong with the vendor; what was there before stays as it is.
    """
    from litert.abi.headers import INCLUDE_FOLDER
    from litert.host.python_library.building import Interpreter, build_libraries

    libraries = [_plan(origin, folder) for origin in origins]
    try:
        os.makedirs(folder, exist_ok=True)
    except OSError as error:
        reason = (error.strerror or str(error)).lower()
        raise LiteRtError(Status.FILE_IO, f"cannot make the folder: {reason}", folder) from error
    interpreter = Interpreter.of_this_process()
    build_libraries(
        libraries,
        include_folder=INCLUDE_FOLDER,
        interpreter=interpreter,
        is_tried=bool(interpreter.libpython),
    )
    return [library.output for library in libraries]


def _plan(origin: Origin, folder: str) -> PlannedLibrary:
    from litert.host.python_library.bootstrap import find_vendor
    from litert.host.python_library.building import PlannedLibrary

    kind, manufacturer, place = origin
    spec = {
        "manufacturer": manufacturer,
        "origin": place,
        "constant": _KINDS[kind],
        "target": _TARGETS[kind],
    }
    vendor = find_vendor(spec)
    if isinstance(vendor, (str, os.PathLike)):
        raise LiteRtError(
            Status.INVALID_ARGUMENT,
            "it is a shared library already, and runs in stock LiteRT as it is",
            os.fspath(vendor),
        )
    return PlannedLibrary(kind, os.path.join(folder, _LIBRARIES[kind].format(manufacturer)), spec)


def find_origins(manufacturer: str) -> Mapping[str, str]:
    """Where an installed vendor's plugin and table are, by kind; one of them may be missing.

    Raises:
      LiteRtError: NOT_FOUND, naming the vendors that there are.
    """
    from compiler_plugin.registry import ENTRY_POINT_GROUP as PLUGINS
    from dispatch.loader import ENTRY_POINT_GROUP as TABLES
    from litert.host.extensions import find_entry_points

    points = {
        "compiler_plugin": find_entry_points(PLUGINS),
        "dispatch": find_entry_points(TABLES),
    }
    found = {
        kind: f"{names[manufacturer].module}:{names[manufacturer].attribute}"
        for kind, names in points.items()
        if manufacturer in names
    }
    if not found:
        there = sorted({name for names in points.values() for name in names})
        raise LiteRtError(
            Status.NOT_FOUND,
            f"no installed vendor '{manufacturer}', only {', '.join(there)}",
            hint="Install its package, or name its files.",
        )
    return found


def read_origin(path: str) -> Origin:
    """What a vendor's file is by its name; its path is absolute.

    Raises:
      LiteRtError: INVALID_TOOL_CONFIG, for a file that is not named as hosts look for it.
    """
    name, suffix = os.path.splitext(os.path.basename(path))
    for kind, pattern in _LIBRARIES.items():
        prefix = pattern.partition("{")[0].removeprefix("lib")
        if suffix == ".py" and name.startswith(prefix) and name != prefix:
            return Origin(kind, name.removeprefix(prefix), os.path.abspath(path))
    raise LiteRtError(
        Status.INVALID_TOOL_CONFIG,
        "not a vendor's file by its name",
        path,
        "Call it LiteRtCompilerPlugin_<manufacturer>.py or LiteRtDispatch_<manufacturer>.py.",
    )


_FLAGS = (
    Flag("manufacturer", "", "Of an installed vendor."),
    Flag("output", "", "The folder to write to; by default this one.", short_name="o"),
)


def _run(flags: FlagValues, arguments: Sequence[str]) -> int:
    if bool(arguments) == bool(flags.manufacturer):
        raise usage_error("one of --manufacturer and FILES has to be given, and not both")
    if arguments:
        origins = [read_origin(path) for path in arguments]
    else:
        origins = [
            Origin(kind, flags.manufacturer, origin)
            for kind, origin in find_origins(flags.manufacturer).items()
        ]
    for path in export(origins, flags.output or "."):
        print_text(f"Wrote {path}", sys.stdout)
    print_text(_needs(), sys.stdout)
    return 0


def _needs() -> str:
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
    return "\n".join(lines)


COMMAND = Command(
    "(--manufacturer=NAME | FILES)\nMakes libLiteRtCompilerPlugin_NAME.so and libLiteRtDispatch_NAME.so of a "
    "Python vendor,\nwhich unmodified LiteRT loads, with the C compiler that is here. Each is tried at once.",
    _FLAGS,
    _run,
    num_arguments=2,
    num_optional=2,
)

"""Finds a vendor's compiler plugin and dispatch library, by the vendor's name or by paths of files and folders."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from litert.core.errors import LiteRtError
from litert.core.status import Status
from litert.core.suggestion import did_you_mean


@dataclass(frozen=True, slots=True)
class LibraryKind:
    """A kind of vendor library: compiler plugin or dispatch library.

    Attributes:
      title: Name of the kind in messages.
      stem: Prefix of the file names of this kind of library, after an optional `lib`.
      constant: Name of the constant that a Python module of this kind defines.
      export: Name of the function that makes C functions from this constant, as `module:function`.
    """

    title: str
    stem: str
    constant: str
    export: str


KINDS = {
    "compiler_plugin": LibraryKind(
        "compiler plugin",
        "LiteRtCompilerPlugin",
        "PLUGIN",
        "compiler_plugin.native.export:export_plugin",
    ),
    "dispatch": LibraryKind(
        "dispatch library", "LiteRtDispatch", "DISPATCH", "dispatch.native.export:export_library"
    ),
}


@dataclass(frozen=True, slots=True)
class VendorLibraries:
    """A vendor's compiler plugin and dispatch library.

    Attributes:
      manufacturer: Name of the vendor; "" if the names of the files do not contain the vendor's name.
      origins: Paths or `module:attribute` names of the libraries by their kinds, `compiler_plugin` and `dispatch`;
        one kind may be missing.
    """

    manufacturer: str
    origins: Mapping[str, str]


def find_libraries(names: Sequence[str]) -> VendorLibraries:
    """Finds the vendor given on a command line: by name (installed, or in stock LiteRT's wheel), or by paths."""
    from litert.host.stock_vendors import stock_vendor_folder

    manufacturer = ""
    is_path = any(os.sep in name or name.endswith((".so", ".py")) for name in names)
    if len(names) == 1 and not is_path and not os.path.exists(names[0]):
        manufacturer = names[0]
        folders = [
            stock_vendor_folder(manufacturer, "compiler"),
            stock_vendor_folder(manufacturer, "dispatch"),
        ]
        names = list(filter(None, folders))
        if not names:
            return find_installed(manufacturer)
    origins: dict[str, str] = {}
    for path in _files(names):
        kind, owner = _kind_of(path)
        if kind in origins:
            raise LiteRtError(
                Status.INVALID_TOOL_CONFIG,
                f"there are two files for a {KINDS[kind].title}: {origins[kind]} and {path}",
                hint="Give only one of the two files, and no folder that contains both.",
            )
        origins[kind] = path
        manufacturer = manufacturer or owner
    return VendorLibraries(manufacturer, origins)


def find_installed(vendor: str) -> VendorLibraries:
    """Finds the compiler plugin and the dispatch table of an installed vendor, by any spelling of its name.

    Raises:
      LiteRtError: NOT_FOUND, if no installed vendor has this name; ALREADY_EXISTS, if several vendors have this
        name.
    """
    from litert.host.extensions import (
        COMPILER_PLUGINS,
        DISPATCH_TABLES,
        choose_vendor,
        find_entry_points,
    )

    points = {
        "compiler_plugin": find_entry_points(COMPILER_PLUGINS),
        "dispatch": find_entry_points(DISPATCH_TABLES),
    }
    found = {
        kind: point
        for kind, named in points.items()
        if (point := choose_vendor(vendor, list(named.items()), "Uninstall one of these packages."))
    }
    if not found:
        from litert.host.stock_vendors import available_vendors, stock_vendor_folders

        there = sorted({name for named in points.values() for name in named})
        raise LiteRtError(
            Status.NOT_FOUND,
            f"there is no package for vendor '{vendor}'{available_vendors(there, 'compiler')}",
            hint=did_you_mean(
                vendor,
                [*there, *stock_vendor_folders("compiler")],
                "Install the vendor's package, or give the vendor's files.",
            ),
        )
    origins = {kind: f"{point.module}:{point.attribute}" for kind, point in found.items()}
    return VendorLibraries(next(iter(found.values())).name, origins)


def _files(names: Sequence[str]) -> list[str]:
    from litert.host.extensions import find_files

    patterns = [
        f"{lib}{kind.stem}*{end}"
        for kind in KINDS.values()
        for lib, end in (("lib", ".so"), ("", ".py"))
    ]
    files: list[str] = []
    for name in names:
        if os.path.isdir(name):
            found = find_files([name], patterns)
            if not found:
                raise LiteRtError(
                    Status.NOT_FOUND,
                    f"no file in the folder has a name like {', '.join(patterns)}",
                    name,
                    "Give the folder that contains the vendor's files. If the vendor is a package, install the "
                    "package with pip, and give the vendor's name.",
                )
            files += found
        elif not os.path.exists(name):
            hint = "Give either the name of one installed vendor, or the paths of a vendor's files."
            raise LiteRtError(Status.NOT_FOUND, "no such file or folder", name, hint)
        else:
            files.append(name)
    return [os.path.abspath(path) for path in files]


def _kind_of(path: str) -> tuple[str, str]:
    """Returns the kind of a library and its vendor, from the name of the file."""
    name = os.path.splitext(os.path.basename(path))[0].removeprefix("lib")
    for kind, described in KINDS.items():
        if name.startswith(described.stem):
            return kind, name.removeprefix(described.stem).lstrip("_-")
    raise LiteRtError(
        Status.INVALID_TOOL_CONFIG,
        "the file name is not the name of a vendor's library",
        path,
        "Call a shared library libLiteRtCompilerPlugin_<vendor>.so or libLiteRtDispatch_<vendor>.so, and a Python "
        "file LiteRtCompilerPlugin_<vendor>.py or LiteRtDispatch_<vendor>.py.",
    )

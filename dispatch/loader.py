"""Finds a vendor's dispatch table, by the entry point of an installed package or as a file in a folder."""

from __future__ import annotations

import logging
import os
import re
import threading
from collections.abc import Mapping
from typing import Any

from dispatch.api import Dispatch
from dispatch.table_check import check_table
from litert.core.errors import LiteRtError
from litert.core.status import Status
from litert.host.extensions import (
    DISPATCH_TABLES,
    EntryPoint,
    choose_vendor,
    find_entry_points,
    find_files,
    load_entry_point,
    load_file,
)
from litert.host.stock_vendors import available_vendors, stock_vendor_folder

FILE_PATTERNS = ("LiteRtDispatch*.py", "LiteRtDispatch*.so", "libLiteRtDispatch*.so")
"""Patterns for the file names of dispatch tables.

For example, models that were compiled for manufacturer Acme need the Python module `LiteRtDispatch_Acme.py` or the
shared library `libLiteRtDispatch_Acme.so`.
"""

_LOG = logging.getLogger(__name__)
_MANUFACTURER = re.compile(r"(?:lib)?LiteRtDispatch[_-]?(.*)\.(?:py|so)")
_TWICE = "Remove one of the two dispatch tables."

_found: dict[tuple[str, str], Dispatch[Any, Any]] = {}
_libraries: dict[str, Dispatch[Any, Any]] = {}
_found_lock = threading.RLock()


def find_dispatch(manufacturer: str, library_path: str = "") -> Dispatch[Any, Any]:
    """Finds and checks the dispatch table of a manufacturer; each process loads a table only once.

    Args:
      manufacturer: Name of the manufacturer in the stamp of the compiled file. The table is found if this name is
        also the name of an entry point, or the part after `LiteRtDispatch_` in a file name. If there is no such
        table, the function uses the first of these tables that exists: a table whose name differs only in upper
        and lower case, a library from stock LiteRT's wheel, or the only shared library in the folder.
      library_path: Folder that is searched, with its subfolders, before the installed packages; "" for no folder.

    Raises:
      LiteRtError: NOT_FOUND, if the manufacturer has no table; ALREADY_EXISTS, if the folder or the installed
        packages have two tables for the manufacturer; WRONG_VERSION or DYNAMIC_LOADING, if the table cannot be
        used.
    """
    key = manufacturer, os.path.realpath(library_path) if library_path else ""
    with _found_lock:
        table = _found.get(key)
        if table is None:
            table = _found[key] = _load(_choose(manufacturer, library_path))
        return table


def find_origin(manufacturer: str, library_path: str = "") -> str:
    """Returns the location of a manufacturer's table, without loading it; errors are as in `find_dispatch`."""
    return str(_choose(manufacturer, library_path))


def load_library(path: str) -> Dispatch[Any, Any]:
    """Returns the dispatch table of a shared library; a library is loaded once in a process and never unloaded."""
    # Imported here, because few processes load a native library.
    from dispatch.native.dispatch_library import DispatchLibrary
    from dispatch.native.native_dispatch import NativeDispatch

    key = os.path.realpath(path)
    with _found_lock:
        table = _libraries.get(key)
        if table is None:
            table = _libraries[key] = check_table(NativeDispatch(DispatchLibrary(path)), path)
        return table


def why_no_table(library_path: str) -> str:
    """Returns a message about a folder without a dispatch table; "" if the folder has a table or is not given."""
    if not library_path or find_files([library_path], FILE_PATTERNS):
        return ""
    return (
        f"{library_path}: no file in this folder or its subfolders has the name of a dispatch table, "
        f"{FILE_PATTERNS[0]}"
    )


def list_dispatch(library_path: str = "") -> Mapping[str, str]:
    """Returns the manufacturers that have a dispatch table, each with the location of the table.

    Raises:
      LiteRtError: NOT_FOUND, if the folder does not exist.
    """
    files = _find_tables(library_path)
    listed = {name: str(point) for name, point in find_entry_points(DISPATCH_TABLES).items()}
    return {**listed, **{name: path for name, path in reversed(files)}}


def _choose(manufacturer: str, library_path: str) -> EntryPoint | str:
    """Returns the entry point or file that contains the dispatch table for a manufacturer."""
    files = _find_tables(library_path)
    problem = why_no_table(library_path)
    in_folder = choose_vendor(manufacturer, files, _TWICE)
    if in_folder and not _LOG.isEnabledFor(logging.INFO):
        return in_folder  # without a look at all installed packages, which takes 20 ms
    entry_points = find_entry_points(DISPATCH_TABLES)
    installed = choose_vendor(manufacturer, list(entry_points.items()), _TWICE)
    if in_folder and installed:
        _LOG.info(
            "%s is used as the dispatch table for '%s', instead of the installed %s",
            in_folder,
            manufacturer,
            installed,
        )
    if found := in_folder or installed:
        if problem:
            _LOG.warning("%s", problem)
        return found
    stock = stock_vendor_folder(manufacturer, "dispatch")
    in_wheel = find_files([stock], FILE_PATTERNS) if stock else []
    if in_wheel:
        return in_wheel[0]
    libraries = [path for _, path in files if path.endswith(".so")]
    if len(libraries) == 1:  # like stock LiteRT, which takes the first library in the folder
        _LOG.warning(
            "no dispatch table for '%s' was found, so the folder's only library is used: %s",
            manufacturer,
            libraries[0],
        )
        return libraries[0]
    raise _not_found(manufacturer, entry_points, files, problem)


def _load(origin: EntryPoint | str) -> Dispatch[Any, Any]:
    if isinstance(origin, str):
        where, value = origin, (origin if origin.endswith(".so") else load_file(origin, "DISPATCH"))
    else:
        where, value = str(origin), load_entry_point(origin)
    if isinstance(value, (str, os.PathLike)):  # a package may offer a shared library's path
        return load_library(os.fspath(value))
    return check_table(value, where)


def _find_tables(library_path: str) -> list[tuple[str, str]]:
    """Returns the manufacturers and paths of the table files in a folder."""
    paths = find_files([library_path], FILE_PATTERNS) if library_path else []
    files = []
    for path in paths:
        match = _MANUFACTURER.fullmatch(os.path.basename(path))
        assert match is not None
        files.append((match[1], path))
    return files


def _not_found(
    manufacturer: str,
    entry_points: Mapping[str, EntryPoint],
    files: list[tuple[str, str]],
    problem: str,
) -> LiteRtError:
    there = sorted({*entry_points, *(name or path for name, path in files)})
    available = available_vendors(there, "dispatch")
    return LiteRtError(
        Status.NOT_FOUND,
        f"there is no dispatch table (the code that runs compiled models) for vendor '{manufacturer}'{available}"
        + (f"; {problem}" if problem else ""),
        hint="Install the vendor's package, or set dispatch_library_path to the folder that "
        f"contains LiteRtDispatch_{manufacturer}.py or libLiteRtDispatch_{manufacturer}.so.",
    )

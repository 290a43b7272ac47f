"""Finds extensions in directories by a pattern of file names, in packages, and among entry points.

Each extension is a module that defines one constant, such as `PLUGIN`, `DISPATCH` or `READER`. A search does not
import the extensions that it finds; they are imported only when they are loaded. Two extensions with the same name
are an error.
"""

from __future__ import annotations

import os
import re
import sys
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from fnmatch import fnmatchcase
from functools import lru_cache, partial
from importlib import import_module, invalidate_caches
from importlib.machinery import PathFinder
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any, NamedTuple, TypeAlias, TypeVar

from litert.core.errors import LiteRtError, describe, last_line
from litert.core.input_file import check_code
from litert.core.status import Status
from litert.core.vendor_names import plain_name

if TYPE_CHECKING:
    from types import ModuleType

COMPILER_PLUGINS = "litert_npu.compiler_plugin"
DISPATCH_TABLES = "litert_npu.dispatch"
"""Names of entry point groups."""

_Found = TypeVar("_Found")
_Offer: TypeAlias = tuple[Callable[[], str], str, str, str]
"""Function that creates an entry from a package, a group, the name of an entry point and its value."""


class EntryPoint(NamedTuple):
    """An entry point of an installed package, which is not imported yet.

    `package` is the name and version of the package.
    """

    name: str
    module: str
    attribute: str
    package: str

    def __str__(self) -> str:
        return f"entry point '{self.name}' of {self.package}"


def find_entry_points(group: str) -> Mapping[str, EntryPoint]:
    """Returns the entry points of installed packages in a group, by name. Several packages may use one name."""
    found: dict[str, EntryPoint] = {}
    folders = tuple(map(_state, sys.path))
    offers = _offers(folders) if _are_plain(folders) else _offers_anywhere(group)
    for name_package, offered_in, name, value in offers:
        if offered_in != group:
            continue
        module, _, attribute = value.partition("[")[0].partition(":")
        point = EntryPoint(name, module.strip(), attribute.strip(), name_package())
        taken = found.setdefault(name, point)
        if (taken.module, taken.attribute) != (point.module, point.attribute):
            raise _name_taken(name, str(taken), str(point), "Uninstall one of the packages.")
    return found


def _state(folder: str) -> tuple[str, int]:
    """Returns a fact that changes when a package is installed in a directory; "" is the current directory."""
    path = os.path.abspath(folder)
    try:
        return path, os.stat(path).st_mtime_ns
    except OSError:
        return path, 0


def _are_plain(folders: Sequence[tuple[str, int]]) -> bool:
    """Returns whether all packages are in plain directories: none is in a zip file, egg or single-file program."""
    finders = [finder for finder in sys.meta_path if hasattr(finder, "find_distributions")]
    packed = [path for path, _ in folders if path.endswith(".egg") or os.path.isfile(path)]
    return not packed and not [finder for finder in finders if finder is not PathFinder]


def _offers_anywhere(group: str) -> Sequence[_Offer]:
    """Returns the entry points in a group, for packages in any kind of location."""
    # Imported here, because the import takes as long as reading a model
    from importlib import metadata

    offers: list[_Offer] = []
    for entry in metadata.entry_points(group=group):
        package = f"{entry.dist.name} {entry.dist.version}" if entry.dist else "an unknown package"
        offers.append((partial(str, package), group, entry.name, entry.value))
    return offers


@lru_cache(1)
def _offers(folders: Sequence[tuple[str, int]]) -> Sequence[_Offer]:
    """Returns the entry points of all packages in plain directories.

    The result equals that of `importlib.metadata`, which takes twenty times as long. If a package
    is installed twice, the first in the path counts.
    """
    packages: dict[str, str] = {}
    for folder, _ in folders:
        with suppress(OSError):  # a zip file, or no file
            for name in os.listdir(folder or "."):
                package, kind = os.path.splitext(name)
                if kind in (".dist-info", ".egg-info"):
                    normal = re.sub("[-_.]+", "_", package.partition("-")[0]).lower()
                    packages.setdefault(normal, os.path.join(folder, name))
    found: list[_Offer] = []
    for folder in packages.values():
        group = ""
        for line in _metadata_lines(folder, "entry_points.txt"):
            name, is_entry, value = line.partition("=")
            if line.startswith("["):
                group = line[1:-1]
            elif is_entry and not line.startswith("#"):
                package_name = partial(_package_name, folder)
                found.append((package_name, group, name.strip(), value.strip()))
    return found


def _package_name(folder: str) -> str:
    """Returns name and version of the package whose metadata lie in a directory."""
    lines = _metadata_lines(folder, "METADATA") or _metadata_lines(folder, "PKG-INFO")
    fields = dict(reversed([line.split(": ", 1) for line in lines if ": " in line]))
    return f"{fields.get('Name')} {fields.get('Version')}"


def _metadata_lines(folder: str, name: str) -> Sequence[str]:
    try:
        with open(os.path.join(folder, name), encoding="utf-8", errors="replace") as file:
            return [line.strip() for line in file]
    except OSError:
        return ()


def load_entry_point(point: EntryPoint) -> Any:
    """Imports an entry point's module and returns the extension; errors contain the line at fault."""
    value: Any = _guard_import(import_module, point.module, f"{point}, {point.module}")
    for part in point.attribute.split("."):
        value = _take_constant(value, part, str(point))
    return value


def find_files(folders: Sequence[str], patterns: Sequence[str]) -> list[str]:
    """Returns the files whose names match a pattern, such as `LiteRtDispatch*.py`, sorted and without duplicates.

    The search includes all subdirectories except hidden directories and `__pycache__`.
    """
    found: dict[str, str] = {}
    for folder in folders:
        _check_folder(folder, f"files named {' or '.join(patterns)}")
        for parent, below, names in os.walk(folder):
            below[:] = sorted(n for n in below if n[0] != "." and n != "__pycache__")
            for name in sorted(names):
                if any(fnmatchcase(name, pattern) for pattern in patterns):
                    path = os.path.join(parent, name)
                    found.setdefault(os.path.realpath(path), path)
    return list(found.values())


def load_file(path: str, constant: str) -> Any:
    """Imports a Python file outside of packages, once per process, and returns its constant.

    The file can import installed packages, and other files in its directory with `from . import x`.
    """
    check_code(path)
    module = _guard_import(_import_file, os.path.realpath(path), path)
    return _take_constant(module, constant, path)


def open_package(folder: str) -> str:
    """Makes a directory a package, so that files in the directory and its subdirectories can import each other.

    Returns:
      Dotted name of the package, which is unique for the directory.
    """
    _check_folder(folder, "Python files")
    invalidate_caches()  # files may have appeared since another module was imported
    return _open_package(os.path.realpath(folder))


def load_module(name: str, where: str, folder: str) -> ModuleType:
    """Imports a module of a package that `open_package` made from a directory, once per process.

    Errors contain `where` and the line at fault. If lines of files in the directory have run, the last of them is
    the line at fault.
    """
    return _guard_import(import_module, name, where, folder)


def find_place(error: BaseException, folder: str = "") -> str:
    """Returns the origin of an exception as `path:line`.

    The origin is the last line of Python code that ran; if a directory is given, the last line in a file below the
    directory.
    """
    root = os.path.join(os.path.realpath(folder), "") if folder else ""

    def counts(path: str) -> bool:
        is_import = path == __file__ or path.startswith("<frozen ") or "importlib" in path
        return not is_import and os.path.realpath(path).startswith(root)

    return last_line(error, counts)


def file_and_line(file: str, place: str) -> str:
    """Joins a file and the origin of an exception; returns only the origin if it is in this file."""
    if not place or place.rpartition(":")[0] == file:
        return place or file
    return f"{file}, at {place}"


def load_package(package: str, constant: str, name: Callable[[Any], str]) -> dict[str, Any]:
    """Imports all modules of a package, except modules whose names begin with `_`, and returns their constants.

    Returns:
      The extensions, sorted by the names of the modules. The key of each extension is the result of `name`.
    """
    import pkgutil

    parent = _guard_import(import_module, package, package)
    modules = sorted(f"{package}.{info.name}" for info in pkgutil.iter_modules(parent.__path__))
    found: list[tuple[str, Any, str]] = []
    for module in modules:
        if not module.startswith(f"{package}._"):
            value = _take_constant(_guard_import(import_module, module, module), constant, module)
            found.append((name(value), value, module))
    check_unique([(key, module) for key, _, module in found], "Rename one of the extensions.")
    return {key: value for key, value, _ in found}


def choose_vendor(vendor: str, found: Sequence[tuple[str, _Found]], hint: str) -> _Found | None:
    """Returns the entry of a vendor whose name matches exactly or in another spelling; None if there is none.

    Args:
      vendor: Name of the vendor to search for.
      found: Pairs of vendor name and entry; two entries may have the same vendor.
      hint: Hint of the error if several entries match.
    """
    for spelling in (str, plain_name):
        wanted = spelling(vendor)
        own = [(name, extension) for name, extension in found if spelling(name) == wanted]
        if len({name for name, _ in own}) > 1:
            places = " and ".join(f"'{name}' in {extension}" for name, extension in own)
            what = (
                f"'{vendor}' matches several vendors, whose names differ only in spelling: {places}"
            )
            raise LiteRtError(Status.ALREADY_EXISTS, what, hint=hint)
        check_unique([(vendor, str(extension)) for _, extension in own], hint)
        if own:
            return own[0][1]
    return None


def check_unique(names: Sequence[tuple[str, str]], hint: str) -> None:
    """Raises an error if a name occurs twice. Each name comes with its origin, for the message."""
    origins: dict[str, str] = {}
    for name, origin in names:
        if name in origins:
            raise _name_taken(name, origins[name], origin, hint)
        origins[name] = origin


def _check_folder(folder: str, files: str) -> None:
    if not os.path.isdir(folder):
        what = "the path is not a folder" if os.path.exists(folder) else "no such folder"
        raise LiteRtError(Status.NOT_FOUND, what, folder, f"Give a folder that contains {files}.")


def _open_package(folder: str) -> str:
    import importlib.util
    from hashlib import sha256

    package = f"_litert_extensions_{sha256(os.fsencode(folder)).hexdigest()[:16]}"
    if package not in sys.modules:
        spec = importlib.util.spec_from_loader(package, loader=None, is_package=True)
        assert spec is not None
        spec.submodule_search_locations = [folder]
        sys.modules[package] = importlib.util.module_from_spec(spec)
    return package


def _import_file(path: str) -> ModuleType:
    import importlib.util

    folder, file_name = os.path.split(path)
    name = f"{_open_package(folder)}.{os.path.splitext(file_name)[0]}"
    if name in sys.modules:
        return sys.modules[name]
    spec = importlib.util.spec_from_file_location(name, path)
    assert spec is not None and spec.loader is not None  # the path ends in .py
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module
    try:
        spec.loader.exec_module(module)
    except BaseException:
        del sys.modules[name]
        raise
    return module


def _guard_import(
    load: Callable[[str], ModuleType], target: str, where: str, folder: str = ""
) -> ModuleType:
    try:
        return load(target)
    except (Exception, SystemExit) as error:  # a foreign module may raise anything
        place = find_place(error, folder or _package_folder(target)) or find_place(error)
        what, inner = describe(error), ""
        if isinstance(error, SyntaxError) and error.lineno:
            what = f"{type(error).__name__}: {error.msg}"
            if error.filename and not error.filename.startswith("<"):  # a file, not evaluated text
                place = f"{error.filename}:{error.lineno}"
        hint = "Correct the module, or remove the module's file or package."
        if isinstance(error, LiteRtError):
            what, inner, hint = error.what, error.where, error.hint or hint
        raise LiteRtError(
            Status.DYNAMIC_LOADING,
            f"cannot import the Python module: {what}",
            ", ".join(filter(None, [file_and_line(where, place), inner])),
            hint,
        ) from error


def _package_folder(target: str) -> str:
    """Returns the folder of the package that contains a module; "" for a module outside of packages."""
    try:
        spec = find_spec(target.partition(".")[0])
    except (ImportError, ValueError):
        return ""
    folders = (spec and spec.submodule_search_locations) or [""]
    return folders[0]


def _take_constant(holder: Any, constant: str, where: str) -> Any:
    try:
        return getattr(holder, constant)
    except AttributeError as error:
        raise LiteRtError(
            Status.DYNAMIC_LOADING,
            f"the module does not define {constant}",
            where,
            f"Add a line such as {constant} = MyClass() at the end of the module.",
        ) from error


def _name_taken(name: str, first: str, second: str, hint: str) -> LiteRtError:
    return LiteRtError(
        Status.ALREADY_EXISTS,
        f"the name '{name}' occurs twice: in {first} and in {second}",
        hint=hint,
    )

"""Selects the vendors for which a model is compiled at load, and detects changes of their plugins."""

from __future__ import annotations

import hashlib
import logging
import os
from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass

from litert.core.compiler_options import DEFAULT_MANUFACTURER, environment_layers
from litert.core.environment_options import EnvironmentOptions
from litert.core.errors import LiteRtError
from litert.core.status import Status
from litert.core.vendor_names import is_option_of
from litert.host.extensions import (
    COMPILER_PLUGINS,
    EntryPoint,
    choose_vendor,
    find_entry_points,
)
from litert.host.stock_vendors import stock_vendor_folder
from litert.options import Options

_REFERENCE_LEFT_OUT = (
    f"Vendor '{DEFAULT_MANUFACTURER}' was not tried, because you gave no asset "
    "(--npu_custom_op_info, custom_op_infos), no custom layer and no option of this vendor."
)
_LOG = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Candidates:
    """Places where plugins may be found; no plugin is loaded yet.

    Attributes:
      libs: Directories that are searched for compiler plugins.
      installed: Entry points of compiler plugins, which are tried in this order after the plugins in directories.
      is_named: Whether the program has named a vendor, so that only this vendor's plugin is used.
      left_out: Sentence that says which installed vendor is not tried, and why; "" if all vendors are tried.
    """

    libs: Sequence[str]
    installed: Sequence[EntryPoint]
    is_named: bool = False
    left_out: str = ""

    def __bool__(self) -> bool:
        return bool(self.libs or self.installed or self.is_named)

    def fingerprints(self) -> Iterator[Sequence[object]]:
        """Returns data that changes when a plugin changes.

        The data are the versions of the plugins' packages, and the sizes and modification times of their files.
        """
        for folder in self.libs:
            yield os.path.realpath(folder), fingerprint(folder)
        for point in self.installed:
            yield str(point), point.module, point.attribute, fingerprint(_location(point.module))


def find_candidates(options: Options, environment: EnvironmentOptions) -> Candidates:
    """Finds the location of the named vendor's plugin, or of all plugins that are tried if no vendor is named.

    If no vendor is named, the vendors in the environment's directory and the installed vendors are tried. The
    reference vendor, which emulates an NPU, is included only if the program gives assets or options for it.
    """
    given = [environment.compiler_plugin_path] if environment.compiler_plugin_path else []
    points = find_entry_points(COMPILER_PLUGINS)
    if options.soc_manufacturer:
        named = list(points.items())
        point = choose_vendor(options.soc_manufacturer, named, "Uninstall one of the packages.")
        stock = stock_vendor_folder(options.soc_manufacturer, "compiler")
        libs = [*given, *([stock] if stock and not point else ())]
        return Candidates(libs, [point] if point else [], is_named=True)
    stock_folders = [
        stock_vendor_folder(name, "compiler") for name in options.stock_compiler_flags()
    ]
    installed = [point for name, point in sorted(points.items()) if name != DEFAULT_MANUFACTURER]
    left_out = ""
    if DEFAULT_MANUFACTURER in points:
        if _is_for_reference(options):
            installed.append(points[DEFAULT_MANUFACTURER])
        else:
            left_out = _REFERENCE_LEFT_OUT
    return Candidates([*given, *filter(None, stock_folders)], installed, left_out=left_out)


def name_manufacturers(candidates: Candidates, options: Options) -> list[str]:
    """Yields the vendors in the order in which they are tried.

    Plugins in directories are loaded to find their vendors.

    Raises:
      LiteRtError: INVALID_ARGUMENT, if an option belongs to a vendor that is not among the candidates; NOT_FOUND
        or ALREADY_EXISTS, as in `find_plugins`.
    """
    if candidates.is_named:
        names = [options.soc_manufacturer]
    else:
        names = _names_in_folders(candidates.libs) if candidates.libs else []
        names += [point.name for point in candidates.installed if point.name not in names]
    for option in options.compiler_options:
        if not any(is_option_of(name, option) for name in names):
            raise LiteRtError(
                Status.INVALID_ARGUMENT,
                f"no vendor has the compiler option '{option}'",
                "Options.compiler_options",
                f"The vendors are {', '.join(names) or 'none'}; the name of an option begins with "
                "its vendor's name.",
            )
    return names


def _names_in_folders(libs: Sequence[str]) -> list[str]:
    # imported here, because a load from the cache needs no plugin
    from compiler_plugin.registry import find_plugins

    registry = find_plugins(libs)
    for path, error in registry.broken.items():
        _LOG.warning("%s is not used as a compiler: %s", path, error)
    return [plugin.factory.soc_manufacturer for plugin in registry.plugins]


def host_fingerprint() -> Sequence[str]:
    """Returns data that changes when this project's own compiler changes; also works in a source checkout."""
    return [fingerprint(_location(package)) for package in ("compiler_plugin", "litert")]


def fingerprint(path: str) -> str:
    """Returns the names, sizes and modification times of a file, or of all files below a directory."""
    digest = hashlib.sha256()
    for name, stat in sorted(_stats(path)):
        digest.update(f"{name}\0{stat.st_size}\0{stat.st_mtime_ns}\0".encode(errors="replace"))
    return digest.hexdigest()


def _is_for_reference(options: Options) -> bool:
    return bool(options.custom_op_infos or options.custom_layers or environment_layers()) or any(
        is_option_of(DEFAULT_MANUFACTURER, option) for option in options.compiler_options
    )


def _location(module: str) -> str:
    """Returns the file or directory of the package that contains a module, without importing the module."""
    from importlib.util import find_spec

    spec = find_spec(module.partition(".")[0])
    if spec is None:
        return ""
    folders = list(spec.submodule_search_locations or ())
    return folders[0] if folders else spec.origin or ""


def _stats(path: str) -> Iterator[tuple[str, os.stat_result]]:
    if os.path.isfile(path):
        yield path, os.stat(path)
        return
    for parent, below, names in os.walk(path):
        below[:] = [name for name in below if name[0] != "." and name != "__pycache__"]
        for name in names:
            with suppress(OSError):  # a broken link does not belong to the plugin
                yield os.path.join(parent, name), os.stat(os.path.join(parent, name))

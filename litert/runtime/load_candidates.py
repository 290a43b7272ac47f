"""Which vendors a model is compiled for when it is loaded, and what tells that one of them has changed."""

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
    f"{DEFAULT_MANUFACTURER}: it is asked where the program has an asset (custom_op_infos, --npu_custom_op_info), "
    "a layer or an option for it"
)
_LOG = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Candidates:
    """Where plugins are looked for; nothing of them is loaded yet.

    Attributes:
      libs: folders.
      installed: entry points, in the order in which they are tried, after what the folders have.
      is_named: whether it is one vendor's alone, of which any of these may have the plugin.
      left_out: which installed vendor is not asked, and why; "" where all are.
    """

    libs: Sequence[str]
    installed: Sequence[EntryPoint]
    is_named: bool = False
    left_out: str = ""

    def __bool__(self) -> bool:
        return bool(self.libs or self.installed or self.is_named)

    def fingerprints(self) -> Iterator[Sequence[object]]:
        """What changes with the plugins: their packages' versions, and sizes and times of their files."""
        for folder in self.libs:
            yield os.path.realpath(folder), fingerprint(folder)
        for point in self.installed:
            yield str(point), point.module, point.attribute, fingerprint(_location(point.module))


def find_candidates(options: Options, environment: EnvironmentOptions) -> Candidates:
    """Where to look for the plugin of the vendor that is named; else, of each vendor that may take ops unasked.

    That is each in the environment's folder and each that is installed. The reference vendor, whose NPU is
    emulated, is asked where the program has assets or options for it.
    """
    given = [environment.compiler_plugin_path] if environment.compiler_plugin_path else []
    points = find_entry_points(COMPILER_PLUGINS)
    if options.soc_manufacturer:
        named = list(points.items())
        point = choose_vendor(options.soc_manufacturer, named, "Uninstall one of them.")
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
    """The vendors, in the order in which they are asked. Plugins in folders are loaded for it.

    Raises:
      LiteRtError: INVALID_ARGUMENT, for an option of a vendor that is not among them; NOT_FOUND or ALREADY_EXISTS,
        as `find_plugins`.
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
                f"no vendor for the compiler option '{option}'",
                "Options.compiler_options",
                f"There is {', '.join(names) or 'none'}; options begin with their vendor's name.",
            )
    return names


def _names_in_folders(libs: Sequence[str]) -> list[str]:
    # Here: a load that finds its model compiled needs none.
    from compiler_plugin.registry import find_plugins

    registry = find_plugins(libs)
    for path, error in registry.broken.items():
        _LOG.warning("%s is not asked to compile: %s", path, error)
    return [plugin.factory.soc_manufacturer for plugin in registry.plugins]


def host_fingerprint() -> Sequence[str]:
    """What changes with this project's own compiler, installed or in a checkout."""
    return [fingerprint(_location(package)) for package in ("compiler_plugin", "litert")]


def fingerprint(path: str) -> str:
    """Of a file, or of a folder with all below it: names, sizes and times."""
    digest = hashlib.sha256()
    for name, stat in sorted(_stats(path)):
        digest.update(f"{name}\0{stat.st_size}\0{stat.st_mtime_ns}\0".encode(errors="replace"))
    return digest.hexdigest()


def _is_for_reference(options: Options) -> bool:
    return bool(options.custom_op_infos or options.custom_layers or environment_layers()) or any(
        is_option_of(DEFAULT_MANUFACTURER, option) for option in options.compiler_options
    )


def _location(module: str) -> str:
    """File or folder of the package that a module is in, which is not imported."""
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
            with suppress(OSError):  # a link to nowhere is none of the plugin's
                yield os.path.join(parent, name), os.stat(os.path.join(parent, name))

"""Finds compiler plugins in installed packages (by entry points) and in the folders of `--libs`."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import PurePath
from typing import Any

from compiler_plugin.isolation.hosting import (
    NATIVE_LOADER,
    SHARED_LIBRARY,
    Hosting,
)
from compiler_plugin.plugin import CompilerPluginFactory, Hardware
from litert.core.counts import names_text
from litert.core.errors import VENDOR_REPAIRS, LiteRtError
from litert.core.status import Status
from litert.core.suggestion import did_you_mean
from litert.core.vendor_names import plain_name
from litert.core.version import COMPILER_PLUGIN_API_VERSION, ApiVersion
from litert.host.extensions import (
    COMPILER_PLUGINS,
    EntryPoint,
    check_unique,
    choose_vendor,
    find_entry_points,
    find_files,
    load_entry_point,
    load_file,
)
from litert.host.stock_vendors import available_vendors, stock_vendor_folder, stock_vendor_folders

_FILE_LOADER = "compiler_plugin.registry:load_plugin_file"
_POINT_LOADER = "compiler_plugin.registry:load_plugin_point"
"""Functions that load a Python plugin in a child process: one loads a file, the other an installed plugin."""

_CONSTANT = "PLUGIN"
_PYTHON = "LiteRtCompilerPlugin*.py"
_LIBRARY = ".so"
_TWICE = "Give the exact spelling of one vendor's name."


@dataclass(frozen=True, slots=True)
class RegisteredPlugin:
    """A vendor's plugin after loading and checking.

    Attributes:
      factory: Factory of the plugin.
      origin: Where the plugin was found, for messages and reports.
      warnings: Warnings about the search for the plugin.
    """

    factory: CompilerPluginFactory
    origin: str
    warnings: Sequence[str] = ()

    def __str__(self) -> str:
        return self.origin


@dataclass(frozen=True, slots=True)
class Registry:
    """The plugins that were found in folders, and the files in these folders that cannot be used.

    Attributes:
      plugins: Plugins in the folders.
      broken: Errors by path, for modules and libraries that cannot be loaded, and for folders without a plugin.
    """

    plugins: Sequence[RegisteredPlugin]
    broken: Mapping[str, LiteRtError]

    def installed(self) -> Sequence[EntryPoint]:
        """Returns the plugins of installed packages, not loaded yet; omits plugins that are also in a folder.

        Raises:
          LiteRtError: ALREADY_EXISTS, if two packages have a plugin for the same manufacturer.
        """
        in_folders = {plain_name(plugin.factory.soc_manufacturer) for plugin in self.plugins}
        points = find_entry_points(COMPILER_PLUGINS)
        return [point for name, point in points.items() if plain_name(name) not in in_folders]


def find_plugins(libs: Sequence[str], hosting: Hosting | None = None) -> Registry:
    """Finds plugins in folders and their subfolders; these plugins take precedence over installed plugins.

    The function loads every plugin file in the folders, because the manufacturer of a plugin is known only after
    loading.

    Raises:
      LiteRtError: NOT_FOUND, if a folder does not exist; ALREADY_EXISTS, if two plugins have the same
        manufacturer.
    """
    hosting = hosting or Hosting()
    hosting.start(libs)
    plugins: list[RegisteredPlugin] = []
    broken: dict[str, LiteRtError] = {}
    for folder in libs:
        if not find_files([folder], [_PYTHON, SHARED_LIBRARY]):
            broken[folder] = LiteRtError(
                Status.NOT_FOUND,
                "no file in this folder or its subfolders has the name of a compiler plugin, "
                f"{_PYTHON} or {SHARED_LIBRARY}",
                folder,
                "Give the folder that contains the vendor's plugin.",
            )
    for path in find_files(libs, [_PYTHON, SHARED_LIBRARY]):
        try:
            plugins.append(check_factory(_load_path(path, hosting), path))
        except LiteRtError as error:
            broken[path] = error.with_traceback(
                None
            )  # the traceback would keep other plugins' processes alive
    names = [(plugin.factory.soc_manufacturer, plugin.origin) for plugin in plugins]
    check_unique(names, "Remove one of the two plugins from --libs.")
    return Registry(plugins, broken)


def load_plugin(
    vendor: str, libs: Sequence[str], hosting: Hosting | None = None
) -> RegisteredPlugin:
    """Finds and loads a vendor's plugin: from a folder, an installed package, or the wheel of stock LiteRT.

    Upper and lower case count as equal in the vendor's name, but a plugin with the exact spelling takes
    precedence.

    Raises:
      LiteRtError: NOT_FOUND, if the vendor has no plugin; ALREADY_EXISTS, if the names of several plugins differ
        only in case; DYNAMIC_LOADING, WRONG_VERSION or UNSUPPORTED, if the vendor's plugin cannot be used; any
        error of `find_plugins`.
    """
    registry = find_plugins(libs, hosting)
    warnings = [
        f"{folder}: {registry.broken[folder].what}" for folder in libs if folder in registry.broken
    ]
    in_folders = [(plugin.factory.soc_manufacturer, plugin) for plugin in registry.plugins]
    if in_folder := choose_vendor(vendor, in_folders, _TWICE):
        return replace(in_folder, warnings=warnings)
    for path, error in registry.broken.items():
        if _is_named_after(path, vendor):
            raise error
    # Last, because searching packages takes longer than loading a plugin from a folder.
    installed = registry.installed()
    if point := choose_vendor(vendor, [(point.name, point) for point in installed], _TWICE):
        return replace(load_point(point, hosting), warnings=warnings)
    stock = stock_vendor_folder(vendor, "compiler")
    if stock and stock not in libs:
        return load_plugin(vendor, [*libs, stock], hosting)
    found = [point.name for point in installed]
    found += [plugin.factory.soc_manufacturer for plugin in registry.plugins]
    reasons = "".join(
        f"{path} cannot be used: {' '.join(error.what.split()).removesuffix('.')}. "
        for path, error in registry.broken.items()
    )
    raise LiteRtError(
        Status.NOT_FOUND,
        f"there is no usable compiler plugin for vendor '{vendor}'{available_vendors(found, 'compiler')}",
        hint=reasons
        + did_you_mean(
            vendor,
            [*found, *stock_vendor_folders("compiler")],
            "Install the vendor's package, or give the folder of its plugin with --libs.",
        ),
    )


def load_point(point: EntryPoint, hosting: Hosting | None = None) -> RegisteredPlugin:
    """Loads and checks an installed plugin; the entry point refers to a plugin factory or to a library's path.

    Raises:
      LiteRtError: DYNAMIC_LOADING or WRONG_VERSION, if the plugin cannot be used; RUNTIME_FAILURE or
        TIMEOUT_EXPIRED, if the plugin is a library that crashes or hangs.
    """
    hosting = hosting or Hosting()
    factory: object
    if hosting.isolated:
        factory = _isolate(f"{point.module}:{point.attribute}", hosting, _POINT_LOADER)
    else:
        factory = _load_here(point, hosting)
    plugin = check_factory(factory, str(point))
    if plugin.factory.soc_manufacturer != point.name:
        raise LiteRtError(
            Status.DYNAMIC_LOADING,
            f"the plugin's soc_manufacturer is '{plugin.factory.soc_manufacturer}', but the plugin's entry point "
            f"has the name '{point.name}'",
            str(point),
            f"Rename the entry point to '{plugin.factory.soc_manufacturer}'.",
        )
    return plugin


def load_plugin_file(path: str) -> CompilerPluginFactory:
    """Loads a plugin from a Python file; this function runs in the plugin's child process."""
    return check_factory(load_file(path, _CONSTANT), path).factory


def load_plugin_point(name: str) -> CompilerPluginFactory:
    """Loads an installed plugin, given as `module:attribute`; this function runs in the plugin's child process."""
    module, _, attribute = name.partition(":")
    point = EntryPoint("", module, attribute, name)
    return check_factory(_load_here(point, Hosting(in_process=True)), name).factory


def check_factory(factory: object, origin: str) -> RegisteredPlugin:
    """Checks a module's plugin factory before the host calls its methods.

    Raises:
      LiteRtError: DYNAMIC_LOADING, WRONG_VERSION or UNSUPPORTED, if the host cannot use the factory.
    """
    if not isinstance(factory, CompilerPluginFactory):
        what = f"has type {type(factory).__name__}, which is not derived from CompilerPluginFactory"
        name = "MyFactory"
        advice = ", with a class that is derived from compiler_plugin.plugin.CompilerPluginFactory"
        if isinstance(factory, type):
            what = f"is the class {factory.__name__}, not an instance of the class"
            if CompilerPluginFactory in factory.__mro__[1:]:
                name, advice = factory.__name__, ""
        raise LiteRtError(
            Status.DYNAMIC_LOADING,
            f"{_CONSTANT} {what}",
            origin,
            f"Write {_CONSTANT} = {name}(){advice}.",
        )

    def read(attribute: str, is_right: Callable[[Any], bool], allowed: str) -> Any:
        try:
            value = getattr(factory, attribute, None)
        except Exception as error:  # raised by a property
            what = f"raises {type(error).__name__}: {error}"
            raise _unusable(f"the plugin's {attribute} {what}", origin) from error
        if not is_right(value):
            raise _unusable(
                f"the plugin's {attribute} is {value!r:.100}, but must be {allowed}", origin
            )
        return value

    name = read(
        "soc_manufacturer", _is_name, "a name: a text that is not empty and has no zero bytes"
    )
    read("soc_models", _are_names, "a sequence of one or more names")
    hardware = read("supported_hardware", lambda it: isinstance(it, int), "Hardware.NPU")
    if not hardware & Hardware.NPU:
        found = "|".join(kind.name or "" for kind in Hardware if kind & hardware) or "NONE"
        raise LiteRtError(
            Status.UNSUPPORTED,
            f"the plugin of vendor '{name}' does not support NPUs: its supported_hardware is {found}",
            origin,
            "Install a plugin of this vendor that supports NPUs.",
        )
    read("sdk_version", lambda it: isinstance(it, str), "text")
    version = read(
        "api_version", lambda it: isinstance(it, tuple) and len(it) == 3, "an ApiVersion"
    )
    if version != COMPILER_PLUGIN_API_VERSION:  # stock LiteRT also accepts only its own version
        raise LiteRtError(
            Status.WRONG_VERSION,
            f"the plugin uses version {ApiVersion(*version)} of the compiler plugin interface, "
            f"but this host supports only version {COMPILER_PLUGIN_API_VERSION}",
            origin,
            "Install a release of the vendor's plugin for interface version "
            f"{COMPILER_PLUGIN_API_VERSION}.",
        )
    return RegisteredPlugin(factory, origin)


def choose_soc_model(plugin: RegisteredPlugin, soc_model: str) -> str:
    """Returns the SoC model to compile for: the given model, or the plugin's first model.

    Raises:
      LiteRtError: INVALID_TOOL_CONFIG, if the plugin does not have the SoC model.
    """
    models = plugin.factory.soc_models
    if not soc_model:
        return models[0]
    if soc_model not in models:
        raise LiteRtError(
            Status.INVALID_TOOL_CONFIG,
            f"vendor '{plugin.factory.soc_manufacturer}' has no SoC model '{soc_model}'",
            plugin.origin,
            did_you_mean(soc_model, models, f"{names_text('SoC model', models)}."),
        )
    return soc_model


def _load_here(point: EntryPoint, hosting: Hosting) -> object:
    found: object = load_entry_point(point)
    if isinstance(found, str | os.PathLike) and PurePath(found).suffix == _LIBRARY:
        return _load_library(os.fspath(found), hosting)
    return found


def _load_path(path: str, hosting: Hosting) -> object:
    if PurePath(path).suffix == _LIBRARY:
        return _load_library(path, hosting)
    return _isolate(path, hosting, _FILE_LOADER) if hosting.isolated else load_file(path, _CONSTANT)


def _load_library(path: str, hosting: Hosting) -> CompilerPluginFactory:
    if not hosting.in_process:
        return _isolate(path, hosting, NATIVE_LOADER)
    from litert.host.child_side import load_function  # here: most plugins are Python

    factory: CompilerPluginFactory = load_function(NATIVE_LOADER)(path)
    return factory


def _isolate(path: str, hosting: Hosting, loader: str) -> CompilerPluginFactory:
    from compiler_plugin.isolation.isolated_plugin import IsolatedPluginFactory  # here: as above

    return IsolatedPluginFactory(path, hosting, loader)


def _is_named_after(path: str, vendor: str) -> bool:
    """Returns whether a file that failed to load has the vendor's name in its file name."""
    _, _, name = PurePath(path).stem.partition("LiteRtCompilerPlugin")
    return bool(name) and plain_name(name) == plain_name(vendor)


def _is_name(value: object) -> bool:
    return isinstance(value, str) and bool(value.strip()) and "\0" not in value


def _are_names(value: object) -> bool:
    if not isinstance(value, Sequence) or isinstance(value, str | bytes):
        return False
    return bool(value) and all(map(_is_name, value))


def _unusable(what: str, origin: str) -> LiteRtError:
    return LiteRtError(Status.DYNAMIC_LOADING, what, origin, VENDOR_REPAIRS)

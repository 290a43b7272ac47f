"""A plugin of a shared library, in this process, as the registry has any vendor's."""

from __future__ import annotations

import os
from collections.abc import Sequence

from compiler_plugin.native.native_plugin import NativePlugin
from compiler_plugin.native.plugin_library import PluginLibrary
from compiler_plugin.plugin import CompilerPluginFactory, Hardware
from litert.core.compiler_options import CompilerOptions
from litert.core.environment_options import EnvironmentOptions
from litert.core.version import ApiVersion


class NativePluginFactory(CompilerPluginFactory):
    """Who the vendor of a library is, and how its plugin is created.

    What a vendor says of itself is asked when the factory is made, of a plugin without options.
    """

    def __init__(self, path: str | os.PathLike[str]) -> None:
        """Loads a library, and creates a plugin once to ask it.

        Raises:
          LiteRtError: DYNAMIC_LOADING, for a library that is no plugin; and what the plugin refuses.
        """
        self._library = PluginLibrary.load(path)
        self.api_version = self._library.version()
        self.soc_manufacturer = self._library.soc_manufacturer()
        plugin = self.create(EnvironmentOptions(), CompilerOptions())
        try:
            self.soc_models: Sequence[str] = plugin.soc_models()
            self.supported_hardware = Hardware(plugin.supported_hardware())
            self.sdk_version = plugin.sdk_version()
        finally:
            plugin.close()

    def create(
        self, environment_options: EnvironmentOptions, compiler_options: CompilerOptions
    ) -> NativePlugin:
        return NativePlugin(self._library, environment_options, compiler_options)

    def check_compiler_compatibility(
        self, host_version: ApiVersion, soc_model: str, compiler_options: CompilerOptions
    ) -> None:
        plugin = self.create(EnvironmentOptions(), compiler_options)
        try:
            plugin.check_compiler_compatibility(host_version, soc_model)
        finally:
            plugin.close()

"""Entry point through which the host finds the reference vendor's compiler plugin."""

from __future__ import annotations

from compiler_plugin.plugin import CompilerPlugin, CompilerPluginFactory
from litert.core.compiler_options import CompilerOptions
from litert.core.environment_options import EnvironmentOptions
from litert.core.version import SDK_VERSION, ApiVersion
from vendor_reference.compiler.reference_options import check_options
from vendor_reference.soc import SOC_MODELS, get_soc_model


class ReferencePluginFactory(CompilerPluginFactory):
    """Makes the reference vendor's compiler plugin."""

    soc_manufacturer = "Reference"
    soc_models = tuple(soc.name for soc in SOC_MODELS)
    sdk_version = SDK_VERSION

    def create(
        self, environment_options: EnvironmentOptions, compiler_options: CompilerOptions
    ) -> CompilerPlugin:
        check_options(compiler_options.vendor_options)
        # Imported here, since the host also imports this module only to ask for the vendor's name.
        from vendor_reference.compiler.reference_plugin import ReferencePlugin

        return ReferencePlugin(compiler_options)

    def check_compiler_compatibility(
        self, host_version: ApiVersion, soc_model: str, compiler_options: CompilerOptions
    ) -> None:
        get_soc_model(soc_model)


PLUGIN = ReferencePluginFactory()

"""Before the checks run, finds user settings that a plugin refuses, because such a refusal breaks no rule.

The host creates the plugin first without settings and then with all settings, and compiles the ops that have an
asset.
If the plugin fails in both cases, or returns invalid results, the checks report the failure.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace

from compiler_plugin.native.exported.offer import make_offer
from compiler_plugin.registry import RegisteredPlugin, choose_soc_model
from compiler_plugin.vendor_plugin import VendorPlugin
from litert.conformance.models import default_models
from litert.conformance.plugin_subject import NamedModel
from litert.core.compiler_options import CompilerOptions
from litert.core.environment_options import EnvironmentOptions
from litert.core.errors import VENDOR_REPAIRS, LiteRtError
from litert.core.status import Status

_USERS_FAULT = (Status.INVALID_TOOL_CONFIG, Status.INVALID_ARGUMENT)


def find_refusal(
    plugin: RegisteredPlugin,
    soc_model: str,
    options: CompilerOptions,
    models: Sequence[NamedModel],
) -> tuple[str, LiteRtError] | None:
    """Finds a setting that the plugin refuses: the SoC model ("" for the plugin's first), an option or an asset.

    Returns:
      The flag of the refused setting (or a phrase for several flags) and the plugin's error; None if the plugin
      accepts all settings, or if the plugin fails even without settings.
    """
    if _refusal(plugin, "", CompilerOptions(), ()) is not None:
        return None
    try:
        choose_soc_model(plugin, soc_model)
    except LiteRtError as error:
        names = plugin.factory.soc_models
        return (f"--soc_model={soc_model}", error) if len(set(names)) == len(names) else None
    refusal = _refusal(plugin, soc_model, options, models)
    if refusal is None or _refusal(plugin, "", CompilerOptions(), default_models()) is not None:
        return None
    for flag, alone in _one_by_one(options):
        if own := _refusal(plugin, soc_model, alone, models):
            return flag, own
    return "these options and assets together", refusal


def _refusal(
    plugin: RegisteredPlugin,
    soc_model: str,
    options: CompilerOptions,
    models: Sequence[NamedModel],
) -> LiteRtError | None:
    try:
        chosen = choose_soc_model(plugin, soc_model)
        with VendorPlugin(plugin, chosen, EnvironmentOptions(), options, []) as vendor:
            for named in models:
                if error := _refusal_of(vendor, named):
                    return error
    except LiteRtError as error:
        return None if error.hint.startswith(VENDOR_REPAIRS) else error
    return None


def _refusal_of(vendor: VendorPlugin, named: NamedModel) -> LiteRtError | None:
    """Returns the plugin's error about the user's settings from a compilation; ignores other errors."""
    subgraph = named.model.subgraphs[0]
    try:
        make_offer(vendor, subgraph, named.name, 0)
    except LiteRtError as error:
        is_vendors = error.hint.startswith(VENDOR_REPAIRS) or error.status not in _USERS_FAULT
        return None if is_vendors else error
    return None


def _one_by_one(options: CompilerOptions) -> Iterator[tuple[str, CompilerOptions]]:
    for name, value in options.vendor_options.items():
        alone = replace(options, custom_op_infos=(), vendor_options={name: value})
        yield f"--option={name}={value}", alone
    for info in options.custom_op_infos:
        flag = f"--npu_custom_op_info={info.op_name},{info.asset_path}"
        yield flag, replace(options, custom_op_infos=[info], vendor_options={})

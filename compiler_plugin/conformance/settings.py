"""What the user asks of a plugin that is to be checked: what it refuses of that is no broken rule of its.

The plugin is created as the host does it, with nothing asked and then with all. One that fails both ways, or gives
no answer at all, is the checks' to describe.
"""

from __future__ import annotations

from collections.abc import Iterator

from compiler_plugin.registry import RegisteredPlugin, choose_soc_model
from compiler_plugin.vendor_plugin import VendorPlugin
from litert.core.compiler_options import CompilerOptions
from litert.core.environment_options import EnvironmentOptions
from litert.core.errors import LiteRtError


def find_refusal(
    plugin: RegisteredPlugin, soc_model: str, options: CompilerOptions
) -> tuple[str, LiteRtError] | None:
    """What of the user's settings the plugin refuses.

    Args:
      plugin: that is checked.
      soc_model: to compile for; "" for the plugin's first.
      options: with the user's assets and vendor options.

    Returns:
      The flag, or a phrase for several of them, and the refusal; None where it takes all, or would serve nobody.
    """
    if _refusal(plugin, "", CompilerOptions()) is not None:
        return None
    try:
        choose_soc_model(plugin, soc_model)
    except LiteRtError as error:
        return f"--soc_model={soc_model}", error
    refusal = _refusal(plugin, soc_model, options)
    if refusal is None:
        return None
    for flag, alone in _one_by_one(options):
        own = _refusal(plugin, soc_model, alone)
        if own is not None:
            return flag, own
    return "these options and assets together", refusal


def _refusal(
    plugin: RegisteredPlugin, soc_model: str, options: CompilerOptions
) -> LiteRtError | None:
    try:
        chosen = choose_soc_model(plugin, soc_model)
        with VendorPlugin(plugin, chosen, EnvironmentOptions(), options, []):
            return None
    except LiteRtError as error:
        return error


def _one_by_one(options: CompilerOptions) -> Iterator[tuple[str, CompilerOptions]]:
    for name, value in options.vendor_options.items():
        yield f"--option={name}={value}", CompilerOptions(vendor_options={name: value})
    for info in options.custom_op_infos:
        flag = f"--npu_custom_op_info={info.op_name},{info.asset_path}"
        yield flag, CompilerOptions([info])

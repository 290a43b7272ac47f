"""Flags that say what a model is compiled with: of `apply_plugin`, and of other commands that compile."""

from __future__ import annotations

from typing import TYPE_CHECKING

from .command import usage_error

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from absl.flags import FlagValues

    from litert.core.compiler_options import CustomOpInfo


def define_target_flags(values: FlagValues) -> None:
    """Defines `--soc_manufacturer` and `--soc_model`."""
    from absl.flags import DEFINE_string

    about = "Whose NPU; by default the reference vendor's."
    DEFINE_string("soc_manufacturer", "", about, flag_values=values)
    define_soc_model(values)


def define_soc_model(values: FlagValues) -> None:
    """Defines `--soc_model`."""
    from absl.flags import DEFINE_string

    DEFINE_string("soc_model", "", "Which NPU; by default the vendor's first.", flag_values=values)


def define_asset_flags(values: FlagValues) -> None:
    """Defines `--npu_custom_op_info` and `--allow_native_assets`."""
    from absl.flags import DEFINE_bool, DEFINE_multi_string

    DEFINE_multi_string("npu_custom_op_info", [], "", flag_values=values)
    values["npu_custom_op_info"].help = (  # without what absl adds
        "op,path: the asset of a custom op. Once for each op; the path may hold commas and spaces."
    )
    DEFINE_bool(
        "allow_native_assets",
        False,
        "Let machine code in assets run here, with all that you may do.",
        flag_values=values,
    )


def define_layer_flags(values: FlagValues) -> None:
    """Defines `--check_kernels`, `--custom_layers`, `--asset_root` and `--shape_bounds`."""
    from absl.flags import DEFINE_bool, DEFINE_multi_string, DEFINE_string

    DEFINE_bool(
        "check_kernels",
        True,
        "Build each kernel once, so that its errors show now.",
        flag_values=values,
    )
    DEFINE_multi_string("custom_layers", [], "", flag_values=values)
    DEFINE_string(
        "asset_root",
        "",
        "The folder that the files which assets name may lie in; each asset's own by default.",
        flag_values=values,
    )
    DEFINE_multi_string("shape_bounds", [], "", flag_values=values)
    for name, text in (  # without what absl adds
        (
            "custom_layers",
            "Descriptions of custom layers for any model: a file, or a folder of them. May be repeated.",
        ),
        (
            "shape_bounds",
            "input:100x3x300x300: the largest shape of an input of dynamic shape. Once for each.",
        ),
    ):
        values[name].help = text


def define_libs(values: FlagValues) -> None:
    """Defines `--libs`."""
    from absl.flags import DEFINE_list

    DEFINE_list(
        "libs", [], "Folders with plugins, beside those that are installed.", flag_values=values
    )


def read_custom_op_infos(values: FlagValues) -> Sequence[CustomOpInfo]:
    """What `--npu_custom_op_info` says.

    Raises:
      LiteRtError: INVALID_TOOL_CONFIG.
    """
    from litert.core.compiler_options import CustomOpInfo  # here: --help must not wait for it

    return [CustomOpInfo.parse(text) for text in values.npu_custom_op_info]


def read_vendor_options(
    values: FlagValues, unknown: Sequence[str], manufacturer: str
) -> Mapping[str, str]:
    """The options of a vendor, by name.

    Args:
      values: the command's own flags.
      unknown: flags that are none of those.
      manufacturer: whose options they have to be.

    Raises:
      LiteRtError: INVALID_TOOL_CONFIG, for a flag that is not the vendor's, or given twice.
    """
    # Here, since --help must not wait for it.
    from compiler_plugin.vendor_options import is_option_of

    options: dict[str, str] = {}
    for flag in unknown:
        name, _, value = flag.lstrip("-").partition("=")
        if not is_option_of(manufacturer, name):
            from difflib import get_close_matches  # here: few command lines need it

            close = get_close_matches(name, list(values), 1)
            raise usage_error(
                f"no flag '{flag}'",
                f"Did you mean --{close[0]}?"
                if close
                else f"Options of '{manufacturer}' begin with its name.",
            )
        if name in options:
            raise usage_error(f"--{name} is given twice")
        options[name] = value if "=" in flag else "true"
    return options

"""Flags that say what a model is compiled with: of `apply_plugin`, and of other commands that compile."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Sequence

    from absl.flags import FlagValues

    from litert.core.compiler_options import CustomOpInfo


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


def read_custom_op_infos(values: FlagValues) -> Sequence[CustomOpInfo]:
    """What `--npu_custom_op_info` says.

    Raises:
      LiteRtError: INVALID_TOOL_CONFIG.
    """
    from litert.core.compiler_options import CustomOpInfo  # here: --help must not wait for it

    return [CustomOpInfo.parse(text) for text in values.npu_custom_op_info]

"""The flags of transformations: of `apply_plugin` and of `litert-npu transform`."""

from __future__ import annotations

from typing import TYPE_CHECKING

from absl import flags

from .command import usage_error
from .destinations import NOWHERE, STDERR, STDOUT

if TYPE_CHECKING:
    from compiler_plugin.transformations.transform_options import TransformOptions

_FOLD_LIMIT = "fold_limit"


def define_transform_flags(values: flags.FlagValues, by_default: str) -> None:
    """Defines the flags.

    Args:
      values: gets them.
      by_default: a sentence: what runs where nothing is named.
    """

    def many(name: str, explanation: str) -> None:
        flags.DEFINE_multi_string(name, [], "", flag_values=values)
        values[name].help = f"{explanation} May be repeated."  # without what absl adds

    many("extensions", "A folder of transformations and ops in Python: ops, front, middle, back.")
    flags.DEFINE_list(
        "transformations",
        [],
        "Which transformations run, and of a phase in which order: names; all; front, middle or back for those "
        f"of a phase; with a - in front, which do not. {by_default}",
        flag_values=values,
    )
    many("transformations_config", "A file of JSON that says which sub-graphs are replaced.")
    flags.DEFINE_string(
        "ops_mapping", "", "A file of JSON that declares custom ops.", flag_values=values
    )
    flags.DEFINE_bool(
        "static_shape", False, "Take shapes for constants: the model is not resizable any more.",
        flag_values=values,
    )  # fmt: skip
    flags.DEFINE_integer(
        _FOLD_LIMIT, None, "How many bytes folded constants may add to the file; 1048576 by default.",
        lower_bound=0, flag_values=values,
    )  # fmt: skip
    flags.DEFINE_string(
        "dump_model_after",
        "",
        "Write the model after this transformation, or after all, to --dump_folder.",
        flag_values=values,
    )
    flags.DEFINE_bool(
        "list_transformations",
        False,
        "Show which transformations there are, also those of --extensions.",
        flag_values=values,
    )


def read_transform_options(
    values: flags.FlagValues, output: str, selection: list[str], keep_layout: bool = False
) -> TransformOptions | None:
    """What the flags ask for; None where they ask for nothing.

    Args:
      values: parsed.
      output: of the command, for the folder of dumps.
      selection: what `--transformations` names.
      keep_layout: whether no partition changes its layout.

    Raises:
      LiteRtError: INVALID_TOOL_CONFIG, for flags that are at odds.
    """
    asked = [values.extensions, selection, values.transformations_config, values.ops_mapping]
    if not any(asked):
        for name in ("static_shape", _FOLD_LIMIT, "dump_model_after"):
            if values[name].value != values[name].default:
                raise usage_error(
                    f"--{name}, and no transformation runs",
                    "Name some with --transformations, or all.",
                )
        if not keep_layout:
            return None
    # Here, since most command lines ask for none.
    from compiler_plugin.transformations.transform_options import (
        DEFAULT_FOLD_LIMIT,
        TransformOptions,
    )

    limit = values.fold_limit
    return TransformOptions(
        values.extensions,
        selection,
        values.transformations_config,
        values.ops_mapping,
        values.static_shape,
        keep_layout,
        DEFAULT_FOLD_LIMIT if limit is None else limit,
        values.dump_model_after,
        dump_folder(values.dump_folder, output) if values.dump_model_after else "",
    )


def dump_folder(folder: str, output: str) -> str:
    """Where dumps go: a folder that was given, or `OUTPUT.dump`.

    Raises:
      LiteRtError: INVALID_TOOL_CONFIG, where there is neither.
    """
    if not folder and output in ("", STDOUT, STDERR, NOWHERE):
        raise usage_error("a dump needs a folder", "Give one with --dump_folder.")
    return folder or f"{output}.dump"

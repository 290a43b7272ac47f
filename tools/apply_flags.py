"""The options of `apply_plugin`, as flags of all commands that compile or partition a model."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from compiler_plugin.apply_options import ApplyOptions
from compiler_plugin.isolation.hosting import Hosting
from compiler_plugin.transform_options import TransformOptions
from litert.core.compiler_options import DEFAULT_MANUFACTURER, CompilerOptions, DumpOptions
from litert.core.option import Option, Section, options_of, values_by_field

from .command_line import FlagValues, read_vendor_options
from .transform_flags import read_transform_options

DECLARED: Sequence[Option] = options_of(
    ApplyOptions, CompilerOptions, TransformOptions, DumpOptions, Hosting
)
"""All options of `apply_plugin`, by section of the help text."""


_LEFT_OUT = ("require_npu", "require_runnable", "dump_model_after")

PLAN_FLAGS = [
    option.flag
    for option in DECLARED
    if option.section not in (Section.DUMPS, Section.DUMP_FOLDER)
    and option.flag.name not in _LEFT_OUT
]
"""Flags for `compare` and `coverage`, which compile or partition a model, but write no compiled file."""


def start_hosting(values: FlagValues, is_plugin_asked: bool = True) -> Hosting:
    """Reads the flags for processes of compiler plugins, and starts these processes early, before slow imports."""
    hosting = Hosting(**values_by_field(options_of(Hosting), values.flag_values_dict()))
    if is_plugin_asked:
        hosting.start([folder for folder in values.libs if folder])
    return hosting


def read_apply_options(
    values: FlagValues,
    unknown: Sequence[str],
    hosting: Hosting,
    output: str = "",
    given: Mapping[str, Any] | None = None,
) -> ApplyOptions:
    """Reads the options from flags.

    If `values` has no flag for an option in `DECLARED`, the option keeps its default.

    Args:
      values: Values of the flags.
      unknown: Flags unknown to the command, which are options of the vendor.
      hosting: Options for processes in which compiler plugins run.
      output: Path of the file that the command writes.
      given: Values that override the values of flags, by flag name.

    Raises:
      LiteRtError: INVALID_TOOL_CONFIG, if the value of a flag is not valid for its option.
    """
    flags = {**values.flag_values_dict(), **(given or {})}

    def read(kind: Any, **more: Any) -> Any:
        declared = [option for option in options_of(kind) if option.flag.name in flags]
        return kind(**values_by_field(declared, flags), **more)

    manufacturer = values.soc_manufacturer or DEFAULT_MANUFACTURER
    vendor_options = read_vendor_options(values, unknown, manufacturer)
    options: ApplyOptions = read(
        ApplyOptions,
        compiler=read(CompilerOptions, vendor_options=vendor_options, dump=read(DumpOptions)),
        transform=read_transform_options(
            values, output, values.transformations, values.disable_nhwc_to_nchw
        ),
        hosting=hosting,
    )
    return options

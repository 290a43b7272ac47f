"""Flags of `run` and `benchmark` for a model that is not compiled: it is compiled for an NPU when it is loaded."""

from __future__ import annotations

import logging
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from litert.core.errors import LiteRtError
from litert.core.status import Status

from .command import usage_error
from .compile_flags import (
    define_asset_flags,
    define_layer_flags,
    define_libs,
    define_target_flags,
    read_custom_op_infos,
    read_vendor_options,
)

if TYPE_CHECKING:
    from absl.flags import FlagValues

    from litert.core.compiler_options import CustomOpInfo

_ASKING = (
    "soc_manufacturer", "soc_model", "npu_custom_op_info", "custom_layers", "asset_root", "shape_bounds",
    "libs",
)  # fmt: skip
_TELLING = ("litert.runtime.jit", "litert.runtime.jit_compiler")


@dataclass(frozen=True, slots=True)
class CompileAtLoad:
    """How a model is compiled that is not.

    Attributes:
      soc_manufacturer: whose NPU it is for; "" for the first vendor that takes an op, where no flag asks for one.
      soc_model: which of its NPUs; "" for the first.
      custom_op_infos: assets.
      vendor_options: by name.
      custom_layers, asset_root, shape_bounds, check_kernels: as `CompilerOptions` has them.
      plugin_folder: beside the plugins that are installed; "" for none.
      cache_folder: where the result is kept; "" for nowhere.
    """

    soc_manufacturer: str = ""
    soc_model: str = ""
    custom_op_infos: Sequence[CustomOpInfo] = ()
    vendor_options: Mapping[str, str] = field(default_factory=dict)
    custom_layers: Sequence[str] = ()
    asset_root: str = ""
    shape_bounds: Mapping[str, Sequence[int]] = field(default_factory=dict)
    check_kernels: bool = True
    plugin_folder: str = ""
    cache_folder: str = ""


def define_compile_at_load(flags: FlagValues) -> None:
    """Defines the flags of `read_compile_at_load`, and `--allow_native_assets`."""
    from absl.flags import DEFINE_string

    define_target_flags(flags)
    define_asset_flags(flags)
    define_layer_flags(flags)
    define_libs(flags)
    DEFINE_string(
        "cache_folder",
        "",
        "Where what is compiled is kept for the next time; made if it is not there.",
        flag_values=flags,
    )


def read_compile_at_load(flags: FlagValues, unknown: Sequence[str]) -> CompileAtLoad:
    """What flags say.

    Args:
      flags: the command's own.
      unknown: options of vendors.

    Raises:
      LiteRtError: INVALID_TOOL_CONFIG.
    """
    libs = [folder for folder in flags.libs if folder]
    if len(libs) > 1:
        raise usage_error(
            f"--libs has {len(libs)} folders, where a program has one", "Name the one above them."
        )
    if not unknown and flags.check_kernels and not any(flags[name].value for name in _ASKING):
        return CompileAtLoad(cache_folder=flags.cache_folder)
    if "npu" not in flags.accelerator:
        raise usage_error(
            "flags to compile for an NPU, and --accelerator without it", "Add npu to it."
        )
    # Here, since --help must not wait for them.
    from compiler_plugin.registry import DEFAULT_MANUFACTURER
    from litert.core.compiler_options import parse_shape_bounds

    _check_place(unknown)
    manufacturer = flags.soc_manufacturer or DEFAULT_MANUFACTURER
    return CompileAtLoad(
        manufacturer,
        flags.soc_model,
        read_custom_op_infos(flags),
        read_vendor_options(flags, unknown, manufacturer),
        flags.custom_layers,
        flags.asset_root,
        parse_shape_bounds(flags.shape_bounds),
        flags.check_kernels,
        "".join(libs),
        flags.cache_folder,
    )


def _check_place(unknown: Sequence[str]) -> None:
    """Refuses what only `apply_plugin` has."""
    if not unknown:
        return
    from .apply_plugin_flags import define_flags  # here: few command lines need them

    flags = define_flags()
    for text in unknown:
        name = text.lstrip("-").partition("=")[0]
        opposite = name.removeprefix("no")
        if name in flags or (opposite in flags and flags[opposite].boolean):
            raise usage_error(
                f"no flag '{text}'", f"apply_plugin has --{name}: compile the model with that."
            )


@contextmanager
def told_of_compiling(path: str, asked: CompileAtLoad) -> Iterator[None]:
    """Says on the standard error what is compiled in the block, where that was asked for.

    Raises:
      LiteRtError: ALREADY_EXISTS, for a model that is compiled, of which the flags say nothing.
    """
    if not asked.soc_manufacturer:
        yield
        return
    from compiler_plugin.checks import read_uncompiled  # here: most models are compiled

    try:
        read_uncompiled(path).close()
    except LiteRtError as error:
        if error.status is not Status.ALREADY_EXISTS:
            raise
        hint = "Leave out the flags that say how to compile it, or give the model that it was made from."
        raise LiteRtError(error.status, error.what, error.where, hint) from error
    handler = logging.StreamHandler(sys.stderr)
    loggers = [logging.getLogger(name) for name in _TELLING]
    for logger in loggers:
        logger.setLevel(logging.INFO)
        logger.addHandler(handler)
        logger.propagate = False  # with --debug it would be said twice
    try:
        yield
    finally:
        for logger in loggers:
            logger.removeHandler(handler)
            logger.setLevel(logging.NOTSET)
            logger.propagate = True

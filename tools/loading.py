"""Loads a model as `run` and `benchmark` are told by their flags."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from litert.core.errors import LiteRtError
from litert.core.status import Status

from .command import usage_error
from .compile_at_load import (
    CompileAtLoad,
    define_compile_at_load,
    read_compile_at_load,
    told_of_compiling,
)

if TYPE_CHECKING:
    from absl.flags import FlagValues

    from litert.compiled_model import CompiledModel

ACCELERATORS = ("npu", "gpu", "cpu")


@dataclass(frozen=True, slots=True)
class LoadOptions:
    """How a model is loaded.

    Attributes:
      signature: its key; "" for the first.
      threads: of the CPU.
      accelerators: what may run it, of `ACCELERATORS`.
      dispatch_library_path: a folder with dispatch tables, beside those that are installed.
      dispatch_options: the vendor's own, by name.
      allow_native_assets: whether machine code in assets may run.
      compile: how a model is compiled that is not.
    """

    signature: str = ""
    threads: int = 1
    accelerators: Sequence[str] = ("npu", "cpu")
    dispatch_library_path: str = ""
    dispatch_options: Mapping[str, str] = field(default_factory=dict)
    allow_native_assets: bool = False
    compile: CompileAtLoad = field(default_factory=CompileAtLoad)


@contextmanager
def open_model(path: str, options: LoadOptions) -> Iterator[tuple[CompiledModel, str]]:
    """Loads a model, and closes it; with the key of the signature to run.

    Raises:
      LiteRtError: NOT_FOUND, for a signature that the model has not; what loading raises.
    """
    from litert.compiled_model import CompiledModel
    from litert.environment import Environment
    from litert.options import CpuOptions, HardwareAccelerator, Options

    accelerators = HardwareAccelerator(0)
    for name in options.accelerators:
        accelerators |= HardwareAccelerator[name.upper()]
    asked = options.compile
    environment = Environment.create(
        compiler_plugin_path=asked.plugin_folder,
        dispatch_library_path=options.dispatch_library_path,
        compiler_cache_dir=asked.cache_folder,
    )
    load = Options(
        accelerators,
        CpuOptions(num_threads=options.threads),
        dispatch_options=options.dispatch_options,
        allow_native_assets=options.allow_native_assets,
        custom_op_infos=asked.custom_op_infos,
        soc_manufacturer=asked.soc_manufacturer,
        soc_model=asked.soc_model,
        compiler_options=asked.vendor_options,
        custom_layers=asked.custom_layers,
        asset_root=asked.asset_root,
        shape_bounds=asked.shape_bounds,
        check_kernels=asked.check_kernels,
    )
    with told_of_compiling(path, asked):
        loaded = CompiledModel.from_file(path, environment=environment, options=load)
    with loaded as model:
        keys = list(model.get_signature_list())
        if options.signature and options.signature not in keys:
            raise LiteRtError(
                Status.NOT_FOUND,
                f"no signature '{options.signature}'",
                path,
                f"Name one of {', '.join(keys) or 'none'}.",
            )
        if not keys:
            raise LiteRtError(Status.NOT_FOUND, "the model has nothing to run", path)
        yield model, options.signature or keys[0]


def define_load_flags(flags: FlagValues) -> None:
    """Defines the flags of `load_options`."""
    from absl.flags import DEFINE_integer, DEFINE_list, DEFINE_multi_string, DEFINE_string

    DEFINE_string("signature", "", "Which signature; the first by default.", flag_values=flags)
    DEFINE_integer("threads", 1, "Of the CPU.", lower_bound=1, flag_values=flags)
    DEFINE_list(
        "accelerator",
        ["npu", "cpu"],
        "What may run it, of npu and cpu. With npu alone, ops for the CPU are refused; what was compiled for the "
        "NPU runs there with any.",
        flag_values=flags,
    )
    DEFINE_string(
        "dispatch_library_path",
        "",
        "A folder with dispatch tables or libraries, beside those that are installed. A library runs in this "
        "process: one that crashes ends it.",
        flag_values=flags,
    )
    DEFINE_multi_string(
        "dispatch_option", [], "name=value: an option for the vendor's driver.", flag_values=flags
    )
    define_compile_at_load(flags)


def load_options(flags: FlagValues, unknown: Sequence[str]) -> LoadOptions:
    """What flags say.

    Args:
      flags: the command's own.
      unknown: options of vendors.

    Raises:
      LiteRtError: INVALID_TOOL_CONFIG.
    """
    for name in flags.accelerator:
        if name not in ACCELERATORS:
            raise usage_error(
                f"no accelerator '{name}'", f"Name one or more of {', '.join(ACCELERATORS)}."
            )
    if not flags.accelerator:
        raise usage_error("no accelerator", f"Name one or more of {', '.join(ACCELERATORS)}.")
    options = {}
    for text in flags.dispatch_option:
        name, equals, value = text.partition("=")
        if not name or not equals:
            raise usage_error(f"--dispatch_option={text}", "Write it as name=value.")
        options[name] = value
    return LoadOptions(
        flags.signature,
        flags.threads,
        flags.accelerator,
        flags.dispatch_library_path,
        options,
        flags.allow_native_assets,
        read_compile_at_load(flags, unknown),
    )

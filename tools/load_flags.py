"""The flags that say how a model is loaded and run, and compiled where it is not."""

from __future__ import annotations

import logging
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from compiler_plugin.apply_options import ApplyOptions
from litert.core.compiler_options import DEFAULT_MANUFACTURER, CompilerOptions, DumpOptions
from litert.core.environment_options import EnvironmentOptions
from litert.core.errors import LiteRtError
from litert.core.option import Flag, Goes, options_of, values_by_field
from litert.core.status import Status
from litert.core.suggestion import did_you_mean
from litert.options import CpuOptions, HardwareAccelerator, Options

from .command_line import DISPATCH_LIBRARY_PATH, FlagValues, read_vendor_options, usage_error
from .log_handler import LogHandler

if TYPE_CHECKING:
    from litert.compiled_model import CompiledModel

_ACCELERATORS = ("npu", "gpu", "cpu")
_AT_LOAD = [o for o in options_of(ApplyOptions, CompilerOptions) if Goes.LOAD in o.goes]
_LIBS = next(option.flag for option in options_of(ApplyOptions) if option.field == "libs")
_DUMPS = {option.flag.name: option.flag for option in options_of(DumpOptions)}
_TELLING = "litert.runtime.compile_at_load"
_TELLING_OF_DUMPS = "litert.model.kernel_files"

_ACCELERATOR = Flag(
    "accelerator",
    ("npu", "cpu"),
    "What the model may run on: npu, cpu or both. With npu alone, ops for the CPU are refused. Ops that were "
    "compiled for the NPU always run there.",
)
RUN_FLAGS = (
    Flag("signature", "", "The signature to run; the first by default."),
    Flag(
        "threads",
        1,
        "Number of CPU threads. The NPU has its own; the emulated one takes --dispatch_option=threads=N.",
        least=1,
    ),
    DISPATCH_LIBRARY_PATH._replace(
        help=f"{DISPATCH_LIBRARY_PATH.help} A library runs in this process, and ends it where it crashes, but for "
        "--isolate."
    ),
    Flag(
        "dispatch_option",
        (),
        "name=value: an option for the vendor's driver. May be repeated.",
        is_repeated=True,
    ),
    Flag(
        "isolate",
        False,
        "Run the NPU's driver in a process of its own: a crash or a hang there fails the run alone.",
    ),
    Flag(
        "sandbox",
        "",
        "Whether that process is in a sandbox, where kernels read no file: require, try or off; by default what "
        "the variable LITERT_NPU_SANDBOX says, or try.",
    ),
    Flag(
        "build_timeout",
        30.0,
        "Seconds for each call of that process that loads something, and for an NPU call's first run.",
        least=0.001,
        is_duration=True,
    ),
    Flag(
        "call_timeout",
        10.0,
        "Seconds for each other run of an NPU call in that process.",
        least=0.001,
        is_duration=True,
    ),
    Flag(
        "device_memory",
        0,
        "MiB of data that the process may have, and of tensors; 0 for half of the machine's memory.",
        least=0,
    ),
)
"""How a model runs that is loaded, and compiled, in whatever way."""

LOAD_FLAGS = (
    *RUN_FLAGS[:2],
    _ACCELERATOR,
    *RUN_FLAGS[2:],
    *(option.flag for option in _AT_LOAD),
    _LIBS,
    Flag(
        "cache_folder",
        "",
        "Where what is compiled is kept for the next time; made if it is not there.",
    ),
    _DUMPS["dump_kernels"],
    _DUMPS["dump_folder"]._replace(help="Where kernels are written to; made if it is not there."),
)


@dataclass(frozen=True, slots=True)
class LoadChoice:
    """What is loaded, and how.

    Attributes:
      signature: its key; "" for the first.
      options: of the model.
      environment: where plugins and dispatch tables are, and where what is compiled is kept.
    """

    signature: str = ""
    options: Options = field(
        default_factory=lambda: Options(
            HardwareAccelerator.NPU | HardwareAccelerator.CPU, CpuOptions(num_threads=1)
        )
    )
    environment: EnvironmentOptions = field(default_factory=EnvironmentOptions)


def read_load_flags(flags: FlagValues, unknown: Sequence[str]) -> LoadChoice:
    """What a command's own flags say, and the unknown ones, which are options of vendors."""
    options = read_run_options(flags)
    options.hardware_accelerators = _read_accelerators(flags.accelerator)
    options.dump_kernels = _read_dump_folder(flags)
    libs = [folder for folder in flags.libs if folder]
    if len(libs) > 1:
        raise usage_error(
            f"--libs has {len(libs)} folders, where a program has one", "Name the one above them."
        )
    if _asks_to_compile(flags, unknown):
        _read_compiler_flags(flags, unknown, options)
    environment = EnvironmentOptions(
        compiler_plugin_path="".join(libs),
        dispatch_library_path=flags.dispatch_library_path,
        compiler_cache_dir=flags.cache_folder,
    )
    return LoadChoice(flags.signature, options, environment)


def read_run_options(flags: FlagValues) -> Options:
    """What `RUN_FLAGS` and the consent to native assets say."""
    return Options(
        cpu_options=CpuOptions(num_threads=flags.threads),
        dispatch_options=_read_dispatch_options(flags.dispatch_option),
        allow_native_assets=flags.allow_native_assets,
        isolated=flags.isolate,
        sandbox=flags.sandbox,
        build_timeout_s=flags.build_timeout,
        call_timeout_s=flags.call_timeout,
        device_memory_bytes=flags.device_memory << 20,
    )


def _read_dispatch_options(texts: Sequence[str]) -> dict[str, str]:
    """The values of `--dispatch_option`."""
    options = {}
    for text in texts:
        name, equals, value = text.partition("=")
        if not name or not equals:
            raise usage_error(f"--dispatch_option={text}", "Write it as name=value.")
        options[name] = value
    return options


@contextmanager
def open_model(path: str, choice: LoadChoice) -> Iterator[tuple[CompiledModel, str]]:
    """Loads a model, and closes it; with the key of the signature to run.

    Raises:
      LiteRtError: NOT_FOUND, for a signature that the model has not; what loading raises.
    """
    from litert.compiled_model import CompiledModel
    from litert.environment import Environment

    environment = Environment.create(options=choice.environment)
    with told_of_loading(path, choice.options):
        loaded = CompiledModel.from_file(path, environment=environment, options=choice.options)
    with loaded as model:
        yield model, choose_signature(choice.signature, list(model.get_signature_list()), path)


def choose_signature(chosen: str, keys: Sequence[str], path: str) -> str:
    """The key of the signature to run: the one that was chosen, or the first.

    Raises:
      LiteRtError: NOT_FOUND, where the model at a path has it not.
    """
    if chosen and chosen not in keys:
        raise LiteRtError(
            Status.NOT_FOUND,
            f"no signature '{chosen}'",
            path,
            did_you_mean(chosen, keys, f"Name one of {', '.join(keys) or 'none'}."),
        )
    if not keys:
        raise LiteRtError(Status.NOT_FOUND, "the model has nothing to run", path)
    return chosen or keys[0]


def _read_accelerators(names: Sequence[str]) -> HardwareAccelerator:
    hint = f"Name one or more of {', '.join(_ACCELERATORS)}."
    accelerators = HardwareAccelerator(0)
    for name in names:
        if name not in _ACCELERATORS:
            raise usage_error(f"no accelerator '{name}'", did_you_mean(name, _ACCELERATORS, hint))
        accelerators |= HardwareAccelerator[name.upper()]
    if not names:
        raise usage_error("no accelerator", hint)
    return accelerators


def _read_dump_folder(flags: FlagValues) -> str:
    """Where kernels go; "" for nowhere."""
    folder: str = flags.dump_folder
    if flags.dump_kernels and not folder:
        raise usage_error("--dump_kernels, and no folder for them", "Add --dump_folder=FOLDER.")
    if folder and not flags.dump_kernels:
        raise usage_error("--dump_folder, and nothing to dump", "Add --dump_kernels.")
    return folder


def _asks_to_compile(flags: FlagValues, unknown: Sequence[str]) -> bool:
    """Whether a flag says what to compile for or with; consent to native assets is for any model."""
    asking = [o.flag for o in _AT_LOAD if o.field != "allow_native_assets"] + [_LIBS]
    return bool(unknown) or any(flags[f.name].value != flags[f.name].default for f in asking)


def _read_compiler_flags(flags: FlagValues, unknown: Sequence[str], options: Options) -> None:
    """Adds what a model is compiled with that is not."""
    if "npu" not in flags.accelerator:
        raise usage_error(
            "flags to compile for an NPU, and --accelerator without it", "Add npu to it."
        )
    if unknown:
        _check_place(unknown)
    for name, value in values_by_field(_AT_LOAD, flags.flag_values_dict()).items():
        setattr(options, name, value)
    options.soc_manufacturer = options.soc_manufacturer or DEFAULT_MANUFACTURER
    options.compiler_options = read_vendor_options(flags, unknown, options.soc_manufacturer)


def _check_place(unknown: Sequence[str]) -> None:
    """Refuses what only `apply_plugin` has."""
    from .apply_command_line import define_flags  # here: few command lines need them

    flags = define_flags()
    for text in unknown:
        name = text.lstrip("-").partition("=")[0]
        opposite = name.removeprefix("no")
        if name in flags or (opposite in flags and flags[opposite].boolean):
            raise usage_error(
                f"no flag '{text}'", f"apply_plugin has --{name}: compile the model with that."
            )


@contextmanager
def told_of_loading(path: str, options: Options) -> Iterator[None]:
    """Says on the standard error what is compiled in the block, and which kernels are written, where asked for.

    Raises:
      LiteRtError: ALREADY_EXISTS, for a model that is compiled, of which the flags say nothing.
    """
    with ExitStack() as stack:
        if options.dump_kernels:
            stack.enter_context(_heard(_TELLING_OF_DUMPS))
        if options.soc_manufacturer:
            _check_uncompiled(path)
            stack.enter_context(_heard(_TELLING))
        yield


def _check_uncompiled(path: str) -> None:
    from compiler_plugin.checks import read_uncompiled  # here: most models are compiled

    try:
        read_uncompiled(path).close()
    except LiteRtError as error:
        if error.status is not Status.ALREADY_EXISTS:
            raise
        hint = "Leave out the flags that say how to compile it, or give the model that it was made from."
        raise LiteRtError(error.status, error.what, error.where, hint) from error


@contextmanager
def _heard(name: str) -> Iterator[None]:
    """Has what a module logs in the block printed to the standard error."""
    logger, handler = logging.getLogger(name), LogHandler()
    logger.setLevel(logging.INFO)
    logger.addHandler(handler)
    logger.propagate = False  # with --debug it would be said twice
    try:
        yield
    finally:
        logger.removeHandler(handler)
        logger.setLevel(logging.NOTSET)
        logger.propagate = True

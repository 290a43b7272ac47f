"""Flags for commands that load and run a model, and compile the model if it is not compiled."""

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
from litert.runtime.signature import PLACEHOLDER_SIGNATURE

from .command_line import DISPATCH_LIBRARY_PATH, FlagValues, read_vendor_options, usage_error
from .log_handler import LogHandler
from .process_start import note_kernel_crashes

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
    "Devices that the model may use: npu, cpu or npu,cpu. With npu alone, a model that has ops "
    "for the CPU causes an error. With cpu alone, an uncompiled model is not compiled for the NPU; "
    "the NPU calls of a compiled model still run on the NPU.",
)
_HELP_AT_LOAD = {
    "soc_manufacturer": "Name of the NPU's vendor. By default, if the command line has flags for "
    "compilation, the reference vendor compiles FILE. Without such flags, the command tries all "
    "installed vendors except the reference vendor."
}
"""Help texts of flags that have another default than in `apply_plugin`."""
RUN_FLAGS = (
    Flag(
        "signature",
        "",
        "Key of the signature (an entry point of the model) to run. The default is the model's "
        "first signature.",
    ),
    Flag(
        "threads",
        1,
        "Number of CPU threads for ops on the CPU. Set the threads of the emulated NPU with "
        "--dispatch_option=threads=N.",
        least=1,
    ),
    DISPATCH_LIBRARY_PATH._replace(
        help=f"{DISPATCH_LIBRARY_PATH.help} Without --isolate, a dispatch library runs in this "
        "process, and a crash of the library ends the command."
    ),
    Flag(
        "dispatch_option",
        (),
        "An option for the vendor's NPU driver, as name=value. May be repeated.",
        is_repeated=True,
    ),
    Flag(
        "isolate",
        False,
        "Run the NPU's driver in its own process. If a kernel then crashes or hangs, only the "
        "run fails.",
    ),
    Flag(
        "sandbox",
        "",
        "Whether the driver's own process (--isolate) runs in a sandbox, where kernels cannot "
        "read files. With 'require', the command fails if the system has no sandbox. With "
        "'try', the process runs in a sandbox if the system has one. With 'off', the process "
        "runs without a sandbox. The default is the value of the environment variable "
        "LITERT_NPU_SANDBOX, or try.",
    ),
    Flag(
        "build_timeout",
        30.0,
        "Time limit, in seconds, for each step of loading in the driver, such as building a "
        "kernel, and for the first run of each NPU call. The limit applies if the driver runs in "
        "its own process (--isolate).",
        least=0.001,
        is_duration=True,
    ),
    Flag(
        "call_timeout",
        10.0,
        "Time limit of each run of an NPU call after its first run, in seconds. The limit "
        "applies if the driver runs in its own process (--isolate).",
        least=0.001,
        is_duration=True,
    ),
    Flag(
        "device_memory",
        0,
        "Memory limit of the driver's own process (--isolate), in MiB. The limit applies "
        "separately to the model's tensors and to the other data of the process. The smallest "
        "limit is 32; 0 means half of the machine's memory.",
        least=0,
    ),
)
"""Flags that affect the runs of a model and the NPU's driver, but not the compilation."""

LOAD_FLAGS = (
    *RUN_FLAGS[:2],
    _ACCELERATOR,
    *RUN_FLAGS[2:],
    *(o.flag._replace(help=_HELP_AT_LOAD.get(o.field, o.flag.help)) for o in _AT_LOAD),
    _LIBS._replace(help="A folder with compiler plugins. The installed plugins can still be used."),
    Flag(
        "cache_folder",
        "",
        "Folder that stores compiled models. If FILE is not compiled, the next load of FILE uses "
        "the stored model, and compiles nothing. The folder is created if it is missing.",
    ),
    _DUMPS["dump_kernels"],
    _DUMPS["dump_folder"]._replace(
        help="Folder for the files of --dump_kernels. The folder is created if it is missing."
    ),
)


@dataclass(frozen=True, slots=True)
class LoadChoice:
    """The signature to run, and the options for loading the model.

    Attributes:
      signature: Key of the signature to run; "" for the model's first signature.
      options: Options for loading the model.
      environment: Folders that contain compiler plugins, dispatch tables, and the cache of compiled models.
    """

    signature: str = ""
    options: Options = field(
        default_factory=lambda: Options(
            HardwareAccelerator.NPU | HardwareAccelerator.CPU, CpuOptions(num_threads=1)
        )
    )
    environment: EnvironmentOptions = field(default_factory=EnvironmentOptions)


def read_load_flags(flags: FlagValues, unknown: Sequence[str]) -> LoadChoice:
    """Reads a command's flags for loading and running a model; unknown flags count as options of the vendor."""
    options = read_run_options(flags)
    options.hardware_accelerators = _read_accelerators(flags.accelerator)
    options.dump_kernels = _read_dump_folder(flags)
    libs = [folder for folder in flags.libs if folder]
    if len(libs) > 1:
        raise usage_error(
            f"--libs lists {len(libs)} folders, but this command accepts only one folder",
            "Give one folder that contains these folders.",
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
    """Returns options with the values of `RUN_FLAGS` and of `--allow_native_assets`."""
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
    """Returns the values of `--dispatch_option`, by option name."""
    options = {}
    for text in texts:
        name, equals, value = text.partition("=")
        if not name or not equals:
            raise usage_error(
                f"--dispatch_option is '{text}', but must have the form name=value",
                "Write --dispatch_option=threads=4, for example.",
            )
        options[name] = value
    return options


@contextmanager
def open_model(path: str, choice: LoadChoice) -> Iterator[tuple[CompiledModel, str]]:
    """Loads a model for a `with` block; yields the model and the key of the signature to run.

    Raises:
      LiteRtError: NOT_FOUND, if the model does not have the chosen signature; any error that occurs while the
        model is loaded.
    """
    from litert.compiled_model import CompiledModel
    from litert.environment import Environment

    if not choice.options.isolated:
        note_kernel_crashes()
    environment = Environment.create(options=choice.environment)
    with told_of_loading(path, choice.options):
        loaded = CompiledModel.from_file(path, environment=environment, options=choice.options)
    with loaded as model:
        yield model, choose_signature(choice.signature, list(model.get_signature_list()), path)


def choose_signature(chosen: str, keys: Sequence[str], path: str) -> str:
    """Returns the key of the signature to run: the chosen key, or by default the first key.

    Raises:
      LiteRtError: NOT_FOUND, if the model in the file does not have the chosen signature.
    """
    if chosen and chosen not in keys:
        hint = did_you_mean(chosen, keys, f"Signatures of the model: {', '.join(keys) or 'none'}.")
        if list(keys) == [PLACEHOLDER_SIGNATURE]:
            hint = "The model has no signatures: omit --signature to run the main subgraph."
        raise LiteRtError(Status.NOT_FOUND, f"the model has no signature '{chosen}'", path, hint)
    if not keys:
        raise LiteRtError(Status.NOT_FOUND, "the model has no signature that can run", path)
    return chosen or keys[0]


def _read_accelerators(names: Sequence[str]) -> HardwareAccelerator:
    hint = f"Give one or more of {', '.join(_ACCELERATORS)}."
    accelerators = HardwareAccelerator(0)
    for name in names:
        if name not in _ACCELERATORS:
            raise usage_error(
                f"--accelerator has the unknown value '{name}'",
                did_you_mean(name, _ACCELERATORS, hint),
            )
        accelerators |= HardwareAccelerator[name.upper()]
    if not names:
        raise usage_error("--accelerator has no value", hint)
    return accelerators


def _read_dump_folder(flags: FlagValues) -> str:
    """Returns the folder for dumped kernels; "" if kernels are not dumped."""
    folder: str = flags.dump_folder
    if flags.dump_kernels and not folder:
        raise usage_error(
            "--dump_kernels needs the flag --dump_folder", "Add --dump_folder=FOLDER."
        )
    if folder and not flags.dump_kernels:
        raise usage_error(
            "--dump_folder has no effect, because no flag says what to dump",
            "Add --dump_kernels, or leave out --dump_folder.",
        )
    return folder


def _asks_to_compile(flags: FlagValues, unknown: Sequence[str]) -> bool:
    """Returns whether a flag requests compilation; `--allow_native_assets` alone does not."""
    asking = [o.flag for o in _AT_LOAD if o.field != "allow_native_assets"] + [_LIBS]
    return bool(unknown) or any(flags[f.name].value != flags[f.name].default for f in asking)


def _read_compiler_flags(flags: FlagValues, unknown: Sequence[str], options: Options) -> None:
    """Adds the options for compiling a model that is not compiled."""
    if "npu" not in flags.accelerator:
        raise usage_error(
            "the command line has flags for compilation, but --accelerator does not include npu",
            "Add npu to --accelerator, or leave out the flags for compilation.",
        )
    if unknown:
        _check_place(unknown)
    for name, value in values_by_field(_AT_LOAD, flags.flag_values_dict()).items():
        setattr(options, name, value)
    options.soc_manufacturer = options.soc_manufacturer or DEFAULT_MANUFACTURER
    options.compiler_options = read_vendor_options(flags, unknown, options.soc_manufacturer)


def _check_place(unknown: Sequence[str]) -> None:
    """Raises an error for flags that only `apply_plugin` has."""
    from .apply_command_line import define_flags  # here: few command lines need them

    flags = define_flags()
    for text in unknown:
        name = text.lstrip("-").partition("=")[0]
        opposite = name.removeprefix("no")
        if name in flags or (opposite in flags and flags[opposite].boolean):
            raise usage_error(
                f"the command has no flag '{text}'",
                f"Only apply_plugin has the flag --{name}; "
                "compile the model with apply_plugin first.",
            )


@contextmanager
def told_of_loading(path: str, options: Options) -> Iterator[None]:
    """Prints messages about compilations and dumped kernels in the `with` block.

    Raises:
      LiteRtError: ALREADY_EXISTS, if the command line has flags for compilation, but the model is already
        compiled.
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
        hint = (
            "Remove the flags for compilation, such as --soc_manufacturer, or give the model from which the "
            "file was compiled."
        )
        raise LiteRtError(error.status, error.what, error.where, hint) from error


@contextmanager
def _heard(name: str) -> Iterator[None]:
    """Prints a module's log messages in the block to standard error."""
    logger, handler = logging.getLogger(name), LogHandler()
    logger.setLevel(logging.INFO)
    logger.addHandler(handler)
    logger.propagate = False  # with --debug, the message would be printed twice
    try:
        yield
    finally:
        logger.removeHandler(handler)
        logger.setLevel(logging.NOTSET)
        logger.propagate = True

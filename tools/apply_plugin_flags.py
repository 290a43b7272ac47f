"""The flags of `apply_plugin`: as the custom op assets guide prints them, and as stock LiteRT has them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from absl import flags

from .command import describe_flags, split_arguments, usage_error
from .compile_flags import (
    define_asset_flags,
    define_layer_flags,
    define_libs,
    define_target_flags,
    read_custom_op_infos,
    read_vendor_options,
)
from .seconds_flag import define_seconds
from .transform_flags import define_transform_flags, dump_folder, read_transform_options

if TYPE_CHECKING:
    from compiler_plugin.isolation.hosting import Hosting
    from compiler_plugin.pipeline import ApplyOptions
    from litert.core.compiler_options import DumpOptions

COMMANDS = ("apply", "partition", "compile", "info", "noop")

USAGE = """\
Compiles a TFLite model for an NPU, and embeds what its custom ops need.

  apply_plugin --soc_manufacturer=MyVendor --models=MySocModel \\
    --npu_custom_op_info=my_custom_op,path/to/kernel.cl input.tflite output.bin

Custom ops whose asset is given go to the NPU where the vendor's plugin takes them; all else stays on the
CPU, and the report says why. Options of a vendor begin with its name: --myvendor_option=value.
The exit status is 0, or the status code of the error modulo 256.
"""


@dataclass(frozen=True, slots=True)
class Command:
    """A command line, read and checked.

    Attributes:
      cmd: one of `COMMANDS`.
      model: path of the input; "" for `info`.
      output: path; `-` and `--` are the standard streams, "" and `none` are nowhere.
      options: for the pipeline.
      as_json: whether the report is for machines.
      messages: where the report goes: a path, a stream or nowhere; "" for the standard output.
      lists_transformations: whether it only shows which transformations there are.
    """

    cmd: str
    model: str
    output: str
    options: ApplyOptions
    as_json: bool
    messages: str
    lists_transformations: bool = False


def define_flags() -> flags.FlagValues:
    """All flags, with nothing parsed yet."""
    values = flags.FlagValues()  # type: ignore[no-untyped-call]
    values.set_gnu_getopt(True)  # flags may follow arguments

    def text(name: str, explanation: str) -> None:
        flags.DEFINE_string(name, "", explanation, flag_values=values)

    def switch(name: str, default: bool, explanation: str) -> None:
        flags.DEFINE_bool(name, default, explanation, flag_values=values)

    flags.DEFINE_enum(
        "cmd",
        "apply",
        COMMANDS,
        "apply compiles; partition shows what would be compiled, as subgraphs; compile writes the byte code "
        "of whole subgraphs; info lists plugins; noop reads and writes the model.",
        flag_values=values,
    )
    text("model", "The input, if it is not the first argument.")
    text(
        "o",
        "The output, if it is not the second argument: a path, - (standard output), -- (standard error) or none.",
    )
    define_target_flags(values)
    text("models", "The same as --soc_model.")
    define_asset_flags(values)
    define_libs(values)
    define_seconds(
        "plugin_timeout",
        600,
        "Seconds that each call of a plugin in a shared library may take.",
        least=0.001,
        values=values,
    )
    switch(
        "plugin_in_process",
        False,
        "Run a plugin in a shared library in this process, where a crash is its end.",
    )
    flags.DEFINE_list(
        "subgraphs", [], "Indices of the subgraphs to compile; all by default.", flag_values=values
    )
    flags.DEFINE_integer(
        "compiler_options_max_partitions",
        0,
        "The most partitions, of which the largest are kept; 0 is no limit.",
        lower_bound=0,
        flag_values=values,
    )
    flags.DEFINE_enum(
        "partition_strategy",
        "default",
        ("default", "weakly_connected"),
        "How ops become partitions: as the plugin has it, or all that data join, as far as no cycle closes.",
        flag_values=values,
    )
    flags.DEFINE_list(
        "require_npu", [], "Ops that must not stay on the CPU, or all.", flag_values=values
    )
    define_layer_flags(values)
    define_transform_flags(values, "Without it those of --extensions that are enabled.")
    switch(
        "disable_nhwc_to_nchw",
        False,
        "Leave partitions in NHWC, also for a vendor who asks for NCHW.",
    )
    text("dump_ir_after", "Write the vendor's IR after this pass, or after all, to --dump_folder.")
    switch("dump_kernels", False, "Write each kernel as its compiler gets it to --dump_folder.")
    text("dump_folder", "Where dumps go; OUTPUT.dump by default.")
    flags.DEFINE_enum(
        "report", "text", ("text", "json"), "How the report is printed.", flag_values=values
    )
    text("err", "Where the report goes: a path, - (the default), -- or none.")
    switch("debug", False, "Show where an error came from.")
    flags.DEFINE_bool("help", False, "Show this.", short_name="h", flag_values=values)
    return values


def help_text(values: flags.FlagValues) -> str:
    """What `--help` prints."""
    return "\n".join([USAGE, "Flags:", *describe_flags(values)])


def parse(values: flags.FlagValues, argv: Sequence[str]) -> list[str]:
    """Parses a command line.

    Args:
      values: gets the flags.
      argv: with the program's name.

    Returns:
      The arguments that are no known flags: the positional ones, and a vendor's options.

    Raises:
      LiteRtError: INVALID_TOOL_CONFIG.
    """
    try:
        return list(values(argv, known_only=True))[1:]
    except (flags.Error, ValueError) as error:  # absl's own for --noflag=value
        raise usage_error(str(error)) from error


def read_command(values: flags.FlagValues, rest: Sequence[str]) -> Command:
    """Makes a command of what `parse` gave.

    Raises:
      LiteRtError: INVALID_TOOL_CONFIG, for flags that are wrong, unknown, missing, or at odds.
    """
    hosting = _start_hosting(values)
    # Here, since --help must not wait for them.
    from compiler_plugin.pipeline import ApplyOptions
    from compiler_plugin.registry import DEFAULT_MANUFACTURER
    from litert.core.compiler_options import CompilerOptions, parse_shape_bounds

    paths, unknown = split_arguments(rest)
    model, output = _paths(values, paths)
    return Command(
        values.cmd,
        model,
        output,
        ApplyOptions(
            soc_manufacturer=values.soc_manufacturer,
            soc_model=_same("models", values.models, "soc_model", values.soc_model),
            libs=[folder for folder in values.libs if folder],
            subgraphs=[_index(text) for text in values.subgraphs],
            require_npu=values.require_npu,
            compiler=CompilerOptions(
                read_custom_op_infos(values),
                values.compiler_options_max_partitions,
                values.check_kernels,
                values.allow_native_assets,
                read_vendor_options(
                    values, unknown, values.soc_manufacturer or DEFAULT_MANUFACTURER
                ),
                values.custom_layers,
                values.asset_root,
                parse_shape_bounds(values.shape_bounds),
                _dump_options(values, output),
                values.partition_strategy,
            ),
            transform=read_transform_options(
                values, output, values.transformations, values.disable_nhwc_to_nchw
            ),
            hosting=hosting,
        ),
        values.report == "json",
        values.err,
        values.list_transformations,
    )


def _start_hosting(values: flags.FlagValues) -> Hosting:
    """How plugins in shared libraries run; their processes start now, while this one still imports."""
    from compiler_plugin.isolation.hosting import Hosting, find_libraries  # here: as above

    hosting = Hosting(values.plugin_in_process, values.plugin_timeout)
    if values.cmd != "noop" and not values.list_transformations:
        hosting.start(find_libraries([folder for folder in values.libs if folder]))
    return hosting


def _paths(values: flags.FlagValues, paths: Sequence[str]) -> tuple[str, str]:
    if len(paths) > 2:
        raise usage_error(f"{len(paths)} arguments where there are an input and an output: {paths}")
    first, second = [*paths, "", ""][:2]
    model = _same("model", values.model, "first argument", first)
    output = _same("o", values.o, "second argument", second)
    if values.cmd == "info" or values.list_transformations:
        if model:
            flag = "cmd=info" if values.cmd == "info" else "list_transformations"
            raise usage_error(f"--{flag} takes no model, and was given {model}")
        return "", output
    if not model:
        raise usage_error(f"--cmd={values.cmd} needs a model", "Give it as the first argument.")
    if not output and values.cmd in ("apply", "compile"):
        raise usage_error(
            f"--cmd={values.cmd} needs an output",
            "Give it as the second argument; --o=none writes nothing.",
        )
    return model, output


def _same(name: str, value: str, other_name: str, other: str) -> str:
    if value and other and value != other:
        spelling = other_name if " " in other_name else f"--{other_name}"
        raise usage_error(
            f"--{name} is '{value}', and the {spelling} '{other}'".replace("the --", "--"),
            "They mean the same: give one of them.",
        )
    return value or other


def _index(text: str) -> int:
    if not text.strip().isdecimal():
        raise usage_error(f"--subgraphs has '{text}', which is no index", "Write it as 0,2.")
    return int(text)


def _dump_options(values: flags.FlagValues, output: str) -> DumpOptions:
    # Here, since --help must not wait for it.
    from litert.core.compiler_options import DumpOptions

    is_asked = bool(values.dump_ir_after or values.dump_kernels)
    if values.dump_folder and not is_asked and not values.dump_model_after:
        raise usage_error("--dump_folder, and nothing to dump", "Add --dump_ir_after=all.")
    folder = dump_folder(values.dump_folder, output) if is_asked else ""
    return DumpOptions(folder, values.dump_ir_after, values.dump_kernels)

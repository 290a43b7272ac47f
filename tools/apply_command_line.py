"""The command line of `apply_plugin`, with the flags of the custom op assets guide and of stock LiteRT."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

from absl import flags

from compiler_plugin.apply_options import ApplyOptions
from compiler_plugin.isolation.hosting import Hosting, find_libraries
from compiler_plugin.transform_options import TransformOptions
from litert.core.compiler_options import DEFAULT_MANUFACTURER, CompilerOptions, DumpOptions
from litert.core.option import Flag, Section, options_of, values_by_field

from .command_line import (
    describe_flags,
    make_flags,
    read_vendor_options,
    split_arguments,
    usage_error,
)
from .console import ProgressBar, print_text
from .destinations import STDERR, STDOUT, check_messages, open_output, open_stream
from .transform_flags import (
    LIST_TRANSFORMATIONS,
    OUTPUT,
    REPORT_FORM,
    REPORT_PLACE,
    dump_folder,
    list_transformations,
    read_transform_options,
)

if TYPE_CHECKING:
    from compiler_plugin.report import Report

COMMANDS = ("apply", "partition", "compile", "info", "noop")

USAGE = """\
Compiles a TFLite model for an NPU, and embeds what its custom ops need.

  apply_plugin --soc_manufacturer=MyVendor --models=MySocModel \\
    --npu_custom_op_info=my_custom_op,path/to/kernel.cl input.tflite output.bin

Custom ops whose asset is given go to the NPU where the vendor's plugin takes them; all else stays on the
CPU, and the report says why. Options of a vendor begin with its name: --myvendor_option=value.
The exit status is 0, or the status code of the error modulo 256.
"""


_DECLARED = options_of(ApplyOptions, CompilerOptions, TransformOptions, DumpOptions, Hosting)
_BEFORE = (
    Flag(
        "cmd",
        "apply",
        "apply compiles; partition shows what would be compiled, as subgraphs; compile writes the byte code "
        "of whole subgraphs; info lists plugins; noop reads and writes the model.",
        choices=COMMANDS,
    ),
    Flag("model", "", "The input, if it is not the first argument."),
    OUTPUT,
)
_BEHIND = {
    Section.TARGET: Flag("models", "", "The same as --soc_model."),
    Section.TRANSFORMATIONS: LIST_TRANSFORMATIONS,
}
_AFTER = (
    REPORT_FORM,
    REPORT_PLACE,
    Flag("debug", False, "Show where an error came from."),
    Flag("help", False, "Show this.", short_name="h"),
)


class ApplyCommand(NamedTuple):
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
    found = list(_BEFORE)
    for section in Section:
        found += [declared.flag for declared in _DECLARED if declared.section == section]
        if section in _BEHIND:
            found.append(_BEHIND[section])
    return make_flags([*found, *_AFTER])


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


def read_command(values: flags.FlagValues, rest: Sequence[str]) -> ApplyCommand:
    """Makes a command of what `parse` gave.

    Raises:
      LiteRtError: INVALID_TOOL_CONFIG, for flags that are wrong, unknown, missing, or at odds.
    """
    hosting = _start_hosting(values)
    paths, unknown = split_arguments(rest)
    model, output = _paths(values, paths)
    given = values.flag_values_dict()
    given["soc_model"] = _same("models", values.models, "soc_model", values.soc_model)
    given["dump_folder"] = _dump_folder(values, output)

    def read(kind: Any, **more: Any) -> Any:
        return kind(**values_by_field(options_of(kind), given), **more)

    manufacturer = values.soc_manufacturer or DEFAULT_MANUFACTURER
    options = read(
        ApplyOptions,
        compiler=read(
            CompilerOptions,
            vendor_options=read_vendor_options(values, unknown, manufacturer),
            dump=read(DumpOptions),
        ),
        transform=read_transform_options(
            values, output, values.transformations, values.disable_nhwc_to_nchw
        ),
        hosting=hosting,
    )
    as_json, lists = values.report == "json", values.list_transformations
    return ApplyCommand(values.cmd, model, output, options, as_json, values.err, lists)


def _start_hosting(values: flags.FlagValues) -> Hosting:
    """How plugins in shared libraries run; their processes start now, while this one still imports."""
    hosting = Hosting(**values_by_field(options_of(Hosting), values.flag_values_dict()))
    if values.cmd != "noop" and not values.list_transformations:
        hosting.start(find_libraries([folder for folder in values.libs if folder]))
    return hosting


def _dump_folder(values: flags.FlagValues, output: str) -> str:
    """Where the vendor's dumps go; "" where none was asked for."""
    is_asked = bool(values.dump_ir_after or values.dump_kernels)
    if values.dump_folder and not is_asked and not values.dump_model_after:
        raise usage_error("--dump_folder, and nothing to dump", "Add --dump_ir_after=all.")
    return dump_folder(values.dump_folder, output) if is_asked else ""


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


def execute(command: ApplyCommand) -> None:
    """Does what a command says, and reports it.

    Raises:
      LiteRtError: with no output written.
    """
    if command.lists_transformations:
        with open_stream(command.output or STDOUT) as stream:
            if stream:
                print_text(list_transformations(command.options.transform, command.as_json), stream)
        return
    if command.cmd == "info":
        _execute_info(command)
        return
    assets = [info.asset_path for info in command.options.compiler.custom_op_infos]
    check_messages(command.messages, [command.model, command.output, *assets])
    with open_output(command.output) as path, ProgressBar() as progress:
        model, options = command.model, command.options
        # Imported here, since --help must not wait for them.
        if command.cmd == "apply":
            from compiler_plugin.pipeline import apply_plugin

            report = apply_plugin(model, path, options, progress)
        elif command.cmd == "partition":
            from compiler_plugin.commands import partition_model

            report = partition_model(model, path, options, progress)
        elif command.cmd == "compile":
            from compiler_plugin.commands import compile_model

            report = compile_model(model, path, options)
        else:
            from compiler_plugin.commands import copy_model

            report = copy_model(model, path, progress)
            report.warnings += _idle_flags(command)
    if report.output_path:
        report.output_path = command.output
    _print_report(report, command)


def _execute_info(command: ApplyCommand) -> None:
    import json
    from dataclasses import asdict

    from compiler_plugin.commands import list_plugins

    plugins = list_plugins(command.options.libs, command.options.hosting)
    if command.as_json:
        text = json.dumps([asdict(plugin) for plugin in plugins], indent=1)
    else:
        text = "\n".join(map(str, plugins)) or "no plugins"
    with open_stream(command.output or STDOUT) as stream:
        if stream:
            print_text(text, stream)


def _print_report(report: Report, command: ApplyCommand) -> None:
    default = STDERR if command.output == STDOUT else STDOUT
    with open_stream(command.messages or default) as stream:
        if stream:
            print_text(report.to_json() if command.as_json else report.to_text(), stream)


def _idle_flags(command: ApplyCommand) -> list[str]:
    """What was asked of a compilation, where nothing is compiled; in sentences."""
    options, transform = command.options, command.options.transform
    given: dict[str, object] = {
        "npu_custom_op_info": options.compiler.custom_op_infos,
        "require_npu": options.require_npu,
        "extensions": transform and transform.extensions,
        "transformations": transform and transform.selection,
        "transformations_config": transform and transform.config,
        "ops_mapping": transform and transform.ops_mapping,
    }
    return [
        f"--cmd={command.cmd} compiles nothing: --{flag} changes nothing"
        for flag, values in given.items()
        if values
    ]

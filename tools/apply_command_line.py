"""The command line of `apply_plugin`, with the flags of the custom op assets guide and of stock LiteRT."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from typing import TYPE_CHECKING

from compiler_plugin.apply_options import ApplyOptions
from compiler_plugin.isolation.hosting import Hosting
from litert.core.option import Flag, Section

from .apply_flags import DECLARED, read_apply_options, start_hosting
from .command_line import (
    COMMON,
    PAGE,
    VERSION,
    FlagValues,
    begin,
    check_op_infos,
    describe_flags,
    make_flags,
    split_arguments,
    usage_error,
)
from .console import print_text, print_version
from .destinations import STDOUT, check_messages, open_output, print_to
from .help_text import wrap_text
from .page.writing import check_pages, is_page_wanted, write_pages
from .progress_bar import ProgressBar
from .trace_file import TRACE, traced
from .transform_flags import (
    LIST_TRANSFORMATIONS,
    OUTPUT,
    REPORT_FORM,
    REPORT_PLACE,
    dump_folder,
    list_transformations,
    print_report,
    same,
)

if TYPE_CHECKING:
    from compiler_plugin.report import Report
    from litert.core.tracing import Recording
    from litert.model.graph import Model

    from .page.page import Graph, Page

COMMANDS = ("apply", "partition", "compile", "info", "noop")

USAGE = """\
Compiles a TFLite model for an NPU. The output file also contains the assets of the model's custom ops, which are
the files with the ops' kernels.

  apply_plugin --soc_manufacturer=MyVendor --models=MySocModel \\
    --npu_custom_op_info=my_custom_op,path/to/kernel.cl input.tflite output.bin

Custom ops with an asset run on the NPU if the vendor's compiler plugin accepts them. All other ops stay on the
CPU, and the report says why. A vendor can have flags of its own; they begin with the vendor's name, as in
--myvendor_option=value. The exit status is 0 on success, and 2 after an error.
"""


_BEFORE = (
    Flag(
        "cmd",
        "apply",
        "What the command does. 'apply' compiles the model. 'partition' moves the ops for the "
        "NPU into subgraphs of their own, and writes the model. 'compile' compiles each subgraph "
        "of the model as a whole, and writes only the byte code. 'info' lists the compiler "
        "plugins. 'noop' reads the model, and writes the same model.",
        choices=COMMANDS,
    ),
    Flag("model", "", "Path of the input model, given instead of the first argument."),
    OUTPUT,
)
_BEHIND = {
    Section.TARGET: Flag("models", "", "Another name for --soc_model."),
    Section.TRANSFORMATIONS: LIST_TRANSFORMATIONS,
}
_AFTER = (
    REPORT_FORM,
    REPORT_PLACE,
    *PAGE,
    TRACE,
    *COMMON,
    VERSION,
)


def all_flags() -> list[Flag]:
    """Returns the declarations of all flags, in the order of the help text."""
    found = list(_BEFORE)
    for section in Section:
        found += [declared.flag for declared in DECLARED if declared.section == section]
        if section in _BEHIND:
            found.append(_BEHIND[section])
    return [*found, *_AFTER]


def define_flags() -> FlagValues:
    """Returns all flags as absl flags, before a command line is parsed."""
    return make_flags(all_flags())


def execute(argv: Sequence[str]) -> int:
    """Runs a command line, prints the report, and returns the exit status.

    Raises:
      LiteRtError: The command failed without writing an output file.
    """
    values = define_flags()
    rest = begin(values, argv, "See --help.", known_only=True)
    if values.help:
        print_text("\n".join([*wrap_text(USAGE), "Flags:", *describe_flags(values)]), sys.stdout)
        return 0
    if values.version:
        print_version(argv[0])
        return 0
    is_plugin_asked = values.cmd != "noop" and not values.list_transformations
    hosting = start_hosting(values, is_plugin_asked)
    paths, unknown = split_arguments(rest)
    model, output = _paths(values, paths)
    options = _read_options(values, unknown, output, hosting)
    if values.list_transformations:
        print_to(output or STDOUT, list_transformations(options.transform, values.report))
    elif values.cmd == "info":
        print_to(output or STDOUT, _list_plugins(options, values.report))
    else:
        _process(values, model, output, options)
    return 0


def _paths(values: FlagValues, paths: Sequence[str]) -> tuple[str, str]:
    if len(paths) > 2:
        check_op_infos(values)
        raise usage_error(
            f"the command accepts only an input and an output, but the command line has {len(paths)} "
            f"arguments: {', '.join(paths)}"
        )
    first, second = [*paths, "", ""][:2]
    model = same("model", values.model, "the first argument", first)
    output = same("o", values.o, "the second argument", second)
    if values.cmd == "info" or values.list_transformations:
        if model:
            flag = "cmd=info" if values.cmd == "info" else "list_transformations"
            raise usage_error(
                f"--{flag} needs no model, but the command line has the model {model}",
                "Leave out the model.",
            )
        return "", output
    if not model:
        raise usage_error(
            f"--cmd={values.cmd} needs a model", "Give the model as the first argument."
        )
    if not output and values.cmd in ("apply", "compile"):
        raise usage_error(
            f"--cmd={values.cmd} needs an output file",
            "Give the output file as the second argument, or use --o=none to write nothing.",
        )
    return model, output


def _read_options(
    values: FlagValues, unknown: Sequence[str], output: str, hosting: Hosting
) -> ApplyOptions:
    is_dump_asked = bool(values.dump_ir_after or values.dump_kernels)
    if values.dump_folder and not is_dump_asked and not values.dump_model_after:
        raise usage_error(
            "--dump_folder has no effect, because no flag says what to dump",
            "Add --dump_ir_after=all, for example, or leave out --dump_folder.",
        )
    given = {
        "soc_model": same("models", values.models, "--soc_model", values.soc_model),
        "dump_folder": dump_folder(values.dump_folder, output) if is_dump_asked else "",
    }
    return read_apply_options(values, unknown, hosting, output, given)


def _list_plugins(options: ApplyOptions, form: str) -> str:
    import json
    from dataclasses import asdict

    from compiler_plugin.commands import list_plugins

    plugins = list_plugins(options.libs, options.hosting)
    if form == "json":
        return json.dumps([asdict(plugin) for plugin in plugins], indent=1)
    return "\n".join(map(str, plugins)) or "no plugins"


def _process(values: FlagValues, model: str, output: str, options: ApplyOptions) -> None:
    """Runs the work that `--cmd` selects on a model, and prints the report."""
    assets = [info.asset_path for info in options.compiler.custom_op_infos]
    check_messages(values.err, [model, output, *assets])
    others = [model, output, values.err, *assets]
    has_page = is_page_wanted(values)
    if has_page:
        if values.cmd not in ("apply", "partition"):
            raise usage_error(
                f"--cmd={values.cmd} cannot write a page", "Use --cmd=apply or --cmd=partition."
            )
        check_pages(values, others)
    graphs: list[Graph] = []

    def watch(model: Model, report: Report) -> None:
        if has_page:
            from .apply_page import planned_graph

            graphs.append(planned_graph(model, report))

    with (
        traced(values.trace, others, is_wanted=has_page) as recording,
        open_output(output) as path,
        ProgressBar(),
    ):
        # Imported here, since --help must not wait for them.
        if values.cmd == "apply":
            from compiler_plugin.pipeline import apply_plugin

            report = apply_plugin(model, path, options, watch=watch)
        else:
            from compiler_plugin import commands

            if values.cmd == "partition":
                report = commands.partition_model(model, path, options, watch=watch)
            elif values.cmd == "compile":
                report = commands.compile_model(model, path, options)
            else:
                report = commands.copy_model(model, path)
            report.warnings += _idle_flags(values.cmd, options)
    write_pages(values, lambda: _page(report, graphs, recording))
    print_report(report, values, output)


def _page(report: Report, graphs: Sequence[Graph], recording: Recording) -> Page:
    from .apply_page import apply_page

    return apply_page(report, graphs[0], recording.spans)


def _idle_flags(cmd: str, options: ApplyOptions) -> list[str]:
    """Returns sentences about the flags that have no effect on a command other than `apply`."""
    compiler, transform = options.compiler, options.transform
    required = {
        "require_npu": options.require_npu,
        "require_runnable": options.require_runnable,
    }
    of_byte_code = {
        "replace_ir": compiler.replace_ir,
        "dump_ir_after": compiler.dump.ir_after,
        "dump_kernels": compiler.dump.kernels,
    }
    of_planning = {
        "npu_custom_op_info": compiler.custom_op_infos,
        "extensions": transform and transform.extensions,
        "transformations": transform and transform.selection,
        "transformations_config": transform and transform.config,
        "ops_mapping": transform and transform.ops_mapping,
    }
    given: dict[str, object] = {
        "compile": required,
        "partition": of_byte_code,
        "noop": {**of_planning, **required, **of_byte_code},
    }[cmd]
    does = "compiles whole subgraphs" if cmd == "compile" else "compiles nothing"
    return [
        f"--{flag} has no effect with --cmd={cmd}, which {does}"
        for flag, value in given.items()
        if value
    ]

"""What a command of `apply_plugin` does: calls of `compiler_plugin`, and where model and report go."""

from __future__ import annotations

from typing import TYPE_CHECKING

from .apply_plugin_flags import Command
from .console import ProgressBar, print_text
from .destinations import STDERR, STDOUT, check_messages, open_output, open_stream

if TYPE_CHECKING:
    from compiler_plugin.report import Report


def execute(command: Command) -> None:
    """Does what a command says, and reports it.

    Raises:
      LiteRtError: with no output written.
    """
    if command.lists_transformations:
        from .transformation_list import list_transformations

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


def _idle_flags(command: Command) -> list[str]:
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


def _execute_info(command: Command) -> None:
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


def _print_report(report: Report, command: Command) -> None:
    default = STDERR if command.output == STDOUT else STDOUT
    with open_stream(command.messages or default) as stream:
        if stream:
            print_text(report.to_json() if command.as_json else report.to_text(), stream)

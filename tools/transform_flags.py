"""Flags of `apply_plugin` and `litert-npu transform` for transformations, output and report."""

from __future__ import annotations

from typing import TYPE_CHECKING

from compiler_plugin.transform_options import TransformOptions
from litert.core.option import Flag, Section, options_of, values_by_field

from .command_line import REPORT, FlagValues, usage_error
from .console import json_text
from .destinations import NOWHERE, STDERR, STDOUT, print_to

if TYPE_CHECKING:
    from compiler_plugin.report import Report

OUTPUT = Flag(
    "o",
    "",
    "The output file, given instead of the second argument: a path, - for standard output, -- "
    "for standard error, or none to write nothing.",
)
REPORT_FORM = REPORT._replace(help="Format of the report: text for people, json for programs.")
REPORT_PLACE = Flag(
    "err",
    "",
    "Destination of the report: a path, - for standard output (the default), -- for standard "
    "error, or none to write no report.",
)
LIST_TRANSFORMATIONS = Flag(
    "list_transformations",
    False,
    "List the available transformations, including those of --extensions, and exit.",
)


def read_transform_options(
    values: FlagValues, output: str, selection: list[str], keep_layout: bool = False
) -> TransformOptions | None:
    """Reads the options for transformations from flags; returns None if the flags ask for no transformation.

    Args:
      values: Values of the flags.
      output: Path of the output file; by default, the folder for dumps is next to the output file.
      selection: Items in the list of `--transformations`.
      keep_layout: Whether all partitions keep their data layout.
    """
    names = ("extensions", "transformations_config", "ops_mapping", "input_shape", "data_layout")
    asked = [selection, *(values[name].value != values[name].default for name in names)]
    declared = [o for o in options_of(TransformOptions) if o.flag.name in values]
    if not any(asked):
        for option in declared:
            flag = values[option.flag.name]
            if option.section is Section.TRANSFORMATIONS and flag.value != flag.default:
                raise usage_error(
                    f"--{flag.name} has no effect, since no transformation runs",
                    "Select transformations with --transformations, or use --transformations=all.",
                )
        if not keep_layout:
            return None
    given = {
        **values.flag_values_dict(),
        "transformations": selection,
        "disable_nhwc_to_nchw": keep_layout,
    }
    is_dump_asked = "dump_model_after" in values and values.dump_model_after
    folder = dump_folder(values.dump_folder, output) if is_dump_asked else ""
    return TransformOptions(**values_by_field(declared, given), dump_folder=folder)


def dump_folder(folder: str, output: str) -> str:
    """Returns the folder for dumps: the given folder (its parent folder must exist), or `OUTPUT.dump`."""
    from litert.model.atomic_file import check_place  # here: --help must not wait for it

    check_place(folder)
    if not folder and output in ("", STDOUT, STDERR, NOWHERE):
        raise usage_error(
            "the dump has no folder: the default folder is named after the output file, but there is no "
            "output file",
            "Give a folder with --dump_folder.",
        )
    return folder or f"{output}.dump"


def same(name: str, value: str, other_name: str, other: str) -> str:
    """Returns the value of a flag or of the argument with the same meaning.

    Raises an error if both are given and differ.
    """
    if value and other and value != other:
        raise usage_error(
            f"--{name} is '{value}', but {other_name} is '{other}'",
            "Both have the same meaning: give only one of the two.",
        )
    return value or other


def print_report(report: Report, values: FlagValues, output: str) -> None:
    """Prints the report of a command to the file or stream given by `--err`, by default to standard output."""
    if report.output_path:
        report.output_path = output
    text = report.to_json() if values.report == "json" else report.to_text()
    print_to(values.err or (STDERR if output == STDOUT else STDOUT), text)


def list_transformations(options: TransformOptions | None, form: str) -> str:
    """Returns a list of all transformations (built-in and from extensions), in the order in which they run."""
    from dataclasses import asdict

    from compiler_plugin.transformations.transformation_plan import describe_transformations

    infos, notes = describe_transformations(options.extensions if options else ())
    if form == "json":
        return json_text([asdict(info) for info in infos])
    width = max((len(info.name) for info in infos), default=0)
    lines = []
    for info in infos:
        state = "" if info.enabled else " (runs only if --transformations lists it)"
        origin = f" [{info.path}]" if info.path else ""
        text = f"  {info.description}" if info.description else ""
        lines.append(f"{info.phase:6}  {info.name:{width}}{text}{state}{origin}")
    return "\n".join([*lines, *(f"Note: {note}" for note in notes)]) or "no transformations"

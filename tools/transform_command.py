"""`litert-npu transform`: runs transformations on a TFLite model, without a vendor."""

from __future__ import annotations

import sys
from collections.abc import Sequence

from compiler_plugin.transform_options import WITHOUT_SELECTION, TransformOptions
from litert.core.compiler_options import DumpOptions
from litert.core.option import Section, options_of

from .command import Command
from .command_line import FlagValues, usage_error
from .console import print_text
from .destinations import check_messages, open_output
from .progress_bar import ProgressBar
from .transform_flags import (
    LIST_TRANSFORMATIONS,
    OUTPUT,
    REPORT_FORM,
    REPORT_PLACE,
    list_transformations,
    print_report,
    read_transform_options,
    same,
)

_BY_DEFAULT = (
    "By default, all built-in transformations and all transformations of --extensions run, except "
    "those with enabled = False."
)
_FLAGS = [
    flag._replace(help=flag.help.replace(WITHOUT_SELECTION, _BY_DEFAULT))
    for flag in (
        OUTPUT,
        *(o.flag for o in options_of(TransformOptions) if o.section is Section.TRANSFORMATIONS),
        LIST_TRANSFORMATIONS,
        *(o.flag for o in options_of(DumpOptions) if o.section is Section.DUMP_FOLDER),
        REPORT_FORM,
        REPORT_PLACE,
    )
]


def _run(flags: FlagValues, arguments: Sequence[str]) -> int:
    if flags.list_transformations:
        if arguments:
            raise usage_error(
                "--list_transformations needs no model, but the command line has the model "
                f"{arguments[0]}",
                "Leave out the model.",
            )
        options = read_transform_options(flags, "", ["all"])
        print_text(list_transformations(options, flags.report), sys.stdout)
        return 0
    if not arguments:
        raise usage_error("the command line has no model", "Give the model as the first argument.")
    model, second = [*arguments, ""][:2]
    output = same("o", flags.o, "the second argument", second)
    if not output:
        raise usage_error(
            "the command line has no output file",
            "Give the output file as the second argument, or use --o=none to write nothing.",
        )
    if flags.dump_folder and not flags.dump_model_after:
        raise usage_error(
            "--dump_folder has no effect, because no flag says what to dump",
            "Add --dump_model_after=all, or leave out --dump_folder.",
        )
    selection = flags.transformations
    if all(
        word.startswith("-") for word in selection
    ):  # no transformation is selected: all enabled transformations run
        selection = ["all", *selection]
    options = read_transform_options(flags, output, selection)
    assert options is not None  # some transformations are selected
    check_messages(flags.err, [model, output])
    from compiler_plugin.transforming import transform_file

    with open_output(output) as path, ProgressBar():
        report = transform_file(model, path, options)
    print_report(report, flags, output)
    return 0


COMMAND = Command(
    "IN OUT\nRuns transformations on a TFLite model and writes the resulting model, which "
    "computes the same results and also runs in stock LiteRT. For each transformation, the "
    "command reports how many matches the transformation found in the model, and how long the "
    "transformation took.",
    _FLAGS,
    _run,
    num_arguments=2,
    num_optional=2,
)

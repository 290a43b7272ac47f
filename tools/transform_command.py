"""`litert-npu transform`: transformations on a TFLite model, without a vendor."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from typing import TYPE_CHECKING

from compiler_plugin.transform_options import WITHOUT_SELECTION, TransformOptions
from litert.core.compiler_options import DumpOptions
from litert.core.option import Section, options_of

from .command import Command
from .command_line import usage_error
from .console import ProgressBar, print_text
from .destinations import STDERR, STDOUT, check_messages, open_output, open_stream
from .transform_flags import (
    LIST_TRANSFORMATIONS,
    OUTPUT,
    REPORT_FORM,
    REPORT_PLACE,
    list_transformations,
    read_transform_options,
)

if TYPE_CHECKING:
    from absl.flags import FlagValues


_BY_DEFAULT = "Where none is named, those of ours and of --extensions that are enabled."
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
    as_json = flags.report == "json"
    if flags.list_transformations:
        if arguments:
            raise usage_error(
                f"--list_transformations takes no model, and was given {arguments[0]}"
            )
        options = read_transform_options(flags, "", ["all"])
        print_text(list_transformations(options, as_json), sys.stdout)
        return 0
    model, output = _paths(arguments, flags.o)
    if flags.dump_folder and not flags.dump_model_after:
        raise usage_error("--dump_folder, and nothing to dump", "Add --dump_model_after=all.")
    options = read_transform_options(flags, output, _selection(flags.transformations))
    assert options is not None  # something is selected
    check_messages(flags.err, [model, output])
    from compiler_plugin.transforming import transform_file

    with open_output(output) as path, ProgressBar() as progress:
        report = transform_file(
            model, path, options, lambda done, total: progress("write", done, total)
        )
    if report.output_path:
        report.output_path = output
    with open_stream(flags.err or (STDERR if output == STDOUT else STDOUT)) as stream:
        if stream:
            print_text(report.to_json() if as_json else report.to_text(), stream)
    return 0


def _paths(arguments: Sequence[str], flag: str) -> tuple[str, str]:
    if not arguments:
        raise usage_error("no model", "Give it as the first argument.")
    model, output = [*arguments, ""][:2]
    if output and flag and output != flag:
        raise usage_error(
            f"--o is '{flag}', and the second argument '{output}'",
            "They mean the same: give one of them.",
        )
    if not (output or flag):
        raise usage_error("no output", "Give it as the second argument; --o=none writes nothing.")
    return model, output or flag


def _selection(words: Sequence[str]) -> list[str]:
    """What runs: all that is enabled, unless the words name something themselves."""
    if all(word.startswith("-") for word in words):
        return ["all", *words]
    return list(words)


COMMAND = Command(
    "IN OUT\n"
    "Transforms a TFLite model: what comes out runs as before, in stock LiteRT too. Says how often each\n"
    "transformation matched, and how long it took.",
    _FLAGS,
    _run,
    num_arguments=2,
    num_optional=2,
)

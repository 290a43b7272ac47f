"""`litert-npu transform`: transformations on a TFLite model, without a vendor."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from typing import TYPE_CHECKING

from .command import Command, usage_error
from .console import ProgressBar, print_text
from .destinations import STDERR, STDOUT, check_messages, open_output, open_stream

if TYPE_CHECKING:
    from absl.flags import FlagValues


def _define_flags(flags: FlagValues) -> None:
    from absl.flags import DEFINE_enum, DEFINE_string

    from .transform_flags import define_transform_flags

    DEFINE_string(
        "o",
        "",
        "The output, if it is not the second argument: a path, - (standard output), -- (standard error) or none.",
        flag_values=flags,
    )
    define_transform_flags(
        flags, "Where none is named, those of ours and of --extensions that are enabled."
    )
    DEFINE_string("dump_folder", "", "Where dumps go; OUTPUT.dump by default.", flag_values=flags)
    DEFINE_enum("report", "text", ("text", "json"), "How the report is printed.", flag_values=flags)
    DEFINE_string(
        "err", "", "Where the report goes: a path, - (the default), -- or none.", flag_values=flags
    )


def _run(flags: FlagValues, arguments: Sequence[str]) -> int:
    from .transform_flags import read_transform_options

    as_json = flags.report == "json"
    if flags.list_transformations:
        from .transformation_list import list_transformations

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
    _define_flags,
    _run,
    num_arguments=2,
    num_optional=2,
)

"""`litert-npu coverage`: which ops of models an NPU takes, and why others stay on the CPU."""

from __future__ import annotations

import sys
from collections.abc import Sequence

from litert.core.option import Flag, Section
from litert.core.version import SDK_VERSION

from .apply_flags import DECLARED, read_apply_options, start_hosting
from .command import Command
from .command_line import REPORT, FlagValues, split_arguments, usage_error
from .console import ProgressBar

_NOT_HERE = (Section.DUMPS, Section.DUMP_FOLDER)
_NOT_TAKEN = ("require_npu", "require_runnable", "dump_model_after")
_FLAGS = (
    *(o.flag for o in DECLARED if o.section not in _NOT_HERE and o.flag.name not in _NOT_TAKEN),
    Flag(
        "compile",
        False,
        "Has the vendor compile what it takes, which it may refuse then; without it, it is only asked.",
    ),
    REPORT._replace(
        help="text, json with all ops, or csv with a row for each op.",
        choices=("text", "json", "csv"),
    ),
)


def _run(flags: FlagValues, arguments: Sequence[str]) -> int:
    paths, unknown = split_arguments(arguments)
    if not paths:
        raise usage_error("no model", "Name TFLite models, or folders of them.")
    hosting = start_hosting(flags)
    options = read_apply_options(flags, unknown, hosting)
    from litert.analysis.coverage import find_coverage
    from litert.analysis.model_files import find_models

    from .coverage_report import CoverageReport

    with ProgressBar() as progress:
        coverage = find_coverage(find_models(paths), options, progress, compiles=flags.compile)
    CoverageReport(
        coverage.soc_manufacturer,
        coverage.soc_model,
        coverage.plugin_sdk_version,
        SDK_VERSION,
        coverage.models,
        coverage.refusals,
    ).show(flags.report)
    return 0


COMMAND = Command(
    "MODEL...\n"
    "Shows which ops of TFLite models a vendor's NPU takes, which stay on the CPU and why, with their part of\n"
    "arithmetic and memory traffic. Of a folder all *.tflite count, also in folders below. Nothing is written.\n"
    "Options of a vendor begin with its name: --myvendor_option=value.",
    _FLAGS,
    _run,
    num_arguments=sys.maxsize,
    num_optional=sys.maxsize,
    takes_vendor_options=True,
)

"""`litert-npu coverage`: which ops of models an NPU takes, and why others stay on the CPU."""

from __future__ import annotations

import sys
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

from litert.core.compiler_options import parse_shapes
from litert.core.option import Flag
from litert.core.version import SDK_VERSION

from .apply_flags import PLAN_FLAGS, read_apply_options, start_hosting
from .command import Command
from .command_line import PAGE, REPORT, FlagValues, split_arguments, usage_error
from .console import native_output_to_stderr
from .page.writing import check_pages, write_pages
from .progress_bar import ProgressBar

if TYPE_CHECKING:
    from litert.analysis.coverage import ModelCoverage
    from litert.core.formula import Formula

    from .coverage_report import CoverageReport
    from .page.page import Page

_FLAGS = (
    *PLAN_FLAGS,
    Flag(
        "compile",
        False,
        "Has the vendor compile what it takes, which it may refuse then; without it, it is only asked.",
    ),
    Flag(
        "flops",
        (),
        "op,formula: the arithmetic of an op that is unknown, such as a custom op: a formula over B, F, Y, X of "
        "output 0, such as MyOp,2*B*F*Y*X. Once for each op.",
        is_repeated=True,
    ),
    Flag(
        "shape",
        (),
        "input:1x224x224x3: the shape of an input of dynamic shape, for what the ops cost. Once for each.",
        is_repeated=True,
    ),
    Flag(
        "compare",
        "",
        "An earlier report, made with --report=json: shows what is different now, and whether it is worse.",
    ),
    Flag(
        "fail_under",
        0.0,
        "The least percentage of each model's arithmetic that has to be on the NPU.",
        least=0,
    ),
    Flag(
        "fail_under_ops",
        0.0,
        "The least percentage of each model's ops that has to be on the NPU.",
        least=0,
    ),
    REPORT._replace(
        help="text, json with all ops, or csv with a row for each op.",
        choices=("text", "json", "csv"),
    ),
    *PAGE,
)


def _run(flags: FlagValues, arguments: Sequence[str]) -> int:
    paths, unknown = split_arguments(arguments)
    if not paths:
        raise usage_error("no model", "Name TFLite models, or folders of them.")
    hosting = start_hosting(flags)
    options = read_apply_options(flags, unknown, hosting)
    # Here, since --help must not wait for them.
    from litert.analysis.coverage import find_coverage
    from litert.analysis.coverage_change import find_change, read_earlier_report
    from litert.analysis.model_files import find_models
    from litert.analysis.op_costs import CostOptions

    from .coverage_report import CoverageReport

    earlier = read_earlier_report(flags.compare) if flags.compare else None
    costs = CostOptions(_read_formulas(flags.flops), parse_shapes(flags.shape, "shape", "shape"))
    models = find_models(paths)
    check_pages(flags, [*models, flags.compare])
    with native_output_to_stderr(flags.report != "text"), ProgressBar():
        coverage = find_coverage(models, options, costs, compiles=flags.compile)
    report = CoverageReport(
        coverage.soc_manufacturer,
        coverage.soc_model,
        coverage.plugin_sdk_version,
        SDK_VERSION,
        coverage.models,
        coverage.refusals,
        find_change(flags.compare, earlier, coverage) if earlier else None,
        list(_failures(flags, coverage.models)),
    )
    write_pages(flags, lambda: _page(report))
    report.show(flags.report)
    return report.exit_status


def _page(report: CoverageReport) -> Page:
    from .coverage_page import coverage_page  # here: --help must not wait for it

    return coverage_page(report)


def _read_formulas(texts: Sequence[str]) -> dict[str, Formula]:
    """The formula of each op, by its name."""
    from litert.core.formula import Formula

    formulas: dict[str, Formula] = {}
    for text in texts:
        op, comma, formula = text.partition(",")
        if not op or not comma or op in formulas:
            raise usage_error(
                f"--flops={text} does not name an op and a formula, or names the op again",
                "Write it as op,2*B*F*Y*X, once for each op.",
            )
        formulas[op] = Formula(formula)
    return formulas


def _failures(flags: FlagValues, models: Sequence[ModelCoverage]) -> Iterator[str]:
    """Which models are below what flags ask for, in sentences; one is, too, if that is not known of it."""
    for model in models:
        for flag, what, share in (
            ("fail_under", "arithmetic", model.arithmetic_share),
            ("fail_under_ops", "ops", model.ops_share),
        ):
            least: float = getattr(flags, flag)
            if share is not None and 100 * share < least:
                yield f"{model.path}: {100 * share:.2f} % of its {what} on the NPU, --{flag}={least:g}"
            elif share is None and least and model.num_unknown:
                yield f"{model.path}: its arithmetic is not known, --{flag}={least:g}"


COMMAND = Command(
    "MODEL...\n"
    "Shows which ops of TFLite models a vendor's NPU takes, which stay on the CPU and why, with their part of\n"
    "arithmetic and memory traffic. Of a folder all *.tflite count, also in folders below. Nothing is written.\n"
    "Options of a vendor begin with its name: --myvendor_option=value.\n"
    "The exit status is 1 where a model is below --fail_under, or --compare finds one worse: an op has left the\n"
    "NPU, or there are more calls and one of the former calls is split. It is 2 where that cannot be told, as\n"
    "of a damaged model.",
    _FLAGS,
    _run,
    num_arguments=sys.maxsize,
    num_optional=sys.maxsize,
    takes_vendor_options=True,
)

"""`litert-npu coverage`: shows which ops of models an NPU can run, and why other ops stay on the CPU."""

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
        "Also compile the ops that the vendor's plugin accepts, since compiling an accepted op "
        "may still fail. By default, the command compiles nothing, and only asks the plugin "
        "which ops the plugin accepts.",
    ),
    Flag(
        "flops",
        (),
        "Number of arithmetic operations of an op whose cost is unknown, for example a custom "
        "op. The value has the form op,formula, for example MyOp,2*B*F*Y*X. In the formula, B, "
        "F, Y and X are the batch, channels, height and width of output 0. Give the flag once "
        "for each op.",
        is_repeated=True,
    ),
    Flag(
        "shape",
        (),
        "Shape of an input with a dynamic shape, as input:1x224x224x3. The command assumes "
        "this shape when it computes the costs of ops. Give the flag once for each input.",
        is_repeated=True,
    ),
    Flag(
        "compare",
        "",
        "An earlier report, made with --report=json. The command shows what has changed since "
        "the earlier report, and whether a model has become worse.",
    ),
    Flag(
        "fail_under",
        0.0,
        "Minimum percentage of each model's arithmetic operations that must be on the NPU.",
        least=0,
        most=100,
    ),
    Flag(
        "fail_under_ops",
        0.0,
        "Minimum percentage of each model's ops that must be on the NPU.",
        least=0,
        most=100,
    ),
    REPORT._replace(
        help="Format of the report: text, json with all ops, or csv with one row for each op.",
        choices=("text", "json", "csv"),
    ),
    *PAGE,
)


def _run(flags: FlagValues, arguments: Sequence[str]) -> int:
    paths, unknown = split_arguments(arguments)
    if not paths:
        raise usage_error(
            "the command line has no model", "Give TFLite models, or folders with TFLite models."
        )
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
    """Returns the formula of each op, by op name."""
    from litert.core.formula import Formula

    formulas: dict[str, Formula] = {}
    for text in texts:
        op, comma, formula = text.partition(",")
        hint = "Write --flops=op,2*B*F*Y*X, once for each op."
        if not op or not comma:
            raise usage_error(
                f"--flops={text} does not contain {'a formula' if op else 'an op'}", hint
            )
        if op in formulas:
            raise usage_error(f"--flops={text} gives op '{op}' a second formula", hint)
        formulas[op] = Formula(formula)
    return formulas


def _failures(flags: FlagValues, models: Sequence[ModelCoverage]) -> Iterator[str]:
    """Yields sentences about models whose share is below the required minimum, or is unknown."""
    for model in models:
        for flag, what, share in (
            ("fail_under", "arithmetic operations", model.arithmetic_share),
            ("fail_under_ops", "ops", model.ops_share),
        ):
            least: float = getattr(flags, flag)
            if share is not None and 100 * share < least:
                yield (
                    f"{model.path}: only {100 * share:.2f} % of the {what} are on the NPU, but --{flag} requires "
                    f"{least:g} %"
                )
            elif share is None and least and model.num_unknown:
                yield (
                    f"{model.path}: the cost of some ops is unknown, so --{flag}={least:g} "
                    "cannot be checked; give their costs with --flops"
                )


COMMAND = Command(
    "MODEL...\nShows which ops of TFLite models a vendor's NPU can run, which ops stay on the CPU "
    "and why, and the NPU's share of the arithmetic and of the memory traffic. A folder stands "
    "for all *.tflite files in it and in its subfolders. The command writes files only for "
    "the flags --html and --model_explorer. A vendor can have flags of its own; they begin with the "
    "vendor's name, as in --myvendor_option=value. The exit status is 1 if a model is below --fail_under or if "
    "--compare finds that a model has become worse. A model is worse if an op is no longer on the "
    "NPU, if the model has more NPU calls because an earlier call was split, or if the model can "
    "no longer be analysed. "
    "The exit status is 2 if the result is unknown, for example because a model is damaged.",
    _FLAGS,
    _run,
    num_arguments=sys.maxsize,
    num_optional=sys.maxsize,
    takes_vendor_options=True,
)

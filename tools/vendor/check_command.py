"""`litert-npu vendor check`: checks whether a vendor follows the contract in LiteRT's headers."""

from __future__ import annotations

import sys
from collections.abc import Sequence

from compiler_plugin.apply_options import ApplyOptions
from litert.core.compiler_options import CompilerOptions, CustomOpInfo
from litert.core.option import Flag, Section, options_of

from ..command import Command
from ..command_line import REPORT, FlagValues, usage_error
from ..console import print_text
from ..progress_bar import ProgressBar
from ..reference_function import read_op_function

_DECLARED = options_of(ApplyOptions, CompilerOptions)
_FLAGS = (
    Flag(
        "model",
        (),
        "A TFLite model for the checks. The checks use this model first, and then small models "
        "of common ops. For each op of --npu_custom_op_info that your models do not contain, the "
        "command makes a model with one float input and one float output. The flag may be "
        "repeated.",
        is_repeated=True,
    ),
    *(o.flag for o in _DECLARED if o.section is Section.ASSETS),
    Flag(
        "companion",
        (),
        "A file that an asset refers to, for a vendor in C. The value has the form "
        "op/relative/path,path: the name of the op, the path by which the asset refers to the "
        "file, and the path of the file on this machine. The flag may be repeated.",
        is_repeated=True,
    ),
    Flag(
        "reference",
        (),
        "A Python function that computes the expected outputs of a custom op, as "
        "op,file.py:function. The function has the same parameters as for `litert-npu layer run "
        "--reference`. The flag may be repeated.",
        is_repeated=True,
    ),
    Flag(
        "option",
        (),
        "An option of the vendor's compiler plugin, as name=value. The flag may be repeated.",
        is_repeated=True,
    ),
    *(o.flag for o in _DECLARED if o.field == "soc_model"),
    Flag(
        "rule",
        (),
        "Name of a rule to check, such as invoke.values. The part before the dot alone, such as "
        "invoke, selects all rules whose names begin with this part. By default, all rules are "
        "checked. The flag may be repeated.",
        is_repeated=True,
    ),
    Flag(
        "tolerance",
        0.01,
        "Maximum relative difference between float results of the vendor and of LiteRT's CPU "
        "kernels. The divisor of the difference is a sum: an op adds up terms, such as the products "
        "in a convolution, and the divisor is the sum of the absolute values of these terms. If this "
        "sum is unknown, the divisor is the largest absolute value in the output.",
        least=0,
    ),
    Flag("timeout", 60.0, "Time limit of each check, in seconds.", least=0.1, is_duration=True),
    Flag("strict", False, "Count a broken recommendation as a broken rule."),
    Flag("verbose", False, "Also show passed checks."),
    REPORT,
)


def _run(flags: FlagValues, arguments: Sequence[str]) -> int:
    from litert.conformance.children import CheckOptions

    from .conformance import check_vendor
    from .vendor_libraries import find_libraries

    if not arguments:
        raise usage_error(
            "the command line names no vendor",
            "Give the name of a vendor, or the paths of its libraries.",
        )
    infos = [CustomOpInfo.parse(text) for text in flags.npu_custom_op_info]
    options = CheckOptions(
        models=flags.model,
        soc_model=flags.soc_model,
        assets=[(info.op_name, info.asset_path) for info in infos],
        companions=[_companion(text) for text in flags.companion],
        allow_native_assets=flags.allow_native_assets,
        vendor_options=_options(flags.option),
        references=[read_op_function(text, "reference") for text in flags.reference],
        rules=flags.rule,
        tolerance=flags.tolerance,
        timeout_s=flags.timeout,
        strict=flags.strict,
    )
    with ProgressBar():
        report = check_vendor(find_libraries(arguments), options)
    print_text(
        report.to_json() if flags.report == "json" else report.to_text(verbose=flags.verbose),
        sys.stdout,
    )
    return 0 if report.conforms else 1


def _companion(text: str) -> tuple[str, str]:
    """Returns the name of a companion file, `<op>/<relative path>`, and the file's path."""
    name, _, path = text.partition(",")
    op, _, relative_path = name.partition("/")
    parts = {"the op": op, "the path relative to the asset": relative_path, "the file": path}
    missing = [part for part, value in parts.items() if not value]
    if missing:
        raise usage_error(
            f"--companion={text} does not contain {' and '.join(missing)}",
            "Write the value as op/relative/path,path/to/file.",
        )
    return name, path


def _options(texts: Sequence[str]) -> dict[str, str]:
    options: dict[str, str] = {}
    for text in texts:
        name, equals, value = text.partition("=")
        if not name:
            raise usage_error(f"--option={text} does not have the form name=value")
        if name in options:
            raise usage_error(
                f"--option={text} sets option '{name}' again", "Give each option only once."
            )
        options[name] = value if equals else "true"
    return options


COMMAND = Command(
    "NAME | FILES\nChecks a vendor's compiler plugin and dispatch library, in Python or C, "
    "against each rule of LiteRT's contract with vendors. Give the name of an installed vendor, "
    "a folder, or one or two files. If the vendor's code crashes, hangs or exits, the command "
    "reports this like a broken rule. The exit status is 1 if a rule is broken, or if no rule "
    "could be checked.",
    _FLAGS,
    _run,
    num_arguments=2,
    num_optional=2,
)

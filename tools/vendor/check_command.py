"""`litert-npu vendor check`: does a vendor keep the contract of the headers?"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from typing import TYPE_CHECKING

from ..command import Command, usage_error
from ..console import print_text

if TYPE_CHECKING:
    from absl.flags import FlagValues


def _define_flags(flags: FlagValues) -> None:
    from absl.flags import DEFINE_bool, DEFINE_float, DEFINE_multi_string

    from ..compile_flags import define_asset_flags, define_soc_model
    from ..seconds_flag import define_seconds

    DEFINE_multi_string(
        "model",
        [],
        "A TFLite model to check with, before small ones of common ops. Custom ops that are in none of them "
        "are checked with one float input and output.",
        flag_values=flags,
    )
    define_asset_flags(flags)
    DEFINE_multi_string(
        "companion",
        [],
        "op/relative/path,path: a file that an asset names, for a vendor in C.",
        flag_values=flags,
    )
    DEFINE_multi_string("option", [], "name=value: an option of the vendor's.", flag_values=flags)
    define_soc_model(flags)
    DEFINE_multi_string(
        "rule", [], "A rule to look at, or what is before its dot; all.", flag_values=flags
    )
    DEFINE_float(
        "tolerance",
        0.01,
        "How far floats may be from LiteRT's on the CPU, as a part of the largest.",
        lower_bound=0,
        flag_values=flags,
    )
    define_seconds("timeout", 60, "Seconds that each check may take.", least=0.1, values=flags)
    DEFINE_bool("strict", False, "Recommendations are rules, too.", flag_values=flags)
    DEFINE_bool("verbose", False, "Shows the checks that passed, too.", flag_values=flags)
    DEFINE_bool("json", False, "The report as JSON.", flag_values=flags)


def _run(flags: FlagValues, arguments: Sequence[str]) -> int:
    from litert.conformance.children import CheckOptions

    from ..compile_flags import read_custom_op_infos
    from .conformance import check_vendor
    from .vendor_libraries import find_libraries

    if not arguments:
        raise usage_error("no vendor is named", "Give its name, or its libraries.")
    infos = read_custom_op_infos(flags)
    report = check_vendor(
        find_libraries(arguments),
        CheckOptions(
            models=flags.model,
            soc_model=flags.soc_model,
            assets=[(info.op_name, info.asset_path) for info in infos],
            companions=[_companion(text) for text in flags.companion],
            allow_native_assets=flags.allow_native_assets,
            vendor_options=_options(flags.option),
            rules=flags.rule,
            tolerance=flags.tolerance,
            timeout_s=flags.timeout,
            strict=flags.strict,
        ),
    )
    print_text(
        report.to_json() if flags.json else report.to_text(verbose=flags.verbose), sys.stdout
    )
    return 1 if report.has_failed else 0


def _companion(text: str) -> tuple[str, str]:
    """A companion's name, `<op>/<relative path>`, and the path of its file."""
    name, _, path = text.partition(",")
    op, _, relative_path = name.partition("/")
    if not op or not relative_path or not path:
        raise usage_error(
            f"--companion={text} does not name an op, a path below its asset and a file",
            "Write it as op/relative/path,path/to/file.",
        )
    return name, path


def _options(texts: Sequence[str]) -> dict[str, str]:
    options: dict[str, str] = {}
    for text in texts:
        name, equals, value = text.partition("=")
        if not name or name in options:
            raise usage_error(f"--option={text} is no name=value, or there twice")
        options[name] = value if equals else "true"
    return options


COMMAND = Command(
    "NAME | FILES\nChecks a vendor's compiler plugin and dispatch library, in Python or C, against each rule of "
    "the contract:\nan installed vendor by name, or a folder, or one or two files. Crashes, hangs and exits\n"
    "are findings. The exit status is 1 where a rule is broken.",
    _define_flags,
    _run,
    num_arguments=2,
    num_optional=2,
)

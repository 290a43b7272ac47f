"""`litert-npu layer check`: reads, binds and builds a layer, and shows what its kernel will get."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from ..command import Command
from .layer_flags import define_layer_flags, layer_request, open_layer
from .safe_process import answer, check_asset, compiling, run_safely

if TYPE_CHECKING:
    from absl.flags import FlagValues


def check(request: Mapping[str, Any]) -> Iterator[Mapping[str, object]]:
    """The child's part."""
    from vendor_reference.authoring.layer_check import check_layer

    with open_layer(request) as layer:
        yield compiling(layer.options.path)
        report = check_layer(layer.options, layer.op_name, layer.subjects)
    yield answer(report.passed, report.to_text(request["show_kernel"]), report.to_values())


def _define_flags(flags: FlagValues) -> None:
    from absl.flags import DEFINE_bool, DEFINE_enum

    define_layer_flags(flags)
    DEFINE_bool(
        "show_kernel", False, "Prints all that the OpenCL compiler gets.", flag_values=flags
    )
    DEFINE_enum("report", "text", ["text", "json"], "text or json.", flag_values=flags)


def _run(flags: FlagValues, arguments: Sequence[str]) -> int:
    path = check_asset(arguments[0])
    request = {**layer_request(flags, path), "show_kernel": flags.show_kernel}
    found = run_safely(f"{__name__}:check", request, path=path, timeout_s=flags.timeout_s)
    return found.show(flags.report)


COMMAND = Command(
    "FILE\nReads a layer, binds it to each different op of a model (or to given shapes), builds it, and shows\n"
    "what its kernel will get. The exit status is 1 if it does not fit an op.",
    _define_flags,
    _run,
    num_arguments=1,
)

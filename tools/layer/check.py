"""`litert-npu layer check`: reads, binds and builds a layer, and shows what its kernel will get."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict
from typing import TYPE_CHECKING, Any

from litert.core.option import Flag

from ..command import Command
from ..command_line import REPORT
from .layer_flags import LAYER_FLAGS, layer_request, open_frozen_layer, open_layer
from .op_arrays import INPUT_FLAGS, read_op_inputs
from .safe_process import answer, check_asset, compiling, run_safely, stage
from .watch import WATCH, run_watched

if TYPE_CHECKING:
    from absl.flags import FlagValues


def check(request: Mapping[str, Any]) -> Iterator[Mapping[str, object]]:
    """The child's part."""
    from vendor_reference.authoring.layer_check import LayerReport, check_subject

    with open_layer(request) as layer:
        report = LayerReport(layer.options.path, layer.op_name)
        for subject in layer.subjects:
            yield compiling(layer.options.path)
            report.subjects.append(check_subject(layer.options, subject))
    yield answer(report.passed, report.to_text(request["show_kernel"]), report.to_values())


def sanitize(request: Mapping[str, Any]) -> Iterator[Mapping[str, object]]:
    """The child's part with --sanitize; nothing has loaded OpenCL before it."""
    from vendor_reference.authoring.sanitizer import sanitize as run_sanitized
    from vendor_reference.authoring.sanitizer import show_faults, simulated_device

    with simulated_device() as log, open_frozen_layer(request) as layer:
        subject = layer.subjects[0]
        inputs = read_op_inputs(subject, request["input"], request["seed"])
        yield stage(
            "Oclgrind ran the kernel, a thousand times slower than a device: try smaller --inputs"
        )
        arrays = [given.value for given in inputs.values()]
        findings, text = run_sanitized(subject, layer.options, arrays, log)
    number = len(findings)
    head = f"Oclgrind, {subject.title}: " + (
        f"{number} finding{'s' if number > 1 else ''}" if number else "nothing to complain of"
    )
    yield answer(
        not findings,
        "\n".join([head, *(f"  {line}" for line in show_faults(findings, text))]),
        {"passed": not findings, "op": subject.title, "findings": [asdict(f) for f in findings]},
    )


_FLAGS = (
    *LAYER_FLAGS,
    Flag("show_kernel", False, "Prints all that the OpenCL compiler gets."),
    Flag(
        "sanitize",
        False,
        "Runs the layer on Oclgrind instead, which finds accesses out of bounds, races and reads of what "
        "nobody wrote.",
    ),
    *INPUT_FLAGS,
    WATCH,
    REPORT,
)


def _run(flags: FlagValues, arguments: Sequence[str]) -> int:
    path = check_asset(arguments[0])
    own = {name: flags[name].value for name in ("show_kernel", "input", "seed")}
    request = {**layer_request(flags, path), **own}
    target = f"{__name__}:{'sanitize' if flags.sanitize else 'check'}"

    def work() -> int:
        found = run_safely(target, request, path=path, timeout_s=flags.timeout_s)
        return found.show(flags.report)

    return run_watched(flags, path, work, [flags.model, *flags.input])


COMMAND = Command(
    "FILE\nReads a layer, binds it to each different op of a model (or to given shapes), builds it, and shows\n"
    "what its kernel will get. The exit status is 1 if it does not fit an op.",
    _FLAGS,
    _run,
    num_arguments=1,
)

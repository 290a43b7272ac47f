"""`litert-npu layer check`: reads, binds and builds a layer, and shows the arguments of its kernel."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from litert.core.counts import count_text
from litert.core.option import Flag
from litert.core.plain_report import PlainReport
from litert.core.progress import counting, told

from ..command import Command
from ..command_line import REPORT, FlagValues
from .layer_flags import LAYER_FLAGS, layer_request, open_layer
from .op_arrays import INPUT_FLAG_NAMES, INPUT_FLAGS, input_values
from .safe_process import answer, compiling, stage
from .watch import WATCH, run_watched

if TYPE_CHECKING:
    from vendor_reference.authoring.sanitizer import KernelFault


@dataclass(frozen=True, slots=True)
class SanitizedLayer(PlainReport):
    """The result of a layer's run on the simulator Oclgrind.

    Attributes:
      op: Name of the op, and its place in the model.
      findings: Faults of the kernel that Oclgrind found; faults of one kind are listed once.
    """

    answers = ("passed",)

    op: str
    findings: Sequence[KernelFault]

    @property
    def passed(self) -> bool:
        """Whether Oclgrind found no fault."""
        return not self.findings


def check(request: Mapping[str, Any]) -> Iterator[Mapping[str, object]]:
    """Does the work of the child process."""
    from vendor_reference.authoring.layer_check import LayerReport, check_subject

    with open_layer(request) as layer:
        report = LayerReport(layer.options.path, layer.op_name)
        for subject in told("check", layer.subjects):
            yield compiling(layer.options.path)
            report.subjects.append(check_subject(layer.options, subject, request["show_kernel"]))
    yield answer(report.passed, report.to_text(request["show_kernel"]), report.to_values())


def sanitize(request: Mapping[str, Any]) -> Iterator[Mapping[str, object]]:
    """Runs a layer on Oclgrind in the child process, for --sanitize; OpenCL must not be loaded before."""
    from vendor_reference.authoring.sanitizer import sanitize as run_sanitized
    from vendor_reference.authoring.sanitizer import show_faults, simulated_device

    with simulated_device() as log, open_layer(request, is_frozen=True) as layer:
        subject = layer.subjects[0]
        arrays = input_values(subject, request)
        with counting("simulate", 0):
            yield stage(
                "Oclgrind was running the kernel, about a thousand times slower than a device: "
                "try smaller --inputs",
            )
            findings, text = run_sanitized(subject, layer.options, arrays, log)
    found = count_text(len(findings), "finding") if findings else "no faults found"
    lines = [f"Oclgrind, {subject.title}: {found}"]
    lines += [f"  {line}" for line in show_faults(findings, text)]
    sanitized = SanitizedLayer(subject.title, findings)
    yield answer(sanitized.passed, "\n".join(lines), sanitized.to_values())


_FLAGS = (
    *LAYER_FLAGS,
    Flag(
        "show_kernel",
        False,
        "Print the whole source code that the OpenCL compiler receives, even if the kernel does not "
        "build.",
    ),
    Flag(
        "sanitize",
        False,
        "Instead of the other checks, run the layer on the simulator Oclgrind. Oclgrind finds "
        "accesses out of bounds, data races and reads of uninitialized memory.",
    ),
    *INPUT_FLAGS,
    WATCH,
    REPORT,
)


def _run(flags: FlagValues, arguments: Sequence[str]) -> int:
    request = layer_request(flags, arguments[0], "show_kernel", *INPUT_FLAG_NAMES)
    target = f"{__name__}:{'sanitize' if flags.sanitize else 'check'}"
    return run_watched(flags, target, request, [flags.model, *flags.input])


COMMAND = Command(
    "FILE\nReads a layer, and checks whether the layer fits the ops of a model, or given shapes. "
    "The command also builds the layer's kernel, and shows the kernel's arguments. Ops with "
    "equal shapes, types and options are checked only once. The exit status is 1 if the layer "
    "does not fit an op, or if its kernel does not build.",
    _FLAGS,
    _run,
    num_arguments=1,
)

"""`litert-npu layer check`: a layer read, bound and built for each op that it is for, and what came of it."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field, replace

from litert.core.errors import LiteRtError
from litert.core.plain_report import PlainReport
from litert.core.quoting import continued, name_text
from litert.core.status import Status
from vendor_reference.authoring.compiled_layer import LayerOptions, compile_layer
from vendor_reference.authoring.kernel_listing import KernelListing, list_kernel
from vendor_reference.authoring.narrow_indices import find_narrow_index_notes
from vendor_reference.authoring.subject import Subject, describe_op
from vendor_reference.executable.executable import CpuTask


@dataclass(slots=True)
class SubjectReport:
    """How a layer fits one op.

    Attributes:
      title: the op, as people read it.
      types: of its inputs and outputs, in MLIR's spelling.
      kernel: what the kernel gets; None where it does not come to that, or does not build and is not asked for.
      notes: what is legal, and may be a mistake.
      problem: why the layer does not fit; "" where it does.
    """

    title: str
    types: str
    kernel: KernelListing | None = None
    notes: list[str] = field(default_factory=list)
    problem: str = ""

    def lines(self, show_kernel: bool) -> Iterator[str]:
        """For people."""
        yield continued(f"{self.title}: {self.types}")
        if self.kernel:
            yield from (f"  {line}" for line in self.kernel.lines())
        yield from (f"  note: {continued(note)}" for note in self.notes)
        if self.kernel and show_kernel:
            yield self.kernel.text.strip("\n")
        yield f"  FAILED: {self.problem}" if self.problem else "  ok: it builds"


@dataclass(slots=True)
class LayerReport(PlainReport):
    """How a layer fits all ops that it is for.

    Attributes:
      path: of the asset.
      op_name: of the ops that it is for.
      subjects: the ops that differ, each with what came of it.
    """

    answers = ("passed",)

    path: str
    op_name: str
    subjects: list[SubjectReport] = field(default_factory=list)

    @property
    def passed(self) -> bool:
        """Whether it fits all of them."""
        return not any(subject.problem for subject in self.subjects)

    def to_text(self, show_kernel: bool = False) -> str:
        """For people."""
        number = len(self.subjects)
        ops = "1 op" if number == 1 else f"{number} different ops"
        lines = [f"{name_text(self.path)} for '{name_text(self.op_name)}', {ops}"]
        for subject in self.subjects:
            lines += subject.lines(show_kernel)
        return "\n".join(lines)


def check_subject(
    options: LayerOptions, subject: Subject, shows_unbuilt: bool = False
) -> SubjectReport:
    """Compiles a layer for an op; what does not fit is a finding.

    `shows_unbuilt` asks for what the kernel gets also where it does not build.
    """
    found = SubjectReport(subject.title, describe_op(subject.op))
    try:
        with compile_layer(subject, options) as compiled:
            found.notes = [*compiled.report.notes, *compiled.report.warnings]
            task = compiled.task
            if isinstance(task, CpuTask):
                found.notes.append(
                    f"{task.entry}, on the CPU: implementation {task.implementation}"
                )
            else:
                found.kernel = list_kernel(compiled)
                found.notes += find_narrow_index_notes(found.kernel.text)
    except LiteRtError as error:
        found.problem = str(error)
        if shows_unbuilt and error.status is Status.COMPILATION:
            found.kernel = _list_unbuilt(options, subject)
    return found


def _list_unbuilt(options: LayerOptions, subject: Subject) -> KernelListing | None:
    """What the kernel would get; None where only a build tells which kernel of the text it is."""
    unchecked = replace(options, compiler=replace(options.compiler, check_kernels=False))
    try:
        with compile_layer(subject, unchecked) as compiled:
            return list_kernel(compiled)
    except LiteRtError:
        return None

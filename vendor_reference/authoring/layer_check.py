"""`litert-npu layer check`: reads, binds and builds a layer for each of its ops, and reports the result."""

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
    """The result of checking a layer for one op.

    Attributes:
      title: Title of the op for people.
      types: Types of the op's inputs and outputs, in MLIR syntax.
      kernel: Listing of the kernel; None if the check ends before the listing is made, or if the build fails and
        `shows_unbuilt` is not set.
      notes: Notes about details that are legal, but may be mistakes.
      problem: Reason why the layer does not fit the op; "" if the layer fits the op.
    """

    title: str
    types: str
    kernel: KernelListing | None = None
    notes: list[str] = field(default_factory=list)
    problem: str = ""

    def lines(self, show_kernel: bool) -> Iterator[str]:
        """Yields the report as lines of text for people."""
        yield continued(f"{self.title}: {self.types}")
        if self.kernel:
            yield from (f"  {line}" for line in self.kernel.lines())
        yield from (f"  note: {continued(note)}" for note in self.notes)
        if self.kernel and show_kernel:
            yield self.kernel.text.strip("\n")
        yield (f"  FAILED: {self.problem}" if self.problem else "  ok: the layer builds")


@dataclass(slots=True)
class LayerReport(PlainReport):
    """The result of checking a layer for all of its ops.

    Attributes:
      path: Path of the asset.
      op_name: Name of the ops that the layer is for.
      subjects: Reports of the check, one for each op; ops with equal shapes, types and options have one report.
    """

    answers = ("passed",)

    path: str
    op_name: str
    subjects: list[SubjectReport] = field(default_factory=list)

    @property
    def passed(self) -> bool:
        """Returns whether the layer fits all of the ops."""
        return not any(subject.problem for subject in self.subjects)

    def to_text(self, show_kernel: bool = False) -> str:
        """Returns the report as text for people."""
        number = len(self.subjects)
        ops = "1 op" if number == 1 else f"{number} different ops"
        lines = [f"{name_text(self.path)} for '{name_text(self.op_name)}', {ops}"]
        for subject in self.subjects:
            lines += subject.lines(show_kernel)
        return "\n".join(lines)


def check_subject(
    options: LayerOptions, subject: Subject, shows_unbuilt: bool = False
) -> SubjectReport:
    """Checks a layer for an op by compiling it.

    If the layer does not fit the op, the result gives the reason, and no error is raised.

    If `shows_unbuilt` is set, the report contains the listing of the kernel even if the build fails.
    """
    found = SubjectReport(subject.title, describe_op(subject.op))
    try:
        with compile_layer(subject, options) as compiled:
            found.notes = [*compiled.report.notes, *compiled.report.warnings]
            task = compiled.task
            if isinstance(task, CpuTask):
                found.notes.append(
                    f"the CPU runs implementation {task.implementation} of the library's layer type '{task.entry}'"
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
    """Lists a kernel that does not build; None if only a build can determine the kernel in the text."""
    unchecked = replace(options, compiler=replace(options.compiler, check_kernels=False))
    try:
        with compile_layer(subject, unchecked) as compiled:
            return list_kernel(compiled)
    except LiteRtError:
        return None

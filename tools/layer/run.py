"""`litert-npu layer run`: runs a layer on the device, compares its outputs with a reference, and measures it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from litert.core.option import Flag
from litert.core.plain_report import PlainReport
from litert.core.progress import counting, tell
from litert.core.quoting import continued

from ..array_files import InputArray, array_text, plan_outputs, write_outputs
from ..command import Command
from ..command_line import REPORT, FlagValues
from ..comparison import Comparison, compare
from ..console import name_text
from ..reference_function import load_reference
from .layer_flags import LAYER_FLAGS, layer_request, open_layer
from .op_arrays import (
    INPUT_FLAG_NAMES,
    INPUT_FLAGS,
    VALUE_RANGE,
    all_inputs,
    output_specs,
    read_golden,
    read_op_inputs,
)
from .safe_process import answer, compiling, stage
from .watch import WATCH, run_watched

if TYPE_CHECKING:
    from litert.model.graph import Op
    from vendor_reference.authoring.layer_speed import Speed

_OWN = ("output", "golden", "reference", "tolerance", "repeat", "flops")


@dataclass(frozen=True, slots=True)
class LayerRun(PlainReport):
    """The result of a layer's run on one op.

    Attributes:
      op: Name of the op, and its place in the model.
      kernel: Name of the kernel.
      comparisons: Comparisons of outputs with expected outputs; empty if there are no expected outputs.
      problems: Sentences about faults of the kernel: it writes outside its tensors, or it does not write all parts
        of its outputs.
      notes: Sentences about code that may be a mistake, and about unusual outputs.
      speed: Speed of the kernel; null if it was not measured.
    """

    answers = ("passed",)

    op: str
    kernel: str
    comparisons: Sequence[Comparison]
    problems: Sequence[str]
    notes: Sequence[str]
    speed: Speed | None

    @property
    def passed(self) -> bool:
        """Whether the kernel has no fault, and all outputs are within the tolerance."""
        return not self.problems and all(c.passed for c in self.comparisons)

    def lines(self, inputs: Mapping[str, InputArray], outputs: Mapping[str, Any]) -> Iterator[str]:
        """Yields the lines of the text report, including lines about the inputs and outputs."""
        yield f"kernel {self.kernel}, {self.op}"
        for name, given in inputs.items():
            yield f"  in   {name_text(name)}: {array_text(given.value)}, {given.origin}"
        for name, array in outputs.items():
            yield f"  out  {name_text(name)}: {array_text(array)}, {_range_text(array)}"
        yield from (f"  {name_text(c.name)}: {c}" for c in self.comparisons)
        if not self.comparisons:
            yield (
                "  the outputs were not compared: give --reference=file.py:function or "
                "--golden=out.npy"
            )
        yield from (f"  FAILED: {problem}" for problem in self.problems)
        yield from (f"  note: {note}" for note in self.notes)
        if self.speed:
            yield from (f"  {line}" for line in self.speed.lines())


def run(request: Mapping[str, Any]) -> Iterator[Mapping[str, object]]:
    """Runs a layer in the child process, and yields its result."""
    from litert.core.formula import Formula
    from vendor_reference.authoring.compiled_layer import compile_layer
    from vendor_reference.authoring.layer_run import run_on_device
    from vendor_reference.authoring.layer_speed import measure_speed

    flops = Formula(request["flops"]) if request["flops"] else None
    with open_layer(request, is_frozen=True) as layer:
        subject = layer.subjects[0]
        tell("compute the reference", 0, 0)
        yield stage("the command was reading the inputs and computing the reference")
        inputs = read_op_inputs(subject, request)
        expected = _expected(subject.op, inputs, request)
        plan = plan_outputs(request["output"], output_specs(subject.op))
        yield compiling(layer.options.path)
        with compile_layer(subject, layer.options) as compiled:
            yield stage("the command was opening the device")
            with run_on_device(compiled) as running:
                running.set_inputs([i.value for i in inputs.values()])
                with counting("run", 0):
                    yield stage(f"kernel '{running.entry}' was running", running.crash_cause())
                    arrays, problems = running.run()
                outputs = _by_name(subject.op, arrays)
                sources = [request["path"], request["model"], *request["input"]]
                write_outputs(plan, outputs, VALUE_RANGE, sources)
                comparisons = compare(outputs, expected, request["tolerance"])
                speed = None
                if request["repeat"]:
                    with counting("measure", 0):
                        yield stage(f"the command was measuring kernel '{running.entry}'")
                        speed = measure_speed(running, request["repeat"], flops)
        others = len(layer.subjects) - 1
    notes = [*compiled.report.notes, *compiled.report.warnings, *_unusual_numbers(outputs)]
    if others:
        place = layer.subjects[1].place
        notes.append(
            f"the layer also implements {others} different ops of the model: --op={place} runs the "
            "next of these ops",
        )
    found = LayerRun(subject.title, running.entry, comparisons, problems, notes, speed)
    yield answer(
        found.passed, "\n".join(map(continued, found.lines(inputs, outputs))), found.to_values()
    )


def _expected(
    op: Op, inputs: Mapping[str, InputArray], request: Mapping[str, Any]
) -> dict[str, Any]:
    """Returns the expected outputs by name, from the reference function and the files of --golden."""
    expected = read_golden(op, request["golden"])
    if request["reference"]:
        reference = load_reference(request["reference"])
        expected |= _by_name(op, reference(op, all_inputs(op, inputs)))
    return expected


def _by_name(op: Op, outputs: Sequence[Any]) -> dict[str, Any]:
    return {spec.name: array for spec, array in zip(output_specs(op), outputs, strict=True)}


def _range_text(array: Any) -> str:
    import numpy as np

    array = array[np.isfinite(array)] if array.dtype.kind == "f" else array
    if not array.size or array.dtype.kind not in "biuf":
        return "no finite elements"
    mean = float(array.mean(dtype=np.float64))
    return f"{float(array.min()):.6g} to {float(array.max()):.6g}, mean {mean:.6g}"


def _unusual_numbers(outputs: Mapping[str, Any]) -> Iterator[str]:
    """Yields notes about outputs with NaN or infinite elements."""
    import numpy as np

    for name, array in outputs.items():
        if array.dtype.kind == "f" and not (finite := np.isfinite(array)).all():
            nan = int(np.isnan(array).sum())
            infinite = int(array.size - finite.sum()) - nan
            first = [int(i) for i in np.unravel_index(int(np.argmin(finite)), array.shape)]
            yield (
                f"output '{name_text(name)}' contains {nan} NaN and {infinite} infinite among {array.size} "
                f"elements, the first at index {first}"
            )


_FLAGS = (
    *LAYER_FLAGS,
    *INPUT_FLAGS,
    WATCH,
    Flag(
        "reference",
        "",
        "A Python function that computes the expected outputs, as file.py:function. The function "
        "receives a list of all inputs (constants too) and the op's options (a dictionary, or "
        "the bytes of a C struct), and returns the outputs. An optional parameter 'quantization' "
        "receives the tensors' scales and zero points.",
    ),
    Flag(
        "golden",
        (),
        "A .npy or .npz file with an expected output, as [output=]file. The flag may be repeated.",
        is_repeated=True,
    ),
    Flag(
        "tolerance",
        0.0001,
        "Maximum difference between an output and the expected output.",
        least=0,
    ),
    Flag(
        "output",
        (),
        "A .npy or .npz file to write an output to, as [output=]file. The flag may be repeated.",
        is_repeated=True,
    ),
    Flag("repeat", 20, "Number of measured runs; 0 for no measurement.", least=0),
    Flag(
        "flops",
        "",
        "Number of floating-point operations of one run, as a formula such as 2*B*F*Y*X. In the "
        "formula, B, F, Y and X are the batch, channels, height and width of output 0.",
    ),
    REPORT,
)


def _run(flags: FlagValues, arguments: Sequence[str]) -> int:
    request = layer_request(flags, arguments[0], *INPUT_FLAG_NAMES, *_OWN)
    files = [flags.model, flags.reference.rpartition(":")[0], *flags.input, *flags.golden]
    return run_watched(flags, f"{__name__}:run", request, files)


COMMAND = Command(
    "FILE\nRuns a layer for one op on the device. The command compares the outputs with a "
    "reference function or with golden (expected) arrays, and the kernel's speed with the "
    "maximum speed of the device. The exit status is 1 if an output differs by more than the "
    "tolerance, or if the kernel has another fault, such as a write past its tensors or an "
    "unwritten part of an output.",
    _FLAGS,
    _run,
    num_arguments=1,
)

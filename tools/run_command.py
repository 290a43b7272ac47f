"""`litert-npu run`: runs a model on inputs from files, or on random inputs."""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field

from litert.core.errors import LiteRtError
from litert.core.option import Flag
from litert.core.progress import tell
from litert.core.status import Status

from .array_files import (
    INPUT,
    InputArray,
    TensorSpec,
    array_text,
    complete_inputs,
    find_arrays,
    plan_outputs,
    read_inputs,
    write_outputs,
)
from .command import Command
from .command_line import REPORT, SEED, FlagValues, split_arguments, usage_error
from .comparison import Comparison, compare
from .console import PrintedReport, name_text, native_output_to_stderr
from .destinations import writes
from .input_ranges import INPUT_RANGE, model_ranges
from .load_flags import LOAD_FLAGS, LoadChoice, read_load_flags
from .pictures import Array, Range
from .progress_bar import ProgressBar
from .strangers import open_guarded
from .trace_file import TRACE, traced


@dataclass(frozen=True, slots=True)
class RunOptions:
    """The model to run, its input files, and the files for its outputs.

    Attributes:
      inputs: Input files, as `[input=]file`, for `read_inputs`; other inputs come from the golden file, or are
        random.
      outputs: Output files, as `[output=]file`, for `plan_outputs`.
      golden: Path of a .npz file with expected outputs (by name or `out0`), and optionally inputs (`in0`); ""
        for no comparison.
      tolerance: Maximum difference between an output and its golden output.
      value_range: Numbers in tensors that stand for black and for white when pictures are read or written.
      ranges: Ranges of random inputs, as `input:LOW:HIGH`, for `read_ranges`.
      timeout_s: Time limit in seconds for a run in a separate process.
    """

    load: LoadChoice = field(default_factory=LoadChoice)
    inputs: Sequence[str] = ()
    outputs: Sequence[str] = ()
    golden: str = ""
    tolerance: float = 1e-4
    seed: int = 0
    value_range: Range = (0.0, 1.0)
    ranges: Sequence[str] = ()
    timeout_s: float = 600.0


@dataclass(frozen=True, slots=True)
class InputReport:
    """An input of the run, and the origin of its value.

    Attributes:
      name: Name of the input in the signature.
      type: shape and element type.
      origin: File that contains the input's value, or a description of how the value was made.
    """

    name: str
    type: str
    origin: str


@dataclass(frozen=True, slots=True)
class OutputReport:
    """Statistics of an output; the statistics are NaN if all elements of the output are NaN.

    Attributes:
      name: Name of the output in the signature.
      type: shape and element type.
      min, max, mean: Minimum, maximum and mean of the output's elements.
    """

    name: str
    type: str
    min: float
    max: float
    mean: float


@dataclass(frozen=True, slots=True)
class RunReport(PrintedReport):
    """The report of `litert-npu run` about one run of a model.

    Attributes:
      path: Path of the model.
      signature: Key of the signature that ran.
      load_s: Duration of the load, in seconds.
      run_s: Duration of the run, in seconds.
      inputs: Inputs of the run, in the signature's order.
      outputs: Outputs of the run, in the signature's order.
      written: Paths of the files to which outputs were written.
      comparisons: Comparisons of outputs with golden outputs; empty without `--golden`.
    """

    answers = ("passed",)

    path: str
    signature: str
    load_s: float
    run_s: float
    inputs: Sequence[InputReport]
    outputs: Sequence[OutputReport]
    written: Sequence[str]
    comparisons: Sequence[Comparison]

    @property
    def passed(self) -> bool:
        """Whether all comparisons passed; True if there are no comparisons."""
        return all(comparison.passed for comparison in self.comparisons)

    def lines(self) -> Iterator[str]:
        yield f"Loaded {self.path} in {self.load_s:.2f} s; ran in {self.run_s * 1e3:.2f} ms"
        yield from (f"  in   {name_text(i.name)}: {i.type}, {i.origin}" for i in self.inputs)
        for output in self.outputs:
            numbers = f"{output.min:.6g} to {output.max:.6g}, mean {output.mean:.6g}"
            yield f"  out  {name_text(output.name)}: {output.type}, {numbers}"
        yield from (f"Golden {name_text(c.name)}: {c}" for c in self.comparisons)
        yield from (f"Wrote {path}" for path in self.written)


def run_model(path: str, options: RunOptions | None = None) -> RunReport:
    """Runs a model once, writes the outputs, and then compares them."""
    options = options or RunOptions()
    tell("load", 0, 0)
    start = time.perf_counter()
    with (
        open_guarded(path, options.load, options.timeout_s) as (model, signature),
        ExitStack() as stack,
    ):
        load_s = time.perf_counter() - start
        specs = TensorSpec.all_of(model.get_input_tensor_details(signature))
        output_specs = TensorSpec.all_of(model.get_output_tensor_details(signature))
        plan = plan_outputs(options.outputs, output_specs)
        stack.enter_context(writes(written for written, _ in plan))
        golden = _golden_outputs(options.golden, output_specs)
        inputs = _inputs(path, signature, specs, options)
        tell("run", 0, 0)
        start = time.perf_counter()
        outputs = model.run({name: given.value for name, given in inputs.items()}, signature)
        run_s = time.perf_counter() - start
        sources = [path, options.golden, *options.inputs]
        write_outputs(plan, outputs, options.value_range, sources)
    return RunReport(
        path,
        signature,
        load_s,
        run_s,
        [InputReport(name, array_text(i.value), i.origin) for name, i in inputs.items()],
        [_output_report(name, array) for name, array in outputs.items()],
        [written for written, _ in plan],
        compare(outputs, golden, options.tolerance),
    )


def _inputs(
    path: str, signature: str, specs: Sequence[TensorSpec], options: RunOptions
) -> dict[str, InputArray]:
    given = read_inputs(options.inputs, specs, options.value_range)
    if options.golden:
        of_golden = find_arrays(options.golden, specs, "in")
        origins = {name: InputArray(value, options.golden) for name, value in of_golden.items()}
        given = origins | given
    ranges = model_ranges(options.ranges, specs, given, [path], signature)
    return complete_inputs(given, specs, options.seed, ranges)


def _golden_outputs(path: str, specs: Sequence[TensorSpec]) -> dict[str, Array]:
    if not path:
        return {}
    golden = find_arrays(path, specs, "out")
    if not golden:
        names = ", ".join(spec.name for spec in specs)
        raise LiteRtError(
            Status.NOT_FOUND,
            "no array in the file has the name of an output"
            if specs
            else "the model has no outputs",
            path,
            f"Name the arrays out0, out1, ..., or name them after the outputs: {names}."
            if specs
            else "Omit --golden.",
        )
    return golden


def _output_report(name: str, array: Array) -> OutputReport:
    import numpy as np

    if not array.size or array.dtype.kind not in "biuf":
        return OutputReport(name, array_text(array), np.nan, np.nan, np.nan)
    numbers = array.astype(np.float64)
    return OutputReport(
        name,
        array_text(array),
        float(np.min(numbers)),
        float(np.max(numbers)),
        float(np.mean(numbers)),
    )


_FLAGS = (
    INPUT,
    Flag(
        "output",
        (),
        "File for an output, as [output=]file: a .npy or .png file for one output, or a .npz "
        "file for all outputs. May be repeated.",
        is_repeated=True,
    ),
    Flag(
        "golden",
        "",
        "A .npz file with the expected outputs. The arrays have the names of the outputs, or "
        "the names out0, out1, and so on. If the file also has inputs (in0), the model runs on "
        "these inputs.",
    ),
    Flag(
        "tolerance", 0.0001, "Maximum difference between an output and its golden output.", least=0
    ),
    INPUT_RANGE,
    SEED,
    Flag(
        "picture_range",
        ("0", "1"),
        "Numbers that stand for black and for white in the model's input or output pictures, as "
        "LOW,HIGH.",
    ),
    *LOAD_FLAGS,
    Flag(
        "run_timeout",
        600.0,
        "Time limit of the run, including ops on the CPU, in seconds. The time limit applies "
        "only to files that you have not compiled on this machine.",
        least=0.001,
        is_duration=True,
    ),
    TRACE,
    REPORT,
)


def _run(flags: FlagValues, arguments: Sequence[str]) -> int:
    (path,), unknown = split_arguments(arguments)
    options = RunOptions(
        read_load_flags(flags, unknown),
        flags.input,
        flags.output,
        flags.golden,
        flags.tolerance,
        flags.seed,
        _range(flags.picture_range),
        flags.input_range,
        flags.run_timeout,
    )
    others = [path, options.golden, *options.inputs, *options.outputs]
    with (
        native_output_to_stderr(flags.report == "json"),
        ProgressBar(),
        traced(flags.trace, others),
    ):
        report = run_model(path, options)
    report.show(flags.report)
    return 0 if report.passed else 1


def _range(texts: Sequence[str]) -> Range:
    try:
        low, high = map(float, texts)
    except ValueError:
        low = high = 0.0
    if not low < high:
        raise usage_error(
            f"--picture_range is '{','.join(texts)}', but must be two numbers, the smaller number first",
            "Write --picture_range=-1,1, for example.",
        )
    return low, high


COMMAND = Command(
    "FILE\nRuns a model once, and shows statistics of its outputs. If FILE is not compiled, the "
    "command first compiles FILE; flags for compilation, such as --npu_custom_op_info, and flags "
    "of the vendor apply to this compilation. A file that you have not compiled on this machine "
    "runs in a sandboxed process; --sandbox=off turns the sandbox off. With --golden, the exit "
    "status is 1 if an output differs from the golden output by more than the tolerance.",
    _FLAGS,
    _run,
    num_arguments=1,
    takes_vendor_options=True,
)

"""`litert-npu run`: a model on inputs from files, or on random ones."""

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
    """What is run, on what, and where the results go.

    Attributes:
      inputs: `[input=]file`, as `read_inputs` has it; other inputs come from the golden file, or are random.
      outputs: `[output=]file`, as `plan_outputs` has it.
      golden: a .npz with outputs (by name or `out0`), and possibly inputs (`in0`); "" for none.
      tolerance: the greatest difference from golden outputs that passes.
      value_range: what black and white are in pictures.
      ranges: `input:LOW:HIGH` of random inputs, as `read_ranges` has it.
      timeout_s: of the run of a file that runs in a process of its own.
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
    """An input, and where its value came from.

    Attributes:
      name: of the input in the signature.
      type: shape and element type.
      origin: the file, or how the value was made.
    """

    name: str
    type: str
    origin: str


@dataclass(frozen=True, slots=True)
class OutputReport:
    """An output in numbers; not a number where it holds none.

    Attributes:
      name: of the output in the signature.
      type: shape and element type.
      min, max, mean: over all elements.
    """

    name: str
    type: str
    min: float
    max: float
    mean: float


@dataclass(frozen=True, slots=True)
class RunReport(PrintedReport):
    """What a run came to.

    Attributes:
      path: of the model.
      signature: which one ran.
      load_s: seconds that loading took.
      run_s: seconds that the run took.
      inputs: in the signature's order.
      outputs: in the signature's order.
      written: paths of the files that outputs were written to.
      comparisons: of outputs with golden ones; empty without `--golden`.
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
        """Whether all comparisons did; True without one."""
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
    """Runs a model once; outputs are written before they are compared."""
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
            "no golden output in it",
            path,
            f"Name the arrays out0, out1, ..., or {names}.",
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
        "[output=]file: a .npy, .npz or .png to write an output to; a .npz takes all of them. May be "
        "repeated.",
        is_repeated=True,
    ),
    Flag(
        "golden",
        "",
        "A .npz with outputs to compare with, by name or as out0; inputs in it (in0) are used.",
    ),
    Flag(
        "tolerance", 0.0001, "The greatest difference from the golden outputs that passes.", least=0
    ),
    INPUT_RANGE,
    SEED,
    Flag(
        "picture_range", ("0", "1"), "The real numbers that stand for black and white in pictures."
    ),
    *LOAD_FLAGS,
    Flag(
        "run_timeout",
        600.0,
        "Seconds for the run of a file that you have not compiled, ops of the CPU included.",
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
        raise usage_error(f"--picture_range={','.join(texts)}", "Write it as -1,1.")
    return low, high


COMMAND = Command(
    "FILE\nRuns a model once, and shows its outputs in numbers. With flags of apply_plugin, also a vendor's own,\n"
    "one that is not compiled is compiled when it is loaded.\n"
    "A compiled file that you have not compiled here runs in a sandboxed process; --sandbox=off trusts it.\n"
    "With --golden, the exit status is 1 if an output differs by more than the tolerance.",
    _FLAGS,
    _run,
    num_arguments=1,
    takes_vendor_options=True,
)

"""`litert-npu benchmark`: measures a model and its NPU calls, and compares the times with stock LiteRT's."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from litert.core.counts import count_text
from litert.core.errors import LiteRtError
from litert.core.option import Flag
from litert.core.progress import tell, told
from litert.core.tracing import is_recording, paused
from litert.core.version import SDK_VERSION
from litert.model.dispatch_op import is_dispatch_op
from litert.model.expected_time import ExpectedTime, read_expected_times
from litert.model.reader import read_model

from .array_files import INPUT, TensorSpec, complete_inputs, read_inputs
from .command import Command
from .command_line import REPORT, SEED, FlagValues, split_arguments
from .comparison import compare, match_outputs
from .console import PrintedReport, name_text, native_output_to_stderr
from .input_ranges import INPUT_RANGE, model_ranges
from .load_flags import LOAD_FLAGS, LoadChoice, open_model, read_load_flags
from .model_runs import WARM_UP, SignatureRuns, Timing, machine_text, measure_s
from .progress_bar import ProgressBar
from .stock_model import StockModel
from .strangers import tell_inline
from .trace_file import TRACE, traced

_TRACED_RUNS = 10
_MOST_PARTS = 10
_PART_TIME = ", mean_us"
"""End of the name of a metric that is the mean time of a part of an NPU call, such as a task."""


@dataclass(frozen=True, slots=True)
class BenchmarkOptions:
    """The model to measure, its inputs, and the number of runs.

    Attributes:
      inputs: Input files, as `[input=]file`; inputs without a file are random.
      stock_model: Path of the model that stock LiteRT runs for comparison; "" for the measured file itself, if the
        file has no NPU calls.
      warm_up, runs: Number of runs before the measurement, and number of measured runs.
      ranges: Ranges of random inputs, as `input:LOW:HIGH`, for `read_ranges`.
    """

    load: LoadChoice = field(default_factory=LoadChoice)
    inputs: Sequence[str] = ()
    stock_model: str = ""
    warm_up: int = 10
    runs: int = 100
    seed: int = 0
    ranges: Sequence[str] = ()


@dataclass(frozen=True, slots=True)
class CallTiming:
    """The measurements of one NPU call.

    Attributes:
      name: Name of the byte code function that the call runs.
      runs_per_run: Number of times that the call runs in one run of the model.
      timing: Times of single runs of the call.
      vendor: Measurements of the vendor's driver, by name.
      expected: Time that the vendor's compiler predicted for the call; null if the file contains no prediction.
    """

    name: str
    runs_per_run: float
    timing: Timing
    vendor: Mapping[str, bool | int | float | str]
    expected: ExpectedTime | None = None


@dataclass(frozen=True, slots=True)
class BenchmarkReport(PrintedReport):
    """The measurements of a model.

    Attributes:
      path: Path of the model.
      signature: Key of the signature that ran.
      threads: number of CPU threads.
      machine: Processor, operating system and Python version.
      sdk_version: Version of this project.
      load_s: Duration of the load, in seconds.
      first_s: Duration of the first run, in seconds. The first run may build kernels and pack weights.
      model: Times of the model's runs in this runtime.
      measured: Times of the model's runs in which the NPU calls were measured. Measuring slows down a run, so
        these runs are not the runs of `model`.
      calls: Measurements of each NPU call in the runs of `measured`.
      stock: Times of stock LiteRT's runs; null if stock LiteRT did not run.
      stock_problem: Reason why stock LiteRT did not run.
      greatest_difference: Greatest difference between an element of any output and the same element in stock
        LiteRT; null if stock LiteRT did not run.
      warnings: Warnings about the comparison of outputs with stock LiteRT's outputs.
    """

    answers = ("ratio", "is_ratio_noise")

    path: str
    signature: str
    threads: int
    machine: str
    sdk_version: str
    load_s: float
    first_s: float
    model: Timing
    measured: Timing
    calls: Sequence[CallTiming]
    stock: Timing | None
    stock_problem: str
    greatest_difference: float | None
    warnings: Sequence[str] = ()

    @property
    def ratio(self) -> float | None:
        """Ratio of this runtime's median time to stock LiteRT's median time; None if stock LiteRT did not run."""
        return self.model.p50_s / self.stock.p50_s if self.stock else None

    @property
    def is_ratio_noise(self) -> bool:
        """Whether the two median times differ by less than the larger of the two standard deviations."""
        if not self.stock:
            return False
        between = abs(self.model.p50_s - self.stock.p50_s)
        return max(self.model.deviation_s, self.stock.deviation_s) > between

    def lines(self) -> Iterator[str]:
        threads = count_text(self.threads, "CPU thread")
        yield f"{self.path}: {count_text(self.model.runs, 'run')} on {threads}, {self.machine}"
        yield f"  loaded in {self.load_s:.3f} s, first run {self.first_s * 1e3:.3f} ms"
        yield f"  here   {self.model}"
        if self.stock:
            yield f"  stock  {self.stock}"
            yield (
                f"  ratio  {self.ratio:.2f} of stock's median; "
                f"greatest difference of outputs {self.greatest_difference:.3g}"
            )
            if self.is_ratio_noise:
                yield (
                    "  the ratio is not reliable: the times of single runs vary by more than "
                    "the medians differ. Stop other programs on the machine, or increase --runs"
                )
            yield from (f"  warning: {warning}" for warning in self.warnings)
        else:
            yield f"  stock  not measured: {self.stock_problem}"
        if self.calls:
            runs = count_text(self.measured.runs, "further run")
            yield f"NPU calls, measured in {runs}, since measuring slows down a run:"
            yield f"  whole run: {self.measured}"
        for call in self.calls:
            yield f"  {name_text(call.name)}, {call.runs_per_run:g} per run: {call.timing}"
            if call.expected:
                yield f"    expected: {call.expected}"
            yield from _vendor_lines(call.vendor)


def _vendor_lines(vendor: Mapping[str, bool | int | float | str]) -> Iterator[str]:
    """Yields a line for each metric of a vendor's driver, but only for the longest times of parts of the call."""
    times = {
        name: value
        for name, value in vendor.items()
        if name.endswith(_PART_TIME) and isinstance(value, int | float)
    }
    left = set(sorted(times, key=lambda name: -times[name])[_MOST_PARTS:])
    for name, value in vendor.items():
        if name not in left:
            yield f"    {name}: {f'{value:.6g}' if isinstance(value, float) else value}"
    if left:
        total_us = sum(times[name] for name in left)
        parts = count_text(len(left), "more part")
        yield f"    {parts}, together {total_us:.6g} us: litert-npu profile shows all parts"


def benchmark_model(
    path: str,
    options: BenchmarkOptions | None = None,
) -> BenchmarkReport:
    """Measures a model.

    Runs of the model alternate with runs of stock LiteRT, so that both are measured under the same machine load.
    """
    options = options or BenchmarkOptions()
    tell("load", 0, 0)
    start = time.perf_counter()
    with open_model(path, options.load) as (model, signature):
        load_s = time.perf_counter() - start
        specs = TensorSpec.all_of(model.get_input_tensor_details(signature))
        given = read_inputs(options.inputs, specs, (0.0, 1.0))
        models = filter(None, (path, options.stock_model))
        ranges = model_ranges(options.ranges, specs, given, models, signature)
        inputs = complete_inputs(given, specs, options.seed, ranges)
        ours = SignatureRuns(model, signature, inputs)
        tell("first run", 0, 0)
        first_s = measure_s(ours.run)
        stock, problem = _open_stock(path, options, signature, ours)
        difference, warnings = _compare_outputs(ours, stock) if stock else (None, ())
        times: dict[Callable[[], None], list[float]] = {ours.run: []}
        if stock:
            times[stock.run] = []
        with paused():
            for index in told("measure", range(options.warm_up + options.runs)):
                for run, run_s in times.items():
                    seconds = measure_s(run)
                    if index >= options.warm_up:
                        run_s.append(seconds)
            num_measured = max(1, options.runs // 2)
            measured, calls = _measure_calls(ours, num_measured, _read_expected_times(path))
        for _ in range(_TRACED_RUNS if is_recording() else 0):
            ours.run()
        return BenchmarkReport(
            path,
            signature,
            options.load.options.cpu_options.num_threads,
            machine_text(),
            SDK_VERSION,
            load_s,
            first_s,
            Timing.of(times[ours.run]),
            measured,
            calls,
            Timing.of(times[stock.run]) if stock else None,
            problem,
            difference,
            warnings,
        )


def _read_expected_times(path: str) -> Mapping[str, ExpectedTime]:
    """Returns the predicted times of the calls in a file, by call name.

    Names that several calls share are omitted.
    """
    with read_model(path) as model:
        times = read_expected_times(model, path)
    counts = Counter(time.call for time in times)
    return {time.call: time.time for time in times if counts[time.call] == 1}


def _measure_calls(
    ours: SignatureRuns, runs: int, expected: Mapping[str, ExpectedTime]
) -> tuple[Timing, list[CallTiming]]:
    """Measures a number of runs, and each NPU call in these runs."""
    ours.model.start_metrics_collection()
    try:
        run_s = [measure_s(ours.run) for _ in told("measure calls", range(runs))]
    finally:
        metrics = ours.model.stop_metrics_collection()
    return Timing.of(run_s), [
        CallTiming(
            call.name,
            len(call.times_s) / runs,
            Timing.of(call.times_s),
            {metric.name: metric.value for metric in call.vendor},
            expected.get(call.name),
        )
        for call in metrics.calls
        if call.times_s
    ]


def _compare_outputs(ours: SignatureRuns, stock: StockModel) -> tuple[float, Sequence[str]]:
    """Runs both models once more.

    Returns the greatest difference of both models' outputs, and warnings about the comparison.
    """
    stock.run()
    arrays, others = ours.outputs(), stock.outputs()
    pairs = match_outputs(arrays, others)
    compared = compare(arrays, {name: others[other] for name, other in pairs.items()}, 0.0)
    moved = [f"'{name}' with '{other}'" for name, other in pairs.items() if name != other]
    warnings = [f"output '{c.name}': {c.problem}" for c in compared if c.problem]
    if moved:
        warnings.append(
            "outputs are compared by position, since the model for stock LiteRT has no outputs "
            "with these names: " + ", ".join(moved)
        )
    return max((c.greatest_difference for c in compared), default=0.0), warnings


def _open_stock(
    path: str, options: BenchmarkOptions, signature: str, ours: SignatureRuns
) -> tuple[StockModel | None, str]:
    """Loads the model in stock LiteRT; returns the model, or the reason why stock LiteRT cannot run it."""
    if not options.stock_model:
        with read_model(path) as model:
            if any(map(is_dispatch_op, model.ops())):
                return None, (
                    "stock LiteRT cannot run NPU calls. If stock LiteRT has all ops of the model from which "
                    "the file was compiled, give this model with --stock_model"
                )
    try:
        stock_path = options.stock_model or path
        return StockModel(
            stock_path, signature, ours.inputs, options.load.options.cpu_options.num_threads
        ), ""
    except LiteRtError as error:
        if options.stock_model:
            hint = f"Omit --stock_model to measure {path} without a comparison."
            raise LiteRtError(error.status, error.what, error.where, error.hint or hint) from error
        return None, str(error)


_FLAGS = (
    WARM_UP,
    Flag(
        "runs",
        100,
        "Number of runs in which the time of the whole model is measured. The time of each NPU "
        "call is then measured in half as many further runs.",
        least=1,
    ),
    Flag(
        "stock_model",
        "",
        "The model that stock LiteRT runs on the CPU for comparison: usually the model from "
        "which FILE was compiled. The default is FILE itself. If FILE has NPU calls, there is no "
        "default, because stock LiteRT cannot run NPU calls.",
    ),
    INPUT,
    INPUT_RANGE,
    SEED,
    *LOAD_FLAGS,
    TRACE._replace(
        help=(
            f"{TRACE.help} The time line shows the load, the first run, and {_TRACED_RUNS} more runs "
            "after the measured runs."
        )
    ),
    REPORT,
)


def _run(flags: FlagValues, arguments: Sequence[str]) -> int:
    (path,), unknown = split_arguments(arguments)
    options = BenchmarkOptions(
        read_load_flags(flags, unknown),
        flags.input,
        flags.stock_model,
        flags.warm_up,
        flags.runs,
        flags.seed,
        flags.input_range,
    )
    others = [path, options.stock_model, *options.inputs]
    with (
        native_output_to_stderr(flags.report == "json"),
        ProgressBar(),
        traced(flags.trace, others),
    ):
        tell_inline(path, options.load.options)
        report = benchmark_model(path, options)
    report.show(flags.report)
    return 0


COMMAND = Command(
    "FILE\nMeasures the time of a model's run and of each NPU call in the run, and compares the "
    "model's time with the time of stock LiteRT on the CPU. If FILE is not compiled, the command "
    "first compiles FILE; flags for compilation, such as --npu_custom_op_info, and flags of the "
    "vendor apply to this compilation. Without --isolate, kernels run in this process with your "
    "privileges, no matter who compiled the file.",
    _FLAGS,
    _run,
    num_arguments=1,
    takes_vendor_options=True,
)

"""`litert-npu benchmark`: how long a model takes, call by call, beside stock LiteRT on the CPU."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field

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
from .console import PrintedReport, count_text, name_text, native_output_to_stderr
from .input_ranges import INPUT_RANGE, model_ranges
from .load_flags import LOAD_FLAGS, LoadChoice, open_model, read_load_flags
from .model_runs import WARM_UP, SignatureRuns, Timing, machine_text, measure_s
from .progress_bar import ProgressBar
from .stock_model import StockModel
from .strangers import tell_inline
from .trace_file import TRACE, traced

_TRACED_RUNS = 10


@dataclass(frozen=True, slots=True)
class BenchmarkOptions:
    """What is measured.

    Attributes:
      inputs: `[input=]file`; others are random.
      stock_model: what stock runs beside it; "" for the same file, where that has no NPU calls.
      warm_up, runs: how often it runs before, and while it is measured.
      ranges: `input:LOW:HIGH` of random inputs, as `read_ranges` has it.
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
    """One NPU call, as the runtime's metrics have it.

    Attributes:
      name: of the function in its byte code.
      runs_per_run: how often it ran in a run of the model.
      timing: of single runs of the call.
      vendor: the vendor's own measurements, by name.
      expected: what the vendor's compiler expected of a run of the call; null where the file does not say it.
    """

    name: str
    runs_per_run: float
    timing: Timing
    vendor: Mapping[str, bool | int | float | str]
    expected: ExpectedTime | None = None


@dataclass(frozen=True, slots=True)
class BenchmarkReport(PrintedReport):
    """What was measured.

    Attributes:
      path: of the model.
      signature: which one ran.
      threads: number of CPU threads.
      machine: processor, system and Python.
      sdk_version: of this project.
      load_s: seconds that loading took.
      first_s: seconds of the first run, which may build and pack what others find made.
      model: runs of the model here.
      calls: the NPU calls, in runs that were measured apart, since measuring them costs time.
      stock: runs of stock LiteRT in between; null where there are none.
      stock_problem: why there are no runs of stock LiteRT.
      greatest_difference: of all outputs from those of stock LiteRT; null without it.
      warnings: about the comparison of outputs with stock's.
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
    calls: Sequence[CallTiming]
    stock: Timing | None
    stock_problem: str
    greatest_difference: float | None
    warnings: Sequence[str] = ()

    @property
    def ratio(self) -> float | None:
        """This runtime's median over stock's; None without stock."""
        return self.model.p50_s / self.stock.p50_s if self.stock else None

    @property
    def is_ratio_noise(self) -> bool:
        """Whether single runs of one side vary by more than the two medians differ."""
        if not self.stock:
            return False
        between = abs(self.model.p50_s - self.stock.p50_s)
        return max(self.model.deviation_s, self.stock.deviation_s) > between

    def lines(self) -> Iterator[str]:
        threads = count_text(self.threads, "CPU thread")
        yield f"{self.path}: {count_text(self.model.runs, 'run')} on {threads}, {self.machine}"
        yield f"  loaded in {self.load_s:.3f} s, first run {self.first_s * 1e3:.3f} ms"
        yield f"  here   {self.model}"
        for call in self.calls:
            yield f"  NPU call {name_text(call.name)}, {call.runs_per_run:g} a run: {call.timing}"
            if call.expected:
                yield f"    expected: {call.expected}"
            for name, value in call.vendor.items():
                yield f"    {name}: {f'{value:.6g}' if isinstance(value, float) else value}"
        if self.stock:
            yield f"  stock  {self.stock}"
            yield (
                f"  ratio  {self.ratio:.2f} of stock's median; "
                f"greatest difference of outputs {self.greatest_difference:.3g}"
            )
            if self.is_ratio_noise:
                yield (
                    "  noise hides the ratio: single runs vary by more than the medians differ; "
                    "try a quiet machine, or more --runs"
                )
            yield from (f"  warning: {warning}" for warning in self.warnings)
        else:
            yield f"  stock  not measured: {self.stock_problem}"


def benchmark_model(
    path: str,
    options: BenchmarkOptions | None = None,
) -> BenchmarkReport:
    """Measures a model; the runs of stock are between its own, so that both meet the same machine."""
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
        first_s = measure_s(ours.run)
        stock, problem = _open_stock(path, options, signature, ours)
        difference, warnings = _compare_outputs(ours, stock) if stock else (None, ())
        times: dict[Callable[[], None], list[float]] = {ours.run: []}
        if stock:
            times[stock.run] = []
        with paused():
            for index in told("measure", range(options.warm_up + options.runs)):
                for run, measured in times.items():
                    seconds = measure_s(run)
                    if index >= options.warm_up:
                        measured.append(seconds)
            calls = _measure_calls(ours, max(1, options.runs // 2), _read_expected_times(path))
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
            calls,
            Timing.of(times[stock.run]) if stock else None,
            problem,
            difference,
            warnings,
        )


def _read_expected_times(path: str) -> Mapping[str, ExpectedTime]:
    """What a file says that its calls may take, by name; nothing of a name that several calls have."""
    with read_model(path) as model:
        times = read_expected_times(model, path)
    counts = Counter(time.call for time in times)
    return {time.call: time.time for time in times if counts[time.call] == 1}


def _measure_calls(
    ours: SignatureRuns, runs: int, expected: Mapping[str, ExpectedTime]
) -> list[CallTiming]:
    """Measures each NPU call in so many runs."""
    ours.model.start_metrics_collection()
    try:
        for _ in told("measure calls", range(runs)):
            ours.run()
    finally:
        metrics = ours.model.stop_metrics_collection()
    return [
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
    """Runs each once more: the greatest difference of the outputs, and what is to be said of the comparison."""
    stock.run()
    arrays, others = ours.outputs(), stock.outputs()
    pairs = match_outputs(arrays, others)
    compared = compare(arrays, {name: others[other] for name, other in pairs.items()}, 0.0)
    moved = [f"'{name}' with '{other}'" for name, other in pairs.items() if name != other]
    warnings = [f"output '{c.name}': {c.problem}" for c in compared if c.problem]
    if moved:
        warnings.append(
            "outputs are compared by position, since stock's model has no such names: "
            + ", ".join(moved)
        )
    return max((c.greatest_difference for c in compared), default=0.0), warnings


def _open_stock(
    path: str, options: BenchmarkOptions, signature: str, ours: SignatureRuns
) -> tuple[StockModel | None, str]:
    """Stock's model, or why there is none."""
    if not options.stock_model:
        with read_model(path) as model:
            if any(map(is_dispatch_op, model.ops())):
                return None, "it cannot run NPU calls; name the original with --stock_model"
    try:
        stock_path = options.stock_model or path
        return StockModel(
            stock_path, signature, ours.inputs, options.load.options.cpu_options.num_threads
        ), ""
    except LiteRtError as error:
        if options.stock_model:
            raise
        return None, str(error)


_FLAGS = (
    WARM_UP,
    Flag("runs", 100, "Runs that are measured.", least=1),
    Flag(
        "stock_model",
        "",
        "The model that stock LiteRT runs on the CPU in between: the one a compiled file was made from. A file "
        "without NPU calls is measured beside itself.",
    ),
    INPUT,
    INPUT_RANGE,
    SEED,
    *LOAD_FLAGS,
    TRACE._replace(
        help=f"{TRACE.help} It has the load, the first run, and {_TRACED_RUNS} runs after the measured ones."
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
    "FILE\nMeasures runs of a model, each of its NPU calls, and stock LiteRT on the CPU in between.\n"
    "With flags of apply_plugin, also a vendor's own, one that is not compiled is compiled when it is loaded.\n"
    "Kernels run in this process, with your privileges, whoever has compiled the file, unless --isolate is given.",
    _FLAGS,
    _run,
    num_arguments=1,
    takes_vendor_options=True,
)

"""`litert-npu profile`: where the time of a model's runs goes."""

from __future__ import annotations

import platform
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from copy import copy
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

from litert.core.option import Flag
from litert.core.version import SDK_VERSION

from .array_files import TensorSpec, complete_inputs, read_inputs
from .command import Command
from .command_line import SEED, FlagValues, split_arguments
from .console import (
    PrintedReport,
    ProgressBar,
    count_text,
    name_text,
    native_output_to_stderr,
    print_text,
)
from .input_ranges import INPUT_RANGE, model_ranges
from .load_flags import LOAD_FLAGS, LoadChoice, open_model, read_load_flags
from .model_runs import SignatureRuns, Timing, measure_s

if TYPE_CHECKING:
    from litert.analysis.profile import ProfileRow
    from litert.runtime.metrics import RunMetrics

_DETAIL_LEVEL = 2
_NUM_TURNS = 10
_ENOUGH_RUNS = 50
_INDENT = 2


@dataclass(frozen=True, slots=True)
class ProfileOptions:
    """What is measured.

    Attributes:
      inputs: `[input=]file`; others are random.
      warm_up: runs before.
      runs: that are measured, and as many that are not in between.
      ranges: `input:LOW:HIGH` of random inputs, as `read_ranges` has it.
      most_rows: in the text, for people; 0 for all.
    """

    load: LoadChoice = field(default_factory=LoadChoice)
    inputs: Sequence[str] = ()
    warm_up: int = 10
    runs: int = 100
    seed: int = 0
    ranges: Sequence[str] = ()
    most_rows: int = 40


@dataclass(frozen=True, slots=True)
class ProfileReport(PrintedReport):
    """Where the time goes.

    Attributes:
      path: of the model.
      signature: which one ran.
      threads: number of CPU threads.
      machine: processor, system and Python.
      sdk_version: of this project.
      load_s: seconds that loading took.
      run: runs that are measured.
      plain_run: runs in between that are not.
      rows: each NPU call, op of the CPU, and part of one; a part follows what it is a part of.
      notes: what was not measured, and why.
      most_rows: how many rows people read, the longest; 0 is all.
    """

    answers = ("cost", "is_cost_noise")

    path: str
    signature: str
    threads: int
    machine: str
    sdk_version: str
    load_s: float
    run: Timing
    plain_run: Timing
    rows: Sequence[ProfileRow]
    notes: Sequence[str]
    most_rows: int

    @property
    def cost(self) -> float:
        """The median of runs that are measured over that of runs that are not."""
        return self.run.p50_s / self.plain_run.p50_s

    @property
    def is_cost_noise(self) -> bool:
        """Whether single runs of one side vary by more than the two medians differ."""
        between = abs(self.run.p50_s - self.plain_run.p50_s)
        return max(self.run.deviation_s, self.plain_run.deviation_s) > between

    def lines(self) -> Iterator[str]:
        threads = count_text(self.threads, "thread")
        yield f"{self.path}: {count_text(self.run.runs, 'run')} on {threads}, {self.machine}"
        yield f"  loaded in {self.load_s:.3f} s"
        yield f"  measured      {self.run}"
        yield f"  not measured  {self.plain_run}"
        noise = ", which noise hides" if self.is_cost_noise else ""
        yield f"  measuring takes {100 * (self.cost - 1):+.1f}% of a run{noise}"
        yield from (f"  note: {note}" for note in self.notes)
        yield ""
        yield "   share   mean ms      +-  times"
        shown = self._shown()
        depths: dict[int, int] = {-1: -1}
        for index, row in enumerate(self.rows):
            depths[index] = depths[row.parent] + 1
            if index in shown:
                yield self._row_text(row, depths[index])
        if len(shown) < len(self.rows):
            left = [row for index, row in enumerate(self.rows) if index not in shown]
            longest = max(row.mean_s for row in left)
            yield (
                f"  {count_text(len(left), 'row')} of at most {1e3 * longest:.3f} ms left out; "
                "--rows=0 shows all"
            )

    def to_csv(self) -> str:
        """A line for each row; the first has the names of the columns."""
        import csv
        import io

        out = io.StringIO()
        writer = csv.writer(out, lineterminator="\n")
        numbers = ("mean_s", "deviation_s", "share", "runs_per_run")
        writer.writerow(["row", "parent", "kind", "name", *numbers, "ops", "details"])
        for index, row in enumerate(self.rows):
            ops = " ".join(f"{op.subgraph}:{op.index}" for op in row.ops)
            details = "; ".join(f"{name}={value}" for name, value in row.details.items())
            values = [getattr(row, name) for name in numbers]
            writer.writerow([index, row.parent, row.kind, row.name, *values, ops, details])
        return out.getvalue().rstrip("\n")

    def show(self, form: str) -> None:
        if form == "csv":
            print_text(self.to_csv(), sys.stdout)
        else:
            PrintedReport.show(self, form)

    def _shown(self) -> set[int]:
        """The longest rows, and those that they are parts of."""
        order = sorted(range(len(self.rows)), key=lambda index: -self.rows[index].mean_s)
        return set(order[: self.most_rows or None])

    def _row_text(self, row: ProfileRow, depth: int) -> str:
        deviation = "" if row.deviation_s is None else f"{1e3 * row.deviation_s:.3f}"
        name = " " * _INDENT * depth + name_text(row.name)
        what = f"NPU call {name_text(row.name)}" if row.kind == "npu_call" else name_text(row.name)
        where = name_text(row.ops[-1].output) if row.ops else ""
        name = " " * _INDENT * depth + what
        return (
            f"  {row.share:6.1%} {1e3 * row.mean_s:9.3f} {deviation:>7} {row.runs_per_run:6g}  {name}"
            + (f"  -> {where}" if where else "")
        )


def profile_model(
    path: str,
    options: ProfileOptions | None = None,
    progress: Callable[[str, int, int], None] | None = None,
) -> ProfileReport:
    """Measures where the time of a model's runs goes; runs that are not measured are in between."""
    from litert.analysis.profile import profile_rows

    options = options or ProfileOptions()
    tell = progress or (lambda step, done, total: None)
    load = _with_profiling(options.load)
    start = time.perf_counter()
    with open_model(path, load) as (model, signature):
        load_s = time.perf_counter() - start
        specs = TensorSpec.all_of(model.get_input_tensor_details(signature))
        given = read_inputs(options.inputs, specs, (0.0, 1.0))
        ranges = model_ranges(options.ranges, specs, given, [path], signature)
        runs = SignatureRuns(model, signature, complete_inputs(given, specs, options.seed, ranges))
        for _ in range(options.warm_up):
            runs.run()
        collections, plain_s = _measure(runs, options.runs, tell)
        run_s = [time_s for collection in collections for time_s in collection.run_times_s]
        return ProfileReport(
            path,
            signature,
            load.options.cpu_options.num_threads,
            f"{platform.machine()}, {platform.system()}, Python {platform.python_version()}",
            SDK_VERSION,
            load_s,
            Timing.of(run_s),
            Timing.of(plain_s),
            profile_rows(collections),
            _notes(collections),
            options.most_rows,
        )


def _with_profiling(choice: LoadChoice) -> LoadChoice:
    """The same, with XNNPACK's operators told apart."""
    options = copy(choice.options)
    options.enable_profiling = True
    return replace(choice, options=options)


def _measure(
    runs: SignatureRuns, count: int, tell: Callable[[str, int, int], None]
) -> tuple[Sequence[RunMetrics], Sequence[float]]:
    """Measures in turns, each after as many runs that are not measured; those take so many seconds."""
    collections: list[RunMetrics] = []
    plain_s: list[float] = []
    turns = min(_NUM_TURNS, count)
    for turn in range(turns):
        tell("measure", turn, turns)
        num_runs = count * (turn + 1) // turns - count * turn // turns
        plain_s += [measure_s(runs.run) for _ in range(num_runs)]
        runs.model.start_metrics_collection(_DETAIL_LEVEL)
        try:
            for _ in range(num_runs):
                runs.run()
        finally:
            collections.append(runs.model.stop_metrics_collection())
    return collections, plain_s


def _notes(collections: Sequence[RunMetrics]) -> list[str]:
    notes = list(dict.fromkeys(p for collection in collections for p in collection.problems))
    count = sum(len(collection.run_times_s) for collection in collections)
    if count < _ENOUGH_RUNS:
        notes.append(f"the mean of {count_text(count, 'run')} says little: measure {_ENOUGH_RUNS}")
    return notes


_FLAGS = (
    Flag("warm_up", 10, "Runs before it is measured.", least=0),
    Flag("runs", 100, "Runs that are measured; as many run in between that are not.", least=1),
    Flag("rows", 40, "Number of rows that the text shows, the longest; 0 shows all.", least=0),
    Flag(
        "input",
        (),
        "[input=]file: a .npy, .npz or picture for an input, by name or index. Others are random. May be "
        "repeated.",
        is_repeated=True,
    ),
    INPUT_RANGE,
    SEED,
    *LOAD_FLAGS,
    Flag("report", "text", "text, json or csv.", choices=("text", "json", "csv")),
)


def _run(flags: FlagValues, arguments: Sequence[str]) -> int:
    (path,), unknown = split_arguments(arguments)
    options = ProfileOptions(
        read_load_flags(flags, unknown),
        flags.input,
        flags.warm_up,
        flags.runs,
        flags.seed,
        flags.input_range,
        flags.rows,
    )
    with native_output_to_stderr(flags.report != "text"), ProgressBar() as progress:
        report = profile_model(path, options, progress)
    report.show(flags.report)
    return 0


COMMAND = Command(
    "FILE\nShows where the time of a model's runs goes: each NPU call, each op of the CPU, and the rest.\n"
    "With flags of apply_plugin, also a vendor's own, one that is not compiled is compiled when it is loaded.",
    _FLAGS,
    _run,
    num_arguments=1,
    takes_vendor_options=True,
)

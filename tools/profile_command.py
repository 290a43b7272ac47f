"""`litert-npu profile`: measures the parts of a model's runs."""

from __future__ import annotations

import time
from collections.abc import Sequence
from copy import copy
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

from litert.core.counts import count_text
from litert.core.option import Flag
from litert.core.progress import told
from litert.core.tracing import is_recording, paused
from litert.core.version import SDK_VERSION
from litert.model.dispatch_op import is_dispatch_op
from litert.model.reader import read_model

from .array_files import INPUT, TensorSpec, complete_inputs, read_inputs
from .command import Command
from .command_line import PAGE, REPORT, SEED, FlagValues, split_arguments
from .console import native_output_to_stderr
from .input_ranges import INPUT_RANGE, model_ranges
from .load_flags import LOAD_FLAGS, LoadChoice, open_model, read_load_flags
from .model_runs import WARM_UP, SignatureRuns, Timing, machine_text, measure_s
from .page.writing import check_pages, is_page_wanted, write_pages
from .profile_report import MOST_ROWS, ProfileReport
from .progress_bar import ProgressBar
from .strangers import tell_inline
from .trace_file import TRACE, traced

if TYPE_CHECKING:
    from litert.analysis.profile import ProfileRow
    from litert.core.tracing import Span
    from litert.runtime.metrics import RunMetrics

    from .page.page import Page

_DETAIL_LEVEL = 2
_NUM_TURNS = 10
_WARM_UP = 1  # runs at the start of each turn, in which a vendor prepares to measure
_ENOUGH_RUNS = 50
_TRACED_RUNS = 5


@dataclass(frozen=True, slots=True)
class ProfileOptions:
    """The model to measure, its inputs, and the number of runs.

    Attributes:
      inputs: Input files, as `[input=]file`; inputs without a file are random.
      warm_up: Number of runs before the measurement.
      runs: Number of measured runs. These runs alternate with the same number of runs without measurement.
      ranges: Ranges of random inputs, as `input:LOW:HIGH`, for `read_ranges`.
    """

    load: LoadChoice = field(default_factory=LoadChoice)
    inputs: Sequence[str] = ()
    warm_up: int = 10
    runs: int = 100
    seed: int = 0
    ranges: Sequence[str] = ()


def profile_model(path: str, options: ProfileOptions | None = None) -> ProfileReport:
    """Measures the parts of a model's runs. Measured runs alternate with runs without measurement."""
    from litert.analysis.profile import profile_rows

    options = options or ProfileOptions()
    load = _with_profiling(options.load)
    start = time.perf_counter()
    with open_model(path, load) as (model, signature):
        load_s = time.perf_counter() - start
        specs = TensorSpec.all_of(model.get_input_tensor_details(signature))
        given = read_inputs(options.inputs, specs, (0.0, 1.0))
        ranges = model_ranges(options.ranges, specs, given, [path], signature)
        runs = SignatureRuns(model, signature, complete_inputs(given, specs, options.seed, ranges))
        with paused():
            for _ in range(options.warm_up):
                runs.run()
            collections, plain_s = _measure(runs, options.runs)
        if is_recording():
            _measure_turn(runs, _TRACED_RUNS)
        run_s = [time_s for collection in collections for time_s in collection.run_times_s]
        return ProfileReport(
            path,
            signature,
            load.options.cpu_options.num_threads,
            machine_text(),
            SDK_VERSION,
            load_s,
            Timing.of(run_s),
            Timing.of(plain_s),
            _in_file(path, profile_rows(collections)),
            _notes(collections),
        )


def _with_profiling(choice: LoadChoice) -> LoadChoice:
    """Returns the same options, with measurements of XNNPACK's operators."""
    options = copy(choice.options)
    options.enable_profiling = True
    return replace(choice, options=options)


def _measure(runs: SignatureRuns, count: int) -> tuple[Sequence[RunMetrics], Sequence[float]]:
    """Measures in several turns.

    Before each turn, the same number of runs is run without measurement; the seconds of these runs are returned,
    too.
    """
    collections: list[RunMetrics] = []
    plain_s: list[float] = []
    turns = min(_NUM_TURNS, count)
    for turn in told("measure", range(turns)):
        num_runs = count * (turn + 1) // turns - count * turn // turns
        plain_s += [measure_s(runs.run) for _ in range(num_runs)]
        collections.append(_measure_turn(runs, num_runs))
    return collections, plain_s


def _measure_turn(runs: SignatureRuns, count: int) -> RunMetrics:
    """Measures a number of runs."""
    runs.model.start_metrics_collection(_DETAIL_LEVEL, _WARM_UP)
    try:
        for _ in range(_WARM_UP + count):
            runs.run()
    finally:
        metrics = runs.model.stop_metrics_collection()
    return metrics


def _in_file(path: str, rows: Sequence[ProfileRow]) -> Sequence[ProfileRow]:
    """Returns the rows with the places of ops in the file, for a model that was compiled when it was loaded.

    Ops are matched by the tensor that they write. The index is -1 for an op that the compiler created, or whose
    tensor has no unique name.
    """
    if not any(row.kind == "npu_call" for row in rows):
        return rows
    with read_model(path) as model:
        if any(map(is_dispatch_op, model.ops())):
            return rows
        places: dict[tuple[int, str], int] = {}
        for number, subgraph in enumerate(model.subgraphs):
            for index, op in enumerate(subgraph.ops):
                for tensor in op.outputs:
                    key = number, tensor.name
                    places[key] = -1 if key in places else index
    return [
        replace(
            row,
            ops=[replace(op, index=places.get((op.subgraph, op.output), -1)) for op in row.ops],
        )
        for row in rows
    ]


def _notes(collections: Sequence[RunMetrics]) -> list[str]:
    notes = list(dict.fromkeys(p for collection in collections for p in collection.problems))
    count = sum(len(collection.run_times_s) for collection in collections)
    if count < _ENOUGH_RUNS:
        notes.append(
            f"the mean of {count_text(count, 'run')} is not reliable: measure at least "
            f"{_ENOUGH_RUNS} runs, with --runs={_ENOUGH_RUNS}",
        )
    return notes


_FLAGS = (
    WARM_UP,
    Flag(
        "runs",
        100,
        "Number of runs in which NPU calls and ops are measured. These runs alternate with the same "
        "number of runs without such measurements.",
        least=1,
    ),
    Flag(
        "rows",
        MOST_ROWS,
        (
            "Number of rows in the text report, which shows the rows with the longest times. 0 "
            "shows all rows."
        ),
        least=0,
    ),
    INPUT,
    INPUT_RANGE,
    SEED,
    *LOAD_FLAGS,
    TRACE._replace(
        help=(
            f"{TRACE.help} The time line shows the load, and {_TRACED_RUNS} more runs after the "
            "measured runs. In these runs, the time line also shows each op on the CPU."
        )
    ),
    REPORT._replace(
        help="Format of the report: text, json with all rows, or csv with all rows.",
        choices=("text", "json", "csv"),
    ),
    *PAGE,
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
    )
    others = [path, *options.inputs]
    check_pages(flags, others)
    with (
        native_output_to_stderr(flags.report != "text"),
        ProgressBar(),
        traced(flags.trace, others, is_wanted=is_page_wanted(flags)) as recording,
    ):
        tell_inline(path, options.load.options)
        report = profile_model(path, options)
    write_pages(flags, lambda: _page(report, recording.spans))
    report.show(flags.report, flags.rows)
    return 0


def _page(report: ProfileReport, spans: Sequence[Span]) -> Page:
    from .profile_page import profile_page  # here: --help must not wait for it

    return profile_page(report, spans)


COMMAND = Command(
    "FILE\nShows how the time of a model's run is divided among NPU calls, ops on the CPU, and "
    "the rest. If FILE is not compiled, the command first compiles FILE; flags for compilation, "
    "such as --npu_custom_op_info, and flags of the vendor apply to this compilation. Without "
    "--isolate, kernels run in this process with your privileges, no matter who compiled the "
    "file.",
    _FLAGS,
    _run,
    num_arguments=1,
    takes_vendor_options=True,
)

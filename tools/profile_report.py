"""The report of `litert-npu profile`: the times of a model's parts."""

from __future__ import annotations

import sys
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from litert.core.counts import count_text

from .console import PrintedReport, csv_text, name_text, print_lines
from .model_runs import Timing

if TYPE_CHECKING:
    from litert.analysis.profile import ProfileRow

MOST_ROWS = 40
"""Number of rows in the text report."""

_NUMBERS = ("mean_s", "median_s", "deviation_s", "share", "runs_per_run")
_PLURALS = {"task": "tasks", "transfer": "transfers", "wait": "waits"}
_IN_CALLS = ("task", "transfer", "wait", "invoke", "host")


@dataclass(frozen=True, slots=True)
class ProfileReport(PrintedReport):
    """The times of a model's parts.

    Attributes:
      path: Path of the model.
      signature: Key of the signature that ran.
      threads: number of CPU threads.
      machine: Processor, operating system and Python version.
      sdk_version: Version of this project.
      load_s: Duration of the load, in seconds.
      run: Times of the runs in which parts were measured.
      plain_run: Times of the runs in which no parts were measured; these runs alternate with the measured runs.
      rows: A row for each NPU call, for each op on the CPU, and for each part of these; the row of a part follows
        the row that contains the part.
      notes: Sentences about parts that were not measured, with reasons.
    """

    answers = ("cost", "is_cost_noise", "shares")

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

    @property
    def cost(self) -> float:
        """Ratio of the fastest measured run to the fastest run without measurement."""
        return self.run.min_s / self.plain_run.min_s

    @property
    def is_cost_noise(self) -> bool:
        """Whether the times of single runs vary by more than the time that measuring adds to a run."""
        between = abs(self.run.min_s - self.plain_run.min_s)
        return max(self.run.deviation_s, self.plain_run.deviation_s) > between

    @property
    def shares(self) -> Mapping[str, float]:
        """Shares of a run's time: NPU calls, the kinds of parts in NPU calls, CPU ops, and the rest."""
        found = dict.fromkeys(("npu_call", *_IN_CALLS), 0.0)
        for row in self.rows:
            if row.kind in found:
                found[row.kind] += row.share
        rest = sum(row.share for row in self.rows if row.parent < 0 and row.kind == "rest")
        return {**found, "cpu_op": max(0.0, 1 - found["npu_call"] - rest), "rest": rest}

    def lines(self, most_rows: int = MOST_ROWS) -> Iterator[str]:
        """Yields the lines of the text report, with the rows of the longest times.

        If `most_rows` is 0, the text report has all rows.
        """
        threads = count_text(self.threads, "CPU thread")
        yield f"{self.path}: {count_text(self.run.runs, 'run')} on {threads}, {self.machine}"
        yield f"  loaded in {self.load_s:.3f} s"
        yield f"  measured      {self.run}"
        yield f"  not measured  {self.plain_run}"
        noise = ", which is less than the variation of single runs" if self.is_cost_noise else ""
        yield f"  cost of the measurement: {self.cost - 1:+.1%} of a run{noise}"
        if self.run.deviation_s > self.run.mean_s / 2:
            yield (
                "  the times of runs vary much, perhaps because of other programs: use the "
                "medians, since means and shares are not reliable"
            )
        yield from (f"  note: {note}" for note in self.notes)
        yield from self._sums()
        yield ""
        yield "   share   mean ms  median      +-  times"
        order = sorted(range(len(self.rows)), key=lambda index: -self.rows[index].mean_s)
        shown = set(order[: most_rows or None])
        depths: dict[int, int] = {-1: -1}
        for index, row in enumerate(self.rows):
            depths[index] = depths[row.parent] + 1
            if index in shown:
                yield _row_text(row, depths[index])
        if len(shown) < len(order):
            longest_ms = 1e3 * self.rows[order[len(shown)]].mean_s
            left = count_text(len(order) - len(shown), "more row")
            yield f"  {left} of at most {longest_ms:.3f} ms: --rows=0 shows all"

    def _sums(self) -> Iterator[str]:
        """Yields two lines with the shares of the time."""
        shares = self.shares
        inside = [(name, shares[name]) for name in _IN_CALLS if shares[name]]
        yield (
            f"  NPU calls {shares['npu_call']:.1%}, CPU ops {shares['cpu_op']:.1%}, "
            f"rest {shares['rest']:.1%} of a run"
        )
        if inside:
            parts = ", ".join(f"{_PLURALS.get(name, name)} {share:.1%}" for name, share in inside)
            yield f"  in NPU calls: {parts}"

    def to_csv(self) -> str:
        """Returns a line for each row of the table; the first line contains the column heads."""
        head = ["row", "parent", "kind", "name", *_NUMBERS, "ops", "outputs", "details"]
        rows: list[Sequence[object]] = [head]
        for index, row in enumerate(self.rows):
            ops = " ".join(f"{op.subgraph}:{op.index}" for op in row.ops)
            outputs = " ".join(op.output for op in row.ops)
            details = "; ".join(f"{name}={value}" for name, value in row.details.items())
            values = [getattr(row, name) for name in _NUMBERS]
            rows.append([index, row.parent, row.kind, row.name, *values, ops, outputs, details])
        return csv_text(rows)

    def show(self, form: str, most_rows: int = MOST_ROWS) -> None:
        """Prints the report as `text`, `json` or `csv`. The text shows only the rows with the longest times."""
        if form == "text":
            print_lines(self.lines(most_rows), sys.stdout)
        else:
            PrintedReport.show(self, form)


def _row_text(row: ProfileRow, depth: int) -> str:
    median = "" if row.median_s is None else f"{1e3 * row.median_s:.3f}"
    deviation = "" if row.deviation_s is None else f"{1e3 * row.deviation_s:.3f}"
    name = ("NPU call " if row.kind == "npu_call" else "") + name_text(row.name)
    output = f" -> {name_text(row.ops[-1].output)}" if row.ops else ""
    return (
        f"  {row.share:6.1%} {1e3 * row.mean_s:9.3f} {median:>7} {deviation:>7} "
        f"{row.runs_per_run:6g}  {'  ' * depth}{name}{output}"
    )

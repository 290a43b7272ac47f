"""`litert-npu layer tune`: measures several local sizes of a kernel, and writes the best into its description."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from statistics import median
from typing import TYPE_CHECKING, Any

from litert.core.errors import LiteRtError
from litert.core.interrupts import on_interrupt
from litert.core.option import Flag
from litert.core.plain_report import PlainReport
from litert.core.progress import counting, told
from litert.core.quoting import continued
from litert.model.atomic_file import open_atomic, temporary_folder
from litert.model.output import write_at

from ..command import Command
from ..command_line import REPORT, FlagValues
from ..console import json_text, print_text
from ..progress_bar import ProgressBar
from .layer_flags import LAYER_FLAGS, layer_request, open_layer
from .op_arrays import INPUT_FLAG_NAMES, INPUT_FLAGS, input_values
from .safe_process import Answer, answer, compiling, run_safely, stage

if TYPE_CHECKING:
    from vendor_reference.authoring.compiled_layer import LayerOptions
    from vendor_reference.authoring.local_sizes import LocalSize
    from vendor_reference.authoring.subject import Subject

_REPEAT = 10
_ROUNDS = 16
_FINALISTS = 4


@dataclass(slots=True)
class Candidate:
    """A measured local size.

    Attributes:
      local_size: Local size; empty if the driver chooses a size.
      median_us: Median time of the kernel alone, in microseconds; null if the kernel did not run.
      final_us: Median time of the kernel, measured alternately with the other good sizes, in microseconds; null if
        not measured.
      problem: Reason why the kernel did not run with this size; "" if it ran.
    """

    local_size: LocalSize
    median_us: float | None = None
    final_us: float | None = None
    problem: str = ""


@dataclass(frozen=True, slots=True)
class TunedLayer(PlainReport):
    """The measured local sizes of a layer; an empty size means that the driver chooses a size.

    Attributes:
      old: Local size of the layer before the command.
      best: Recommended local size: the old size, unless another size is clearly better.
      candidates: All measured sizes.
    """

    old: LocalSize
    best: LocalSize
    candidates: Sequence[Candidate]


def begin(request: Mapping[str, Any]) -> Iterator[Mapping[str, object]]:
    """Runs in the first child process: runs the layer with its present local size, and stores the outputs."""
    import numpy as np

    from vendor_reference.authoring.layer_tune import begin_tuning, run_outputs
    from vendor_reference.authoring.local_size_edit import edit_local_size, find_description

    with open_layer(request, is_frozen=True) as layer:
        description = find_description(layer.options, [subject.op for subject in layer.subjects])
        edit_local_size(
            description[0], layer.op_name, [1], description[1]
        )  # raises an error if the description cannot be edited
        yield compiling(layer.options.path)
        start = begin_tuning(layer.options, layer.subjects)
        yield stage("the kernel was running with its present local size")
        subject = layer.subjects[start.measured]
        outputs = run_outputs(subject, layer.options, input_values(subject, request))
        np.savez(request["expected"], *outputs)
    yield answer(
        True, layer.op_name, {**asdict(start), "title": subject.title, "description": description}
    )


def try_one(request: Mapping[str, Any]) -> Iterator[Mapping[str, object]]:
    """Runs in a child process: measures the layer with one local size."""
    import numpy as np

    from vendor_reference.authoring.layer_tune import try_local_size

    yield stage("the local size was being measured")
    with _measured(request) as (subject, options, arrays), np.load(request["expected"]) as expected:
        size, wanted = tuple(request["local_size"]), list(expected.values())
        seconds = try_local_size(subject, options, size, arrays, wanted, _REPEAT)
    yield answer(True, "", seconds)


def compare(request: Mapping[str, Any]) -> Iterator[Mapping[str, object]]:
    """Runs in the last child process: measures the layer with the best local sizes, which alternate."""
    from vendor_reference.authoring.layer_tune import compare_local_sizes

    yield stage("the best local sizes were being compared")
    with _measured(request) as (subject, options, arrays):
        sizes = [tuple(size) for size in request["local_sizes"]]
        times = compare_local_sizes(subject, options, sizes, arrays, _ROUNDS)
    yield answer(True, "", times)


@contextmanager
def _measured(request: Mapping[str, Any]) -> Iterator[tuple[Subject, LayerOptions, list[Any]]]:
    """Provides the op to measure, the options of its layer, and its inputs."""
    with open_layer(request, is_frozen=True) as layer:
        subject = layer.subjects[request["measured"]]
        yield subject, layer.options, input_values(subject, request)


class Tuning:
    """A run of the command, with the layer's present local size and all measured sizes.

    Attributes:
      description: Path of the description to edit, and the text of a new description; a result of
        `find_description`.
    """

    def __init__(self, request: Mapping[str, Any], note: Callable[[str], object]) -> None:
        """Prepares a run; `note` is called with a line about each measured size."""
        self._request = dict(request)
        self._note = note
        self.old: LocalSize = ()
        self.op_name = ""
        self.description = request["path"], ""
        self.candidates: list[Candidate] = []

    def run(self, most: int) -> LocalSize:
        """Measures at most `most` local sizes, and returns the recommended size."""
        from vendor_reference.authoring.local_sizes import find_candidates, is_clearly_better

        with temporary_folder() as folder:
            self._request["expected"] = os.path.join(folder, "outputs.npz")
            with counting("run with the present size", 0):
                started = self._call("begin", {})
            self.op_name, start = started.text, started.values
            self._request["measured"] = start["measured"]
            self.old = tuple(start["local_size"])
            self.description = tuple(start["description"])
            sizes = find_candidates(start["global_sizes"], start["most_items"], most)
            shown = ", ".join(" x ".join(map(str, sizes)) for sizes in start["global_sizes"])
            self._note(f"{self._request['path']}, {start['title']}: global {shown}")
            for size in told("tune", list(dict.fromkeys([self.old, *sizes]))):
                self._try(size)
            good = sorted(
                (c for c in self.candidates if c.median_us is not None),
                key=lambda c: c.median_us or 0.0,
            )
            finalists = [c for c in good if c.local_size == self.old]
            finalists += [c for c in good if c.local_size != self.old][:_FINALISTS]
            local_sizes = [list(candidate.local_size) for candidate in finalists]
            times = self._call("compare", {"local_sizes": local_sizes}).values
        for candidate, seconds in zip(finalists, times, strict=True):
            candidate.final_us = median(seconds) * 1e6
        best = min(range(len(finalists)), key=lambda index: finalists[index].final_us or 0.0)
        is_better = best and is_clearly_better(
            times[best], times[0]
        )  # the first size is the old size
        return finalists[best].local_size if is_better else self.old

    def _try(self, size: LocalSize) -> None:
        from vendor_reference.authoring.local_sizes import local_text

        found = Candidate(size)
        self.candidates.append(found)
        try:
            found.median_us = self._call("try_one", {"local_size": list(size)}).values * 1e6
            said = f"{found.median_us:.1f} us"
        except LiteRtError as error:
            if size == self.old:
                raise
            found.problem = error.what
            said = f"skipped: {error.what}"
        self._note(f"  local {local_text(size):12} {said}")

    def file_text(self) -> str:
        """Returns a sentence for an interrupted command, which says that the description is unchanged."""
        path = self.description[0]
        return f"{path} {'is unchanged' if os.path.exists(path) else 'was not written'}"

    def best_text(self) -> str:
        """Returns a sentence about the best local size found before an interrupt; "" if no size was measured."""
        from vendor_reference.authoring.local_sizes import local_text

        tried = [(c.median_us, c) for c in self.candidates if c.median_us is not None]
        if not tried:
            return ""
        best_us, best = min(tried, key=lambda pair: pair[0])
        own = " (present size)" if best.local_size == self.old else ""
        return (
            f"The best of {len(tried)} measured local sizes: {local_text(best.local_size)}{own}, {best_us:.1f} us;"
            f" the present size takes {tried[0][0]:.1f} us"
        )

    def _call(self, function: str, more: Mapping[str, object]) -> Answer:
        return run_safely(f"{__name__}:{function}", {**self._request, **more})


def _table(candidates: Sequence[Candidate], old: LocalSize) -> Iterator[str]:
    from vendor_reference.authoring.local_sizes import local_text

    yield "local size     in turn      alone"
    for candidate in sorted(candidates, key=lambda c: (c.final_us or 1e12, c.median_us or 1e12)):
        final, alone = (
            f"{us:.1f} us" if us is not None else "-"
            for us in (candidate.final_us, candidate.median_us)
        )
        own = "  (present size)" if candidate.local_size == old else ""
        problem = candidate.problem.split("\n")[0]
        yield f"{local_text(candidate.local_size):12} {final:>10} {alone:>10}{own}  {problem}".rstrip()


def _run(flags: FlagValues, arguments: Sequence[str]) -> int:
    from vendor_reference.authoring.local_size_edit import edit_local_size
    from vendor_reference.authoring.local_sizes import local_text

    path = arguments[0]
    request = layer_request(flags, path, *INPUT_FLAG_NAMES)
    with ProgressBar() as progress:
        tuning = Tuning(request, lambda line: progress.note(continued(line)))
        with (
            on_interrupt(tuning.file_text),
            on_interrupt(tuning.best_text),
        ):
            best = tuning.run(flags.candidates)
    old = tuning.old
    if best == old:
        said = f"{local_text(old)} stays in use: no other size is clearly better"
    elif flags.dry_run:
        said = f"{local_text(best)} is better than {local_text(old)}; no file was written, because of --dry_run"
    else:
        target, new_text = tuning.description
        data = edit_local_size(target, tuning.op_name, best, new_text)
        with open_atomic(target) as fd:
            write_at(fd, data, 0)
        said = f"{local_text(best)} is better than {local_text(old)}, and was written to {target}"
        said += f"; use this file in place of {path} from now on" if new_text else ""
    values = TunedLayer(old, best, tuning.candidates).to_values()
    lines = [*_table(tuning.candidates, old), f"Local size: {said}."]
    text = "\n".join(map(continued, lines))
    print_text(json_text(values) if flags.report == "json" else text, sys.stdout)
    return 0


COMMAND = Command(
    "FILE\nMeasures a kernel with different local sizes, which are sizes of a work group. The "
    "command measures each size in a separate process. Then the command measures the best sizes "
    "again, in alternating runs. If a size is clearly better than the present size, the command "
    "writes the better size into the layer's description (.json, .xml) and keeps all other text. "
    "For a .cl file, the command writes a .json description into the same folder.",
    (
        *LAYER_FLAGS,
        *INPUT_FLAGS,
        Flag("candidates", 16, "Number of local sizes to measure.", least=1),
        Flag("dry_run", False, "Only print the result, and do not change the description."),
        REPORT,
    ),
    _run,
    num_arguments=1,
)

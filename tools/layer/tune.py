"""`litert-npu layer tune`: measures local sizes, and writes the best into the description."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Any

from litert.core.errors import LiteRtError
from litert.core.option import Flag
from litert.model.atomic_file import open_atomic
from litert.model.output import write_at

from ..command import Command
from ..command_line import REPORT
from ..console import json_text, print_text
from .layer_flags import LAYER_FLAGS, layer_request, open_frozen_layer
from .op_arrays import INPUT_FLAGS, read_op_inputs
from .safe_process import answer, check_asset, compiling, run_safely, stage

if TYPE_CHECKING:
    from absl.flags import FlagValues

    from vendor_reference.authoring.local_sizes import LocalSize

_REPEAT = 10
_ROUNDS = 16
_FINALISTS = 4


@dataclass(slots=True)
class Candidate:
    """A local size that was tried.

    Attributes:
      local_size: empty is the driver's choice.
      median_us: of its kernel, alone; None where it did not run.
      final_us: of its kernel, in turn with the other good ones.
      problem: why it did not run.
    """

    local_size: LocalSize
    median_us: float | None = None
    final_us: float | None = None
    problem: str = ""


def begin(request: Mapping[str, Any]) -> Iterator[Mapping[str, object]]:
    """The first child's part: the layer as it is, and what it makes of its inputs."""
    import numpy as np

    from vendor_reference.authoring.layer_tune import begin_tuning, run_outputs
    from vendor_reference.authoring.local_size_edit import edit_local_size

    with open_frozen_layer(request) as layer:
        edit_local_size(layer.options.path, layer.op_name, [1])  # refuses what cannot be written
        yield compiling(layer.options.path)
        start = begin_tuning(layer.options, layer.subjects)
        yield stage("the kernel was running as it is")
        subject = layer.subjects[start.measured]
        inputs = read_op_inputs(subject, request["input"], request["seed"])
        arrays = [given.value for given in inputs.values()]
        outputs = run_outputs(subject, layer.options, arrays)
        np.savez(request["expected"], *outputs)
    yield answer(True, layer.op_name, {**asdict(start), "title": subject.title})


def try_one(request: Mapping[str, Any]) -> Iterator[Mapping[str, object]]:
    """The part of a child for one local size."""
    import numpy as np

    from vendor_reference.authoring.layer_tune import try_local_size

    with open_frozen_layer(request) as layer, np.load(request["expected"]) as expected:
        yield stage("it was tried")
        subject = layer.subjects[request["measured"]]
        inputs = read_op_inputs(subject, request["input"], request["seed"])
        arrays = [given.value for given in inputs.values()]
        size = tuple(request["local_size"])
        wanted = list(expected.values())
        seconds = try_local_size(subject, layer.options, size, arrays, wanted, _REPEAT)
    yield answer(True, "", seconds)


def compare(request: Mapping[str, Any]) -> Iterator[Mapping[str, object]]:
    """The last child's part: the best ones in turn."""
    from vendor_reference.authoring.layer_tune import compare_local_sizes

    with open_frozen_layer(request) as layer:
        yield stage("the best ones were compared")
        subject = layer.subjects[request["measured"]]
        inputs = read_op_inputs(subject, request["input"], request["seed"])
        arrays = [given.value for given in inputs.values()]
        sizes = [tuple(size) for size in request["local_sizes"]]
        times = compare_local_sizes(subject, layer.options, sizes, arrays, _ROUNDS)
    yield answer(True, "", times)


class Tuning:
    """One run of the command."""

    def __init__(self, path: str, request: Mapping[str, object], timeout_s: float) -> None:
        self._path = path
        self._request = dict(request)
        self._timeout_s = timeout_s
        self.candidates: list[Candidate] = []

    def run(self, most: int) -> tuple[LocalSize, LocalSize, str]:
        """Measures; gives the local size that the layer has, the one that it should have, and the op's name."""
        from vendor_reference.authoring.local_sizes import find_candidates, is_clearly_better

        with TemporaryDirectory(prefix="litert-npu-tune-") as folder:
            self._request["expected"] = os.path.join(folder, "outputs.npz")
            started = self._call("begin", {})
            start = started.values
            assert isinstance(start, dict)
            self._request["measured"] = start["measured"]
            old: LocalSize = tuple(start["local_size"])
            sizes = find_candidates(start["global_sizes"], start["most_items"], most)
            shown = ", ".join(" x ".join(map(str, sizes)) for sizes in start["global_sizes"])
            print_text(f"{self._path}, {start['title']}: global {shown}", sys.stderr)
            for size in dict.fromkeys([old, *sizes]):
                self._try(size, old)
            good = sorted(
                (c for c in self.candidates if c.median_us is not None),
                key=lambda c: c.median_us or 0.0,
            )
            finalists = [c for c in good if c.local_size == old]
            finalists += [c for c in good if c.local_size != old][:_FINALISTS]
            times = self._compare(finalists)
        best = min(finalists, key=lambda c: c.final_us or 0.0)
        is_better = best.local_size != old and is_clearly_better(times[best.local_size], times[old])
        return old, best.local_size if is_better else old, started.text

    def _try(self, size: LocalSize, old: LocalSize) -> None:
        from vendor_reference.authoring.local_sizes import local_text

        found = Candidate(size)
        self.candidates.append(found)
        try:
            seconds = self._call("try_one", {"local_size": list(size)}).values
            assert isinstance(seconds, float)
            found.median_us = seconds * 1e6
            said = f"{found.median_us:.1f} us"
        except LiteRtError as error:
            if size == old:
                raise
            found.problem = error.what
            said = f"skipped: {error.what}"
        print_text(f"  local {local_text(size):12} {said}", sys.stderr)

    def _compare(self, finalists: Sequence[Candidate]) -> dict[LocalSize, list[float]]:
        from statistics import median

        sizes = [list(candidate.local_size) for candidate in finalists]
        times = self._call("compare", {"local_sizes": sizes}).values
        assert isinstance(times, list)
        for candidate, seconds in zip(finalists, times, strict=True):
            candidate.final_us = median(seconds) * 1e6
        return {c.local_size: seconds for c, seconds in zip(finalists, times, strict=True)}

    def _call(self, function: str, more: Mapping[str, object]) -> Any:
        request = {**self._request, **more}
        target = f"{__name__}:{function}"
        return run_safely(target, request, path=self._path, timeout_s=self._timeout_s)


def _table(candidates: Sequence[Candidate], old: LocalSize) -> Iterator[str]:
    from vendor_reference.authoring.local_sizes import local_text

    yield "local size     in turn      alone"
    for candidate in sorted(candidates, key=lambda c: (c.final_us or 1e12, c.median_us or 1e12)):
        final, alone = (
            f"{us:.1f} us" if us is not None else "-"
            for us in (candidate.final_us, candidate.median_us)
        )
        own = "  (has it)" if candidate.local_size == old else ""
        problem = candidate.problem.split("\n")[0]
        yield f"{local_text(candidate.local_size):12} {final:>10} {alone:>10}{own}  {problem}".rstrip()


_FLAGS = (
    *LAYER_FLAGS,
    *INPUT_FLAGS,
    Flag("candidates", 16, "How many local sizes are tried.", least=1),
    Flag("dry_run", False, "Writes nothing."),
    REPORT,
)


def _run(flags: FlagValues, arguments: Sequence[str]) -> int:
    from vendor_reference.authoring.local_size_edit import edit_local_size
    from vendor_reference.authoring.local_sizes import local_text

    path = check_asset(arguments[0])
    request = {**layer_request(flags, path), "input": flags.input, "seed": flags.seed}
    tuning = Tuning(path, request, flags.timeout_s)
    old, best, op_name = tuning.run(flags.candidates)
    if best == old:
        said = f"{local_text(old)} stays: nothing is clearly better"
    elif flags.dry_run:
        said = f"{local_text(best)} is better than {local_text(old)}; nothing was written"
    else:
        data = edit_local_size(path, op_name, best)
        with open_atomic(path) as fd:
            write_at(fd, data, 0)
        said = f"{local_text(best)} is better than {local_text(old)}, and was written to {path}"
    values = {"old": old, "best": best, "candidates": [asdict(c) for c in tuning.candidates]}
    text = "\n".join([*_table(tuning.candidates, old), f"Local size: {said}."])
    print_text(json_text(values) if flags.report == "json" else text, sys.stdout)
    return 0


COMMAND = Command(
    "FILE\nMeasures a kernel with different local sizes, each in a process of its own, then the best in turn,\n"
    "and writes the best into the description (.json, .xml) where it is clearly better. Its other text stays.",
    _FLAGS,
    _run,
    num_arguments=1,
)

"""Compiles a model to files: unchanged, or with intermediate tensors as additional outputs."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator, Mapping, Sequence
from contextlib import closing, contextmanager
from dataclasses import replace
from itertools import count

from compiler_plugin.apply_options import ApplyOptions
from compiler_plugin.pipeline import apply_plugin
from compiler_plugin.report import Report
from litert.analysis.source_graph import SourceGraph, write_exposed
from litert.analysis.stock_run import Array
from litert.analysis.tapped_trial import TappedTrial
from litert.analysis.trial import NpuTrial, expose_calls, find_shown
from litert.core.environment_options import EnvironmentOptions
from litert.core.errors import LiteRtError
from litert.core.progress import counting
from litert.core.status import Status
from litert.model.atomic_file import temporary_folder
from litert.options import Options

_MOST_REFUSED = 8
"""If the vendor refuses this number of tensors and accepts none, the search stops.

Each try compiles a model.
"""


@contextmanager
def working_folder(model_path: str) -> Iterator[str]:
    """Creates a temporary folder for files of a model.

    In errors, the path of such a file is replaced by the model's path.
    """
    with temporary_folder() as folder:
        try:
            yield folder
        except LiteRtError as error:
            what, where = (_renamed(t, folder, model_path) for t in (error.what, error.where))
            raise LiteRtError(error.status, what, where, error.hint) from error


def _renamed(text: str, folder: str, model_path: str) -> str:
    return re.sub(re.escape(folder + os.sep) + r"\w+\.tflite", lambda _: model_path, text)


class NpuFiles:
    """Compiles models into a folder and loads the compiled files."""

    def __init__(
        self,
        folder: str,
        model_path: str,
        apply: ApplyOptions,
        load: Options,
        environment: EnvironmentOptions,
    ) -> None:
        """Stores the options for compiling and loading.

        The options of the environment name the folders to search for dispatch tables. Errors refer to the source
        model at `model_path`.
        """
        self.folder, self._model_path = folder, model_path
        self._apply, self._load, self._environment = apply, load, environment
        self._numbers = count()

    def compile(self, path: str, taps: bool = False) -> tuple[str, Report]:
        """Compiles a model, optionally with names of tensors for taps; returns the path and the report."""
        target, compiler = self._new_path(), replace(self._apply.compiler, taps=taps)
        with counting("compile", 0):
            return target, apply_plugin(path, target, replace(self._apply, compiler=compiler))

    def open(self, source: SourceGraph, compiled: str) -> NpuTrial:
        """Loads a compiled file, which makes the tensors outside NPU calls visible."""
        path = self._new_path()
        shown = expose_calls(compiled, source, path)
        return NpuTrial(path, source, shown, self._load, self._environment)

    def open_tapped(
        self, source: SourceGraph, compiled: str, inputs: Mapping[str, Array]
    ) -> TappedTrial:
        """Loads a compiled file that also makes tensors inside NPU calls visible, and runs it once."""
        path = self._new_path()
        outside = expose_calls(compiled, source, path)
        return TappedTrial(path, source, outside, self._load, self._environment, inputs)

    def open_parts(
        self, source: SourceGraph, places: Sequence[int], refused: dict[int, LiteRtError]
    ) -> Iterator[tuple[Sequence[int], NpuTrial]]:
        """Loads the source model with tensors as outputs: all at once or, if the vendor refuses this, in parts.

        In a part, the inputs of the part's ops become outputs, too. Tensors that the vendor refuses even
        separately are added to `refused`, with reasons. After many refusals and no success, all remaining tensors
        are added.
        """
        waiting, has_taken, num_refused = [places], False, 0
        while waiting:
            part = waiting.pop()
            if num_refused >= _MOST_REFUSED and not has_taken:
                refused |= dict.fromkeys(part, refused[places[0]])
                continue
            try:
                trial = self._open_exposed(source, sorted({*part, *source.read_by(part)}))
            except LiteRtError as error:
                if error.status is Status.CANCELLED:
                    raise
                if len(part) == 1:
                    refused[part[0]] = error
                    num_refused += 1
                else:
                    middle = len(part) // 2
                    waiting += [part[middle:], part[:middle]]
                continue
            has_taken = True
            with closing(trial):
                yield part, trial

    def _open_exposed(self, source: SourceGraph, places: Sequence[int]) -> NpuTrial:
        """Compiles the source with tensors as outputs and loads the file."""
        path = self._new_path()
        write_exposed(source, places, path)
        compiled, _ = self.compile(path)
        shown = [each for each in find_shown(compiled, source) if each.place in set(places)]
        return NpuTrial(compiled, source, shown, self._load, self._environment)

    def in_user_s_words(self, text: str) -> str:
        """Returns an error's text, in which the path of the user's model replaces the paths of temporary files."""
        return _renamed(text, self.folder, self._model_path)

    def _new_path(self) -> str:
        return os.path.join(self.folder, f"model_{next(self._numbers)}.tflite")

"""Files of a model on the NPU: compiled as it is, or with inner tensors as outputs."""

from __future__ import annotations

import os
from collections.abc import Sequence
from itertools import count

from compiler_plugin.apply_options import ApplyOptions
from compiler_plugin.pipeline import apply_plugin
from compiler_plugin.report import Report
from litert.analysis.source_graph import SourceGraph, write_exposed
from litert.analysis.trial import NpuTrial, expose_calls, find_shown
from litert.core.environment_options import EnvironmentOptions
from litert.options import Options


class NpuFiles:
    """Compiles models into a folder, and loads what comes of it."""

    def __init__(
        self,
        folder: str,
        apply: ApplyOptions,
        load: Options,
        environment: EnvironmentOptions,
    ) -> None:
        """Takes how models are compiled, how they are loaded, and where dispatch tables are."""
        self.folder = folder
        self._apply, self._load, self._environment = apply, load, environment
        self._numbers = count()

    def compile(self, path: str) -> tuple[str, Report]:
        """Compiles a model: the path of the file, and the report."""
        target = self._new_path()
        return target, apply_plugin(path, target, self._apply)

    def open(self, source: SourceGraph, compiled: str) -> NpuTrial:
        """Loads a compiled file, which shows what is outside of its calls."""
        path = self._new_path()
        shown = expose_calls(compiled, source, path)
        return NpuTrial(path, source, shown, self._load, self._environment)

    def open_exposed(self, source: SourceGraph, places: Sequence[int]) -> NpuTrial:
        """Compiles the source with tensors as outputs, and loads it."""
        path = self._new_path()
        write_exposed(source, places, path)
        compiled, _ = self.compile(path)
        shown = [each for each in find_shown(compiled, source) if each.place in set(places)]
        return NpuTrial(compiled, source, shown, self._load, self._environment)

    def _new_path(self) -> str:
        return os.path.join(self.folder, f"model_{next(self._numbers)}.tflite")

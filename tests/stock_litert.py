"""Runs a model in stock LiteRT or in this project, in a separate process, which a vendor's library may crash.

Stock LiteRT's binaries come unchanged from its wheel. This file is also the script of the process, with the
arguments package, model, folder of dispatch libraries, inputs, outputs, number of runs, and folder of plugins.
"""

from __future__ import annotations

import importlib
import os
import subprocess
import sys
import tempfile
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

Arrays = Mapping[str, npt.NDArray[Any]]


@dataclass(frozen=True)
class StockRun:
    """The result of a process: exit status, outputs by name, and log; the outputs are empty if the run failed."""

    exit_status: int
    outputs: Arrays
    log: str


def run_in_stock(
    model: Path,
    dispatch_folder: Path,
    inputs: Arrays,
    *,
    runs: int = 1,
    plugin_folder: Path | str = "",
    environment: Mapping[str, str] | None = None,
    timeout_s: float = 60,
) -> StockRun:
    """Runs a model's first signature in stock's `CompiledModel`, on NPU and CPU, with a dispatch library.

    With a folder of compiler plugins, stock LiteRT first compiles a model that is not compiled yet.
    """
    arguments = (model, dispatch_folder, inputs, runs, plugin_folder)
    return _run("ai_edge_litert", *arguments, environment, timeout_s)


def run_in_ours(
    model: Path,
    dispatch_folder: Path,
    inputs: Arrays,
    *,
    runs: int = 1,
    environment: Mapping[str, str] | None = None,
    timeout_s: float = 60,
) -> StockRun:
    """Same as `run_in_stock`, but with this project's `CompiledModel`."""
    return _run("litert", model, dispatch_folder, inputs, runs, "", environment, timeout_s)


def _run(
    package: str,
    model: Path,
    dispatch_folder: Path,
    inputs: Arrays,
    runs: int,
    plugin_folder: Path | str,
    environment: Mapping[str, str] | None,
    timeout_s: float,
) -> StockRun:
    with tempfile.TemporaryDirectory() as folder:
        given, got = Path(folder, "inputs.npz"), Path(folder, "outputs.npz")
        np.savez(given, **inputs)  # type: ignore[arg-type]  # the keys are names
        arguments = (package, model, dispatch_folder, given, got, str(runs), plugin_folder)
        done = subprocess.run(
            [sys.executable, __file__, *arguments],
            capture_output=True,
            text=True,
            env={**os.environ, **(environment or {})},
            timeout=timeout_s,
        )
        outputs = dict(np.load(got)) if got.exists() else {}
    return StockRun(done.returncode, outputs, done.stdout + done.stderr)


def _main(
    package: str,
    model_path: str,
    dispatch_folder: str,
    given: str,
    got: str,
    runs: str,
    plugin_folder: str,
) -> None:
    def part(name: str) -> Any:
        return importlib.import_module(f"{package}.{name}")

    environment = part("environment").Environment.create(
        compiler_plugin_path=plugin_folder, dispatch_library_path=dispatch_folder
    )
    accelerators = part("hardware_accelerator").HardwareAccelerator
    model = part("compiled_model").CompiledModel.from_file(
        model_path, accelerators.NPU | accelerators.CPU, environment=environment
    )
    (signature,) = list(model.get_signature_list())[:1]
    names = model.get_signature_list()[signature]
    inputs = {n: model.create_input_buffer_by_name(signature, n) for n in names["inputs"]}
    outputs = {n: model.create_output_buffer_by_name(signature, n) for n in names["outputs"]}
    details = model.get_output_tensor_details(signature)
    arrays = np.load(given)
    for _ in range(int(runs)):
        for name, buffer in inputs.items():
            buffer.write(arrays[name])
        model.run_by_name(signature, inputs, outputs)
    results = {}
    for name, buffer in outputs.items():
        shape = tuple(details[name]["shape"])
        results[name] = buffer.read(int(np.prod(shape)), details[name]["dtype"]).reshape(shape)
    np.savez(got, **results)


if __name__ == "__main__":
    sys.path.pop(0)  # this folder, in which the folder `dispatch` contains tests
    _main(*sys.argv[1:])

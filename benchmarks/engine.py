"""Runs a network in a child process, in one of four engines.

The engines are this project, stock LiteRT on the CPU, OpenVINO's CPU plugin, and OpenBLAS, which multiplies an
input by the matrices of a `.npz` file one after the other.

One process cannot load all engines, because Intel's OpenCL does not load after OpenVINO's libraries. A child
process runs its network a few times for each request of its parent, so that two child processes can take turns.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass
from importlib import import_module
from pathlib import Path
from statistics import median
from types import TracebackType
from typing import Any

from benchmarks.harness import ROOT, installed_environment

OURS, STOCK, OPENVINO, OPENBLAS = "ours", "stock", "openvino", "openblas"

Run = Callable[[], object]
_WARM_UP = 10
_UNTIMED_RUNS, _TIMED_RUNS = 2, 3
"""Numbers of runs in a turn. For a few milliseconds, idle XNNPACK threads of the other process use the CPU."""


@dataclass(frozen=True, slots=True)
class Loaded:
    """Measurements of a process and its network before the first timed run.

    Attributes:
      open_s: Seconds for importing the engine and opening its device.
      load_s: Seconds from opening the file to the end of the first run.
      driver_bytes: Resident memory of Python, the engine and its device before the load, in bytes.
      resident_bytes: Resident memory after some runs, in bytes.
    """

    open_s: float
    load_s: float
    driver_bytes: int
    resident_bytes: int


class Engine:
    """A child process that runs a network, as a context manager."""

    def __init__(
        self,
        name: str,
        network: Path,
        threads: int,
        inputs: Path,
        outputs: Path | None = None,
        environment: Mapping[str, str] | None = None,
    ) -> None:
        """Loads the network, and warms it up.

        Args:
          name: Name of the engine.
          network: Path of a TFLite file.
          threads: Number of threads for the engine.
          inputs: Path of an `.npz` file, whose arrays are the inputs in their order.
          outputs: Path of an `.npz` file to write the outputs to, by name; only for this project's engine.
          environment: Environment variables in addition to this process's.

        Raises:
          RuntimeError: The engine cannot load the network; the error has the last line that the engine printed.
        """
        command = [sys.executable, "-m", "benchmarks.engine", name, str(network), str(threads)]
        command += [str(inputs), str(outputs or "")]
        self._process = subprocess.Popen(
            command,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            cwd=ROOT,
            env={
                **installed_environment(),
                "OPENBLAS_NUM_THREADS": str(threads),
                **(environment or {}),
            },
        )
        self.loaded = Loaded(**self._ask())

    def seconds(self) -> float:
        """Returns the median time of the runs in a turn, in seconds."""
        assert self._process.stdin is not None
        print(file=self._process.stdin, flush=True)
        return float(self._ask())

    def __enter__(self) -> Engine:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        at: TracebackType | None,
    ) -> None:
        self._process.communicate()

    def _ask(self) -> Any:
        assert self._process.stdout is not None
        line = self._process.stdout.readline()
        if not line:
            _, errors = self._process.communicate()
            raise RuntimeError(errors.strip().splitlines()[-1] if errors.strip() else "no answer")
        return json.loads(line)


def _litert(package: Any, accelerator: str, path: str, threads: int, inputs: Sequence[Any]) -> Run:
    """Loads a `CompiledModel` of this package or of stock LiteRT, and makes its buffers."""
    accelerators = package.HardwareAccelerator
    options = package.Options(
        hardware_accelerators=accelerators[accelerator] | accelerators.CPU,
        cpu_options=package.CpuOptions(num_threads=threads),
    )
    model = package.CompiledModel.from_file(path, options=options)
    sources, results = model.create_input_buffers(0), model.create_output_buffers(0)
    for source, array in zip(sources, inputs, strict=True):
        source.write(array)
    return lambda: model.run_by_index(0, sources, results)


def _openvino(path: str, threads: int, inputs: Sequence[Any]) -> Run:
    openvino = import_module("openvino")
    hints = {
        "INFERENCE_PRECISION_HINT": "f32",
        "INFERENCE_NUM_THREADS": threads,
        "PERFORMANCE_HINT": "LATENCY",
    }
    request = openvino.Core().compile_model(path, "CPU", hints).create_infer_request()
    for index, array in enumerate(inputs):
        request.set_input_tensor(index, openvino.Tensor(array))
    return lambda: request.infer()


def _openblas(path: str, inputs: Sequence[Any]) -> Run:
    import numpy as np

    with np.load(path) as file:
        matrices = list(file.values())
    (x,) = inputs
    results = [np.empty((len(x), matrix.shape[1]), np.float32) for matrix in matrices]

    def run() -> None:
        source = x
        for matrix, result in zip(matrices, results, strict=True):
            source = np.matmul(source, matrix, out=result)

    return run


def _open(name: str, threads: int) -> Callable[[str, Sequence[Any]], Run]:
    """Imports an engine and opens its device; returns the function that loads a network."""
    if name == OURS:
        from benchmarks.loaded import limit_driver_threads

        limit_driver_threads(threads)
        import ai_edge_litert.interpreter  # noqa: F401 (otherwise imported by the first load)

        import litert
        from vendor_reference.dispatch import open_device

        open_device()
        litert.CompiledModel  # noqa: B018 (likewise)
        return lambda path, inputs: _litert(litert, "NPU", path, threads, inputs)
    if name == STOCK:
        import ai_edge_litert.compiled_model as stock

        return lambda path, inputs: _litert(stock, "CPU", path, threads, inputs)
    if name == OPENBLAS:
        return _openblas
    import_module("openvino").Core().get_property("CPU", "FULL_DEVICE_NAME")
    return lambda path, inputs: _openvino(path, threads, inputs)


def _resident_bytes() -> int:
    pages = int(Path("/proc/self/statm").read_text().split()[1])
    return pages * os.sysconf("SC_PAGE_SIZE")


def _serve(name: str, path: str, threads: str, inputs: str, outputs: str) -> None:
    """Loads and warms up a network; then runs it for each line of standard input, and prints the median time."""
    import numpy as np

    with np.load(inputs) as file:
        arrays = dict(file)
    begin = time.perf_counter()
    load = _open(name, int(threads))
    open_s, driver_bytes = time.perf_counter() - begin, _resident_bytes()
    begin = time.perf_counter()
    run = load(path, list(arrays.values()))
    run()
    load_s = time.perf_counter() - begin
    for _ in range(_WARM_UP):
        run()
    loaded = Loaded(open_s, load_s, driver_bytes, _resident_bytes())
    if outputs:
        _write_outputs(path, arrays, outputs)
    print(json.dumps(asdict(loaded)), flush=True)
    for _ in sys.stdin:
        times = [_time(run) for _ in range(_UNTIMED_RUNS + _TIMED_RUNS)]
        print(median(times[_UNTIMED_RUNS:]), flush=True)


def _time(run: Run) -> float:
    begin = time.perf_counter()
    run()
    return time.perf_counter() - begin


def _write_outputs(path: str, inputs: Mapping[str, Any], outputs: str) -> None:
    """Writes the outputs of this project's engine to an `.npz` file, by name."""
    import numpy as np

    from litert import CompiledModel, HardwareAccelerator

    accelerators = HardwareAccelerator.NPU | HardwareAccelerator.CPU
    with CompiledModel.from_file(path, accelerators) as model:
        np.savez(outputs, **model.run(inputs))  # type: ignore[arg-type]


if __name__ == "__main__":
    _serve(*sys.argv[1:])

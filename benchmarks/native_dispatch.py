"""A run of a vendor's dispatch library takes at most 1.3 times as long here as in stock LiteRT.

The library is Intel's library in stock LiteRT's wheel, with its CPU device, and stock LiteRT's tool compiled the
model. Both hosts are in one process and share one copy of the library. The hosts run in turn, because the device's
threads sleep between runs, and wake on different cores.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import ai_edge_litert
import numpy as np
from ai_edge_litert import compiled_model as stock_package
from ai_edge_litert import environment as stock_environment

import litert
from benchmarks.commands import stock_apply_plugin
from benchmarks.harness import BUILD, Row, alternate, run_checked
from benchmarks.models import written
from litert.model.builder import ModelBuilder

_SHAPE = (1, 8)
_LIMIT = 1.3
_WHOLE_LIMIT = 2.0  # this host writes and reads buffers in Python, stock LiteRT in C++
_RUNS = 5000
_INTEL = Path(ai_edge_litert.__file__).parent / "vendors" / "intel_openvino"


def measure() -> Sequence[Row]:
    """Runs both hosts in turn, first only the run, then also writing the inputs and reading the output."""
    model = _compiled()
    ours = _Loaded(litert, litert.Environment, model)
    peer = _Loaded(stock_package, stock_environment.Environment, model)
    bare = alternate(ours.run, peer.run, _RUNS, warm_up=500)
    np.testing.assert_array_equal(ours.read(), peer.read())
    whole = alternate(ours.write_run_read, peer.write_run_read, _RUNS, warm_up=500)
    return [
        bare.row("a run of Intel's library, one ADD of 8 floats", _LIMIT),
        whole.row(
            "a run of Intel's library, with writing the inputs and reading the output", _WHOLE_LIMIT
        ),
    ]


class _Loaded:
    """A model that one of the hosts has loaded, with its buffers."""

    def __init__(self, package: Any, environment: Any, model: Path) -> None:
        accelerators = package.HardwareAccelerator
        self._model = package.CompiledModel.from_file(
            str(model),
            accelerators.NPU,
            environment.create(dispatch_library_path=str(_INTEL / "dispatch")),
        )
        self._inputs = self._model.create_input_buffers(0)
        self._outputs = self._model.create_output_buffers(0)
        self._values = np.arange(8, dtype=np.float32)
        self.write_run_read()

    def run(self) -> None:
        self._model.run_by_index(0, self._inputs, self._outputs)

    def read(self) -> np.ndarray[Any, Any]:
        values: np.ndarray[Any, Any] = self._outputs[0].read(8, np.float32)
        return values

    def write_run_read(self) -> None:
        for buffer in self._inputs:
            buffer.write(self._values)
        self.run()
        self.read()


def _compiled() -> Path:
    """Returns the path of a model with one ADD op, compiled by stock LiteRT's tool with Intel's plugin."""
    builder = ModelBuilder()
    x, z = builder.input("x", "float32", _SHAPE), builder.input("z", "float32", _SHAPE)
    builder.output(builder.op("ADD", [x, z], [("y", "float32", _SHAPE)]))
    source, compiled = written("add", builder.build()), BUILD / "add_intel.tflite"
    flags = [
        "--soc_manufacturer=IntelOpenVINO",
        "--soc_model=PTL",
        f"--libs={_INTEL / 'compiler'}",
        "--intel_openvino_graph_backends=cpu",
    ]
    tool = stock_apply_plugin()
    run_checked([tool, "--cmd=apply", f"--model={source}", f"--o={compiled}", *flags])
    return compiled

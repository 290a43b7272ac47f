"""Tests models in several threads, and that repeated loads leak nothing."""

from __future__ import annotations

import gc
import os
import resource
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from litert.compiled_model import CompiledModel
from litert.core.errors import LiteRtError
from litert.environment import Environment
from tests.runtime.conftest import Load
from tests.runtime.npu_models import cpu_around_npu

X = np.array([[1, 2, 3, 4]], np.float32)
ROUNDS = 50


def run_often(model: CompiledModel, factor: float) -> None:
    """Runs the model often, on its own buffers and on arrays."""
    inputs, outputs = model.create_input_buffers(0), model.create_output_buffers(0)
    inputs[0].write(factor * X)
    for _ in range(ROUNDS):
        model.run_by_index(0, inputs, outputs)
        np.testing.assert_array_equal(outputs[0].array(), 6 * factor * X)
        np.testing.assert_array_equal(model.run({"x": factor * X})["z"], 6 * factor * X)


def test_one_model_is_used_from_several_threads(load: Load) -> None:
    model = load(cpu_around_npu())
    with ThreadPoolExecutor(4) as pool:
        list(pool.map(lambda factor: run_often(model, factor), range(4)))


def test_models_run_side_by_side(environment: Environment) -> None:
    data = cpu_around_npu()

    def load_and_run(factor: int) -> None:
        with CompiledModel.from_buffer(data, environment=environment) as model:
            run_often(model, factor)

    with ThreadPoolExecutor(4) as pool:
        list(pool.map(load_and_run, range(4)))


USES: dict[str, Callable[[CompiledModel], object]] = {
    "run": lambda model: model.run({"x": X}),
    "run by index": lambda model: model.run_by_index(
        0, model.create_input_buffers(0), model.create_output_buffers(0)
    ),
    "details": lambda model: model.get_output_tensor_details("<placeholder signature>"),
    "requirements": lambda model: model.get_input_buffer_requirements(0),
    "resize": lambda model: model.resize_input_tensor(0, (1, 8), strict=False),
    "metrics": lambda model: model.start_metrics_collection(),
}


@pytest.mark.parametrize("use", USES.values(), ids=USES.keys())
def test_a_thread_that_comes_while_the_model_is_closed_is_told(
    load: Load, use: Callable[[CompiledModel], object]
) -> None:
    model = load(cpu_around_npu())
    model.run({"x": X})
    with ThreadPoolExecutor(1) as pool:
        with model._model.hold():
            late = pool.submit(use, model)
            time.sleep(0.05)  # the thread now waits for the model's lock
            model.close()
        with pytest.raises(LiteRtError, match="the model is closed"):
            late.result()


def test_a_thousand_loads_leak_nothing(
    environment: Environment, vendor: Any, tmp_path: Path
) -> None:
    path = tmp_path / "model.tflite"
    path.write_bytes(cpu_around_npu())

    def load_and_run(*, must_close: bool) -> None:
        model = CompiledModel.from_file(path, environment=environment)
        outputs = model.create_output_buffers(0)
        model.run_by_index(0, model.create_input_buffers(0), outputs)
        if must_close:
            model.close()

    for index in range(100):  # until the allocator's memory no longer grows
        load_and_run(must_close=bool(index % 2))
    gc.collect()
    memory, files = resident_kib(), open_files()
    gc.disable()  # reference counts must free everything, without the cyclic collector
    try:
        for index in range(1000):
            load_and_run(must_close=bool(index % 2))
        assert open_files() == files
        assert gc.collect() < 100
    finally:
        gc.enable()
    assert resident_kib() - memory < 3000  # 1000 loads that leak 3 KiB each would exceed this
    assert not vendor.devices and not vendor.calls and not vendor.registered


def open_files() -> int:
    return len(os.listdir("/proc/self/fd"))


def resident_kib() -> int:
    pages = int(Path("/proc/self/statm").read_text().split()[1])
    return pages * resource.getpagesize() // 1024

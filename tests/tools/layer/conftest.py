"""Fixtures for the tests of `litert-npu layer`: an author's folder, and one cache of OpenCL programs for all."""

from __future__ import annotations

import json
from collections.abc import Iterator
from importlib import import_module
from pathlib import Path

import pytest
from litert_npu_tools.layer import safe_process

from litert.core.errors import LiteRtError
from litert.model.builder import ModelBuilder
from litert.model.writer import write_model

SOFTSIGN = """__kernel void Softsign(const __global float* x, __global float* y) {
  const size_t i = get_global_id(0);
  y[i] = PARAM_alpha * x[i] / (1.0f + fabs(x[i]));
}
"""
IN_BFYX = """<CustomLayer name="k" type="SimpleGPU" version="1">
  <Kernel entry="k"><Source filename="k.cl"/></Kernel>
  <Buffers>
    <Tensor arg-index="0" type="input" port-index="0" format="BFYX"/>
    <Tensor arg-index="1" type="output" port-index="0" format="BFYX"/>
  </Buffers>
  <WorkSizes global="B*F*Y*X"/>
</CustomLayer>
"""
SHAPES = ("--inputs=2x4xf32", "--outputs=2x4xf32")


@pytest.fixture(scope="session", autouse=True)
def opencl() -> None:
    """Skips the tests where no OpenCL device can build kernels."""
    from vendor_reference.drivers.device_choice import choose_device

    try:
        choose_device()
    except LiteRtError as error:
        pytest.skip(str(error))


@pytest.fixture
def in_this_process(monkeypatch: pytest.MonkeyPatch) -> None:
    """Runs the child's work in this process, which is faster; `test_layer_processes.py` tests the child."""

    def call(target: str, argument: object, **_: object) -> Iterator[object]:
        module, function = target.split(":")
        request = json.loads(json.dumps(argument))
        for answer in getattr(import_module(module), function)(request):
            yield json.loads(json.dumps(answer))

    monkeypatch.setattr(safe_process, "call_in_child", call)


@pytest.fixture
def author(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The author's folder, with a kernel and a model; it is the working directory."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "Softsign.cl").write_text(SOFTSIGN)
    b = ModelBuilder()
    x = b.input("x", "float32", (2, 4))
    half = b.custom("Softsign", [x], [("h", "float32", (2, 4))], options={"alpha": 0.5})
    again = b.custom("Softsign", [half], [("i", "float32", (2, 4))], options={"alpha": 0.5})
    other = b.custom("Softsign", [again], [("j", "float32", (2, 4))], options={"alpha": 2.0})
    b.output(b.op("RELU", [other], [("y", "float32", (2, 4))]))
    write_model(b.build(), "model.tflite")
    return tmp_path

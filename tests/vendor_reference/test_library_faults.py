"""Tests errors that layers of the library find during a run: the run fails, and the next one succeeds."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np
import pytest

from compiler_plugin.pipeline import ApplyOptions, apply_plugin
from litert import CompiledModel
from litert.core.compiler_options import CompilerOptions
from litert.core.errors import LiteRtError
from litert.core.status import Status
from litert.core.tracing import record
from litert.model.builder import ModelBuilder
from litert.model.writer import write_model
from tests.vendor_reference.executables import Array

pytestmark = pytest.mark.each_driver

X = np.arange(12, dtype=np.float32).reshape(3, 4)
GOOD = np.array([2, 0], np.int32)


@pytest.fixture(params=["one launch", "separate launches"])
def model(
    request: pytest.FixtureRequest,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> Iterator[CompiledModel]:
    """A model in one NPU call: gathers rows, then columns, at indices that the run gives, between other layers."""
    if request.param == "separate launches":
        from vendor_reference.device.opencl_device import shared_device

        monkeypatch.setattr(shared_device(""), "ordering_option", None)
    b = ModelBuilder()
    x = b.input("x", "float32", (3, 4))
    first, second = b.input("first", "int32", (2,)), b.input("second", "int32", (2,))
    turned = b.op("NEG", [x], [("turned", "float32", (3, 4))])
    rows = b.op("GATHER", [turned, first], [("rows", "float32", (2, 4))], axis=0)
    columns = b.op("GATHER", [rows, second], [("columns", "float32", (2, 2))], axis=1)
    b.output(b.op("EXP", [columns], [("y", "float32", (2, 2))]))
    write_model(b.build(), tmp_path / "model.tflite")
    options = CompilerOptions(vendor_options={"reference_ops": "all"})
    compiled = tmp_path / "compiled.tflite"
    report = apply_plugin(tmp_path / "model.tflite", compiled, ApplyOptions(compiler=options))
    assert len({op.call for op in report.ops}) == 1 and report.ops[0].call
    with CompiledModel.from_file(str(compiled)) as loaded:
        yield loaded


def run(model: CompiledModel, first: Array, second: Array) -> Array:
    return model.run({"x": X, "first": first, "second": second})["y"]


def run_at_once(model: CompiledModel, first: Array, second: Array) -> Array:
    """Runs the model asynchronously."""
    given = {"x": X, "first": first, "second": second}
    details = model.get_input_tensor_details(model.get_signature_by_index(0)["key"])
    inputs, outputs = model.create_input_buffers(0), model.create_output_buffers(0)
    for name, buffer in zip(details, inputs, strict=True):
        buffer.write(given[name])
    model.run_async_by_index(0, inputs, outputs).wait()
    return np.array(outputs[0].read(4, np.dtype("float32"))).reshape(2, 2)


def run_recorded(model: CompiledModel, first: Array, second: Array) -> Array:
    """Runs the model with recorded times, for which each layer is a separate launch."""
    with record():
        return run(model, first, second)


@pytest.mark.parametrize("run", [run, run_at_once, run_recorded])
@pytest.mark.parametrize(
    ("first", "second", "problem"),
    [
        (
            [0, 3],
            [0, 0],
            "op GATHER that writes tensor 'rows' got index 3, but the allowed indices are 0 to 2",
        ),
        (
            [-1, 0],
            [0, 0],
            "op GATHER that writes tensor 'rows' got index -1, but the allowed indices are 0 to 2",
        ),
        (
            [0, 1],
            [4, 1],
            "op GATHER that writes tensor 'columns' got index 4, but the allowed indices are 0 to 3",
        ),
        (
            [0, -(2**31)],
            [9, 9],
            "op GATHER that writes tensor 'rows' got index -2147483648, but the allowed indices are 0 to 2",
        ),
    ],
)
def test_an_index_that_is_not_there_ends_the_run_as_in_stock(
    model: CompiledModel,
    run: Callable[[CompiledModel, Array, Array], Array],
    first: list[int],
    second: list[int],
    problem: str,
) -> None:
    for _ in range(2):
        with pytest.raises(LiteRtError, match=problem.replace("..", r"\.\.")) as error:
            run(model, np.array(first, np.int32), np.array(second, np.int32))
        assert error.value.status is Status.INVALID_ARGUMENT
        expected = np.exp(-X[GOOD][:, GOOD])
        np.testing.assert_allclose(run(model, GOOD, GOOD), expected, rtol=1e-5)

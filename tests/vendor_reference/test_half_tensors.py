"""Half tensors are float in kernels, or halves where the user says so; other types are what they are."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from compiler_plugin.pipeline import ApplyOptions, apply_plugin
from compiler_plugin.report import Report
from litert import CompiledModel
from litert.core.compiler_options import CompilerOptions, CustomOpInfo
from litert.core.element_type import ElementType
from litert.core.errors import LiteRtError
from litert.core.status import Status
from litert.model.builder import ModelBuilder
from litert.model.writer import write_model
from vendor_reference.compiler.half_tensors import HalfTensors, kernel_type
from vendor_reference.compiler.options import check_options, half_tensors

Array = np.ndarray[Any, Any]

IN_TYPE = """\
__kernel void Scale(const __global INPUT0_TYPE* x, __global OUTPUT0_TYPE* y) {
  const size_t i = get_global_id(0);
  y[i] = x[i] * 3 / (OUTPUT0_TYPE)2;
}
"""
OF_HALVES = """\
__kernel void Scale(const __global INPUT0_TYPE* x, __global OUTPUT0_TYPE* y) {
  const size_t i = get_global_id(0);
  vstore_half(vload_half(i, x) * 1.5f, i, y);
}
"""


@pytest.fixture(autouse=True)
def cache(shared_cache: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("LITERT_NPU_CACHE_DIR", shared_cache)


def run(folder: Path, source: str, x: Array, options: dict[str, str]) -> tuple[Array, Report]:
    b = ModelBuilder()
    tensor = b.input("x", x.dtype, x.shape)
    b.output(b.custom("Scale", [tensor], [("y", x.dtype, x.shape)]))
    write_model(b.build(), folder / "m.tflite")
    (folder / "scale.cl").write_text(source)
    compiler = CompilerOptions(
        [CustomOpInfo("Scale", str(folder / "scale.cl"))], vendor_options=options
    )
    report = apply_plugin(
        folder / "m.tflite",
        folder / "c.tflite",
        ApplyOptions(require_npu=["all"], compiler=compiler),
    )
    model = CompiledModel.from_file(str(folder / "c.tflite"))
    inputs, outputs = model.create_input_buffers(0), model.create_output_buffers(0)
    inputs[0].write(x)
    model.run_by_index(0, inputs, outputs)
    return np.array(outputs[0].read(x.size, x.dtype)), report


@pytest.mark.parametrize(
    ("source", "options"), [(IN_TYPE, {}), (OF_HALVES, {"reference_fp16": "half"})]
)
def test_a_half_tensor_is_float_in_a_kernel_or_what_it_is(
    tmp_path: Path, source: str, options: dict[str, str]
) -> None:
    x = np.array([-2, 0, 0.5, 1000, 65504, np.inf], np.float16)
    with np.errstate(over="ignore"):
        expected = x * np.float16(1.5)
    y, report = run(tmp_path, source, x, options)
    np.testing.assert_array_equal(y, expected)
    notes = [note for note in report.notes if "half tensors are float in its kernel" in note]
    assert len(notes) == (0 if options else 1)
    assert options or notes[0].startswith("scale.cl, op 'Scale': ")


@pytest.mark.parametrize("dtype", [np.int8, np.uint8, np.int32, np.int64])
def test_integers_are_what_they_are(tmp_path: Path, dtype: type) -> None:
    x: Array = np.array([0, 2, 40, 80], dtype)
    y, _ = run(tmp_path, IN_TYPE, x, {})
    assert y.tolist() == [0, 3, 60, 120]


def test_a_type_that_a_layer_asks_for_counts() -> None:
    half, single = ElementType.FLOAT16, ElementType.FLOAT32
    assert kernel_type(half, None, HalfTensors.FLOAT) is single
    assert kernel_type(half, half, HalfTensors.FLOAT) is half
    assert kernel_type(half, None, HalfTensors.HALF) is half
    assert kernel_type(ElementType.INT8, None, HalfTensors.FLOAT) is ElementType.INT8


def test_options_of_the_vendor_are_read() -> None:
    assert half_tensors({}) is HalfTensors.FLOAT
    assert half_tensors({"reference_fp16": "half"}) is HalfTensors.HALF


@pytest.mark.parametrize(
    ("options", "what", "hint"),
    [
        ({"reference_fp16": "double"}, "--reference_fp16=double", "float or half"),
        ({"reference_fp6": "half"}, "no option 'reference_fp6'", "Do you mean 'reference_fp16'?"),
        ({"speed": "1"}, "no option 'speed'", "reference_fp16"),
    ],
)
def test_an_option_that_cannot_be_is_an_error(
    options: dict[str, str], what: str, hint: str
) -> None:
    with pytest.raises(LiteRtError) as error:
        check_options(options)
    assert error.value.status is Status.INVALID_TOOL_CONFIG
    assert what in error.value.what and hint in error.value.hint

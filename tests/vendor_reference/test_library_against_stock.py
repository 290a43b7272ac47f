"""Compares each op of the library with stock LiteRT's plain kernels on random calls, several in each model.

LITERT_NPU_OP_CASES is the number of models for each op on each driver, different ones in each run. By default,
each op gets the same two models in each run.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pytest
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st

from compiler_plugin.pipeline import ApplyOptions, apply_plugin
from litert import CompiledModel
from litert.core.compiler_options import CompilerOptions
from litert.model.writer import to_bytes, write_model
from tests.vendor_reference.executables import Array
from tests.vendor_reference.random_ops import NEED_SCALES, OpCase, build, cases, find_maker
from vendor_reference.compiler.library.library_op import library_ops

OPTIONS = CompilerOptions(vendor_options={"reference_ops": "all"})
RANDOM_MODELS = settings(
    max_examples=int(os.environ.get("LITERT_NPU_OP_CASES", "2")),
    phases=[Phase.generate],  # no shrinking: cases are small, and a model takes a second
    suppress_health_check=list(HealthCheck),
    derandomize="LITERT_NPU_OP_CASES" not in os.environ,
    database=None,
)
IN_MODEL = 5
CLAMPS = {"RELU6": 6.0, "RELU_N1_TO_1": 1.0}
"""Fused activations that limit sums of any size, with the greatest value that each leaves."""


def test_each_op_is_tried() -> None:
    ops = [op for name, op in library_ops().items() if name not in NEED_SCALES]
    lacking = [op.name for op in ops if find_maker(op) is None]
    assert not lacking, "give them a maker in tests/vendor_reference/random_ops.py"


@pytest.mark.each_driver
@pytest.mark.parametrize("name", [name for name in library_ops() if name not in NEED_SCALES])
@given(data=st.data())
@RANDOM_MODELS
def test_an_op_is_stocks(tmp_path: Path, name: str, data: st.DataObject) -> None:
    drawn = data.draw(st.lists(cases(library_ops()[name]), min_size=1, max_size=IN_MODEL))
    expected = run_stock(drawn)
    found = run_npu(tmp_path, drawn, [array.shape for results in expected for array in results])
    for case, wanted, results in zip(drawn, expected, found, strict=True):
        for array, result in zip(wanted, results, strict=True):
            assert (problem := difference(case, array, result)) == "", f"{case}: {problem}"


def run_stock(drawn: Sequence[OpCase]) -> list[list[Array]]:
    """Runs the cases with stock LiteRT's plain kernels and returns the results; float16 is computed in float32."""
    from ai_edge_litert.interpreter import Interpreter, OpResolverType

    guessed = [shape for case in drawn for shape in case.shapes or [(1,)] * len(case.results)]
    model = build(drawn, guessed, for_stock=True)
    plain = OpResolverType.BUILTIN_WITHOUT_DEFAULT_DELEGATES
    interpreter = Interpreter(
        model_content=bytes(to_bytes(model)), num_threads=1, experimental_op_resolver_type=plain
    )
    interpreter.allocate_tensors()
    arrays = inputs_of(drawn)
    for detail in interpreter.get_input_details():
        interpreter.set_tensor(detail["index"], arrays[detail["name"]].astype(detail["dtype"]))
    interpreter.invoke()
    outputs = iter(interpreter.get_output_details())
    with np.errstate(all="ignore"):
        return [
            [interpreter.get_tensor(next(outputs)["index"]).astype(dtype) for dtype in case.results]
            for case in drawn
        ]


def run_npu(
    folder: Path, drawn: Sequence[OpCase], shapes: Sequence[tuple[int, ...]]
) -> list[list[Array]]:
    """Runs the cases in one NPU call and returns the results."""
    model, compiled = build(drawn, shapes), folder / "compiled.tflite"
    write_model(model, folder / "model.tflite")
    report = apply_plugin(folder / "model.tflite", compiled, ApplyOptions(compiler=OPTIONS))
    refused = [f"{op.name}: {op.reason}" for op in report.ops if not op.call]
    assert not refused, f"{refused}; {'; '.join(map(str, drawn))}"
    with CompiledModel.from_file(str(compiled)) as loaded:
        results = loaded.run(inputs_of(drawn))
    return [
        [results[f"case{number}_y{i}"] for i in range(len(case.results))]
        for number, case in enumerate(drawn)
    ]


def inputs_of(drawn: Sequence[OpCase]) -> dict[str, Array]:
    return {
        f"case{number}_x{i}": given.array
        for number, case in enumerate(drawn)
        for i, given in enumerate(case.inputs)
        if given is not None and not given.is_constant
    }


def difference(case: OpCase, expected: Array, found: Array) -> str:
    """Describes how a result differs from stock LiteRT's; "" if it does not."""
    if (found.shape, found.dtype) != (expected.shape, expected.dtype):
        return f"{found.dtype}{found.shape} and not {expected.dtype}{expected.shape}"
    if expected.dtype.kind != "f":
        wrong = np.argwhere(found != expected)
        return f"{len(wrong)} of {found.size} differ, first at {wrong[0]}" if len(wrong) else ""
    wide, ours = _with_infinity(expected), _with_infinity(found)
    fused = str(case.options.get("fused_activation_function"))
    finite = np.isfinite(wide) & np.isfinite(ours)
    is_same = finite | (wide == ours) | (np.isnan(wide) & np.isnan(ours))
    if (
        case.name == "DEPTHWISE_CONV_2D"
    ):  # in the last columns only, stock LiteRT clamps NaN to the maximum
        is_same |= np.isnan(ours) & (wide == CLAMPS.get(fused, np.inf))
    for at in np.argwhere(~is_same)[:1]:
        return f"{ours[tuple(at)]} and not {wide[tuple(at)]} at {at}"
    greatest = np.abs(wide[finite]).max(initial=0) or 1.0
    maker = find_maker(library_ops()[case.name])
    assert maker is not None
    allowed = maker.limit(str(expected.dtype))
    if fused in CLAMPS:
        allowed *= 8  # the sums were larger than the clamped results
    largest = float(np.abs(wide[finite] - ours[finite]).max(initial=0)) / greatest
    return f"differs by {largest:.1e} of {greatest:.3g}" if largest > allowed else ""


def _with_infinity(array: Array) -> Array:
    """Replaces the greatest float by infinity: stock LiteRT clamps infinity to it, even with activation NONE."""
    wide = array.astype(np.float64)
    is_greatest = np.abs(wide) >= np.finfo(np.float32).max
    result: Array = np.where(is_greatest, np.copysign(np.inf, wide), wide)
    return result

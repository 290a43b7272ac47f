"""Compares each op with stock LiteRT on tensors inside larger tensors, which `place-parts` joins in place.

Operands of random calls are computed on the NPU and joined with other tensors, and so are the results.
LITERT_NPU_OP_CASES is the number of models for each op, different ones in each run. By default, each op gets the
same two models in each run.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from compiler_plugin.pipeline import ApplyOptions, apply_plugin
from litert import CompiledModel
from litert.core.element_type import ElementType
from litert.model.builder import ModelBuilder
from litert.model.graph import Tensor
from litert.model.writer import write_model
from tests.vendor_reference.executables import Array
from tests.vendor_reference.random_ops import NEED_SCALES, Drawing, OpCase, add_input, find_maker
from tests.vendor_reference.test_library_against_stock import (
    OPTIONS,
    RANDOM_MODELS,
    difference,
    run_stock,
)
from vendor_reference.compiler.library.library_op import library_ops

OPS = [
    name
    for name, op in library_ops().items()
    if ElementType.FLOAT32 in op.types and name not in NEED_SCALES
]


@pytest.mark.parametrize("name", OPS)
@given(data=st.data())
@RANDOM_MODELS
def test_parts_of_other_tensors_are_read_and_written(
    tmp_path: Path, name: str, data: st.DataObject
) -> None:
    maker = find_maker(library_ops()[name])
    assert maker is not None
    options = {key: data.draw(st.sampled_from(values)) for key, values in maker.options.items()}
    drawing = Drawing(data.draw, "float32")
    case = maker.make(drawing, options)
    (expected,) = run_stock([case])
    model = Joining(drawing, case, expected)
    write_model(model.builder.build(), tmp_path / "model.tflite")
    compiled = tmp_path / "compiled.tflite"
    report = apply_plugin(tmp_path / "model.tflite", compiled, ApplyOptions(compiler=OPTIONS))
    assert {op.call for op in report.ops} == {"Partition_0"}
    with CompiledModel.from_file(str(compiled)) as loaded:
        results = loaded.run(model.arrays)
    for index, array in enumerate(expected):
        assert (problem := difference(case, array, model.result(index, results))) == "", problem
    for operand, array in model.joined.items():
        np.testing.assert_array_equal(results[operand], array, str(case))


class Joining:
    """A model with one call whose operands and results are parts of larger outputs.

    Attributes:
      arrays: Inputs by name.
      joined: Expected values, by name, of the outputs that contain operands.
    """

    def __init__(self, drawing: Drawing, case: OpCase, expected: list[Array]) -> None:
        self.builder = ModelBuilder()
        self.arrays: dict[str, Array] = {}
        self.joined: dict[str, Array] = {}
        self._drawing = drawing
        self._places: list[tuple[int, int] | None] = []
        operands = [self._operand(case, index) for index in range(len(case.inputs))]
        shapes = [(f"y{i}", array.dtype, array.shape) for i, array in enumerate(expected)]
        results = [self.builder.tensor(*shape) for shape in shapes]
        self.builder.op(case.name, operands, results, **case.options)
        for index, (result, array) in enumerate(zip(results, expected, strict=True)):
            is_part = array.ndim > 0 and array.size > 0 and array.dtype == np.float32
            self._places.append(self._join(f"y{index}", result, array.shape) if is_part else None)
            if not is_part:
                self.builder.output(result)

    def result(self, index: int, results: Mapping[str, Array]) -> Array:
        """Returns a result of the call, cut out of the model's outputs."""
        place = self._places[index]
        if place is None:
            return results[f"y{index}"]
        _, part = np.split(results[f"y{index}_joined"], [place[1]], place[0])
        return np.ascontiguousarray(part)

    def _operand(self, case: OpCase, index: int) -> Tensor | None:
        """Adds an operand: a part of an output if it is float32; a constant in some cases."""
        given, name = case.inputs[index], f"x{index}"
        if given is None:
            return None
        array = given.array
        stays = given.is_half or (given.is_constant and self._drawing.choose((True, False)))
        if stays or array.dtype != np.float32 or not array.ndim:
            self.arrays |= {} if given.is_constant else {name: array}
            whole: Tensor = add_input(self.builder, name, given)
            return whole
        self.arrays[name] = -array
        negated = self.builder.input(name, "float32", array.shape)
        tensor = self.builder.op("NEG", [negated], [(f"{name}_part", "float32", array.shape)])
        assert isinstance(tensor, Tensor)
        axis, _ = self._join(name, tensor, array.shape)
        other = self.arrays[f"{name}_other"]
        self.joined[f"{name}_joined"] = np.concatenate([other, array], axis)
        return tensor

    def _join(self, name: str, tensor: Tensor, shape: tuple[int, ...]) -> tuple[int, int]:
        """Joins the tensor after another one; returns the axis and the index at which the tensor begins."""
        axis, begin = self._drawing.size(0, len(shape) - 1), self._drawing.size(1, 3)
        own = [begin if dim == axis else size for dim, size in enumerate(shape)]
        whole = [begin + size if dim == axis else size for dim, size in enumerate(shape)]
        other = self.builder.input(f"{name}_other", "float32", own)
        self.arrays[other.name] = np.ones(own, np.float32)
        joined = [(f"{name}_joined", "float32", whole)]
        self.builder.output(self.builder.op("CONCATENATION", [other, tensor], joined, axis=axis))
        return axis, begin

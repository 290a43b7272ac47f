"""Tests outputs of dynamic shape, from the plugin that marks them to the run that determines their shapes."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import numpy as np
import pytest

from compiler_plugin.pipeline import ApplyOptions, apply_plugin
from litert.core.compiler_options import CompilerOptions
from litert.core.errors import LiteRtError
from litert.core.status import Status
from litert.model.builder import ModelBuilder
from litert.model.manifest import ShapeOutput, read_manifest
from litert.model.reader import read_model
from litert.model.writer import write_model
from tests.runtime.conftest import Load
from tests.runtime.npu_models import FLOAT, VENDORS


def compile_model(model: ModelBuilder, folder: Path, options: Mapping[str, str]) -> Path:
    write_model(model.build(), folder / "in.tflite")
    apply_plugin(
        folder / "in.tflite",
        folder / "out.bin",
        ApplyOptions("Test", libs=[str(VENDORS)], compiler=CompilerOptions(vendor_options=options)),
    )
    return folder / "out.bin"


def build_positive() -> ModelBuilder:
    """Builds a model of two outputs: the positive elements of `x`, negated on the CPU, and `2x`."""
    builder = ModelBuilder()
    x = builder.input("x", FLOAT, (6,))
    found = builder.custom(
        "positive", [x], [builder.tensor("found", FLOAT, (1,), shape_signature=(-1,))]
    )
    negated = builder.op("NEG", [found], [builder.tensor("y", FLOAT, (1,), shape_signature=(-1,))])
    doubled = builder.custom("double", [x], [("z", FLOAT, (6,))])
    builder.output(negated, doubled)
    return builder


def test_a_plugin_says_which_outputs_have_a_shape_that_only_a_run_tells(
    load: Load, tmp_path: Path
) -> None:
    path = compile_model(build_positive(), tmp_path, {})
    with read_model(path) as model:
        manifest = read_manifest(model)
        (call, *_) = [op for op in model.ops() if op.name == "DISPATCH_OP"]
        assert [str(tensor.type) for tensor in call.outputs] == ["tensor<?xf32>", "tensor<1xi32>"]
    assert manifest and manifest.shape_outputs == (ShapeOutput("positive@0", 0, 1),)
    compiled = load(path.read_bytes())
    for x in ([1, -1, 2, -2, 3, -3], [-1] * 6, [1, 2, 3, 4, 5, 6]):
        data = np.array(x, np.float32)
        outputs = compiled.run({"x": data})
        np.testing.assert_array_equal(outputs["y"], -data[data > 0])
        np.testing.assert_array_equal(outputs["z"], 2 * data)


def test_functions_of_one_name_agree_in_their_dynamic_outputs(tmp_path: Path) -> None:
    with pytest.raises(LiteRtError, match="two NPU calls have the function name 'same'") as error:
        compile_model(build_positive(), tmp_path, {"test_name": "same"})
    assert error.value.where == "vendor 'Test', in compile"
    assert error.value.status is Status.INVALID_ARGUMENT
    assert not (tmp_path / "out.bin").exists()

"""Tests `--input_shape` and `--data_layout`, which set shapes and layouts of inputs and outputs."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from compiler_plugin.pipeline import ApplyOptions, apply_plugin
from compiler_plugin.transform_options import TransformOptions
from compiler_plugin.transformations.layout_change.change import change_layout
from compiler_plugin.transforming import transform_file
from litert.core.compiler_options import CompilerOptions
from litert.core.errors import LiteRtError
from litert.core.quantization import Quantization
from litert.core.status import Status
from litert.model.builder import ModelBuilder
from litert.model.graph import Model, Signature
from litert.model.manifest import read_manifest
from litert.model.reader import read_model
from litert.model.writer import to_bytes, write_model
from tests.compiler_plugin.transformations.layout_change.checking import random_inputs
from tests.compiler_plugin.transformations.layout_change.stock_form import run_stock

TO_NHWC, TO_NCHW = (0, 2, 3, 1), (0, 3, 1, 2)


def transformed(folder: Path, model: Model, **options: Any) -> tuple[Model, list[str]]:
    """Transforms a model; returns the new model and the warnings of the report."""
    write_model(model, folder / "in.tflite")
    asked = TransformOptions(**{"selection": ["all"], **options})
    report = transform_file(folder / "in.tflite", folder / "out.tflite", asked)
    return read_model((folder / "out.tflite").read_bytes()), list(report.warnings)


def convolution(
    shape: tuple[int, ...] = (1, 6, 4, 3), signature: tuple[int, ...] | None = None
) -> Model:
    b = ModelBuilder()
    x = b.input("x", "float32", shape, shape_signature=signature)
    filters = b.constant("filters", np.arange(54, dtype=np.float32).reshape(2, 3, 3, 3) / 54)
    wide = (*shape[:3], 2)
    conv = b.op(
        "CONV_2D", [x, filters, b.constant("bias", np.zeros(2, np.float32))],
        [("conv", "float32", wide)], padding="SAME", stride_w=1, stride_h=1,
    )  # fmt: skip
    relu = b.op("RELU", [conv], [("relu", "float32", wide)])
    axes = b.constant("axes", np.array([1, 2], np.int32))
    b.output(relu, b.op("MEAN", [relu, axes], [("mean", "float32", (shape[0], 2))]))
    b.signature("serving_default", {"image": x})
    return b.build()


def ops(model: Model) -> list[str]:
    return [op.name for op in model.ops()]


@pytest.mark.parametrize("name", ["x", "image"])
def test_an_input_gets_its_shape_and_what_follows_has_its_own(tmp_path: Path, name: str) -> None:
    model, _ = transformed(tmp_path, convolution(), input_shapes={name: (2, 10, 8, 3)})
    main = model.subgraphs[0]
    assert main.inputs[0].shape == (2, 10, 8, 3) and main.inputs[0].shape_signature is None
    assert [tensor.shape for tensor in main.outputs] == [(2, 10, 8, 2), (2, 2)]
    outputs = run_stock(model, random_inputs(model))
    assert [output.shape for output in outputs] == [(2, 10, 8, 2), (2, 2)]


def test_a_size_may_be_open_and_an_open_one_gets_a_size(tmp_path: Path) -> None:
    model, _ = transformed(tmp_path, convolution(), input_shapes={"x": (-1, 6, 4, 3)})
    assert [t.shape_signature for t in model.subgraphs[0].outputs] == [(-1, 6, 4, 2), (-1, 2)]
    open_model = convolution(signature=(-1, 6, 4, 3))
    model, _ = transformed(tmp_path, open_model, input_shapes={"x": (5, 6, 4, 3)})
    assert [t.shape for t in model.subgraphs[0].outputs] == [(5, 6, 4, 2), (5, 2)]
    assert all(t.shape_signature is None for t in model.subgraphs[0].tensors)


@pytest.mark.parametrize(
    ("shapes", "status", "what", "where"),
    [
        ({"y": (1, 2)}, Status.NOT_FOUND, "no input of the model is named 'y'", "--input_shape"),
        (
            {"x": (1, 6, 4, 5)},
            Status.RUNTIME_FAILURE,
            "stock LiteRT refuses the op",
            "shape inference with --input_shape, op CONV_2D 'conv'",
        ),
    ],
)
def test_a_shape_that_cannot_be_names_what_cannot_have_it(
    tmp_path: Path, shapes: Any, status: Status, what: str, where: str
) -> None:
    with pytest.raises(LiteRtError) as error:
        transformed(tmp_path, convolution(), input_shapes=shapes)
    assert (error.value.status, error.value.where[: len(where)]) == (status, where)
    assert error.value.what.startswith(what) and error.value.hint
    assert not (tmp_path / "out.tflite").exists()


def test_a_custom_op_that_nobody_can_infer_is_named(tmp_path: Path) -> None:
    b = ModelBuilder()
    mine = b.custom("Mine", [b.input("x", "float32", (1, 4))], [("y", "float32", (1, 4))])
    b.output(mine)
    with pytest.raises(LiteRtError, match="the output shapes of Mine 'y' are not known"):
        transformed(tmp_path, b.build(), input_shapes={"x": (2, 4)})


def test_a_compiled_model_may_get_other_shapes_first_and_says_so(tmp_path: Path) -> None:
    write_model(convolution(), tmp_path / "in.tflite")
    options = ApplyOptions(
        transform=TransformOptions(input_shapes={"x": (2, 10, 8, 3)}),
        compiler=CompilerOptions(vendor_options={"reference_ops": "all"}),
    )
    apply_plugin(tmp_path / "in.tflite", tmp_path / "out.tflite", options)
    with read_model(tmp_path / "out.tflite") as model:
        assert model.subgraphs[0].outputs[0].shape == (2, 10, 8, 2)
        assert "x:2x10x8x3" in str(read_manifest(model))


@pytest.mark.parametrize("signature", [None, (-1, -1, -1, 3)])
def test_images_are_nchw_outside_and_nhwc_within(tmp_path: Path, signature: Any) -> None:
    before = convolution(signature=signature)
    model, warnings = transformed(tmp_path, before, data_layout="NCHW")
    main = model.subgraphs[0]
    assert ops(model) == ["TRANSPOSE", "CONV_2D", "MEAN", "TRANSPOSE"] and not warnings
    assert [(t.name, t.shape) for t in (*main.inputs, *main.outputs)] == [
        ("x", (1, 3, 6, 4)), ("relu", (1, 2, 6, 4)), ("mean", (1, 2)),
    ]  # fmt: skip
    if signature:
        assert main.inputs[0].shape_signature == (-1, 3, -1, -1)
        assert main.outputs[0].shape_signature == (-1, 2, -1, -1)
    assert [name for name, _ in model.signatures[0].inputs] == ["image"]
    (x,) = random_inputs(before)
    old, new = run_stock(before, [x]), run_stock(model, [x.transpose(TO_NCHW)])
    np.testing.assert_allclose(new[0], old[0].transpose(TO_NCHW), rtol=1e-5, atol=1e-6)
    np.testing.assert_allclose(new[1], old[1], rtol=1e-5, atol=1e-6)


def test_an_npu_that_works_in_nchw_transposes_nothing_then(tmp_path: Path) -> None:
    model, _ = transformed(tmp_path, convolution(), data_layout="NCHW")
    change_layout(model, model.subgraphs[0], "NCHW")
    assert "TRANSPOSE" not in ops(model)


def test_transposes_of_the_model_and_ours_cancel(tmp_path: Path) -> None:
    b = ModelBuilder()
    x = b.input("x", "float32", (1, 4, 5, 3))
    first = b.constant("first", np.array(TO_NCHW, np.int32))
    inner = b.op("TRANSPOSE", [x, first], [("inner", "float32", (1, 3, 4, 5))])
    b.output(b.op("NEG", [inner], [("y", "float32", (1, 3, 4, 5))]), x)
    before = b.build()
    model, _ = transformed(tmp_path, before, data_layout="NCHW")
    assert [t.shape for t in model.subgraphs[0].outputs] == [(1, 5, 3, 4), (1, 3, 4, 5)]
    (value,) = random_inputs(before)
    old, new = run_stock(before, [value]), run_stock(model, [value.transpose(TO_NCHW)])
    for a, b_ in zip(old, new, strict=True):
        np.testing.assert_array_equal(a.transpose(TO_NCHW), b_)
    assert ops(model).count("TRANSPOSE") <= 2


def test_quantized_images_keep_their_scale(tmp_path: Path) -> None:
    b = ModelBuilder()
    shape, scale = (1, 2, 3, 4, 5), Quantization((0.5,), (3,))
    x = b.input("x", "int8", shape, quantization=scale)
    b.output(b.op("RELU", [x], [b.tensor("y", "int8", shape, quantization=scale)]))
    model, _ = transformed(tmp_path, b.build(), data_layout="NCHW")
    main = model.subgraphs[0]
    assert main.inputs[0].shape == main.outputs[0].shape == (1, 5, 2, 3, 4)
    quantizations = [t.quantization for op in model.ops() for t in (op.inputs[0], *op.outputs) if t]
    assert {str(q) for q in quantizations} == {str(scale)}


def test_a_model_without_images_stays_and_the_report_says_so(tmp_path: Path) -> None:
    b = ModelBuilder()
    b.output(b.op("RELU", [b.input("x", "float32", (2, 3))], [("y", "float32", (2, 3))]))
    model, warnings = transformed(tmp_path, b.build(), data_layout="NCHW")
    assert ops(model) == ["RELU"]
    assert warnings == [
        "--data_layout=NCHW has no effect: no input or output of the model has four or five dimensions"
    ]


def test_what_an_op_calls_keeps_its_layout(tmp_path: Path) -> None:
    shape = (1, 2, 3, 4)
    b = ModelBuilder()
    x, condition = b.input("x", "float32", shape), b.input("c", "bool", ())
    branch = b.subgraph("branch")
    branch.output(
        branch.op("ABS", [branch.input("z", "float32", shape)], [("za", "float32", shape)])
    )
    b.output(
        b.op(
            "IF", [condition, x], [("y", "float32", shape)],
            then_subgraph_index=branch, else_subgraph_index=branch,
        )
    )  # fmt: skip
    model, _ = transformed(tmp_path, b.build(), data_layout="NCHW")
    assert ops(model) == ["TRANSPOSE", "IF", "TRANSPOSE", "ABS"]
    assert model.subgraphs[1].inputs[0].shape == shape
    called = b.build()
    called.signatures.append(called_by_name(called))
    with pytest.raises(
        LiteRtError,
        match="inputs and outputs of subgraph 1 cannot change to the layout NCHW, because an op IF calls",
    ) as error:
        transformed(tmp_path, called, data_layout="NCHW")
    assert error.value.status is Status.UNSUPPORTED


def called_by_name(model: Model) -> Signature:
    return Signature.of("branch", model.subgraphs[1])


def test_the_networks_of_people_run_with_nchw_inputs(networks: Path, tmp_path: Path) -> None:
    path = networks / "face_detection_short_range.tflite"
    options = TransformOptions(selection=["all"], data_layout="NCHW")
    transform_file(path, tmp_path / "out.tflite", options)
    with read_model(path) as before, read_model(tmp_path / "out.tflite") as after:
        (x,) = random_inputs(before)
        old = run_stock(read_model(to_bytes(before)), [x])
        new = run_stock(read_model(to_bytes(after)), [x.transpose(TO_NCHW)])
        assert after.subgraphs[0].inputs[0].shape == (1, 3, 128, 128)
    for before_, after_ in zip(old, new, strict=True):
        np.testing.assert_allclose(after_, before_, rtol=1e-3, atol=1e-4)

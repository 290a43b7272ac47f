"""Tests the layout change of whole models: which tensors are transposed, and how computed shapes are permuted."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from compiler_plugin.transformations.layout_change.change import change_layout
from litert.core.errors import LiteRtError
from litert.core.quantization import BlockwiseQuantization, Quantization
from litert.core.status import Status
from litert.model.blob import Blob
from litert.model.builder import ModelBuilder
from litert.model.graph import Model
from litert.model.positions import (
    CONTROL_DEPENDENCIES_KEY,
    read_control_dependencies,
    set_control_dependencies,
)
from litert.model.reader import read_model
from litert.model.table import Table
from litert.model.writer import to_bytes
from tests.compiler_plugin.transformations.layout_change.checking import (
    check_change,
    count_ops,
    random_inputs,
)
from tests.compiler_plugin.transformations.layout_change.stock_form import (
    run_stock,
    to_stock_form,
)
from tests.compiler_plugin.transformations.layout_change.test_rules import (
    DILATED,
    F,
    conv,
    floats,
    ints,
    out,
    scalar,
)


def quantized(scale: float) -> Quantization:
    return Quantization((scale,), (0,))


def test_convolutions_in_space_have_channels_before_depth() -> None:
    b = ModelBuilder()
    x = b.input("x", F, (2, 3, 4, 5, 6))
    options = {**DILATED, "stride_d": 1, "dilation_d_factor": 1}
    y = b.op(
        "CONV_3D", [x, floats(b, 2, 2, 3, 6, 4), floats(b, 4)], [out(2, 3, 4, 5, 4)], **options
    )
    y = b.op("ADD", [y, floats(b, 4)], [out(2, 3, 4, 5, 4, name="sum")])
    shape = ints(b, 2, 6, 8, 10, 3)
    weights = floats(b, 2, 2, 2, 3, 4)
    options = {**options, "stride_d": 2, "stride_w": 2, "stride_h": 2}
    z = b.op("CONV_3D_TRANSPOSE", [shape, weights, y], [out(2, 6, 8, 10, 3, name="z")], **options)
    b.output(z)
    changed, report, _ = check_change(b.build())
    assert (report.transposes, report.reshapes) == (2, 0)
    assert [op.outputs[0].shape for op in changed.ops()] == [
        (2, 6, 3, 4, 5),
        (2, 4, 3, 4, 5),
        (2, 4, 3, 4, 5),
        (2, 3, 6, 8, 10),
        (2, 6, 8, 10, 3),
    ]
    filters = {op.name: op.inputs[1] for op in changed.ops() if op.name.startswith("CONV")}
    shapes = {name: tensor.shape for name, tensor in filters.items() if tensor is not None}
    assert shapes == {"CONV_3D": (4, 6, 2, 2, 3), "CONV_3D_TRANSPOSE": (3, 4, 2, 2, 2)}


def test_quantization_by_channel_follows_its_dimension() -> None:
    rng = np.random.default_rng(3)
    b = ModelBuilder()
    x = b.input("x", "int8", (1, 5, 6, 4), quantization=quantized(0.02))
    scales = tuple(0.01 * (1 + index) for index in range(8))
    by_channel = Quantization(scales, (0,) * 8, quantized_dimension=3)
    weights = b.constant(
        "w", rng.integers(-127, 127, (1, 3, 3, 8)).astype(np.int8), quantization=by_channel
    )
    bias = b.constant(
        "b",
        rng.integers(-99, 99, 8).astype(np.int32),
        quantization=Quantization(tuple(0.02 * s for s in scales), (0,) * 8),
    )
    y = b.tensor("y", "int8", (1, 5, 6, 8), quantization=quantized(0.05))
    b.op("DEPTHWISE_CONV_2D", [x, weights, bias], [y], depth_multiplier=2, version=3, **DILATED)
    pointwise = Quantization(scales[:3], (0,) * 3)
    weights = b.constant("w2", rng.integers(-7, 7, (3, 1, 1, 8)), "int4", quantization=pointwise)
    bias = b.constant("b2", np.zeros(3, np.int32), quantization=Quantization(scales[:3], (0,) * 3))
    z = b.tensor("z", "int8", (1, 5, 6, 3), quantization=quantized(0.3))
    b.op("CONV_2D", [y, weights, bias], [z], version=3, **DILATED)
    b.output(z)
    changed, _, _ = check_change(b.build())
    found = {op.name: op.inputs[1] for op in changed.ops()}
    for name, shape in (("DEPTHWISE_CONV_2D", (8, 1, 3, 3)), ("CONV_2D", (3, 8, 1, 1))):
        tensor = found[name]
        assert tensor is not None and tensor.quantization is not None
        assert tensor.shape == shape and tensor.quantization.quantized_dimension == 0


def test_filters_that_are_computed_of_constants_cost_no_op() -> None:
    b = ModelBuilder()
    x = b.input("x", F, (1, 4, 4, 2))
    half = b.constant("h", np.arange(3 * 3 * 3 * 2).reshape(3, 3, 3, 2).astype(np.float16))
    weights = b.op("DEQUANTIZE", [half], [out(3, 3, 3, 2, name="w")])
    y = b.op("CONV_2D", [x, weights, floats(b, 3)], [out(1, 4, 4, 3)], **DILATED)
    slopes = b.constant("s", np.ones((1, 1, 3), np.float16))
    alpha = b.op("DEQUANTIZE", [slopes], [out(1, 1, 3, name="alpha")])
    b.output(b.op("PRELU", [y, alpha], [out(1, 4, 4, 3, name="z")]))
    model = b.build()
    changed, _, _ = check_change(model)
    assert count_ops(changed) - count_ops(model) == {"TRANSPOSE": 2}
    assert count_ops(model) - count_ops(changed) == {}


def test_a_sparse_filter_keeps_its_bytes() -> None:
    # [O, H, W, I] = [2, 1, 1, 4]; the levels are O, H, W dense and I sparse.
    dense = Table.make
    sizes = [dense("DimensionMetadata", format=0, dense_size=size) for size in (2, 1, 1)]
    sparse = Table.make(
        "DimensionMetadata",
        format=1,
        array_segments=Table.make("Int32Vector", values=(0, 2, 3)),
        array_indices=Table.make("Int32Vector", values=(0, 3, 1)),
    )
    sparsity = Table.make(
        "SparsityParameters", traversal_order=(0, 1, 2, 3), dim_metadata=(*sizes, sparse)
    )
    b = ModelBuilder()
    x = b.input("x", F, (1, 3, 3, 4))
    data = np.array([1.5, 2, -3], np.float32).tobytes()
    stored = b.constant("s", data, F, (2, 1, 1, 4), sparsity=sparsity)
    weights = b.op("DENSIFY", [stored], [out(2, 1, 1, 4, name="w")])
    b.output(b.op("CONV_2D", [x, weights, floats(b, 2)], [out(1, 3, 3, 2)], **DILATED))
    changed, _, _ = check_change(b.build())
    densify = next(op for op in changed.ops() if op.name == "DENSIFY")
    assert densify.inputs[0] is not None and densify.inputs[0].data == data
    assert densify.outputs[0].shape == (2, 4, 1, 1)


def test_a_models_own_transposes_cancel() -> None:
    """Converters from NCHW frameworks write a TRANSPOSE before and after each convolution."""
    b = ModelBuilder()
    x = b.input("x", F, (1, 3, 4, 5))
    for index in range(3):
        inner = b.op("TRANSPOSE", [x, ints(b, 0, 2, 3, 1)], [out(1, 4, 5, 3, name=f"a{index}")])
        inner = conv(b, inner, 3, f"c{index}")
        x = b.op("TRANSPOSE", [inner, ints(b, 0, 3, 1, 2)], [out(1, 3, 4, 5, name=f"b{index}")])
        x = b.op("RELU", [x], [out(1, 3, 4, 5, name=f"r{index}")])
    last = b.op("TRANSPOSE", [x, ints(b, 0, 2, 3, 1)], [out(1, 4, 5, 3, name="l")])
    b.output(b.op("TRANSPOSE", [conv(b, last, 3, "c"), ints(b, 0, 3, 1, 2)], [out(1, 3, 4, 5)]))
    changed, report, _ = check_change(b.build())
    assert count_ops(changed) == {"CONV_2D": 4, "RELU": 3}
    assert report.transposes == 0


def test_an_op_with_a_choice_stays_where_less_is_transposed() -> None:
    """The smaller tensor is transposed: after SLICE, and before TILE."""
    b = ModelBuilder()
    x = b.input("x", F, (1, 4, 6, 8))
    y = b.op("SLICE", [conv(b, x, 8), ints(b, 0, 0, 0, 0), ints(b, 1, 2, 2, 8)], [out(1, 2, 2, 8)])
    z = b.op("TILE", [y, ints(b, 1, 3, 1, 1)], [out(1, 6, 2, 8, name="z")])
    b.output(b.op("SOFTMAX", [z], [out(1, 6, 2, 8, name="p")], beta=1.0))
    changed, report, _ = check_change(b.build())
    assert [op.name for op in changed.ops()] == [
        "TRANSPOSE", "CONV_2D", "SLICE", "TRANSPOSE", "TILE", "SOFTMAX",
    ]  # fmt: skip
    assert report.transposes == 2


def test_what_only_the_last_dimension_tells_sees_the_files_order() -> None:
    b = ModelBuilder()
    x = b.input("x", F, (1, 4, 6, 8))
    y = b.op("SOFTMAX", [conv(b, x, 8)], [out(1, 4, 6, 8)], beta=1.0)
    y = b.op("L2_NORMALIZATION", [conv(b, y, 8, "c2")], [out(1, 4, 6, 8, name="n")])
    y = b.op(
        "FULLY_CONNECTED", [conv(b, y, 8, "c3"), floats(b, 5, 8), None], [out(24, 5, name="f")]
    )
    b.output(y)
    _, report, _ = check_change(b.build())
    assert report.transposes == 6


def test_a_classifiers_head_needs_no_transpose() -> None:
    b = ModelBuilder()
    x = b.input("x", F, (2, 4, 6, 8))
    options: dict[str, Any] = {
        "padding": "VALID",
        "stride_w": 1,
        "stride_h": 1,
        "filter_width": 6,
        "filter_height": 4,
    }
    y = b.op("AVERAGE_POOL_2D", [conv(b, x, 8)], [out(2, 1, 1, 8)], **options)
    y = b.op("RESHAPE", [y, ints(b, -1, 8)], [out(2, 8, name="r")], new_shape=(-1, 8))
    b.output(b.op("FULLY_CONNECTED", [y, floats(b, 5, 8), None], [out(2, 5, name="f")]))
    changed, report, _ = check_change(b.build())
    assert (report.transposes, report.reshapes) == (1, 0)
    assert count_ops(changed)["RESHAPE"] == 1


def test_shapes_that_are_computed_are_brought_into_order_by_gather() -> None:
    """As in a decoder, the output shape of a TRANSPOSE_CONV is computed from the SHAPE of its input."""
    b = ModelBuilder()
    x = b.input("x", F, (1, 4, 6, 3), shape_signature=(-1, -1, -1, 3))
    y = conv(b, x, 5)
    y.shape_signature = (-1, -1, -1, 5)
    shape = b.op("SHAPE", [y], [out(4, kind="int32", name="s")], out_type="INT32")
    parts = [
        b.op(
            "STRIDED_SLICE",
            [shape, ints(b, index), ints(b, index + 1), ints(b, 1)],
            [out(kind="int32", name=f"p{index}")],
            shrink_axis_mask=1,
        )
        for index in range(3)
    ]
    doubled = [
        b.op("MUL", [part, scalar(b, 2)], [out(kind="int32", name=f"d{index}")])
        for index, part in enumerate(parts[1:])
    ]
    target = b.op(
        "PACK",
        [parts[0], *doubled, scalar(b, 2)],
        [out(4, kind="int32", name="t")],
        axis=0,
        values_count=4,
    )
    z = b.tensor("z", F, (1, 8, 12, 2), shape_signature=(-1, -1, -1, 2))
    options: dict[str, Any] = {"padding": "SAME", "stride_w": 2, "stride_h": 2}
    b.op("TRANSPOSE_CONV", [target, floats(b, 2, 2, 2, 5), y], [z], **options)
    bias = b.op("BROADCAST_TO", [floats(b, 2), target], [out(1, 8, 12, 2, name="bias")], version=2)
    b.output(b.op("ADD", [z, bias], [out(1, 8, 12, 2, name="sum")]))
    model = b.build()
    changed, _, _ = check_change(model)
    assert (
        count_ops(changed)["GATHER"] == 2
    )  # one after SHAPE, one for the two ops that read the target
    assert count_ops(changed)["TRANSPOSE"] == 2
    # The same file works for other input sizes too.
    larger = [np.ones((2, 5, 3, 3), np.float32)]
    wanted = run_stock(model, larger)
    wrapped = read_model(to_bytes(changed))
    to_stock_form(wrapped)
    np.testing.assert_allclose(run_stock(wrapped, larger)[0], wanted[0], rtol=1e-6)


def test_a_result_that_others_read_keeps_its_name_and_order() -> None:
    b = ModelBuilder()
    x = b.input("x", F, (1, 4, 6, 3))
    y = conv(b, x, 5, "shared")
    b.output(y, conv(b, y, 2, "last"), x)
    b.signature("serving", outputs={"a": y})
    changed, report, _ = check_change(b.build())
    assert [t.name for t in changed.subgraphs[0].outputs] == ["shared", "last", "x"]
    assert changed.signatures[0].outputs[0][1] is changed.subgraphs[0].outputs[0]
    assert report.transposes == 3


def test_a_graph_without_images_stays_as_it_is() -> None:
    b = ModelBuilder()
    x = b.input("x", F, (2, 3, 4, 5))
    y = b.op("BATCH_MATMUL", [x, floats(b, 2, 3, 5, 4)], [out(2, 3, 4, 4)])
    b.output(b.op("SOFTMAX", [y], [out(2, 3, 4, 4, name="p")], beta=1.0))
    model = b.build()
    before = to_bytes(model)
    assert change_layout(model, model.subgraphs[0], "NCHW").ops == 0
    assert to_bytes(model) == before


def test_nothing_is_left_of_what_was_permuted() -> None:
    b = ModelBuilder()
    x = b.input("x", F, (1, 3, 4, 5))
    inner = b.op("TRANSPOSE", [x, ints(b, 0, 2, 3, 1)], [out(1, 4, 5, 3, name="inner")])
    b.output(b.op("TRANSPOSE", [conv(b, inner, 3), ints(b, 0, 3, 1, 2)], [out(1, 3, 4, 5)]))
    model = b.build()
    change_layout(model, model.subgraphs[0], "NCHW")
    (op,) = model.ops()
    assert set(model.subgraphs[0].tensors) == {*op.inputs, *op.outputs}
    assert model.operator_codes == [op.code]
    assert len(model.buffers) == 3  # the empty buffer, the filter and the bias


def test_metadata_name_ops_by_their_new_places() -> None:
    b = ModelBuilder()
    y = conv(b, b.input("x", F, (1, 4, 6, 3)), 5)
    y = b.op("SOFTMAX", [y], [out(1, 4, 6, 5, name="p")], beta=1.0)
    b.output(conv(b, y, 2, "last"))
    model = b.build()
    model.set_metadata(CONTROL_DEPENDENCIES_KEY, Blob(b""))
    set_control_dependencies(model, [[(0, 2)]])
    change_layout(model, model.subgraphs[0], "NCHW")
    places = [i for i, op in enumerate(model.ops()) if op.name == "CONV_2D"]
    assert places != [0, 2]
    assert read_control_dependencies(model) == [[tuple(places)]]


def test_custom_ops_say_what_they_take() -> None:
    def build() -> Model:
        b = ModelBuilder()
        x = conv(b, b.input("x", F, (1, 4, 6, 3)), 5, "first")
        y = b.custom("Mine", [x, floats(b, 1, 4, 1, 5), floats(b, 5)], [out(1, 4, 6, 5)])
        b.output(conv(b, y, 2, "last"))
        return b.build()

    found = {}
    for layout in (None, "any", "image"):
        model = build()
        layouts: Any = {} if layout is None else {"Mine": layout}
        report = change_layout(model, model.subgraphs[0], "NCHW", layouts)
        mine = next(op for op in model.ops() if op.is_custom)
        tensors = (*mine.inputs[1:], *mine.outputs)
        found[layout] = (report.transposes, [t.shape for t in tensors if t is not None])
    assert found == {
        None: (4, [(1, 4, 1, 5), (5,), (1, 4, 6, 5)]),
        "any": (2, [(1, 5, 4, 1), (5,), (1, 5, 4, 6)]),
        "image": (2, [(1, 4, 1, 5), (5,), (1, 5, 4, 6)]),
    }


def test_a_filter_quantized_by_blocks_is_refused_by_name() -> None:
    b = ModelBuilder()
    x = b.input("x", F, (1, 3, 3, 4))
    scales = b.constant("scales", np.ones((2, 1), np.float32))
    weights = b.constant(
        "weights",
        np.ones((2, 1, 1, 4), np.int8),
        quantization=Quantization(blockwise=BlockwiseQuantization(scales, None, 4)),
    )
    b.output(b.op("CONV_2D", [x, weights, floats(b, 2)], [out(1, 3, 3, 2)], **DILATED))
    model = b.build()
    with pytest.raises(LiteRtError) as error:
        change_layout(model, model.subgraphs[0], "NCHW")
    assert error.value.status is Status.UNSUPPORTED and "'weights'" in error.value.what


@pytest.mark.parametrize("size", [1, 1000])
def test_what_is_transposed_does_not_grow_with_the_ops_between(size: int) -> None:
    b = ModelBuilder()
    y = conv(b, b.input("x", F, (1, 2, 2, 3)), 3)
    for index in range(size):
        y = b.op("RELU", [y], [out(1, 2, 2, 3, name=f"r{index}")])
    b.output(b.op("RESHAPE", [y, ints(b, 3, 4)], [out(3, 4, name="z")], new_shape=(3, 4)))
    model = b.build()
    report = change_layout(model, model.subgraphs[0], "NCHW")
    assert (report.transposes, report.ops) == (2, 1 + size)


@pytest.mark.parametrize(
    ("name", "transposes", "reshapes"),
    [
        # One for the input image, and one for each tensor that a RESHAPE or an output needs in NHWC.
        ("face_landmark", 1, 2),
        ("face_detection_short_range", 5, 0),
        ("face_detection_full_range_sparse", 2, 0),
        ("hand_landmark_full", 1, 0),
        ("hand_recrop", 1, 1),
        ("iris_landmark", 1, 0),
        ("palm_detection_lite", 5, 0),
        ("pose_detection", 7, 0),
        ("pose_landmark_full", 2, 1),
    ],
)
def test_a_real_network_has_transposes_at_its_borders_alone(
    networks: Path, name: str, transposes: int, reshapes: int
) -> None:
    with read_model(networks / f"{name}.tflite") as model:
        # In NCHW, MEAN over an image adds in another order, so that rounding differs.
        _, report, back = check_change(model, tolerance=1e-5)
        assert count_ops(back) == count_ops(model)
    assert (report.transposes, report.reshapes) == (transposes, reshapes)


def test_the_vendors_manual_says_what_each_network_takes(networks: Path) -> None:
    text = (Path(__file__).parents[4] / "docs" / "vendors.md").read_text()
    table = text.partition("| ops in NCHW |")[2].partition("\n\n")[0].splitlines()[2:]
    told: dict[str, list[int]] = {}
    for line in table:
        names, ops, *added = (cell.strip() for cell in line.strip("|").split("|"))
        same = names.split(" and ")
        counts = [int(number) for number in ops.split(" and ")]
        for name, count in zip(same, counts * len(same), strict=False):
            told[name] = [count, *map(int, added)]
    found: dict[str, list[int]] = {}
    for path in networks.glob("*.tflite"):
        with read_model(path) as model:
            report = change_layout(model, model.subgraphs[0], "NCHW")
        found[path.stem] = [report.ops, report.transposes, report.reshapes]
    assert told == found


def test_a_network_with_a_custom_op_has_its_transposes_around_it(networks: Path) -> None:
    with read_model(networks / "selfie_segmentation.tflite") as model:
        inputs = random_inputs(model)
        wanted = run_stock(model, inputs, delegates=True)
        report = change_layout(model, model.subgraphs[0], "NCHW")
        assert (report.transposes, report.reshapes) == (2, 0)
        to_stock_form(model)
        np.testing.assert_allclose(
            run_stock(model, inputs, delegates=True)[0], wanted[0], rtol=0, atol=1e-5
        )

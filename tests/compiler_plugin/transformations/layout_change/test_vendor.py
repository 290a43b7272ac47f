"""Tests a vendor whose plugin requests NCHW, from the model file to the outputs of its NPU."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from compiler_plugin.pipeline import ApplyOptions, apply_plugin
from compiler_plugin.report import Report
from compiler_plugin.transformations import TransformOptions
from litert import CompiledModel, Environment, EnvironmentOptions, HardwareAccelerator
from litert.core.compiler_options import CompilerOptions
from litert.core.errors import LiteRtError
from litert.core.quantization import BlockwiseQuantization, Quantization
from litert.model.builder import ModelBuilder
from litert.model.graph import Model
from litert.model.reader import read_model
from litert.model.writer import write_model
from tests.compiler_plugin.transformations.layout_change.checking import random_inputs
from tests.compiler_plugin.transformations.layout_change.stock_form import run_stock
from tests.compiler_plugin.transformations.layout_change.test_rules import (
    DILATED,
    F,
    conv,
    floats,
    ints,
    out,
)

Array = np.ndarray[Any, Any]
VENDORS = Path(__file__).parent / "vendors"


def compile_for_planes(
    source: Path, target: Path, transform: TransformOptions | None = None, **vendor_options: str
) -> Report:
    compiler = CompilerOptions(vendor_options=vendor_options)
    options = ApplyOptions("Planes", libs=[str(VENDORS)], compiler=compiler, transform=transform)
    return apply_plugin(source, target, options)


def run_on_planes(path: Path, inputs: Sequence[Array]) -> list[Array]:
    options = EnvironmentOptions(dispatch_library_path=str(VENDORS))
    accelerators = HardwareAccelerator.NPU | HardwareAccelerator.CPU
    with CompiledModel.from_file(
        str(path), accelerators, environment=Environment.create(options=options)
    ) as model:
        (names,) = model.get_signature_list().values()
        found = model.run(dict(zip(names["inputs"], inputs, strict=True)))
        return [found[name] for name in names["outputs"]]


def two_partitions() -> Model:
    b = ModelBuilder()
    x = b.input("x", F, (1, 4, 6, 3))
    y = b.op("RELU", [conv(b, x, 8, "first")], [out(1, 4, 6, 8)])
    cpu = b.op("SOFTMAX", [y], [out(1, 4, 6, 8, name="p")], beta=1.0)
    y = b.op("CONCATENATION", [conv(b, cpu, 4, "second"), y], [out(1, 4, 6, 12, name="c")], axis=3)
    b.output(b.op("MEAN", [y, ints(b, 1, 2)], [out(1, 12, name="m")]), cpu)
    return b.build()


def save(model: Model, folder: Path) -> Path:
    path = folder / "model.tflite"
    write_model(model, path)
    return path


def test_a_vendor_computes_in_nchw_what_stock_computes_in_nhwc(tmp_path: Path) -> None:
    model = two_partitions()
    inputs = random_inputs(model)
    source, target = save(model, tmp_path), tmp_path / "compiled.tflite"
    report = compile_for_planes(source, target, planes_ops="CONV_2D,RELU,CONCATENATION,MEAN")
    assert [len(call.name) > 0 for call in report.calls] == [True, True]
    assert len([note for note in report.notes if "in NCHW; added: 2 TRANSPOSE" in note]) == 2
    for found, wanted in zip(run_on_planes(target, inputs), run_stock(model, inputs), strict=True):
        np.testing.assert_allclose(found, wanted, rtol=1e-5, atol=1e-6)


def test_the_calls_inputs_and_outputs_are_as_the_file_has_them(tmp_path: Path) -> None:
    source, target = save(two_partitions(), tmp_path), tmp_path / "compiled.tflite"
    compile_for_planes(source, target, planes_ops="CONV_2D,RELU,CONCATENATION,MEAN")
    with read_model(target) as compiled:
        calls = [op for op in compiled.ops() if op.is_custom]
        shapes = [[t.shape for t in (*op.inputs, *op.outputs) if t is not None] for op in calls]
        assert shapes == [[(1, 4, 6, 3), (1, 4, 6, 8)], [(1, 4, 6, 8), (1, 4, 6, 8), (1, 12)]]
        modules = [read_model(bytes(appended.blob)) for appended in compiled.byte_code]
    images = [op.outputs[0].shape for m in modules for op in m.ops() if op.name == "CONV_2D"]
    assert images == [(1, 8, 4, 6), (1, 4, 4, 6)]


def test_a_vendor_that_does_not_ask_gets_nhwc(tmp_path: Path) -> None:
    source, target = save(two_partitions(), tmp_path), tmp_path / "compiled.tflite"
    report = compile_for_planes(source, target, planes_layout="NHWC")
    assert report.calls and not report.notes
    with read_model(target) as compiled:
        modules = [read_model(bytes(appended.blob)) for appended in compiled.byte_code]
    assert not any(op.name == "TRANSPOSE" for module in modules for op in module.ops())


def test_a_user_can_have_nhwc_all_the_same(tmp_path: Path) -> None:
    source, target = save(two_partitions(), tmp_path), tmp_path / "compiled.tflite"
    report = compile_for_planes(source, target, TransformOptions(keep_layout=True))
    assert report.calls and not report.notes
    with read_model(target) as compiled:
        modules = [read_model(bytes(appended.blob)) for appended in compiled.byte_code]
    assert not any(op.name == "TRANSPOSE" for module in modules for op in module.ops())


BACK = """
from compiler_plugin.transformations import OpReplacement

class PoolIsTwice(OpReplacement):
    "Pools once more, where channels come first, and pads the channels."
    op = "MAX_POOL_2D"
    graph_condition = (lambda graph: graph.layout == "NCHW",)

    def replace_op(self, graph, node):
        if node.has("is_seen"):
            return None
        pool = graph.create_op("MAX_POOL_2D", [node.in_port(0).get_source()], node.attributes())
        pool.is_seen = True
        pads = [[0, 0], [0, 2], [0, 0], [0, 0]]
        padded = graph.create_op("PAD", [pool, pads])
        assert tuple(pool.out_port(0).data.get_shape()) == (1, 5, 2, 3)
        assert tuple(padded.out_port(0).data.get_shape()) == (1, 7, 2, 3)
        return graph.create_op("SLICE", [padded, [0, 0, 0, 0], [1, 5, 2, 3]])
"""

OPS = """
from compiler_plugin.transformations import Op

class Sharpen(Op):
    op = "Sharpen"
    layout = "image"
"""


def test_the_back_phase_runs_in_a_partition_in_its_layout(tmp_path: Path) -> None:
    b = ModelBuilder()
    y = conv(b, b.input("x", F, (1, 4, 6, 3)), 5)
    pool: dict[str, Any] = {
        "padding": "SAME",
        "stride_w": 2,
        "stride_h": 2,
        "filter_width": 2,
        "filter_height": 2,
    }
    b.output(b.op("MAX_POOL_2D", [y], [out(1, 2, 3, 5)], **pool))
    model = b.build()
    inputs = random_inputs(model)
    (tmp_path / "mine" / "back").mkdir(parents=True)
    (tmp_path / "mine" / "back" / "pool_is_twice.py").write_text(BACK)
    source, target = save(model, tmp_path), tmp_path / "compiled.tflite"
    report = compile_for_planes(source, target, TransformOptions([str(tmp_path / "mine")]))
    assert [(t.name, t.matches) for t in report.transformations] == [("pool_is_twice", 1)]
    with read_model(target) as compiled:
        module = read_model(bytes(compiled.byte_code[0].blob))
    assert [op.name for op in module.ops()] == [
        "TRANSPOSE", "CONV_2D", "MAX_POOL_2D", "PAD", "SLICE", "TRANSPOSE",
    ]  # fmt: skip
    (found,) = run_on_planes(target, inputs)
    np.testing.assert_allclose(found, run_stock(model, inputs)[0], rtol=1e-6)


def test_a_users_op_says_that_it_takes_images(tmp_path: Path) -> None:
    b = ModelBuilder()
    y = conv(b, b.input("x", F, (1, 4, 6, 3)), 5)
    y = b.custom("Sharpen", [y], [out(1, 4, 6, 5)])
    b.output(conv(b, y, 2, "last"))
    (tmp_path / "mine" / "ops").mkdir(parents=True)
    (tmp_path / "mine" / "ops" / "sharpen.py").write_text(OPS)
    source, target = save(b.build(), tmp_path), tmp_path / "compiled.tflite"
    report = compile_for_planes(
        source,
        target,
        TransformOptions([str(tmp_path / "mine")]),
        planes_ops="CONV_2D,Sharpen",
    )
    assert any("3 ops are in NCHW; added: 2 TRANSPOSE" in note for note in report.notes)


def test_a_layout_that_nobody_knows_is_the_vendors_to_repair(tmp_path: Path) -> None:
    source = save(two_partitions(), tmp_path)
    with pytest.raises(LiteRtError, match="data_layout is 'NHCW', but must be NHWC or NCHW"):
        compile_for_planes(source, tmp_path / "compiled.tflite", planes_layout="NHCW")


def test_an_op_that_cannot_change_its_layout_stays_on_the_cpu(tmp_path: Path) -> None:
    b = ModelBuilder()
    x = b.input("x", F, (1, 3, 3, 4))
    scales = b.constant("scales", np.ones((2, 1), np.float32))
    weights = b.constant(
        "weights",
        np.ones((2, 1, 1, 4), np.int8),
        quantization=Quantization(blockwise=BlockwiseQuantization(scales, None, 4)),
    )
    y = b.op("CONV_2D", [x, weights, floats(b, 2)], [out(1, 3, 3, 2)], **DILATED)
    b.output(conv(b, y, 3))
    source = save(b.build(), tmp_path)
    report = compile_for_planes(source, tmp_path / "compiled.tflite")
    assert len(report.calls) == 1
    (left,) = report.cpu_ops
    assert (
        "the op's layout cannot change to NCHW: tensor 'weights' is quantized by blocks "
        "(op CONV_2D 'y')" in left.reason
    )


def test_a_real_network_runs_on_an_nchw_npu(networks: Path, tmp_path: Path) -> None:
    source, target = networks / "hand_recrop.tflite", tmp_path / "compiled.tflite"
    report = compile_for_planes(source, target)
    assert len(report.calls) == 1 and not report.cpu_ops
    with read_model(source) as model:
        inputs = random_inputs(model)
        (wanted,) = run_stock(model, inputs)
    (found,) = run_on_planes(target, inputs)
    np.testing.assert_allclose(found, wanted, rtol=0, atol=1e-5 * float(np.abs(wanted).max()))

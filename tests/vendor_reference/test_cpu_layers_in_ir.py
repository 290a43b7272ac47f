"""Tests CPU layers on the compiler's IR levels: as text, through the passes, and as tasks."""

from __future__ import annotations

import hashlib

import pytest
from xdsl.dialects.builtin import ModuleOp

from litert.core.errors import LiteRtError
from litert.core.tensor_type import RankedTensorType
from litert.model.builder import ModelBuilder
from litert.model.graph import Op, Subgraph, Tensor
from tests.vendor_reference.layers import custom_layer
from vendor_reference.compiler.emission.module_emission import emit_executable
from vendor_reference.compiler.frontend.importer import import_partitions
from vendor_reference.compiler.ir.text import print_ir, read_ir
from vendor_reference.compiler.ir.verification import check_ir
from vendor_reference.compiler.job import Job
from vendor_reference.compiler.levels.dialects import make_context
from vendor_reference.compiler.opt import transform_text
from vendor_reference.compiler.pass_pipeline import pipeline
from vendor_reference.custom_layers.custom_layer import LayerFile, LayerType
from vendor_reference.custom_layers.kernel_spec import CpuKernel
from vendor_reference.executable.cpu_op import (
    CpuConfig,
    CpuOp,
    CpuOperand,
    MemoryLayout,
    TensorConfig,
)
from vendor_reference.executable.executable import ShapeKind
from vendor_reference.soc import EMU8

SHAPE = (1, 4, 4, 20)
NCHW8C = MemoryLayout((0, 3, 1, 2, 3), (0, 0, 0, 0, 8))
NCHW = MemoryLayout((0, 3, 1, 2), (0, 0, 0, 0))
LIBRARY = b"a shared object, which nobody loads here"
LAYER = custom_layer(
    "Mine", "mine.so", [LayerFile("mine.so", LIBRARY, is_asset=True)], type=LayerType.CPP
)


def chain(count: int) -> Subgraph:
    b = ModelBuilder()
    tensor: Tensor = b.input("x", "float32", SHAPE)
    for index in range(count):
        tensor = b.custom("Mine", [tensor], [(f"t{index}", "float32", SHAPE)])
    b.output(tensor)
    return b.build().subgraphs[0]


def chosen(op: Op, layout: MemoryLayout, in_place: int = -1) -> CpuKernel:
    operand = CpuOperand(op.outputs[0].type)
    config = TensorConfig(op.outputs[0].element_type, layout)
    output = TensorConfig(op.outputs[0].element_type, layout, in_place)
    cpu_op = CpuOp("Mine", op.outputs[0].name, (operand,), (operand,), b"\x01\xff")
    return CpuKernel(cpu_op, 1, CpuConfig((config,), (output,)))


def imported(count: int, layout: MemoryLayout, in_place: int = -1) -> ModuleOp:
    partition = chain(count)
    kernels = {op: chosen(op, layout, in_place) for op in partition.ops}
    module = import_partitions(Job(EMU8, {"Mine": LAYER}), [partition], kernels).module
    check_ir(module)
    return module


def names(module: ModuleOp) -> list[str]:
    found = [op.name for op in module.walk()]
    return [name for name in found if name.startswith(("IE.", "VPUIP.")) or name == "func.call"]


def test_layers_in_blocks_hand_blocks_to_each_other() -> None:
    calls = ["func.call"] * 3
    assert names(imported(3, NCHW8C)) == ["IE.Pack", *calls, "IE.Unpack"]


def test_a_layer_in_another_order_is_a_requirement() -> None:
    module = imported(1, NCHW)
    assert names(module) == ["func.call"]
    assert "affine_map<(d0, d1, d2, d3) -> (d0, d3, d1, d2)>" in str(module)


@pytest.mark.parametrize("layout", [MemoryLayout.row_order(4), NCHW, NCHW8C], ids=str)
def test_the_text_alone_can_be_lowered(layout: MemoryLayout) -> None:
    text = print_ir(imported(2, layout, in_place=0))
    assert print_ir(read_ir(text, "text", make_context()).module) == text
    lowered = transform_text(text.encode(), "text", ",".join(pipeline()))
    assert lowered.count("VPUIP.CPP @Mine") == 2
    assert hashlib.sha256(LIBRARY).hexdigest() in lowered


def open_layer() -> ModuleOp:
    """Returns a module with a layer whose library computes the shape of its result."""
    b = ModelBuilder()
    x = b.input("x", "float32", (1, 3), shape_signature=(-1, 3))
    y = b.tensor("y", "float32", (1, 6), shape_signature=(-1, 6))
    b.output(b.custom("Mine", [x], [y]))
    partition = b.build().subgraphs[0]
    (op,) = partition.ops
    read, made = (
        CpuOperand(RankedTensorType.of(op.outputs[0].element_type, s)) for s in [(8, 3), (8, 6)]
    )
    config = TensorConfig(op.outputs[0].element_type, MemoryLayout.row_order(2))
    kernel = CpuKernel(
        CpuOp("Mine", "y", (read,), (made,)), 0, CpuConfig((config,), (config,)), ((-1, 6),)
    )
    bounds = {"x": (8, 3), "y": (8, 6)}
    return import_partitions(
        Job(EMU8, {"Mine": LAYER}, bounds=bounds), [partition], {op: kernel}
    ).module


def test_a_shape_that_a_library_says_is_a_value_on_every_level() -> None:
    text = print_ir(open_layer())
    assert "asked_shapes = [[-1 : i64, 6 : i64]]" in text
    assert print_ir(read_ir(text, "text", make_context()).module) == text
    lowered = transform_text(text.encode(), "text", ",".join(pipeline()))
    asked, task = [line for line in lowered.splitlines() if "VPUIP.CPP @" in line]
    assert "VPUIP.CPP @shapes_of_Mine ()[%" in asked and "VPUIP.CPP @Mine (%" in task
    module = read_ir(lowered, "text", make_context()).module
    (function,) = emit_executable(module, {}).executable.functions
    assert [(s.kind, s.index, s.output) for s in function.shapes] == [
        (ShapeKind.INPUT, 0, 0), (ShapeKind.ASKED, 0, 0),
    ]  # fmt: skip
    assert len(function.tasks) == 1


def test_patterns_of_another_rank_are_refused() -> None:
    text = print_ir(open_layer()).replace("[[-1 : i64, 6 : i64]]", "[[-1 : i64]]")
    with pytest.raises(
        LiteRtError, match=r"asked_shapes\[0\]: the array has 1 element, but must have 2"
    ):
        transform_text(text.encode(), "text", ",".join(pipeline()))


def test_a_text_with_another_cpu_layer_is_refused() -> None:
    text = print_ir(imported(1, NCHW8C)).replace('layer_type = "Mine"', "layer_type = 3 : i64")
    with pytest.raises(LiteRtError, match=r"kernel\.cpu_layer\.op\.layer_type: 3 is not a string"):
        transform_text(text.encode(), "text", ",".join(pipeline()))


@pytest.mark.parametrize(
    ("old", "new", "says"),
    [
        (
            "1x3x4x4x8xf32>",
            "1x3x4x4x9xf32>",
            "but a tensor of shape (1, 4, 4, 20) has shape (1, 3, 4, 4, 8) in the blocked layout nChw8c",
        ),
        (
            "blocks = [0 : i64, 0 : i64, 0 : i64, 0 : i64, 8 : i64]",
            "blocks = []",
            "the layout has 5 memory dimensions and 0 block sizes, but needs",
        ),
        ("blocks = [", "blocks = 7 : i64, other = [", "blocks is 7 : i64, but must be an array"),
    ],
)
def test_a_pack_that_cannot_be_is_refused(old: str, new: str, says: str) -> None:
    text = print_ir(imported(1, NCHW8C))
    assert old in text
    with pytest.raises(LiteRtError) as error:
        transform_text(text.replace(old, new).encode(), "text", "")
    assert says in str(error.value)

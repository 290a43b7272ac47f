"""Tests a model at each IR level: its text, and the results of the compiled model."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from xdsl.dialects.builtin import ModuleOp

from dispatch.tensor_buffer import TensorBuffer
from litert.core.element_type import ElementType
from litert.core.errors import LiteRtError
from litert.core.status import Status
from litert.model.builder import ModelBuilder
from litert.model.graph import Subgraph, Tensor
from tests.vendor_reference import ir_texts
from tests.vendor_reference.executables import assets
from tests.vendor_reference.layers import custom_layer
from vendor_reference.compiler.entry_points import entries_by_text
from vendor_reference.compiler.frontend.importer import import_partitions
from vendor_reference.compiler.ir.text import print_ir
from vendor_reference.compiler.ir.verification import check_ir
from vendor_reference.compiler.job import Job
from vendor_reference.compiler.levels.dialects import make_context
from vendor_reference.compiler.lowering import lower_partitions
from vendor_reference.compiler.opt import transform_text
from vendor_reference.compiler.pass_pipeline import compile_passes, pipeline, run_passes
from vendor_reference.custom_layers.custom_layer import CustomLayer, LayerFile
from vendor_reference.custom_layers.kernel_spec import (
    ConstantArgument,
    DataArgument,
    InternalArgument,
    TensorArgument,
)
from vendor_reference.custom_layers.layout import Format
from vendor_reference.custom_layers.value_sources import Literal
from vendor_reference.device.module import Module
from vendor_reference.executable.byte_code import write_executable
from vendor_reference.executable.executable import ArgumentKind
from vendor_reference.soc import EMU4, EMU8, SocModel

F16, F32 = ElementType.FLOAT16, ElementType.FLOAT32
X, Y = TensorArgument(False, 0), TensorArgument(True, 0)


def layer(name: str, text: str = "__kernel void k() {}", **fields: Any) -> CustomLayer:
    return custom_layer(name, "k.cl", [LayerFile("k.cl", text.encode(), is_asset=True)], **fields)


def small_model() -> Subgraph:
    b = ModelBuilder()
    x = b.input("x", "float32", (1, 4, 6, 8))
    w = b.op("DEQUANTIZE", [b.constant("w", np.ones(8, np.float16))], [("wf", "float32", (8,))])
    y = b.custom("Scale", [x, w], [("y", "float32", (1, 4, 6, 8))], options={"alpha": 0.5})
    z = b.custom("Scale", [y, w], [("z", "float32", (1, 4, 6, 8))], options={"alpha": 0.5})
    b.output(b.custom("Sum", [y, z], [("sum", "float32", (1, 8))]))
    return b.build().subgraphs[0]


SCALE = layer(
    "Scale",
    defines_options=True,
    max_num_shaves=2,
    arguments=(TensorArgument(False, 0, Format.BFYX), DataArgument("w"), TensorArgument(True, 0, Format.BFYX)),
    global_size=("X", "Y", "B*F"),
)  # fmt: skip
SUM = layer(
    "Sum",
    arguments=(
        TensorArgument(False, 0, element_type=F16), TensorArgument(False, 1), InternalArgument(F32, "F*2"),
        ConstantArgument(F32, Literal((1.0, 2.0))), Y,
    ),
)  # fmt: skip


LIBRARY_FUNCTIONS = re.compile(
    r"  func\.func private @(?:Reorder|Convert)\w*\(.*?\n  \}\n", re.DOTALL
)
"""Functions to remove from golden texts: their kernels belong to the library."""


def test_a_model_on_each_level(golden: Callable[[str, str], None]) -> None:
    imported = import_partitions(Job(EMU8, {"Scale": SCALE, "Sum": SUM}), [small_model()])
    golden("levels_import.mlir", print_ir(imported.module))

    def after(name: str, module: ModuleOp) -> None:
        check_ir(module, after=name)
        if name in ("optimize-reorders", "lower-ie-to-iert", "plan-memory"):
            text = LIBRARY_FUNCTIONS.sub("", print_ir(module))
            golden(f"levels_{name}.mlir", text)

    run_passes(make_context(), imported.module, compile_passes(), after)


def test_what_a_function_returns_is_made_in_its_output() -> None:
    assert ir_texts.run(
        """
        func.func @main(%a: tensor<4xf32>) -> tensor<4xf32> {
          %b = IE.Copy(%a) : tensor<4xf32> -> tensor<4xf32>
          %c = IE.Copy(%b) : tensor<4xf32> -> tensor<4xf32>
          func.return %c : tensor<4xf32>
        }
        """,
        "lower-ie-to-iert",
    ) == _module(
        """
        func.func @main(%a: memref<4xf32>, %c: memref<4xf32>) {
          %b = memref.alloc() : memref<4xf32>
          IERT.Copy(%a, %b)
          IERT.Copy(%b, %c)
          memref.dealloc %b : memref<4xf32>
          func.return
        }
        """
    )


def test_what_was_made_elsewhere_is_copied_out() -> None:
    assert ir_texts.run(
        """
        func.func @main(%a: tensor<2xf32>) -> (tensor<2xf32>, tensor<2xf32>, tensor<2xf32>) {
          %w = IE.Constant tensor<2xf32> = dense<[1.0, 2.0]>
          %b = IE.Copy(%a) : tensor<2xf32> -> tensor<2xf32>
          func.return %w, %b, %b : tensor<2xf32>, tensor<2xf32>, tensor<2xf32>
        }
        """,
        "lower-ie-to-iert",
    ) == _module(
        """
        func.func @main(%a: memref<2xf32>, %0: memref<2xf32>, %b: memref<2xf32>, %1: memref<2xf32>) {
          %w = IERT.Constant memref<2xf32> = dense<[1.000000e+00, 2.000000e+00]>
          IERT.Copy(%a, %b)
          IERT.Copy(%w, %0)
          IERT.Copy(%b, %1)
          func.return
        }
        """
    )


def test_a_buffer_that_nobody_reads_is_deallocated_at_once() -> None:
    text = ir_texts.run(
        """
        func.func @main(%a: tensor<4xf32>) -> tensor<4xf32> {
          %b = IE.Copy(%a) : tensor<4xf32> -> tensor<4xf32>
          %c = IE.Copy(%a) : tensor<4xf32> -> tensor<4xf32>
          func.return %c : tensor<4xf32>
        }
        """,
        "lower-ie-to-iert",
    )
    assert "IERT.Copy(%a, %b)\n    memref.dealloc %b : memref<4xf32>\n    IERT.Copy(%a, %c)" in text


BINARY = """
builtin.module attributes {VPUIP.soc = "EMU4"} {
  func.func @main(%input: tensor<1x2x3x4xf16>) -> tensor<1x2x3x4xf16> {
    %code = IE.Constant tensor<16xui8> = dense_resource<code>
    %made = IE.CustomBinaryLayer VPUIP.OCL from %code (%input : tensor<1x2x3x4xf16>)
        -> tensor<1x2x3x4xf16> {input_layouts = [unit], VPUIP.max_num_shaves = 8, mode = "fast"}
    func.return %made : tensor<1x2x3x4xf16>
  }
}
"""


def test_a_custom_binary_layer_becomes_the_task_of_its_type() -> None:
    on_buffers = ir_texts.run(BINARY, "lower-ie-to-iert")
    layer = "IERT.CustomBinaryLayer VPUIP.OCL from %code (%input, %made) {"
    assert f'{layer} VPUIP.max_num_shaves = 8 : i64, mode = "fast" }}' in _on_one_line(on_buffers)
    tasks = ir_texts.run(on_buffers, "lower-iert-to-vpuip")
    task = "VPUIP.OCL from %code (%input) -> (%made)"
    assert f'{task} {{mode = "fast", num_shaves = 4 : i64}}' in _on_one_line(tasks)
    cpp = BINARY.replace("VPUIP.OCL", "VPUIP.CPP")
    tasks = ir_texts.run(cpp, "lower-ie-to-iert,lower-iert-to-vpuip")
    assert "VPUIP.CPP from %code (%input) -> (%made)" in tasks


@pytest.mark.parametrize(
    ("limit", "elements", "local", "soc", "shaves"),
    [
        (0, 1000, [], EMU8, 8),
        (0, 1000, [], EMU4, 4),
        (3, 1000, [], EMU8, 3),
        (12, 1000, [], EMU8, 8),
        (0, 5, [], EMU8, 5),
        (0, 1000, ["500"], EMU8, 2),
        (0, 0, [], EMU8, 1),
    ],
)
def test_work_is_spread_over_as_many_shaves_as_there_is_work_for(
    limit: int, elements: int, local: Sequence[str], soc: SocModel, shaves: int
) -> None:
    b = ModelBuilder()
    b.output(
        b.custom("Mine", [b.input("x", "float32", (elements,))], [("y", "float32", (elements,))])
    )
    mine = layer("Mine", max_num_shaves=limit, global_size=("B",), local_size=tuple(local))
    executable = lower_partitions(Job(soc, {"Mine": mine}), b.build().subgraphs).executable
    assert [t.num_shaves for t in executable.functions[0].kernel_tasks] == [shaves]


CALL = "func.call @{}(%0) : (tensor<4xf32>) -> tensor<4xf32>"


@pytest.mark.parametrize(
    ("text", "says"),
    [
        (CALL.format("f"), "the IR text calls function 'f', which is not the function of a layer"),
        (
            "shape.shape_of %0 : tensor<4xf32> -> !shape.shape",
            "the pass lower-ie-to-iert does not support op shape.shape_of",
        ),
        (
            "IE.Copy(%u) : tensor<?xf32> -> tensor<?xf32>",
            "type tensor<?xf32>, but this kernel needs fixed shapes",
        ),
        (CALL.format("g"), "calls function 'g', but the function has no attribute VPUIP.kernel"),
        (CALL.format("h"), "the global size is [0], so that no work item"),
        (CALL.format("t"), "attribute VPUIP.task of function 't' is \"GPU\", but must be one of"),
    ],
)
def test_what_cannot_be_lowered_is_refused(text: str, says: str) -> None:
    kernel = 'VPUIP.kernel = {title = "K", arguments = [{input = 0}, {output = 0}]'
    unknown = ", %u: tensor<?xf32>" if "%u" in text else ""
    module = f"""
func.func private @g(tensor<4xf32>) -> tensor<4xf32>
func.func private @h(tensor<4xf32>) -> tensor<4xf32> attributes {{{kernel}, global_size = ["B-4"]}}}}
func.func private @t(tensor<4xf32>) -> tensor<4xf32> attributes {{{kernel}}}, VPUIP.task = "GPU"}}
func.func @f(%0: tensor<4xf32>) -> tensor<4xf32> {{
  func.return %0 : tensor<4xf32>
}}
func.func @main(%0: tensor<4xf32>{unknown}) -> tensor<4xf32> {{
  %1 = {text}
  func.return %0 : tensor<4xf32>
}}
"""
    with pytest.raises(LiteRtError) as error:
        ir_texts.run(module, "lower-ie-to-iert,lower-iert-to-vpuip")
    assert says in error.value.what
    assert error.value.status in (Status.UNSUPPORTED, Status.INVALID_ARGUMENT)


# These kernels use pitches, so they are right in every format.
ADD = """
__kernel void Add(__global const INPUT0_TYPE* a, __global const INPUT1_TYPE* b, __global OUTPUT0_TYPE* y) {
  const int x = get_global_id(0), row = get_global_id(1), bf = get_global_id(2);
  const int n = bf / OUTPUT0_DIMS[1], f = bf % OUTPUT0_DIMS[1];
  y[n * OUTPUT0_PITCHES[0] + f * OUTPUT0_PITCHES[1] + row * OUTPUT0_PITCHES[2] + x * OUTPUT0_PITCHES[3]] =
      a[n * INPUT0_PITCHES[0] + f * INPUT0_PITCHES[1] + row * INPUT0_PITCHES[2] + x * INPUT0_PITCHES[3]] +
      2 * b[n * INPUT1_PITCHES[0] + f * INPUT1_PITCHES[1] + row * INPUT1_PITCHES[2] + x * INPUT1_PITCHES[3]];
}
"""
SHAPE = (2, 3, 2, 2)


def add(formats: Sequence[Format], is_strided: bool) -> CustomLayer:
    bindings = [
        TensorArgument(False, 0, formats[0], is_strided=is_strided), TensorArgument(False, 1, formats[1]),
        TensorArgument(True, 0, formats[2], is_strided=is_strided),
    ]  # fmt: skip
    name = "_".join(("Add", *(f.value for f in formats)))
    return layer(name, ADD, entry="Add", arguments=tuple(bindings), global_size=("X", "Y", "B*F"))


LAYERS = [
    add([Format.BFYX, Format.ANY, Format.BFYX], False), add([Format.BYXF, Format.FYXB, Format.YXFB], False),
    add([Format.ANY, Format.BFYX, Format.ANY], True),
]  # fmt: skip


@st.composite
def graphs(draw: st.DrawFn) -> tuple[Subgraph, list[list[int]]]:
    """Draws a graph of ops that read any earlier values, each op in its own formats; and their indices."""
    b = ModelBuilder()
    values: list[Tensor] = [b.input("x", "float32", SHAPE)]
    reads: list[list[int]] = []
    for index in range(draw(st.integers(1, 8))):
        name = draw(st.sampled_from(LAYERS)).op_name
        places = draw(st.lists(st.integers(0, len(values) - 1), min_size=2, max_size=2))
        reads.append(places)
        made = b.custom(name, [values[p] for p in places], [(f"y{index}", "float32", SHAPE)])
        assert isinstance(made, Tensor)
        values.append(made)
    kept = draw(st.sets(st.integers(1, len(values) - 1), min_size=1, max_size=3))
    b.output(*[values[i] for i in sorted({*kept, len(values) - 1})])
    return b.build().subgraphs[0], reads


@settings(
    max_examples=6,
    deadline=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
)
@given(graphs())
def test_graphs_of_layers_in_any_format_compute_what_numpy_does(
    device: Any, made: tuple[Subgraph, list[list[int]]]
) -> None:
    partition, reads = made
    layers = {one.op_name: one for one in LAYERS}
    executable = entries_by_text(
        lower_partitions(Job(EMU8, layers), [partition]).executable, layers
    )
    assert executable is not None
    texts = dict.fromkeys(layers, ADD)
    module = Module(device, write_executable(executable).view, assets(**texts), False)
    function = module.find_function("Partition_0")
    loaded = module.load(function)
    buffers = [TensorBuffer.allocate(t) for t in (*function.inputs, *function.outputs)]
    shared = [device.share(buffer.address, buffer.size) for buffer in buffers]
    x = np.arange(np.prod(SHAPE), dtype=np.float32).reshape(SHAPE)
    buffers[0].array()[...] = x
    loaded.attach(ArgumentKind.INPUT, 0, shared[0])
    for index in range(len(function.outputs)):
        loaded.attach(ArgumentKind.OUTPUT, index, shared[1 + index])
    loaded.run()
    values: list[np.ndarray[Any, Any]] = [x]
    for first, second in reads:
        values.append(values[first] + 2 * values[second])
    names = [op.outputs[0].name for op in partition.ops]
    expected = dict(zip(names, values[1:], strict=True))
    for index, tensor in enumerate(partition.outputs):
        np.testing.assert_array_equal(buffers[1 + index].array(), expected[tensor.name])


def _module(text: str) -> str:
    return ir_texts.run(text)


def _on_one_line(text: str) -> str:
    return " ".join(text.split())


GOLDEN = sorted((Path(__file__).parent / "golden").glob("levels_*.mlir"))
TOKEN = re.compile(r'%\w+|[@#]\w+|(?:tensor|memref)<[^>]*>|\d+|"[^"]*"|\w+|.', re.DOTALL)


@st.composite
def edited_texts(draw: st.DrawFn) -> str:
    """Draws a level's text with up to three lines or words replaced or removed."""
    text = draw(st.sampled_from(GOLDEN)).read_text()
    for _ in range(draw(st.integers(1, 3))):
        parts = text.splitlines(keepends=True) if draw(st.booleans()) else TOKEN.findall(text)
        places = st.sampled_from([i for i, part in enumerate(parts) if part.strip()])
        parts[draw(places)] = draw(
            st.sampled_from(["", "0", "-1", str(2**70), parts[draw(places)]])
        )
        text = "".join(parts)
    return text


@settings(max_examples=40, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(edited_texts(), st.integers(0, len(pipeline()) - 1))
def test_a_text_that_was_edited_badly_is_lowered_or_refused(text: str, first: int) -> None:
    try:
        transform_text(text.encode(), "edited.mlir", ",".join(pipeline()[first:]))
    except LiteRtError as error:
        assert error.what

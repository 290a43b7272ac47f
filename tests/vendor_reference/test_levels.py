"""Tests parsing, printing and verifying the three IR levels; faulty texts are refused with a reason."""

from __future__ import annotations

import re
from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from xdsl.dialects.builtin import AffineMapAttr, DictionaryAttr, ModuleOp, StringAttr
from xdsl.irdl import irdl_op_definition
from xdsl.parser import Parser
from xdsl.utils.exceptions import ParseError, VerifyException

from litert.core.element_type import ElementType
from litert.core.errors import LiteRtError
from vendor_reference.compiler.ir.kernel_attribute import (
    KERNEL,
    kernel_attributes,
    read_kernel,
)
from vendor_reference.compiler.ir.text import read_ir
from vendor_reference.compiler.ir.types import (
    element_type_of,
    memref_of,
    memref_type,
    order_of,
    ranked_type,
    shape_of,
    space_of,
    tensor_type,
)
from vendor_reference.compiler.levels.dialects import make_context
from vendor_reference.compiler.levels.layer import LayerOp
from vendor_reference.compiler.memory_spaces import MemorySpace
from vendor_reference.compiler.tensor_requirements import (
    Requirements,
    TensorRequirement,
    read_requirements,
    requirement_attributes,
)
from vendor_reference.custom_layers.cl_types import CL_TYPES, STRUCT_FORMATS
from vendor_reference.custom_layers.kernel_spec import (
    ConstantArgument,
    InternalArgument,
    KernelSpec,
    LocalArgument,
    ScalarArgument,
    ShapeArgument,
    TensorArgument,
)
from vendor_reference.custom_layers.layout import (
    FORMATS,
    Format,
    format_order,
    order_format,
    same_memory,
)
from vendor_reference.executable.executable import Source


@irdl_op_definition
class Layer1(LayerOp):
    name = "IE.Layer1"


CONTEXT = make_context([Layer1])
TYPES = st.sampled_from(list(CL_TYPES))
NUMBERS = st.sampled_from(list(STRUCT_FORMATS))


def parse(text: str) -> ModuleOp:
    module = Parser(CONTEXT, text).parse_module()
    module.verify()
    return module


IE = """
  func.func @main(%input: tensor<1x2x3x4xf32>) -> tensor<1x2x3x4xf16, {map}> {
    %code = IE.Constant tensor<10240xui8> = dense_resource<code>
    %two = IE.Constant tensor<2xf32> = dense<[1.000000e+00, 2.500000e+00]>
    %half = IE.Convert(%input) : tensor<1x2x3x4xf32> -> tensor<1x2x3x4xf16>
    %planar = IE.Reorder(%half) : tensor<1x2x3x4xf16> -> tensor<1x2x3x4xf16, {map}>
    %made = IE.CustomBinaryLayer VPUIP.OCL from %code (%planar : tensor<1x2x3x4xf16, {map}>, \
%two : tensor<2xf32>) -> tensor<1x2x3x4xf16, {map}> {input_layouts = [{map}, unit], VPUIP.max_num_shaves = 8 : i64}
    func.return %made : tensor<1x2x3x4xf16, {map}>
  }
"""

SHAPES = """
  func.func private @calculate(!shape.shape) -> !shape.shape
  func.func @main(%input: tensor<?x3xf16>, %bounded: tensor<100x3xf16>) -> (tensor<?xf16>, !shape.shape) {
    %actual = IE.ActualShapeOf %bounded : tensor<100x3xf16> -> !shape.shape
    %shape = shape.shape_of %input : tensor<?x3xf16> -> !shape.shape
    %made, %made_shape = IE.Layer1(%input)[%shape] : tensor<?x3xf16>, !shape.shape -> tensor<?x3xf16>, !shape.shape
    %last_shape = func.call @calculate(%made_shape) : (!shape.shape) -> !shape.shape
    %last = IE.Layer1(%bounded, %made)[%made_shape][%last_shape] {dynamic_inputs = [1 : i64]} : \
tensor<100x3xf16>, tensor<?x3xf16>, !shape.shape, !shape.shape -> tensor<?xf16>
    func.return %last, %last_shape : tensor<?xf16>, !shape.shape
  }
"""

IERT = """
  func.func @main(%input: memref<2x3xf16>, %output: memref<2x3xf16>, %output_shape: memref<2xui32>) {
    %code = IERT.Constant memref<10240xui8> = dense_resource<code>
    %shape = IERT.ActualShapeOf %input : memref<2x3xf16> -> memref<2xui32>
    %planar = memref.alloc() : memref<2x3xf16, {map}, @CMX>
    %scratch = memref.alloc() : memref<7xi32>
    IERT.Reorder(%input, %planar)
    IERT.CustomBinaryLayer VPUIP.CPP from %code (%input, %planar) {num_outputs = 2 : i64}
    IERT.Layer1(%planar, %output, %scratch)[%shape, %output_shape] {axis = 1 : i64, num_scratch = 1 : i64}
    memref.dealloc %planar : memref<2x3xf16, {map}, @CMX>
    func.return
  }
"""

VPUIP = """
  func.func @main(%in: memref<4xf32>, %out: memref<4xf32>) {
    %weights = VPUIP.Constant memref<4xf32> = dense<1.000000e+00>
    %0 = VPUIP.DeclareBuffer @DDR[4096] : memref<4xf32, @DDR>
    %shape = VPUIP.DeclareBuffer @DDR[8192] : memref<1xui32>
    VPUIP.OCL @Softsign (%in, %weights) -> (%0) {global_size = array<i64: 4>, num_shaves = 4 : i64}
    VPUIP.CPP @Softsign (%0)[%shape] -> (%out)[%shape] scratch (%0)
    VPUIP.OCL from %weights (%0) -> (%out)
    func.return
  }
"""

TWO, FOUR = "affine_map<(d0, d1) -> (d1, d0)>", "affine_map<(d0, d1, d2, d3) -> (d0, d3, d1, d2)>"


@pytest.mark.parametrize(
    "text",
    [IE.replace("{map}", FOUR), SHAPES, IERT.replace("{map}", TWO), VPUIP],
    ids=["IE", "shapes on IE", "IERT", "VPUIP"],
)
def test_a_level_prints_what_it_parsed(text: str) -> None:
    whole = f'builtin.module attributes {{VPUIP.soc = "EMU8"}} {{{text}}}'
    assert str(parse(whole)) == whole


BAD = {
    "elements that no kernel reads": (
        "%1 = IE.Layer1(%0) : tensor<2x3xf32> -> tensor<2x3xbf16>",
        "output 0 has elements of type bf16",
    ),
    "a memref on IE": (
        "%m = memref.alloc() : memref<2xf32>\n%1 = IE.Layer1(%m) : memref<2xf32> -> tensor<2xf32>",
        "input 0 has type memref<2xf32>, but must be a tensor",
    ),
    "a layout that is no permutation": (
        "%1 = IE.Reorder(%0) : tensor<2x3xf32> -> tensor<2x3xf32, affine_map<(a, b) -> (a, a)>>",
        "does not contain each of its dimensions once",
    ),
    "a layout of another rank": (
        "%1 = IE.Reorder(%0) : tensor<2x3xf32> -> tensor<2x3xf32, affine_map<(a) -> (a)>>",
        "output 0 has rank 2, but its layout is for rank 1",
    ),
    "a layout that is something else": (
        "%1 = IE.Reorder(%0) : tensor<2x3xf32> -> tensor<2x3xf32, 7>",
        "output 0 has layout 7 : i64",
    ),
    "a reorder to another shape": (
        "%1 = IE.Reorder(%0) : tensor<2x3xf32> -> tensor<3x2xf32>",
        "the shape must not change, but (2, 3) becomes (3, 2)",
    ),
    "a reorder to other elements": (
        "%1 = IE.Reorder(%0) : tensor<2x3xf32> -> tensor<2x3xf16>",
        "the element type must not change",
    ),
    "a conversion to another layout": (
        f"%1 = IE.Convert(%0) : tensor<2x3xf32> -> tensor<2x3xf16, {TWO}>",
        "the layout must not change",
    ),
    "no outputs": ("IE.Layer1(%0) : tensor<2x3xf32> -> ", "the layer has no outputs"),
    "a constant of unknown shape": (
        "%1 = IE.Constant tensor<?xf32> = dense_resource<w>",
        "each of its dimensions needs a fixed size",
    ),
    "requirements for fewer inputs": (
        "%1 = IE.CustomBinaryLayer VPUIP.OCL from %0 (%0 : tensor<2x3xf32>) -> tensor<2xf32> "
        "{input_layouts = []}",
        "input_layouts is [], but must be an array with 1 element",
    ),
    "a layout that is a number": (
        "%1 = IE.CustomBinaryLayer VPUIP.OCL from %0 (%0 : tensor<2x3xf32>) -> tensor<2xf32> "
        "{output_layouts = [7]}",
        "output_layouts[0] is 7 : i64, but must be a layout",
    ),
    "a memory space that is none": (
        "%1 = IE.CustomBinaryLayer VPUIP.OCL from %0 (%0 : tensor<2x3xf32>) -> tensor<2xf32> "
        "{memory_spaces = [@CMX, @L2]}",
        "memory_spaces[1] is @L2, but must be one of @DDR, @CMX",
    ),
    "a precision that is a number": (
        "%1 = IE.CustomBinaryLayer VPUIP.OCL from %0 (%0 : tensor<2x3xf32>) -> tensor<2xf32> "
        "{input_precisions = [16]}",
        "input_precisions[0] is 16 : i64, but must be a type of elements",
    ),
    "fewer than no shaves": (
        "%1 = IE.CustomBinaryLayer VPUIP.OCL from %0 (%0 : tensor<2x3xf32>) -> tensor<2xf32> "
        "{VPUIP.max_num_shaves = -1}",
        "VPUIP.max_num_shaves is -1 : i64",
    ),
    "a shape for an input that is not there": (
        "%s = shape.shape_of %0 : tensor<2x3xf32> -> !shape.shape\n"
        "%1 = IE.Layer1(%0)[%s] {dynamic_inputs = [1]} : tensor<2x3xf32>, !shape.shape -> tensor<2xf32>",
        "dynamic_inputs is [1 : i64], but must have a different input index for each shape (1 shape), "
        "and the only input has index 0",
    ),
    "more shapes than inputs": (
        "%s = shape.shape_of %0 : tensor<2x3xf32> -> !shape.shape\n"
        "%1 = IE.Layer1(%0)[%s, %s] : tensor<2x3xf32>, !shape.shape, !shape.shape -> tensor<2xf32>",
        "dynamic_inputs is [0, 1], but must have a different input index for each shape (2 shapes), "
        "and the only input has index 0",
    ),
    "a buffer in another space than its type says": (
        "%1 = VPUIP.DeclareBuffer @DDR[0] : memref<4xf32, @CMX>",
        "the buffer is declared in @DDR, but has type memref<4xf32, @CMX>",
    ),
    "a buffer in no space": ("%1 = VPUIP.DeclareBuffer @L2[0] : memref<4xf32>", "no memory space @L2"),
    "a buffer before the arena": ("%1 = VPUIP.DeclareBuffer @DDR[-64] : memref<4xf32>", "the offset is -64"),
    "a memref in no space": ("%1 = VPUIP.DeclareBuffer @DDR[0] : memref<4xf32, @L2>", "memory space @L2"),
    "four work sizes": (
        "%1 = VPUIP.DeclareBuffer @DDR[0] : memref<4xf32>\n"
        "VPUIP.OCL @K (%1) -> (%1) {global_size = array<i64: 1, 2, 3, 4>}",
        "must have 1 to 3 numbers of at least 0",
    ),
    "a local size for one of two": (
        "%1 = VPUIP.DeclareBuffer @DDR[0] : memref<4xf32>\n"
        "VPUIP.OCL @K (%1) -> (%1) {global_size = array<i64: 1, 2>, local_size = array<i64: 1>}",
        "the task has 1 local sizes, but 2 global sizes",
    ),
    "no shaves": (
        "%1 = VPUIP.DeclareBuffer @DDR[0] : memref<4xf32>\n"
        "VPUIP.OCL @K (%1) -> (%1) {num_shaves = 0}",
        "num_shaves is 0 : i64, but must be a number of at least 1",
    ),
    "a tensor on IERT": (
        "%1 = memref.alloc() : memref<2x3xf32>\nIERT.Layer1(%0, %1)",
        "input 0 has type tensor<2x3xf32>, but must be a memref",
    ),
}  # fmt: skip


@pytest.mark.parametrize(("text", "says"), BAD.values(), ids=BAD)
def test_a_verifier_says_what_is_wrong(text: str, says: str) -> None:
    module = Parser(
        CONTEXT, f"func.func @f(%0: tensor<2x3xf32>) {{\n{text}\nfunc.return\n}}"
    ).parse_module()
    with pytest.raises(VerifyException, match=re.escape(says)):
        module.verify()


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("IERT.Layer1(%0, %nowhere)", "%nowhere is not defined before its use"),
        ("IERT.Layer1(%0) {num_outputs = 2}", "num_outputs is 2 : i64, but must be a number from 0 to 1"),
        ("%1 = IE.CustomBinaryLayer VPUIP.GPU from %0 () -> tensor<2xf32>", "must have type VPUIP.OCL or VPUIP."),
        ("%1 = IE.Constant i32 = dense<1>", "a constant cannot have type i32"),
        ("%1 = IE.Constant tensor<2xf32> = dense<[1.0]>", "Shape mismatch"),
        ("%1 = IE.Layer1(%0, %0, %0) : tensor<2xi8>, tensor<2xi8> -> tensor<2xi8>", "2 operand types but had 3"),
    ],
)  # fmt: skip
def test_a_text_that_cannot_be_read_is_refused(text: str, says: str) -> None:
    with pytest.raises(ParseError, match=re.escape(says)):
        Parser(CONTEXT, f"func.func @f(%0: tensor<2x3xf32>) {{\n{text}\n}}").parse_module()


@given(TYPES, st.lists(st.integers(-1, 9), max_size=6), st.randoms(use_true_random=False))
def test_types_hold_elements_shape_layout_and_space(
    element_type: ElementType, shape: list[int], random: object
) -> None:
    order = list(range(len(shape)))
    random.shuffle(order)  # type: ignore[attr-defined]
    tensor = tensor_type(element_type, tuple(shape), tuple(order))
    memref = memref_type(element_type, tuple(shape), tuple(order), MemorySpace.CMX)
    for ir_type in (tensor, memref, memref_of(tensor)):
        assert element_type_of(ir_type) is element_type
        assert (shape_of(ir_type), order_of(ir_type)) == (tuple(shape), tuple(order))
    assert str(ranked_type(tensor)) == str(tensor_type(element_type, tuple(shape)))
    assert space_of(memref) is MemorySpace.CMX and space_of(memref_of(tensor)) is None


@pytest.mark.parametrize(
    ("format", "rank", "order"),
    [
        (Format.BFYX, 4, (0, 3, 1, 2)),
        (Format.BYXF, 4, (0, 1, 2, 3)),
        (Format.YXFB, 4, (1, 2, 3, 0)),
        (Format.FYXB, 4, (3, 1, 2, 0)),
        (Format.BYXF, 3, (0, 2, 1)),
        (Format.BFYX, 3, (0, 1, 2)),
        (Format.FYXB, 2, (1, 0)),
        (Format.YXFB, 1, (0,)),
        (Format.BFYX, 5, (0, 4, 1, 2, 3)),
        (Format.ANY, 4, (0, 1, 2, 3)),
        (Format.BYXF, 0, ()),
    ],
)
def test_a_format_is_an_order_of_a_tensors_own_dimensions(
    format: Format, rank: int, order: tuple[int, ...]
) -> None:
    assert format_order(format, rank) == order


@pytest.mark.parametrize("rank", [4, 5, 6])
def test_an_order_tells_its_format(rank: int) -> None:
    assert [order_format(format_order(f, rank)) for f in FORMATS] == list(FORMATS)
    assert order_format(tuple(reversed(range(rank)))) is None


def test_dimensions_of_one_are_nowhere_in_memory() -> None:
    assert same_memory((1, 1, 5, 1), (0, 1, 2, 3), (0, 3, 1, 2))
    assert not same_memory((1, 2, 5, 1), (0, 1, 2, 3), (0, 3, 2, 1))


TEXTS = st.text(max_size=12)
FILES = st.lists(st.builds(Source, TEXTS, TEXTS, TEXTS), max_size=2).map(tuple)
PORTS = st.integers(0, 65535)


@st.composite
def arguments(draw: st.DrawFn) -> object:
    kind = draw(st.sampled_from(["tensor", "shape", "scalar", "constant", "local", "internal"]))
    if kind == "tensor":
        is_output, is_zeroed = draw(st.booleans()), draw(st.booleans())
        return TensorArgument(is_output, draw(PORTS), is_zeroed=is_zeroed)
    if kind == "shape":
        return ShapeArgument(draw(st.booleans()), draw(PORTS))
    element_type = draw(NUMBERS)
    size = element_type.bits // 8
    if kind == "scalar":
        data = draw(
            st.binary(min_size=size, max_size=size).filter(lambda d: not _is_nan(element_type, d))
        )
        return ScalarArgument(element_type, data)
    if kind == "constant":
        count = draw(st.integers(0, 3))
        data = draw(st.binary(min_size=size * count, max_size=size * count))
        return ConstantArgument(element_type, data)
    return (LocalArgument if kind == "local" else InternalArgument)(element_type, draw(TEXTS))


def _is_nan(element_type: ElementType, data: bytes) -> bool:
    """Whether the value is NaN; texts keep that, but not the NaN's payload."""
    import numpy as np

    number = np.frombuffer(data, element_type.numpy_dtype)[0]
    return bool(number != number)


SPECS = st.builds(
    KernelSpec,
    title=TEXTS,
    arguments=st.lists(arguments(), max_size=4).map(tuple),
    where=TEXTS,
    sources=FILES,
    headers=FILES,
    entry=TEXTS,
    defines=st.lists(st.tuples(TEXTS, TEXTS), max_size=2).map(tuple),
    build_options=st.sampled_from(["", "-w", "-DX=1 -cl-mad-enable"]),
    global_size=st.lists(TEXTS, max_size=3).map(tuple),
    local_size=st.lists(TEXTS, max_size=3).map(tuple),
    sizes_of=st.builds(TensorArgument, st.booleans(), PORTS),
    max_num_shaves=st.integers(0, 16),
)


def _with_constant(data: bytes) -> KernelSpec:
    return KernelSpec("k", arguments=(ConstantArgument(ElementType.FLOAT32, data),))


@given(SPECS)
@example(_with_constant(b"\0\0\x80\x7f\0\0\xc0\x7f"))
def test_a_kernel_survives_as_attributes_and_as_text(spec: KernelSpec) -> None:
    attributes = kernel_attributes(spec)
    assert read_kernel(attributes) == spec
    text = f"func.func private @k() attributes {DictionaryAttr(attributes)}"
    (function,) = read_ir(text, "kernel.mlir", CONTEXT).module.ops
    assert read_kernel(function.attributes) == spec


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ('"a"', "VPUIP.kernel is \"a\", but must be a dictionary"),
        ("{}", "VPUIP.kernel: field 'title' is missing"),
        ("{title = 1, arguments = []}", "VPUIP.kernel.title: 1 is not a string"),
        ('{title = "k", arguments = [], entri = "k"}', "VPUIP.kernel: unknown field 'entri'"),
        ('{title = "k", arguments = 7}', "VPUIP.kernel.arguments: 7 is not an array"),
        ('{title = "k", arguments = [7]}', "VPUIP.kernel.arguments[0]: 7 is not an object"),
        ('{title = "k", arguments = [{input = -1}]}', "VPUIP.kernel.arguments[0].input: -1 is not in the range 0"),
        (
            '{title = "k", arguments = [{image = 1}]}',
            "the object must have exactly one of the fields input, output, shape_of_",
        ),
        ('{title = "k", arguments = [{scalar = 1 : index}]}', "the type 'index' is not a numeric type"),
        ('{title = "k", arguments = [{local = "X"}]}', "VPUIP.kernel.arguments[0]: field 'type' is missing"),
        (
            '{title = "k", arguments = [], sources = [["a", "b"]]}',
            "sources[0]: the array has 2 elements, but must have 3",
        ),
        ('{title = "k", arguments = [], global_size = [4]}', "VPUIP.kernel.global_size[0]: 4 is not a string"),
        (r'{title = "k", arguments = [], entry = "\FF"}', "VPUIP.kernel.entry: "),
        (
            '{title = "k", arguments = [], sizes_of = {local = "X", type = f32}}',
            "sizes_of: the object must have exactly one of the fields input, output",
        ),
    ],
)  # fmt: skip
def test_attributes_that_hold_no_kernel_are_refused(text: str, says: str) -> None:
    kernel = Parser(CONTEXT, text).parse_attribute()
    with pytest.raises(LiteRtError, match=re.escape(says)):
        read_kernel({KERNEL: kernel})


def test_numbers_of_any_type_are_numbers() -> None:
    text = '{title = "k", arguments = [{input = 2 : i32}], flat_inputs = [1 : index]}'
    kernel = read_kernel({KERNEL: Parser(CONTEXT, text).parse_attribute()})
    assert kernel == KernelSpec("k", arguments=(TensorArgument(False, 2),), flat_inputs=(1,))


def test_a_function_that_has_no_kernel_is_refused() -> None:
    with pytest.raises(LiteRtError, match=r"VPUIP\.kernel is missing"):
        read_kernel({"title": StringAttr("k")})


ORDERS = st.permutations(range(4)).map(tuple)
SPACES = st.none() | st.sampled_from(list(MemorySpace))


@given(st.data(), st.integers(0, 3), st.integers(1, 3), st.sampled_from(["", "IE."]))
def test_requirements_survive_as_attributes(
    data: st.DataObject, inputs: int, outputs: int, prefix: str
) -> None:
    def some(entries: st.SearchStrategy[Any], count: int) -> tuple[Any, ...]:
        return tuple(data.draw(st.lists(entries, min_size=count, max_size=count)))

    tensors = st.builds(
        TensorRequirement, st.none() | ORDERS, st.none() | TYPES, st.booleans(), SPACES
    )
    requirements = Requirements(some(tensors, inputs), some(tensors, outputs))
    attributes = requirement_attributes(requirements, prefix)
    assert read_requirements(attributes, inputs, outputs, prefix) == requirements
    assert read_requirements({}, inputs, outputs) == Requirements.of_layouts(
        (None,) * inputs, (None,) * outputs
    )


def test_row_order_is_no_map_in_a_type_and_a_map_in_a_requirement() -> None:
    rows = Requirements.of_layouts([(0, 1)], [None])
    assert tensor_type(ElementType.FLOAT32, (2, 3), (0, 1)) == tensor_type(
        ElementType.FLOAT32, (2, 3)
    )
    (layouts,) = [requirement_attributes(rows)["IE.input_layouts"]]
    assert isinstance(layouts.data[0], AffineMapAttr)  # type: ignore[attr-defined]

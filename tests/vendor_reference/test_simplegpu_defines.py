"""Tests the defines that precede a kernel's sources."""

from __future__ import annotations

from litert.core.element_type import ElementType
from litert.core.sizes import Dimension, Size
from litert.model.builder import ModelBuilder
from tests.vendor_reference.layers import custom_layer
from vendor_reference.compiler.simplegpu_defines import (
    KernelTensor,
    layer_defines,
    uses_init,
    write_prelude,
)
from vendor_reference.custom_layers.custom_layer import Define
from vendor_reference.custom_layers.kernel_spec import KernelSpec
from vendor_reference.custom_layers.layout import Format, bfyx
from vendor_reference.custom_layers.value_sources import FlexOption, OpValues
from vendor_reference.executable.executable import HOLE


def prelude(
    options: dict[str, object] | bytes, *defines: Define, of_options: bool = True
) -> tuple[str, list[str]]:
    b = ModelBuilder()
    x = b.input("x", "float32", (2, 4, 5, 3))
    b.custom("Mine", [x, None], [("y", "int8", (7,))], options=options)  # type: ignore[arg-type]
    (op,) = b.build().subgraphs[0].ops
    layer = custom_layer("Mine", "k.cl", [], defines=defines, defines_options=of_options)
    notes: list[str] = []
    return write(
        KernelSpec("Mine", (), defines=tuple(layer_defines(layer, op, OpValues(op), notes)))
    ), notes


def write(spec: KernelSpec, *inputs: KernelTensor | None, holes: list[Size] | None = None) -> str:
    """Writes the defines for these inputs, an output of 7 bytes, and 5 x 4 x 6 work items."""
    outputs = [KernelTensor(ElementType.INT8, bfyx((7,)))]
    return write_prelude(spec, inputs, outputs, [5, 4, 6], [], [] if holes is None else holes)


IMAGE = KernelTensor(ElementType.FLOAT32, bfyx((2, 4, 5, 3)))


def test_the_built_in_defines_are_those_of_custom_layers() -> None:
    assert (
        write(KernelSpec("Mine", (), defines=(("N", "3"), ("F(x)", "x"))), IMAGE, None) == EXPECTED
    )


EXPECTED = """\
// Custom Layer Built-ins
#define NUM_INPUTS 2
#define GLOBAL_WORKSIZE_SIZE 3
#define GLOBAL_WORKSIZE (size_t []){ 5,4,6, }\x20
#define LOCAL_WORKSIZE_SIZE 0
#define LOCAL_WORKSIZE (size_t []){  }\x20
#define INPUT0_DIMS_SIZE 4
#define INPUT0_DIMS (int []){ 2,3,4,5, }\x20
#define INPUT0_TYPE float
#define INPUT0_FORMAT_BYXF\x20
#define INPUT0_LOWER_PADDING_SIZE 4
#define INPUT0_LOWER_PADDING (int []){ 0,0,0,0, }\x20
#define INPUT0_UPPER_PADDING_SIZE 4
#define INPUT0_UPPER_PADDING (int []){ 0,0,0,0, }\x20
#define INPUT0_PITCHES_SIZE 4
#define INPUT0_PITCHES (int []){ 60,1,15,3, }\x20
#define INPUT0_OFFSET 0
#define OUTPUT0_DIMS_SIZE 4
#define OUTPUT0_DIMS (int []){ 7,1,1,1, }\x20
#define OUTPUT0_TYPE char
#define OUTPUT0_FORMAT_BFYX\x20
#define OUTPUT0_LOWER_PADDING_SIZE 4
#define OUTPUT0_LOWER_PADDING (int []){ 0,0,0,0, }\x20
#define OUTPUT0_UPPER_PADDING_SIZE 4
#define OUTPUT0_UPPER_PADDING (int []){ 0,0,0,0, }\x20
#define OUTPUT0_PITCHES_SIZE 4
#define OUTPUT0_PITCHES (int []){ 1,1,1,1, }\x20
#define OUTPUT0_OFFSET 0

// Custom Layer User Defines
#define N 3
#define F(x) x
"""


def test_arrays_have_the_form_that_initializes_where_a_text_names_it() -> None:
    spec = KernelSpec("Mine", (), uses_init=uses_init([b"int a[] = INPUT0_DIMS_INIT;"]))
    text = write(spec, IMAGE)
    array = "#define INPUT0_PITCHES"
    init = f"{array}_INIT {{ 60,1,15,3, }} \n"
    assert f"{array}_SIZE 4\n{init}{array} (int []){{ 60,1,15,3, }} \n" in text
    assert text.count("_INIT ") == 10  # two for work sizes, four for each tensor
    assert not uses_init([b"#define MY_INITIAL 3", b"INIT"])


def test_a_padded_view_has_its_padding_and_offset() -> None:
    half = bfyx((2, 4, 6, 2), (0, 3, 1, 2), Format.BFYX, (0, 0, 0, 2))
    text = write(KernelSpec("Mine", ()), KernelTensor(ElementType.BOOL, half))
    for line in (
        "TYPE uchar",
        "FORMAT_BFYX ",
        "DIMS (int []){ 2,2,4,6, } ",
        "LOWER_PADDING (int []){ 0,2,0,0, } ",
        "PITCHES (int []){ 96,24,6,1, } ",
        "OFFSET 48",
    ):
        assert f"#define INPUT0_{line}\n" in text


def test_sizes_that_a_run_tells_are_holes() -> None:
    holes: list[Size] = []
    rows = KernelTensor(ElementType.FLOAT32, bfyx((Dimension(0, 0), 3)))
    text = write(KernelSpec("Mine", ()), rows, holes=holes)
    assert f"#define INPUT0_DIMS (int []){{ {HOLE},3,1,1, }} \n" in text
    assert holes == [Dimension(0, 0)]


def test_each_option_is_a_define() -> None:
    text, notes = prelude({"alpha": 0.5, "n": -3, "on": True, "axes": [1, 2], "mode": "SAME"})
    for line in ("alpha 0.5f", "n -3", "on 1", "axes 1,2", "mode SAME"):
        assert f"#define PARAM_{line}\n" in text
    assert not notes


def test_an_option_that_cannot_be_a_define_is_noted() -> None:
    text, notes = prelude({"a-b": 1, "nested": {"x": 1}, "note": "it's", "blob": b"\0"})
    assert "PARAM_" not in text
    assert notes == [
        "op 'Mine': option 'a-b' becomes no define: the option's name cannot be part of a C identifier.",
        "op 'Mine': option 'blob' becomes no define: the value is neither numbers nor text.",
        "op 'Mine': option 'nested' becomes no define: the value is neither numbers nor text.",
        "op 'Mine': option 'note' becomes no define: a #define cannot contain the text \"it's\": the "
        "character ' has no matching quote.",
    ]


def test_a_description_has_the_defines_it_asks_for() -> None:
    define = Define("ALPHA", FlexOption("alpha"), "float")
    text, _ = prelude({"alpha": 2, "beta": 1}, define, of_options=False)
    assert text.endswith("// Custom Layer User Defines\n#define ALPHA 2.0f\n")


def test_options_that_are_a_c_struct_are_noted() -> None:
    text, notes = prelude(b"\1\0\0\0\2\0\0\0")
    assert "PARAM_" not in text
    assert "the 8 bytes of options are not a FlexBuffer map" in notes[0] and "'field'" in notes[0]
    assert not prelude({})[1] and not prelude(b"")[1]

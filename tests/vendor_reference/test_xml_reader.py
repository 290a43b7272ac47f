"""Tests reading custom layer configurations (`.xml` assets)."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from litert.core.errors import LiteRtError
from litert.core.status import Status
from vendor_reference.custom_layers.asset_reader import read_layer
from vendor_reference.custom_layers.custom_layer import CustomLayer, Define
from vendor_reference.custom_layers.kernel_spec import (
    DataArgument,
    Format,
    InternalArgument,
    TensorArgument,
)
from vendor_reference.custom_layers.value_sources import FlexOption, Literal

Read = Callable[..., CustomLayer]

SEED = """\
<!-- the config file introduces a custom "ReLU" layer-->
<CustomLayer name="ReLU" type="SimpleGPU" version="1">
  <!-- the corresponding custom kernel is "example_relu_kernel" from the specified .cl file-->
  <Kernel entry="example_relu_kernel">
    <Source filename="custom_layer_kernel.cl"/>
    <!-- the only ReLU specific parameter (for "leaky" one)-->
    <Define name="neg_slope" type="float" param="negative_slope" default="0.0"/>
  </Kernel>
  <!-- inputs and outputs of the kernel-->
  <Buffers>
    <Tensor arg-index="0" type="input" port-index="0" format="BFYX"/>
    <Tensor arg-index="1" type="output" port-index="0" format="BFYX"/>
  </Buffers>
  <!-- OpenCL compiler options-->
  <CompilerOptions options="-cl-mad-enable"/>
  <!-- define the global worksize. -->
  <WorkSizes global="X,Y,B*F"/>
</CustomLayer>
"""

FULL = """\
<CustomLayer name="Full" type="SimpleGPU" version="1">
  <Kernel entry="run">
    <Source filename="h.cl"/>
    <Define name="ALPHA" param="alpha" type="float" default="0.5"/>
    <Source filename="sub/k.cl"/>
    <Define name="N 42"/>
  </Kernel>
  <Buffers>
    <Tensor arg-index="3" type="output" port-index="0"/>
    <Tensor arg-index="0" type="input" port-index="1" format="yxfb"/>
    <Data name="weights" arg-index="2"/>
    <Tensor arg-index="1" type="internal" port-index="0" size="INPUT0_DIMS[1] * 4"/>
  </Buffers>
  <CompilerOptions options="-DS=3"/>
  <WorkSizes global="((X+15)/16)*16, Y" local="16" dim="input,1"/>
</CustomLayer>
"""


@pytest.fixture
def read(tmp_path: Path) -> Read:
    (tmp_path / "sub").mkdir()
    for name in ("custom_layer_kernel.cl", "h.cl", "sub/k.cl"):
        (tmp_path / name).write_text('#include "c.h"\n__kernel void run() {}')
    (tmp_path / "c.h").write_text("")

    def read(text: str | bytes, op_name: str = "MyOp") -> CustomLayer:
        data = text if isinstance(text, bytes) else text.encode()
        return read_layer(op_name, str(tmp_path / "layer.xml"), memoryview(data))

    return read


def changed(old: str, new: str, text: str = FULL) -> str:
    assert text.count(old) == 1, old
    return text.replace(old, new)


def test_the_seeds_example_is_read(read: Read) -> None:
    layer = read(SEED)
    assert (layer.op_name, layer.kernel.title, layer.kernel.entry) == (
        "MyOp",
        "ReLU",
        "example_relu_kernel",
    )
    assert [f.path for f in layer.sources] == ["custom_layer_kernel.cl"]
    assert [f.path for f in layer.headers] == ["c.h"]
    assert layer.defines == [
        Define("neg_slope", FlexOption("negative_slope", "0.0"), "", is_plain=True)
    ]
    assert list(layer.kernel.arguments) == [
        TensorArgument(False, 0, Format.BFYX),
        TensorArgument(True, 0, Format.BFYX),
    ]
    assert layer.kernel.build_options == "-cl-mad-enable"
    assert layer.kernel.global_size == ("X", "Y", "B*F")
    assert not layer.kernel.local_size and not layer.notes


def test_all_that_a_configuration_can_have_is_read(read: Read) -> None:
    layer = read(FULL)
    assert [f.path for f in layer.sources] == ["h.cl", "sub/k.cl"]
    assert list(layer.kernel.arguments) == [
        TensorArgument(False, 1, Format.YXFB),
        InternalArgument(None, "INPUT0_DIMS[1] * 4"),
        DataArgument("weights", is_flat=True),
        TensorArgument(True, 0, Format.BFYX),
    ]
    assert layer.defines == [
        Define("ALPHA", FlexOption("alpha", "0.5"), "", is_plain=True),
        Define("N 42", Literal(""), "", is_plain=True),
    ]
    sizes = layer.kernel
    assert [f.strip() for f in sizes.global_size] == ["((X+15)/16)*16", "Y"]
    assert list(sizes.local_size) == ["16"]  # lowering appends 1 for Y
    assert (sizes.sizes_of, sizes.counts_from_end) == (TensorArgument(False, 1), True)
    assert not layer.notes


DEFINES = {
    'name="A" type="int[]" param="p"': Define("A", FlexOption("p"), "int[]", is_plain=True),
    'name="A" type="float[]" default="1,2"': Define("A", Literal("1,2"), "float[]", is_plain=True),
    'name="A" type="INT[]" param="p"': Define("A", FlexOption("p"), "", is_plain=True),
    'name="A" type="string" default="x y"': Define("A", Literal("x y"), "", is_plain=True),
    'name="F(x)" default="((x)+1)"': Define("F(x)", Literal("((x)+1)"), "", is_plain=True),
    'name="  A 1" default="x"': Define("A 1", Literal("x"), "", is_plain=True),
    'name="F(x) ((x)+1)"': Define("F(x) ((x)+1)", Literal(""), "", is_plain=True),
    'name="A" default=""': Define("A", Literal(""), "", is_plain=True),
    'name="A" param="p" default=""': Define("A", FlexOption("p", ""), "", is_plain=True),
}


@pytest.mark.parametrize(("text", "define"), DEFINES.items(), ids=list(DEFINES))
def test_defines_are_read(read: Read, text: str, define: Define) -> None:
    layer = read(changed('<Define name="N 42"/>', f"<Define {text}/>"))
    assert layer.defines[1] == define


@pytest.mark.parametrize("name", ["BFYX", "BYXF", "YXFB", "FYXB", "ANY"])
def test_formats_are_in_capitals_or_all_lower_case(read: Read, name: str) -> None:
    for spelling in (name, name.lower()):
        layer = read(changed("yxfb", spelling))
        assert layer.kernel.arguments and layer.kernel.arguments[0] == TensorArgument(
            False, 1, Format(name)
        )


WORK_SIZES = {
    "": ([], []),
    'global=""': ([], []),
    'global="X,"': (["X"], []),
    'global="X , Y , B*F" local="4,2"': (["X", "Y", "B*F"], ["4", "2"]),
    'local="8"': ([], ["8"]),
    'global="x,y" local=""': (["x", "y"], []),
}


@pytest.mark.parametrize(("text", "sizes"), WORK_SIZES.items(), ids=list(WORK_SIZES))
def test_work_sizes_are_read(read: Read, text: str, sizes: tuple[list[str], list[str]]) -> None:
    layer = read(changed('global="X,Y,B*F"', text, SEED))
    found = layer.kernel
    assert (
        [f.strip() for f in found.global_size],
        list(found.local_size),
    ) == sizes


@pytest.mark.parametrize(
    ("text", "of"),
    [
        ("output", (True, 0)),
        ("input", (False, 0)),
        ("input,0", (False, 0)),
        ("input, 2", (False, 2)),
    ],
)
def test_work_sizes_are_of_the_tensor_that_dim_names(
    read: Read, text: str, of: tuple[bool, int]
) -> None:
    sizes = read(changed("input,1", text)).kernel
    assert (sizes.sizes_of, sizes.counts_from_end) == (TensorArgument(*of), not of[0])


@pytest.mark.parametrize("version", ["1", "01", " 1", "+1"])
def test_a_version_is_a_whole_number(read: Read, version: str) -> None:
    assert read(changed('version="1"', f'version="{version}"')).kernel.title == "Full"


def test_the_only_layer_of_a_file_is_for_the_op_whatever_its_name(read: Read) -> None:
    assert read(SEED, "RELU").op_name == "RELU"


def test_of_several_layers_the_one_of_the_ops_name_is_taken(read: Read) -> None:
    assert read(SEED + FULL, "Full").kernel.entry == "run"
    assert read(SEED + FULL, "ReLU").kernel.entry == "example_relu_kernel"
    with pytest.raises(LiteRtError) as error:
        read(SEED + FULL, "Relu")
    assert error.value.status is Status.NOT_FOUND
    assert "the file contains 2 layers, but none with the op's name, 'Relu'" in error.value.what
    assert error.value.hint == "Did you mean 'ReLU'?"


def test_of_two_layers_of_one_name_the_last_one_counts(read: Read) -> None:
    layer = read(SEED + changed("X,Y,B*F", "X", SEED))
    assert len(layer.kernel.global_size) == 1
    assert layer.notes == [
        "layer.xml, line 20: layer 'ReLU' is described several times, and the last description is used."
    ]


NOTED = {
    "several options": (
        '<CompilerOptions options="-DS=3"/>',
        '<CompilerOptions options="-DS=3"/>\n<CompilerOptions options="-w"/>',
        "line 15, <CompilerOptions>: the options of all 2 <CompilerOptions> are used; OpenVINO uses only "
        "the first of them."),
    "a scalar": (
        "<Data", '<Scalar arg-index="9"/><Data',
        "line 11, <Scalar>: this element is unknown in <Buffers>, and is ignored."),
    "an unknown attribute": (
        'version="1"', 'version="1" author="me"',
        "line 1, <CustomLayer>: attribute 'author' is unknown, and is ignored."),
    "an attribute twice": (
        'entry="run"', 'entry="run" entry="walk"',
        "line 2, <Kernel>: attribute 'entry' is repeated, and the first value is used."),
    "an argument twice": (
        "<Data", '<Data name="biases" arg-index="2"/><Data',
        "line 11, <Data>: several elements have arg-index 2, and the last of them is used."),
    "a gap": (
        'arg-index="3"', 'arg-index="5"',
        "line 8, <Buffers>: no element has arg-index 3, 4, so the kernel gets input 0 as this argument."),
    "a port in two formats": (
        "<Data", '<Tensor arg-index="4" type="input" port-index="1"/><Data',
        "line 11, <Tensor>: an earlier element for input 1 has format YXFB, which is used in place of BFYX."),
    "a local size too many": (
        'local="16"', 'local="4,4,4"',
        "line 15, <WorkSizes>: attribute 'local' has 3 sizes, but 'global' has 2; the surplus local sizes "
        "are only in the macro LOCAL_WORKSIZE."),
    "a backslash that would join lines": (
        'default="0.5"', 'default="0.5 \\"',
        "line 4, <Define>: the backslash at the end of the default value is removed, because it would append "
        "the next line."),
}  # fmt: skip


@pytest.mark.parametrize(("old", "new", "note"), NOTED.values(), ids=list(NOTED))
def test_what_is_read_otherwise_than_it_may_seem_is_noted(
    read: Read, old: str, new: str, note: str
) -> None:
    layer = read(changed(old, new))
    assert layer.notes == [f"layer.xml, {note}"]
    assert layer.kernel.entry == "run"


def test_several_options_are_joined_in_order(read: Read) -> None:
    more = '<CompilerOptions options="-w"/><CompilerOptions options="-g"/>'
    assert read(changed("<WorkSizes", f"{more}<WorkSizes")).kernel.build_options == "-DS=3 -w -g"


def test_a_gap_in_the_arguments_is_input_0_in_its_format(read: Read) -> None:
    text = changed('port-index="1"', 'port-index="0"')
    layer = read(changed('arg-index="3"', 'arg-index="4"', text))
    assert layer.kernel.arguments and layer.kernel.arguments[3] == TensorArgument(
        False, 0, Format.YXFB
    )


def test_outputs_may_be_numbered_on_from_the_inputs(read: Read) -> None:
    text = changed(
        '<Tensor arg-index="1" type="output" port-index="0" format="BFYX"/>',
        '<Tensor arg-index="1" type="output" port-index="1" format="BFYX"/>\n'
        '<Tensor arg-index="2" type="output" port-index="2" format="BFYX"/>',
        SEED,
    )
    layer = read(text)
    assert list(layer.kernel.arguments) == [
        TensorArgument(False, 0, Format.BFYX),
        TensorArgument(True, 0, Format.BFYX),
        TensorArgument(True, 1, Format.BFYX),
    ]
    assert "counts from 1, as in an OpenVINO IR, so port-index 1 is output 0" in layer.notes[0]


def test_outputs_that_are_numbered_otherwise_stay_so(read: Read) -> None:
    layer = read(changed('type="output" port-index="0"', 'type="output" port-index="2"', SEED))
    assert layer.kernel.arguments and layer.kernel.arguments[1] == TensorArgument(
        True, 2, Format.BFYX
    )
    assert not layer.notes


def test_a_tensor_that_is_reached_by_pitches_and_offset_may_be_a_view(
    read: Read, tmp_path: Path
) -> None:
    (tmp_path / "custom_layer_kernel.cl").write_text(
        "y[i * OUTPUT0_PITCHES[3] + OUTPUT0_OFFSET] = x[i * INPUT0_PITCHES[3]]; // INPUT0_OFFSET"
    )
    arguments = read(SEED).kernel.arguments
    assert list(arguments) == [
        TensorArgument(False, 0, Format.BFYX),
        TensorArgument(True, 0, Format.BFYX, is_strided=True),
    ]


def test_what_files_really_have_is_taken(read: Read) -> None:
    layer = read(
        "\ufeff<!-- a -- b --><?xml version='1.0'?><!DOCTYPE CustomLayer>stray\r\n"
        + FULL.replace('"', "'").replace("\n", "\r\n").replace("'16'", "'16' local='2'")
    )
    assert layer.kernel.title == "Full" and layer.kernel.local_size[0] == "16"


BAD = {
    "an empty file": (FULL, "", "the file contains no <CustomLayer>, so it does not describe a layer"),
    "no XML": (FULL, '{"version": 1}', "contains no <CustomLayer>"),
    "an end tag of another name": ("</Kernel>", "</Kernal>", "is missing before </Kernal>"),
    "a surplus end tag": ("</Kernel>", "</Kernel></Kernel>", "is missing before </Kernel>"),
    "no end tag": ("</CustomLayer>", "", "element <CustomLayer> has no end tag"),
    "no quotes": ('entry="run"', "entry=run", "attribute 'entry' of <Kernel> has no value in quotes"),
    "a comment without end": ("<Buffers>", "<!-- <Buffers>", "a comment does not end"),
    "entities": ("<CustomLayer", '<!DOCTYPE a [<!ENTITY e "x">]><CustomLayer', "declares entities"),
    "another element": ("<CustomLayer", "<Layers/><CustomLayer", "the top-level element is <Layers>, but must be"),
    "a kernel on the top level": ("<CustomLayer", '<Kernel entry="a"/><CustomLayer', "element is <Kernel>"),
    "no name": ('name="Full"', "", "<CustomLayer>: attribute 'name' (the type of the ops"),
    "an empty name": ('name="Full"', 'name=""', "<CustomLayer>: attribute 'name'"),
    "no type": (
        'type="SimpleGPU"', "",
        "<CustomLayer> of layer 'Full': attribute 'type' is missing, but must be 'SimpleGPU' or"),
    "another type": (
        '"SimpleGPU"', '"SimpleNPU"', "of layer 'Full': attribute 'type' is 'SimpleNPU', but must be 'SimpleGPU'"),
    "no version": (
        'version="1"', "", "<CustomLayer> of layer 'Full': attribute 'version' is missing, but must be 1"),
    "another version": (
        'version="1"', 'version="2"', "<CustomLayer> of layer 'Full': attribute 'version' is '2', but must be 1"),
    "a version with a point": (
        'version="1"', 'version="1.0"', "attribute 'version' is '1.0', which is not a whole number"),
    "no kernel": ("Kernel", "Kernal", "<CustomLayer> of layer 'Full': element <Kernel> is missing"),
    "two kernels": (
        "</Kernel>", '</Kernel><Kernel entry="b"/>',
        "<Kernel> of layer 'Full': the element is there twice, first in line 2"),
    "two buffers": (
        "</Buffers>", "</Buffers><Buffers/>",
        "<Buffers> of layer 'Full': the element is there twice, first in line 8"),
    "two work sizes": (
        "<WorkSizes", '<WorkSizes global="X"/>\n<WorkSizes',
        "<WorkSizes> of layer 'Full': the element is there twice, first in line 15"),
    "no entry": ('entry="run"', "", "<Kernel> of layer 'Full': attribute 'entry' (the kernel's name) is missing"),
    "an empty entry": ('entry="run"', 'entry=""', "<Kernel> of layer 'Full': attribute 'entry'"),
    "an entry that is no name": (
        'entry="run"', 'entry="a b"', "<Kernel> of layer 'Full': attribute 'entry' is 'a b', which is not"),
    "no source": ("Source", "Sauce", "<Kernel> of layer 'Full': element <Source> is missing"),
    "a source without a name": ('filename="h.cl"', "", "<Source> of layer 'Full': attribute 'filename'"),
    "a source of no name": ('filename="h.cl"', 'filename=""', "<Source> of layer 'Full': attribute 'filename'"),
    "a source that is not there": ("h.cl", "no.cl", "contains no file 'no.cl'"),
    "a source outside": ("h.cl", "../h.cl", "path '../h.cl' is not in folder"),
    "an absolute source": ("h.cl", "/h.cl", "path '/h.cl' is not in folder"),
    "a source by a backslash": ("sub/k.cl", "sub\\k.cl", "path 'sub\\k.cl' contains a backslash"),
    "a source that is a folder": ("h.cl", "sub", "contains no file 'sub'"),
    "a define without a name": ('name="N 42"', "", "<Define> of layer 'Full': attribute 'name'"),
    "a define that is no name": (
        "N 42", "4 2", "<Define> of layer 'Full': attribute 'name' is '4 2', which is not a valid"),
    "a define that goes on": ("N 42", "N 42 \\", "which is not a valid name for a #define"),
    "a define of two lines": ("N 42", "N 42&#10;", "attribute 'name' of <Define> contains the character '\\n'"),
    "no buffers": ("Buffers", "Buffer", "<CustomLayer> of layer 'Full': element <Buffers> is missing"),
    "no tensors": ("<Tensor", "<Tensors", "<Buffers> of layer 'Full': a <Tensor> for an input"),
    "a tensor without arg-index": (
        'arg-index="3" type', "type", "<Tensor> of layer 'Full': attribute 'arg-index' is missing"),
    "an arg-index of -1": (
        '"3"', '"-1"', "<Tensor> of layer 'Full': attribute 'arg-index' is -1, which is not in the range 0"),
    "an arg-index below": (
        '"3"', '"-2"', "<Tensor> of layer 'Full': attribute 'arg-index' is -2, which is not in the range 0"),
    "an arg-index far above": (
        '"3"', '"256"',
        "<Tensor> of layer 'Full': attribute 'arg-index' is 256, which is not in the range 0 to 255",
    ),
    "an arg-index that is no number": (
        '"3"', '"x"', "<Tensor> of layer 'Full': attribute 'arg-index' is 'x', which is not"),
    "an arg-index of ten digits": (
        '"3"', '"1000000000"', "of layer 'Full': attribute 'arg-index' has more than 9 digits"),
    "a tensor without port-index": (
        'port-index="1"', "", "<Tensor> of layer 'Full': attribute 'port-index' is missing"),
    "a port-index of no number": (
        'port-index="1"', 'port-index="1.0"', "attribute 'port-index' is '1.0', which is not a whole number"),
    "a tensor without type": (
        'type="output"', "", "<Tensor> of layer 'Full': attribute 'type' is missing, but must be input, output"),
    "a tensor of unknown type": (
        '"output"', '"Output"', "<Tensor> of layer 'Full': attribute 'type' is 'Output', but must be input"),
    "an unknown format": (
        "yxfb", "NCHW", "<Tensor> of layer 'Full': attribute 'format' is 'NCHW', which is unknown"),
    "a format of mixed case": (
        "yxfb", "Bfyx", "<Tensor> of layer 'Full': attribute 'format' is 'Bfyx', which is unknown"),
    "an empty format": ("yxfb", "", "<Tensor> of layer 'Full': attribute 'format' is '', which is unknown"),
    "internal memory without a size": ('size="INPUT0_DIMS[1] * 4"', "", "<Tensor> of layer 'Full': attribute"),
    "internal memory by X": (
        "INPUT0_DIMS[1] * 4", "X*4",
        "attribute 'size' is 'X*4', but may contain only numbers and sizes such as INPUT0_DIMS[0]"),
    "internal memory by Z": (
        "INPUT0_DIMS[1] * 4", "Z", "<Tensor> of layer 'Full': attribute 'size': formula 'Z' contains 'Z'"),
    "internal memory without a port": (
        'port-index="0" size', "size", "<Tensor> of layer 'Full': attribute 'port-index' is missing"),
    "data without a name": ('name="weights"', "", "<Data> of layer 'Full': attribute 'name'"),
    "data without arg-index": (
        'weights" arg-index="2"', 'weights"', "<Data> of layer 'Full': attribute 'arg-index' is missing"),
    "four sizes": (
        "16, Y", "16,Y,F,B",
        "<WorkSizes> of layer 'Full': attribute 'global' has 4 sizes, but may have at most 3"),
    "an empty rule": (
        "16, Y", "16,,Y",
        "<WorkSizes> of layer 'Full': attribute 'global': formula '' is empty"),
    "an unknown letter": (
        "16, Y", "16,Z",
        "<WorkSizes> of layer 'Full': attribute 'global': formula 'Z' contains 'Z'"),
    "a product without a sign": (
        "16, Y", "16,2X", "attribute 'global': formula '2X' contains 'X' where an operator must be"),
    "postfix": ("16, Y", "16,X Y+", "attribute 'global': formula 'X Y+' contains 'Y' where an operator must be"),
    "a unary minus": ("16, Y", "16,-Y", "attribute 'global': formula '-Y' contains '-' where a number"),
    "a decimal": (
        "16, Y", "16,1.5",
        "attribute 'global': formula '1.5' contains the invalid character '.' at column 2"),
    "a size of a tensor": (
        "16, Y", "16,INPUT0_DIMS[0]", "attribute 'global' has the formula 'INPUT0_DIMS[0]', but may contain only"),
    "an output of two arguments": (
        "<Data", '<Tensor arg-index="4" type="output" port-index="0"/><Data',
        "<Buffers> of layer 'Full': two elements are for output 0, with arg-index 3 and with arg-index 4"),
    "an option that is none of OpenCL": ('"-DS=3"', '"-I /"', "of layer 'Full': build option '-I' is not allowed"),
    "a bad local rule": (
        'local="16"', 'local="16+"', "of layer 'Full': attribute 'local': formula '16+' ends where a number"),
    "an unknown dim": (
        "input,1", "INPUT", "<WorkSizes> of layer 'Full': attribute 'dim' is 'INPUT', but must be output, input"),
    "a dim of output with index": (
        "input,1", "output,0", "<WorkSizes> of layer 'Full': attribute 'dim' is 'output,0'"),
    "a dim with letters": ("input,1", "input,1x", "<WorkSizes> of layer 'Full': attribute 'dim' is 'input,1x'"),
}  # fmt: skip


@pytest.mark.parametrize(("old", "new", "says"), BAD.values(), ids=list(BAD))
def test_a_bad_layer_is_refused_with_file_element_and_reason(
    read: Read, old: str, new: str, says: str
) -> None:
    text = FULL.replace(old, new)
    assert text != FULL
    with pytest.raises(LiteRtError) as error:
        read(text)
    assert says in error.value.what
    assert "layer.xml" in error.value.where
    assert ", line " in error.value.where or "<" not in text
    assert error.value.status in (Status.INVALID_ARGUMENT, Status.NOT_FOUND)


@pytest.mark.parametrize(
    ("old", "new", "says"),
    [
        ("Kernel", "Kernal", "layer 'Full': element <Kernel> is missing"),
        ("h.cl", "no.cl", "contains no file 'no.cl'"),
    ],
)
def test_a_layer_that_nobody_asks_for_is_checked_too(
    read: Read, old: str, new: str, says: str
) -> None:
    with pytest.raises(LiteRtError, match=says):
        read(SEED + FULL.replace(old, new), "ReLU")


def test_a_path_with_a_backslash_is_told_with_slashes(read: Read) -> None:
    with pytest.raises(LiteRtError) as error:
        read(changed("sub/k.cl", "sub\\k.cl"))
    assert error.value.hint == "Write '/' in paths: 'sub/k.cl'."


def test_a_wrapper_is_refused_with_what_to_do(read: Read) -> None:
    with pytest.raises(LiteRtError) as error:
        read(f"<CustomLayers>{SEED}</CustomLayers>")
    assert error.value.hint == "Remove <CustomLayers>: layers must be top-level elements."


def test_the_line_of_an_error_is_the_elements(read: Read) -> None:
    with pytest.raises(LiteRtError) as error:
        read("\n\n" + changed("yxfb", "NCHW"))
    assert error.value.where.endswith("layer.xml, line 12")


@given(data=st.binary(max_size=120))
def test_any_bytes_are_a_layer_or_an_error(data: bytes) -> None:
    with suppress(LiteRtError):
        read_layer("MyOp", "nowhere.xml", memoryview(data))


@given(
    at=st.integers(0, len(FULL)),
    length=st.integers(0, 12),
    put=st.text("<>\"'&=/-0X(.,ä\n", max_size=4),
)
def test_any_change_of_a_layer_is_a_layer_or_an_error(at: int, length: int, put: str) -> None:
    text = FULL[:at] + put + FULL[at + length :]
    try:
        read_layer("MyOp", "nowhere/layer.xml", memoryview(text.encode()))
    except LiteRtError as error:
        assert "layer.xml" in error.where

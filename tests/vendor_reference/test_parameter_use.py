"""Tests that notes name unused options, inputs and defines, and nothing else."""

from __future__ import annotations

import numpy as np

from litert.model.builder import ModelBuilder
from litert.model.graph import Op
from tests.vendor_reference.layers import custom_layer
from vendor_reference.compiler.parameter_use import find_parameter_notes
from vendor_reference.custom_layers.cl_types import NUMBER_TYPES
from vendor_reference.custom_layers.custom_layer import Define, LayerFile
from vendor_reference.custom_layers.kernel_spec import (
    DataArgument,
    Format,
    ScalarArgument,
    ShapeArgument,
    TensorArgument,
)
from vendor_reference.custom_layers.value_sources import FlexOption, Literal


def op(**options: object) -> Op:
    b = ModelBuilder()
    x = b.input("x", "float32", (4,))
    b.custom("Mine", [x], [("y", "float32", (4,))], options=options)  # type: ignore[arg-type]
    return b.build().subgraphs[0].ops[0]


def notes(text: str, *ops: Op, defines: tuple[Define, ...] = (), **fields: object) -> list[str]:
    layer = custom_layer(
        "Mine",
        "k.cl",
        [LayerFile("k.cl", text.encode())],
        defines=defines,
        **fields,
    )
    return find_parameter_notes(ops, {"Mine": layer})


def test_a_layer_that_reads_all_there_is_gives_no_note() -> None:
    defines = (
        Define("N", FlexOption("n")),
        Define("M 4", Literal("")),
        Define("F(x)", Literal("((x) + N)")),
    )
    scalar = ScalarArgument(NUMBER_TYPES["int32"], FlexOption("s"))
    text = "int f() { return M * F(1); }"
    arguments = [TensorArgument(False, 0), scalar]
    assert notes(text, op(n=1, s=2), defines=defines, arguments=arguments) == []
    assert notes("float x = PARAM_alpha;", op(alpha=1.0), defines_options=True) == []
    assert notes("", op()) == []


def test_a_name_in_a_comment_is_no_use() -> None:
    (note,) = notes("// N\n/* N */", op(), defines=(Define("N", Literal(1)),))
    assert note == "k.cl: no source uses define 'N'."


def test_an_option_that_nobody_reads_is_told() -> None:
    assert notes("", op(alpha=1, beta=2), defines_options=True) == [
        "k.cl, op 'Mine': the source never uses the op's options 'alpha', 'beta'."
    ]


def test_ops_that_are_alike_are_told_once() -> None:
    assert len(notes("", op(a=1), op(a=1), op(a=2), defines_options=True)) == 1


def test_an_op_without_a_layer_is_nobody_s_affair() -> None:
    assert find_parameter_notes([op(a=1)], {}) == []


def test_each_op_with_an_input_that_the_kernel_never_gets_is_told() -> None:
    b = ModelBuilder()
    x = b.input("x", "float32", (4,))
    for inputs in ([x], [x, x], [x, x], [x, None, x]):
        b.custom("Mine", inputs, [("y", "float32", (4,))])
    assert notes("", *b.build().subgraphs[0].ops, arguments=[TensorArgument(False, 0)]) == [
        f"k.cl, op 'Mine': the kernel has no argument for input {index} of the op."
        for index in (1, 2)
    ]


ANY = (TensorArgument(False, 0, Format.ANY), TensorArgument(True, 0, Format.ANY))


def any_notes(shape: tuple[int, ...], text: str, file_name: str = "l.xml") -> list[str]:
    b = ModelBuilder()
    b.custom("Mine", [b.input("x", "float32", shape)], [("y", "float32", shape)])
    sources = [LayerFile("k.cl", text.encode())]
    layer = custom_layer("Mine", file_name, sources, arguments=ANY)
    return find_parameter_notes(b.build().subgraphs[0].ops, {"Mine": layer})


def test_any_format_of_a_configuration_is_told_where_openvino_has_another() -> None:
    assert any_notes((1, 2, 3, 4), "") == [
        "l.xml, op 'Mine': format ANY of input 0, output 0 means BYXF, the model's own order. In OpenVINO's GPU "
        "plugin, ANY means BFYX: write BFYX if the kernel depends on that order."
    ]
    (note,) = any_notes((1, 2, 3, 4), "x[INPUT0_PITCHES[0]]; // OUTPUT0_PITCHES")
    assert "format ANY of output 0 means" in note
    assert any_notes((2, 3, 4), "") == any_notes((1, 2, 3, 4), "", "l.json") == []


def test_inputs_that_the_kernel_never_gets_are_told() -> None:
    b = ModelBuilder()
    x = b.input("x", "float32", (4,))
    w = b.constant("weights", np.zeros(4, np.float32))
    b.custom("Mine", [x, None, w, x], [("y", "float32", (4,))])
    (mine,) = b.build().subgraphs[0].ops
    some = [TensorArgument(False, 0), DataArgument("weights"), TensorArgument(True, 0)]
    assert notes("", mine, arguments=some) == [
        "k.cl, op 'Mine': the kernel has no argument for input 3 of the op."
    ]
    assert notes("", mine, arguments=some[1:]) == [
        "k.cl, op 'Mine': the kernel has no argument for inputs 0, 3 of the op."
    ]
    assert notes("", mine, arguments=[*some, ShapeArgument(False, 3)]) == []
    assert notes("", mine) == []

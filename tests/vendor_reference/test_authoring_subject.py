"""Tests how the ops are chosen on which a layer is tried."""

from __future__ import annotations

from pathlib import Path

import pytest

from litert.core.errors import LiteRtError
from litert.core.quantization import Quantization
from litert.model.builder import ModelBuilder
from litert.model.graph import Model
from vendor_reference.authoring.subject import (
    OpChoice,
    choose_op_name,
    describe_op,
    find_subjects,
    given_subject,
    parse_tensors,
)


def model() -> Model:
    """Returns a model with three ops `A`, two of them alike, and one op `B`."""
    b = ModelBuilder()
    x = b.input("x", "float32", (4,))
    a = b.custom("A", [x], [("a", "float32", (4,))], options={"n": 1})
    c = b.custom("A", [a], [("c", "float32", (4,))], options={"n": 1})
    d = b.custom("A", [c], [("d", "float32", (4,))], options={"n": 2})
    b.output(b.custom("B", [d], [("e", "float32", (4,))]))
    return b.build()


def choose(path: str, op: str = "") -> str:
    return choose_op_name(OpChoice("m.tflite", op), path, model())


def test_an_op_is_named_by_the_user_or_its_index_or_the_file() -> None:
    assert choose("B.cl", "A") == "A"
    assert choose("A.cl", "3") == "B"
    assert choose("folder/B.json") == "B"
    assert choose_op_name(OpChoice(), "folder/Sinh.cl", None) == "Sinh"


def test_an_op_is_named_by_the_description_of_its_layer() -> None:
    assert choose_op_name(OpChoice("m"), "mine.xml", model(), ["X", "B"]) == "B"
    assert choose_op_name(OpChoice(), "mine.xml", None, ["Sinh"]) == "Sinh"
    assert choose_op_name(OpChoice(), "mine.xml", None, ["Sinh", "Cosh"]) == "mine"
    with pytest.raises(
        LiteRtError, match=r"mine\.xml contains layers for several ops of the model"
    ):
        choose_op_name(OpChoice("m"), "mine.xml", model(), ["A", "B"])
    with pytest.raises(
        LiteRtError, match="the name of the layer's file, 'mine', or of a layer in it, 'C'"
    ):
        choose_op_name(OpChoice("m"), "mine.xml", model(), ["C"])


@pytest.mark.parametrize(
    ("path", "op", "said"),
    [
        (
            "x.cl",
            "",
            "--op is not set, and no op of the model has the name of the layer's file, 'x' (",
        ),
        ("", "", "--op is not set, and the model contains 2 different custom ops ("),
        ("A.cl", "C", "the model contains no op 'C' ("),
        (
            "A.cl",
            "4",
            "op index 4 is out of range: the 4 ops have the indices 0 to 3 (m.tflite, subgraph 0). Correct --op. "
            "To list the subgraphs and ops, run litert-npu inspect m.tflite --dump.",
        ),
    ],
)
def test_an_op_that_is_not_there_is_refused_with_those_that_are(
    path: str, op: str, said: str
) -> None:
    with pytest.raises(LiteRtError) as error:
        choose(path, op)
    assert said in str(error.value)


def test_ops_that_are_alike_are_one_subject() -> None:
    found = find_subjects(OpChoice("f/m.tflite"), "A", model())
    assert [s.title for s in found] == ["op 0 of m.tflite, and 1 like it", "op 2 of m.tflite"]
    assert [len(s.model.subgraphs[0].ops) for s in found] == [1, 1]
    (only,) = find_subjects(OpChoice("m.tflite", "1"), "A", model())
    assert only.title == "op 1 of m.tflite"


def test_an_op_of_another_subgraph_is_chosen_by_its_place() -> None:
    b = ModelBuilder()
    b.output(b.custom("A", [b.input("x", "float32", (4,))], [("y", "float32", (4,))]))
    other = b.subgraph("other")
    z = other.custom("B", [other.input("x", "float32", (4,))], [("z", "float32", (4,))])
    other.output(other.custom("A", [z], [("y", "float32", (4,))], options={"n": 1}))
    two = b.build()
    assert [s.place for s in find_subjects(OpChoice("m"), "A", two)] == ["0", "1:1"]
    choice = OpChoice("m", "1:1")
    assert choose_op_name(choice, "x.cl", two) == "A"
    (only,) = find_subjects(choice, "A", two)
    assert only.title == "op 1 of subgraph 1 of m" and only.op.custom_options
    for place, said in (
        ("1:2", r"op index 2 is out of range: the 2 ops .* \(m, subgraph 1\)"),
        ("2:0", "subgraph index 2 is out of range: the 2 subgraphs"),
    ):
        with pytest.raises(LiteRtError, match=said):
            choose_op_name(OpChoice("m", place), "x.cl", two)


def test_constants_come_along_and_quantization_tells_ops_apart() -> None:
    b = ModelBuilder()
    x = b.input("x", "float32", (2,))
    outputs = []
    for index, scale in enumerate((0.5, 0.5, 0.25)):
        stored = b.constant(
            f"q{index}", b"\1\2", "int8", (2,), quantization=Quantization((scale,), (0,), 0)
        )
        w = b.op("DEQUANTIZE", [stored], [(f"w{index}", "float32", (2,))])
        outputs.append(b.custom("A", [x, w], [(f"y{index}", "float32", (2,))]))
    b.output(*outputs)
    found = find_subjects(OpChoice("m"), "A", b.build())
    assert [s.title for s in found] == ["op 1 of m, and 1 like it", "op 5 of m"]
    for subject in found:
        graph = subject.model.subgraphs[0]
        assert [op.name for op in graph.ops] == ["DEQUANTIZE", "A"] and len(graph.inputs) == 1
        assert describe_op(subject.op) == "(tensor<2xf32>, tensor<2xf32>) -> tensor<2xf32>"


def test_types_are_read_as_they_are_written() -> None:
    text = "1x8x8x4xf32, i8 ,tensor<3xui16>,2x0xfloat32,?x4xi32"
    assert [str(t) for t, _ in parse_tensors(text, "--inputs")] == [
        "tensor<1x8x8x4xf32>", "tensor<i8>", "tensor<3xui16>", "tensor<2x0xf32>",
        "tensor<?x4xi32>",
    ]  # fmt: skip
    assert parse_tensors(" ", "--inputs") == []


def test_scales_and_zero_points_stand_behind_integers() -> None:
    text = "8xi8:0.05:-3,ui8:2:255, 2xi16:1e-3 ,4xf32"
    quantized = [Quantization([0.05], [-3]), Quantization([2.0], [255]), Quantization([1e-3], [0])]
    assert [q for _, q in parse_tensors(text, "--inputs")] == [*quantized, None]
    choice = OpChoice(inputs="8xi8:0.05:3", outputs="8xi8:0.1")
    op = given_subject(choice, "A").op
    assert op.inputs[0] and op.inputs[0].quantization == Quantization([0.05], [3])
    assert op.outputs[0].quantization == Quantization([0.1], [0])


@pytest.mark.parametrize(
    "text",
    [
        "8xf32:0.1",
        "8xi1:0.1",
        "8xi8:0",
        "8xi8:x",
        "8xi8:1:2:3",
        "8xi8:1:128",
        "ui8:1:-1",
        "i8:nan",
        "i8:",
    ],
)
def test_what_is_no_quantization_is_refused(text: str) -> None:
    with pytest.raises(
        LiteRtError, match=rf"--inputs contains '{text}', which does not describe a qua"
    ):
        parse_tensors(text, "--inputs")


@pytest.mark.parametrize("text", ["2xf33", "x2xf32", "2,f32x", "-1xf32", "1x??xf32", "f32,,f32"])
def test_what_is_no_type_is_refused(text: str) -> None:
    with pytest.raises(
        LiteRtError, match=r"--inputs contains '.*', which does not describe a tensor"
    ):
        parse_tensors(text, "--inputs")


@pytest.mark.parametrize(
    ("outputs", "options", "said"),
    [
        ("", "", "the op's shapes are unknown, because neither --model nor --outputs is set"),
        ("4xf32", "{", "--options is not valid JSON text"),
        ("4xf32", "[1]", "--options is JSON text, but not an object in braces"),
        ("4xf32", "@/no/such/file", "no such file"),
    ],
)
def test_given_shapes_that_make_no_op_are_refused(outputs: str, options: str, said: str) -> None:
    with pytest.raises(LiteRtError) as error:
        given_subject(OpChoice(outputs=outputs, options=options), "A")
    assert said in error.value.what


def test_options_are_json_or_a_file_s_bytes(tmp_path: Path) -> None:
    (tmp_path / "struct").write_bytes(b"\1\2")
    choice = OpChoice(outputs="f32", options=f"@{tmp_path / 'struct'}")
    assert bytes(given_subject(choice, "A").op.custom_options or b"") == b"\1\2"

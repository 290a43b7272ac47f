"""Tests that the reader of `.json` assets and the published JSON schema accept the same files."""

from __future__ import annotations

import json
from collections.abc import Callable
from copy import deepcopy
from importlib import resources
from pathlib import Path
from typing import Any

import jsonschema  # type: ignore[import-untyped]
import pytest
from hypothesis import given
from hypothesis import strategies as st

from litert.core.element_type import ElementType
from litert.core.errors import LiteRtError
from litert.core.formula import Formula
from litert.core.output_shape import SameShape
from litert.core.status import Status
from vendor_reference.custom_layers.asset_reader import read_layer
from vendor_reference.custom_layers.custom_layer import CustomLayer, Define, ShapeKernel
from vendor_reference.custom_layers.kernel_spec import (
    ConstantArgument,
    DataArgument,
    Format,
    InternalArgument,
    LocalArgument,
    ScalarArgument,
    ShapeArgument,
    TensorArgument,
)
from vendor_reference.custom_layers.value_sources import (
    FlexOption,
    Literal,
    QuantizationOf,
    StructField,
)

FULL: dict[str, Any] = {
    "$schema": "custom_layer.schema.json",
    "version": 1,
    "name": "Full",
    "description": "all that a description can have",
    "max_num_shaves": 4,
    "entry": "run",
    "sources": ["k.cl"],
    "headers": ["h.h"],
    "build_options": "-cl-mad-enable",
    "arguments": [
        {"input": 1, "format": "BFYX", "type": "float16", "strided": True},
        {"output": 0},
        {"scalar": {"type": "float32", "option": "alpha", "default": 0.5}},
        {"constant": {"type": "int32", "value": [1, 2, 3]}},
        {"local": {"type": "float32", "size": "X*4"}},
        {"internal": {"type": "float32", "size": 16}},
        {"shape": {"input": 1}},
        {"shape": {"output": 0}},
        {"data": "conv/weights"},
    ],
    "defines": [
        {"name": "STRIDE", "field": {"type": "int32", "offset": 4}},
        {"name": "SIZES", "type": "int[]", "field": {"type": "int16", "offset": 0, "count": 2}},
        {"name": "SCALE", "quantization": {"parameter": "scale", "input": 0}},
        {"name": "MODE", "option": "mode"},
        {"name": "FAST", "value": True},
    ],
    "work_sizes": {"global": ["((X+15)/16)*16", 4], "local": [16, 1], "of": {"input": 0}},
    "output_shapes": [["B", "INPUT1_SHAPE[0]*2", "X", 3], {"input": 1}, None],
}

SCHEMA = json.loads(
    resources.files("vendor_reference.custom_layers")
    .joinpath("custom_layer.schema.json")
    .read_text()
)


@pytest.fixture
def read(tmp_path: Path) -> Callable[[object], CustomLayer]:
    (tmp_path / "k.cl").write_text('#include "h.h"\n__kernel void run() {}')
    (tmp_path / "h.h").write_text("")
    (tmp_path / "s.cl").write_text("__kernel void calc() {}")

    def read(description: object) -> CustomLayer:
        text = description if isinstance(description, str) else json.dumps(description)
        return read_layer("MyOp", str(tmp_path / "layer.json"), memoryview(text.encode()))

    return read


def test_a_description_is_read(read: Callable[[object], CustomLayer]) -> None:
    layer = read(FULL)
    assert (layer.kernel.entry, layer.kernel.build_options) == ("run", "-cl-mad-enable")
    assert (layer.kernel.title, layer.kernel.max_num_shaves) == ("Full", 4)
    assert layer.defines_quantization
    assert [f.path for f in layer.sources] == ["k.cl"] and {f.path for f in layer.headers} == {
        "h.h"
    }
    assert list(layer.kernel.arguments) == [
        TensorArgument(False, 1, Format.BFYX, ElementType.FLOAT16, True),
        TensorArgument(is_output=True, index=0),
        ScalarArgument(ElementType.FLOAT32, FlexOption("alpha", 0.5)),
        ConstantArgument(ElementType.INT32, Literal((1, 2, 3))),
        LocalArgument(ElementType.FLOAT32, "X*4"),
        InternalArgument(ElementType.FLOAT32, "16"),
        ShapeArgument(is_output=False, index=1),
        ShapeArgument(is_output=True, index=0),
        DataArgument("conv/weights"),
    ]
    assert layer.defines == [
        Define("STRIDE", StructField(ElementType.INT32, 4)),
        Define("SIZES", StructField(ElementType.INT16, 0, 2), "int[]"),
        Define("SCALE", QuantizationOf("scale", is_output=False, index=0)),
        Define("MODE", FlexOption("mode")),
        Define("FAST", Literal(True)),
    ]
    assert layer.kernel.global_size == ("((X+15)/16)*16", "4")
    assert layer.kernel.local_size == ("16", "1")
    assert layer.kernel.sizes_of == TensorArgument(is_output=False, index=0)
    formulas = [Formula(text) for text in ("B", "INPUT1_SHAPE[0]*2", "X", "3")]
    assert layer.output_shapes == [formulas, SameShape(1), None]


def test_a_shape_kernel_is_read(read: Callable[[object], CustomLayer]) -> None:
    fields: dict[str, Any] = {"version": 1, "sources": ["k.cl"]}
    own = {**fields, "shape_kernel": {"entry": "calc", "sources": ["s.cl"]}}
    layer = read(own)
    assert layer.shape_kernel is not None and layer.shape_kernel.entry == "calc"
    assert [f.path for f in layer.files()] == ["k.cl", "h.h", "s.cl"]
    shared = read({**fields, "shape_kernel": {"entry": "calc"}})
    assert shared.shape_kernel == ShapeKernel("calc", shared.sources)
    jsonschema.validate(own, SCHEMA)


def test_little_is_enough(read: Callable[[object], CustomLayer]) -> None:
    layer = read({"version": 1, "sources": ["k.cl"]})
    kernel = layer.kernel
    assert not kernel.arguments and kernel.entry == "" and not kernel.global_size
    assert not layer.defines_options and not kernel.title and not kernel.max_num_shaves


SEVERAL: dict[str, Any] = {
    "version": 1,
    "description": "two layers",
    "layers": [
        {"name": "One", "sources": ["k.cl"], "entry": "one"},
        {"name": "Two", "sources": ["k.cl"], "entry": "two", "arguments": [{"output": 0}]},
    ],
}


def test_of_several_layers_the_one_of_the_ops_name_is_taken(tmp_path: Path) -> None:
    (tmp_path / "k.cl").write_text("")
    text = memoryview(json.dumps(SEVERAL).encode())
    layer = read_layer("Two", str(tmp_path / "layers.json"), text)
    assert (layer.op_name, layer.kernel.title, layer.kernel.entry) == ("Two", "Two", "two")
    with pytest.raises(LiteRtError) as error:
        read_layer("two", str(tmp_path / "layers.json"), text)
    assert "the file contains 2 layers, but none with the op's name, 'two'" in error.value.what
    assert error.value.hint == "Did you mean 'Two'?"


def test_the_only_layer_of_several_is_for_the_op_whatever_its_name(
    read: Callable[[object], CustomLayer],
) -> None:
    layer = read({**SEVERAL, "layers": SEVERAL["layers"][:1]})
    assert (layer.op_name, layer.kernel.title) == ("MyOp", "One")


BAD_FILES: dict[str, tuple[dict[str, Any], str]] = {
    "nothing": ({"layers": []}, "$.layers: the array has 0 elements, but must have 1 or more"),
    "no array": ({"layers": {}}, "$.layers: {} is not an array"),
    "a layer without a name": (
        {"layers": [{"sources": ["k.cl"]}]}, "$.layers[0]: field 'name' is missing"),
    "a layer of an empty name": (
        {"layers": [{"name": "", "sources": ["k.cl"]}]}, "$.layers[0].name: the name is empty"),
    "a layer without sources": (
        {"layers": [{"name": "A"}]}, "$.layers[0]: field 'sources' is missing"),
    "a layer with a version": (
        {"layers": [{"name": "A", "sources": ["k.cl"], "version": 1}]},
        "$.layers[0]: unknown field 'version'"),
    "layers in a layer": (
        {"layers": [{"name": "A", "sources": ["k.cl"], "layers": []}]},
        "$.layers[0]: unknown field 'layers'"),
    "sources beside layers": (
        {**SEVERAL, "sources": ["k.cl"]}, "$.sources: this field is not allowed beside 'layers', where"),
    "an entry beside layers": ({**SEVERAL, "entry": "k"}, "$.entry: this field is not allowed beside 'layers'"),
    "a second layer that is wrong": (
        {"layers": [SEVERAL["layers"][0], {"name": "A", "sources": ["k.cl"], "entry": "1"}]},
        "$.layers[1].entry: '1' is not a valid C identifier"),
}  # fmt: skip


@pytest.mark.parametrize(("fields", "says"), BAD_FILES.values(), ids=list(BAD_FILES))
def test_reader_and_schema_refuse_the_same_files(
    read: Callable[[object], CustomLayer], fields: dict[str, Any], says: str
) -> None:
    description = {**fields, "version": 1}
    with pytest.raises(LiteRtError) as error:
        read(description)
    assert says in error.value.what and "layer.json" in error.value.where
    with pytest.raises(jsonschema.ValidationError):
        jsonschema.validate(description, SCHEMA)


def test_two_layers_of_one_name_are_refused(read: Callable[[object], CustomLayer]) -> None:
    twice = {**SEVERAL, "layers": [SEVERAL["layers"][0]] * 2}
    with pytest.raises(LiteRtError, match="two layers have the name 'One'"):
        read(twice)


def test_a_byte_order_mark_is_no_harm(read: Callable[[object], CustomLayer]) -> None:
    assert read("\ufeff" + json.dumps(FULL)).kernel.entry == "run"


DELETE = object()
CHANGES: list[tuple[str, list[str | int], object, str]] = [
    ("no version", ["version"], DELETE, "at the top level, field 'version' is missing"),
    ("another version", ["version"], 2, "$.version: version 2 is not supported; the only supported version is 1"),
    ("neither sources nor layers", ["sources"], DELETE, "at the top level, field 'sources' is missing"),
    (
        "no output shapes", ["output_shapes"], [],
        "$.output_shapes: the array has 0 elements, but must have 1 or more",
    ),
    ("an output shape of no size", ["output_shapes", 0], [], "$.output_shapes[0]: the array has 0 elements"),
    ("an output shape that is a text", ["output_shapes", 0], "B", "is not an object"),
    ("a shape that is an output's", ["output_shapes", 1], {"output": 0}, "unknown field 'output'"),
    ("two ways to find shapes", ["shape_kernel"], {"entry": "calc"}, "'shape_kernel' and 'output_shapes' cannot"),
    ("a shape of nothing", ["arguments", 6], {"shape": {}}, "exactly one of the fields"),
    ("no sources", ["sources"], [], "$.sources: the array has 0 elements, but must have 1 or more"),
    ("a source that is no text", ["sources"], [1], "$.sources[0]: 1 is not a string"),
    ("an unknown field", ["source"], "k.cl", "at the top level, unknown field 'source'. Did you mean 'sources'?"),
    ("an entry that is no name", ["entry"], "a b", "$.entry: 'a b' is not a valid C identifier"),
    ("an argument of two kinds", ["arguments", 0, "output"], 0, "but input and output are given"),
    ("an argument of no kind", ["arguments", 0], {}, "$.arguments[0]: exactly one of the fields input"),
    ("a negative input", ["arguments", 0, "input"], -1, "$.arguments[0].input: -1 is not in the range 0"),
    ("a float for an input", ["arguments", 0, "input"], 0.5, "$.arguments[0].input: 0.5 is not a whole"),
    ("true for an input", ["arguments", 0, "input"], True, "true is not a whole number"),
    ("a scalar without a value", ["arguments", 2, "scalar", "option"], DELETE, "$.arguments[2].scalar: exactly"),
    ("an unknown type", ["arguments", 2, "scalar", "type"], "float", "unknown value 'float'. Did you mean 'float"),
    ("a scalar of half", ["arguments", 2, "scalar", "type"], "float16", "unknown value 'float16'"),
    ("an unknown format", ["arguments", 0, "format"], "NCHW", "$.arguments[0].format: unknown value 'NCHW'"),
    ("an unknown precision", ["arguments", 0, "type"], "half", "$.arguments[0].type: unknown value 'half'"),
    ("strided that is a number", ["arguments", 0, "strided"], 1, "$.arguments[0].strided: 1 is not true or"),
    ("zeros in an input", ["arguments", 0, "zero"], True, "$.arguments[0].zero: only an argument of kind"),
    ("zeros around a view", ["arguments", 1], {"output": 0, "strided": True, "zero": True}, "cannot be"),
    ("zeros of a scalar", ["arguments", 2, "zero"], True, "$.arguments[2].zero: only an argument of kind 'input'"),
    ("a format of a scalar", ["arguments", 2, "format"], "BFYX", "$.arguments[2].format: only an argument"),
    ("data of no name", ["arguments", 8, "data"], "", "$.arguments[8].data: the name is empty"),
    ("no shaves", ["max_num_shaves"], 0, "$.max_num_shaves: 0 is not in the range 1 to 1024"),
    ("an empty name", ["name"], "", "$.name: the name is empty"),
    ("a name of two lines", ["name"], "a\nb", "$.name: the text must not have more than one"),
    ("no arguments", ["arguments"], [], "$.arguments: the array has 0 elements"),
    ("a formula with a letter", ["arguments", 4, "local", "size"], "Q", "$.arguments[4].local.size: formula 'Q'"),
    ("a negative size", ["arguments", 5, "internal", "size"], -1, "size: -1 is not in the range 0"),
    ("a define without a name", ["defines", 0, "name"], DELETE, "$.defines[0]: field 'name' is missing"),
    ("a define with two values", ["defines", 0, "value"], 1, "but value and field are given"),
    (
        "a default without an option", ["defines", 0, "default"], 1,
        "$.defines[0].default: field 'default' is allowed only together with 'option'",
    ),
    ("a define of unknown type", ["defines", 1, "type"], "char", "$.defines[1].type: unknown value 'char'"),
    ("a field without an offset", ["defines", 0, "field", "offset"], DELETE, "field 'offset' is missing"),
    (
        "a field of no elements", ["defines", 1, "field", "count"], 0,
        "$.defines[1].field.count: 0 is not in the range 1",
    ),
    ("a value of two lines", ["defines", 4, "value"], "a\nb", "$.defines[4].value: the text must not have"),
    ("a value that is an object", ["defines", 4, "value"], {"a": 1}, "$.defines[4].value: the value must be"),
    ("an empty value", ["defines", 4, "value"], [], "$.defines[4].value: the array has 0 elements"),
    ("quantization of both", ["defines", 2, "quantization", "output"], 0, "input and output are given"),
    ("quantization of what", ["defines", 2, "quantization", "parameter"], "min", "unknown value 'min'"),
    (
        "four sizes", ["work_sizes", "global"], [1, 1, 1, 1],
        "$.work_sizes.global: the array has 4 elements, but must have 1 to 3",
    ),
    ("sizes of a text", ["work_sizes", "global"], "X", '$.work_sizes.global: "X" is not an array'),
    ("sizes of two tensors", ["work_sizes", "of", "output"], 0, "but input and output are given"),
    ("a folder of headers", ["build_options"], "-w -I /", "$.build_options: build option '-I' is not allowed"),
    (
        "a define of nothing", ["build_options"], "-D -w",
        "$.build_options: NAME or NAME=value must follow build option -D",
    ),
    ("options of two lines", ["build_options"], "-g\n-w", "$.build_options: the text must not have more than one"),
]  # fmt: skip


@pytest.mark.parametrize(
    ("path", "value", "says"), [c[1:] for c in CHANGES], ids=[c[0] for c in CHANGES]
)
def test_reader_and_schema_refuse_the_same(
    read: Callable[[object], CustomLayer], path: list[str | int], value: object, says: str
) -> None:
    description = _changed(path, value)
    with pytest.raises(LiteRtError) as error:
        read(description)
    assert says in f"{error.value.what}. {error.value.hint}"
    assert error.value.status is Status.INVALID_ARGUMENT and "layer.json" in error.value.where
    with pytest.raises(jsonschema.ValidationError):
        jsonschema.validate(description, SCHEMA)


def test_the_schema_accepts_what_the_reader_accepts() -> None:
    jsonschema.Draft202012Validator.check_schema(SCHEMA)
    jsonschema.validate(FULL, SCHEMA)
    jsonschema.validate({"version": 1, "sources": ["k.cl"]}, SCHEMA)
    jsonschema.validate(SEVERAL, SCHEMA)


@given(st.data())
def test_reader_and_schema_agree_on_any_change(
    tmp_path_factory: pytest.TempPathFactory, data: st.DataObject
) -> None:
    folder = tmp_path_factory.getbasetemp() / "descriptions"
    folder.mkdir(exist_ok=True)
    (folder / "k.cl").write_text("")
    (folder / "h.h").write_text("")
    description = deepcopy(data.draw(st.sampled_from([FULL, SEVERAL])))
    place: Any = description
    while True:
        keys = sorted(place) if isinstance(place, dict) else range(len(place))
        key = data.draw(st.sampled_from(keys))
        child = place[key]
        if not isinstance(child, (dict, list)) or not child or data.draw(st.booleans()):
            place[key] = data.draw(_values)
            break
        place = child
    try:
        text = json.dumps(description).encode()
        read_layer("One", str(folder / "layer.json"), memoryview(text))
        accepted, reason = True, ""
    except LiteRtError as error:
        accepted, reason = False, error.what
    valid = jsonschema.Draft202012Validator(SCHEMA).is_valid(description)
    # A schema cannot check these: existing files, formulas, relations between fields.
    beyond = (
        "no file", "folder", "formula", "sizes for", "defined twice", "zero byte", "is named",
        "are named",
    )  # fmt: skip
    assert accepted == valid or (valid and any(word in reason for word in beyond)), reason


_values = st.one_of(
    st.booleans(), st.integers(-3, 70_000), st.just(0.25), st.sampled_from(["X", "k.cl", "a b", "float32"]),
    st.lists(st.integers(0, 3), max_size=4), st.just({}), st.just({"input": 0}),
)  # fmt: skip


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("{", "line 1, column 2"),
        ('{"version": 1,\n "sources": [}', "line 2, column 14"),
        ('{"version": 1, "version": 1}', "field 'version' occurs twice"),
        ("[]", "at the top level, [] is not an object"),
        ("", "the text is not JSON"),
        ("[" * 100_000, "the JSON is nested too deeply"),
        ('{"version": NaN}', "$.version: NaN is not a whole number"),
        ('{"version": 1, "sources": ["k.cl"], "defines": [{"name": "N", "value": NaN}]}', "finite"),
        (
            '{"version": 1, "sources": ["k.cl"], "defines": [{"name": "N", "value": 1e999}]}',
            "finite",
        ),
        ('{"version": ' + "9" * 5000 + "}", "cannot read the JSON"),
        ('{"version": 1, "sources": ["\\u0000"]}', "$.sources[0]"),
        ('{"version": 1, "sources": ["\\ud800"]}', "half of a surrogate pair"),
    ],
)
def test_a_text_that_is_no_description_is_refused(
    read: Callable[[object], CustomLayer], text: str, says: str
) -> None:
    with pytest.raises(LiteRtError) as error:
        read(text)
    assert says in str(error.value)


def test_two_defines_of_one_name_are_refused(read: Callable[[object], CustomLayer]) -> None:
    defines = [{"name": "N", "value": 1}, {"name": "N", "value": 2}]
    with pytest.raises(LiteRtError, match="macro 'N' is defined twice"):
        read({"version": 1, "sources": ["k.cl"], "defines": defines})


def test_local_sizes_are_as_many_as_global_ones(read: Callable[[object], CustomLayer]) -> None:
    with pytest.raises(
        LiteRtError, match="the local size has 1 dimension, but the global size has 2"
    ):
        read(_changed(["work_sizes", "local"], [16]))


def _changed(path: list[str | int], value: object) -> dict[str, Any]:
    description = deepcopy(FULL)
    place: Any = description
    for step in path[:-1]:
        place = place[step]
    if value is DELETE:
        del place[path[-1]]
    else:
        place[path[-1]] = value
    return description

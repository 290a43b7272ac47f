"""Tests how attributes of a user's op are written to a file: three kinds of record, as FlexBuffer or C struct."""

from __future__ import annotations

import struct
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
import pytest
from flatbuffers import flexbuffers  # type: ignore[import-untyped]
from hypothesis import example, given
from hypothesis import strategies as st

from compiler_plugin.transformations import Graph, Node, Op, OpLibrary, raw_fields
from compiler_plugin.transformations.custom_ops import write_attributes
from litert.core.errors import LiteRtError
from litert.core.status import Status
from litert.model.builder import ModelBuilder
from litert.model.custom_options import find_flexbuffer_options, write_flexbuffer_options


def get_backend_pad(pads: Any, spatial_dims: Sequence[int], border: int) -> list[int]:
    return [int(pads[dim][border]) for dim in spatial_dims]


class Pooling(Op):
    op = "Pooling"

    def __init__(self, graph: Graph, attrs: Mapping[str, Any]) -> None:
        super().__init__(
            graph,
            {
                "spatial_dims": (1, 2),
                "pool_method": "max",
                "exclude_pad": True,
                "rounding_type": "floor",
                "auto_pad": None,
                "in_ports_count": 1,
            },
            attrs,
        )

    def backend_attrs(self) -> list[Any]:
        return [
            ("strides", lambda node: ",".join(map(str, node["stride"][list(node.spatial_dims)]))),
            ("kernel", lambda node: ",".join(map(str, node["window"][list(node.spatial_dims)]))),
            (
                "pads_begin",
                lambda node: ",".join(map(str, get_backend_pad(node.pad, node.spatial_dims, 0))),
            ),
            (
                "pads_end",
                lambda node: ",".join(map(str, get_backend_pad(node.pad, node.spatial_dims, 1))),
            ),
            ("pool-method", "pool_method"),
            ("exclude-pad", "exclude_pad"),
            "rounding_type",
            "auto_pad",
        ]


POOL = {
    "stride": np.array([1, 2, 3, 1]),
    "window": np.array([1, 4, 5, 1]),
    "pad": np.array([[0, 0], [1, 2], [3, 4], [0, 0]]),
}


class Normalize(Op):
    op = "Normalize"
    raw_options = raw_fields(("axis", "int32"), ("keep", "bool"), ("epsilon", "float32"))

    def __init__(self, graph: Graph, attrs: Mapping[str, Any]) -> None:
        super().__init__(graph, {"axis": 1, "keep": False, "epsilon": 0.5}, attrs)


class Scale(Op):
    op = "Scale"

    def __init__(self, graph: Graph, attrs: Mapping[str, Any]) -> None:
        super().__init__(graph, {"factor": 2.0, "taps": (), "note": None}, attrs)

    def backend_attrs(self) -> list[Any]:
        return ["factor", "taps", "note"]


def make_graph(op: str = "RELU", options: bytes | None = None) -> tuple[Graph, Node]:
    """Builds a graph of one op; this module's op classes are known for ops of the model."""
    b = ModelBuilder()
    x = b.input("x", "float32", (2, 6))
    made = [("y", "float32", (2, 6))]
    b.output(b.op(op, [x], made) if op.isupper() else b.custom(op, [x], made, options=options))
    model = b.build()
    graph = Graph(model, model.subgraphs[0], ops=OpLibrary([Pooling, Normalize, Scale]))
    return graph, graph.nodes[0]


def written(node: Node) -> Any:
    """Writes a node's attributes; returns the decoded options."""
    write_attributes(node)
    return find_flexbuffer_options(node.custom_options)


def test_three_kinds_of_record_are_written() -> None:
    graph, relu = make_graph()
    node = Pooling(graph, POOL).create_node([relu])
    assert written(node) == {
        "strides": "2,3",
        "kernel": "4,5",
        "pads_begin": "1,3",
        "pads_end": "2,4",
        "pool-method": "max",
        "exclude-pad": True,
        "rounding_type": "floor",
    }
    node.auto_pad = "same_upper"
    node.rounding_type = None
    found = written(node)
    assert found["auto_pad"] == "same_upper" and "rounding_type" not in found


def test_an_op_without_records_has_no_options() -> None:
    class Plain(Op):
        op = "Plain"

    graph, relu = make_graph()
    node = Plain(graph, {"secret": 1}).create_node([relu])
    write_attributes(node)
    assert node.model_op is not None and node.model_op.custom_options is None


def test_a_c_struct_is_written_where_the_class_has_fields() -> None:
    graph, relu = make_graph()
    node = Normalize(graph, {"axis": np.int64(-1)}).create_node([relu])
    write_attributes(node)
    assert bytes(node.custom_options) == struct.pack("<i?3xf", -1, False, 0.5)
    node.keep = True
    write_attributes(node)
    assert bytes(node.custom_options) == struct.pack("<i?3xf", -1, True, 0.5)


MORE = struct.pack("<i?3sf4s", 3, True, b"\1\2\3", 0.25, b"tail")


def test_fields_of_the_file_are_attributes_and_other_bytes_stay() -> None:
    _, node = make_graph("Normalize", MORE)
    assert node.attributes() == {"axis": 3, "keep": True, "epsilon": 0.25}
    node.axis = 4
    write_attributes(node)
    assert bytes(node.custom_options) == struct.pack("<i", 4) + MORE[4:]


BY_ANOTHER_WRITER = bytes(
    flexbuffers.Dumps({"taps": [1, 2], "factor": 0.5, "zoom": 3, "aaa": "not of the class"})
)


def double(node: Node) -> None:
    node.factor = node.factor * 2


def mark(node: Node) -> None:
    node.seen = True


def there_and_back(node: Node) -> None:
    node.factor = 9.0
    node.factor = 0.5


@pytest.mark.parametrize("change", [lambda node: None, mark, there_and_back, lambda n: n.touch()])
def test_options_that_nobody_has_changed_keep_their_bytes(change: Callable[[Node], None]) -> None:
    _, node = make_graph("Scale", BY_ANOTHER_WRITER)
    before = node.model_op and node.model_op.custom_options
    assert node.taps == (1, 2)
    change(node)
    write_attributes(node)
    assert node.model_op and node.model_op.custom_options is before


def test_changed_options_are_those_of_the_class() -> None:
    _, node = make_graph("Scale", BY_ANOTHER_WRITER)
    double(node)
    assert written(node) == {"factor": 1.0, "taps": (1, 2)}


def test_a_custom_op_without_a_class_keeps_all_its_options() -> None:
    options = bytes(flexbuffers.Dumps({"b": [1, "x", {"c": None}], "a": 1}))
    graph, node = make_graph("Unknown", options)
    node.mark = "free attributes are not written"
    write_attributes(node)
    assert bytes(node.custom_options) == options
    node.a = 2
    assert written(node) == {"b": (1, "x", {"c": None}), "a": 2}
    made = graph.create_op("Other", [node], {"gain": 0.5}, is_custom=True)
    assert written(made) == {"gain": 0.5}


NAMES = st.sampled_from(["a", "b", "type", "name", "graph", "\u00e4", "infer"])
VALUES = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**63), 2**63 - 1) | st.text() | st.floats(width=32),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(NAMES, inner, max_size=3),
    max_leaves=6,
)


@example({"a": 0.0}, -0.0)
@given(st.dictionaries(NAMES, VALUES, min_size=1), VALUES)
def test_one_change_leaves_all_other_options(options: dict[str, Any], value: Any) -> None:
    data = write_flexbuffer_options(options)
    before = find_flexbuffer_options(data)
    assert isinstance(before, Mapping)
    _, node = make_graph("Unknown", data)
    node["mine"] = value  # not an option of the op
    write_attributes(node)
    assert bytes(node.custom_options) == data
    if "a" in options:
        node.a = value
        found = written(node)
        assert repr({k: v for k, v in found.items() if k != "a"}) == repr(
            {k: v for k, v in before.items() if k != "a"}
        )
        wanted = find_flexbuffer_options(write_flexbuffer_options({"a": value}))
        assert isinstance(wanted, Mapping) and repr(found.get("a")) == repr(wanted["a"])


@pytest.mark.parametrize(
    ("cls", "attrs", "says"),
    [
        (Scale, {"factor": 1j}, "option 'factor' is 1j, and a FlexBuffer cannot hold this type"),
        (Scale, {"taps": [1, 2**64]}, "option 'taps'[1] is 18446744073709551616"),
        (Normalize, {"axis": 2**31}, "field 'axis' has type int32, which cannot hold 2147483648"),
        (Normalize, {"keep": None}, "the field 'keep' of the C struct has no value"),
        (
            Normalize,
            {"epsilon": "small"},
            "field 'epsilon' has type float32, which cannot hold 'small'",
        ),
    ],
)
def test_a_value_that_cannot_be_written_names_op_and_attribute(
    cls: type[Op], attrs: Mapping[str, Any], says: str
) -> None:
    graph, relu = make_graph()
    node = cls(graph, {**attrs, "name": "mine"}).create_node([relu])
    with pytest.raises(LiteRtError) as error:
        write_attributes(node)
    assert error.value.status is Status.INVALID_ARGUMENT
    assert says in error.value.what and f"op {cls.op} 'mine'" in error.value.where


@pytest.mark.parametrize(
    ("records", "says"),
    [
        (["colour"], "has no attribute 'colour'"),
        ([("colour", lambda node: 1 / 0)], "ZeroDivisionError"),
        ([("colour", 3)], "the entry ('colour', 3), which describes no option"),
        ([None], "the entry None, which describes no option"),
        (3, "TypeError"),
    ],
)
def test_a_wrong_record_names_op_and_class(records: Any, says: str) -> None:
    class Coloured(Op):
        op = "Coloured"

        def backend_attrs(self) -> list[Any]:
            return records  # type: ignore[no-any-return]

    graph, relu = make_graph()
    node = Coloured(graph, {}).create_node([relu])
    with pytest.raises(LiteRtError) as error:
        write_attributes(node)
    assert says in error.value.what
    assert "op Coloured 'coloured'" in error.value.where and __file__ in error.value.where


def test_an_op_whose_type_is_builtin_becomes_that() -> None:
    class MyMaximum(Op):
        op = "MyPool"

        def backend_attrs(self) -> list[Any]:
            return [
                "padding",
                ("stride_w", "stride"),
                ("stride_h", lambda node: node.stride),
                "filter_width",
            ]

    graph, relu = make_graph()
    attrs = {"type": "MAX_POOL_2D", "padding": "VALID", "stride": 2, "filter_width": None}
    node = MyMaximum(graph, attrs).create_node([relu])
    assert node.op == "MyPool" and graph.get_op_nodes(op="MyPool") == [node]
    write_attributes(node)
    assert (node.op, node.padding, node.stride_h, node.stride_w) == ("MAX_POOL_2D", "VALID", 2, 2)
    assert graph.get_op_nodes(op="MyPool") == [] and not node.is_custom
    wrong = MyMaximum(graph, {**attrs, "padding": "WIDE"}).create_node([relu])
    with pytest.raises(LiteRtError, match=r"padding cannot be 'WIDE' \(op MyPool"):
        write_attributes(wrong)


def test_the_type_is_what_is_written() -> None:
    graph, relu = make_graph()
    node = Scale(graph, {"type": "acme.Scale", "version": 3}).create_node([relu])
    assert (node.op, node.type, node.version) == ("Scale", "acme.Scale", 3)
    write_attributes(node)
    assert node.model_op is not None
    code = node.model_op.code
    assert (code.custom_code, code.version) == ("acme.Scale", 3)


def test_an_op_without_a_type_cannot_be_written() -> None:
    graph, relu = make_graph()
    node = Scale(graph, {"type": None}).create_node([relu])
    assert node.type is None
    with pytest.raises(LiteRtError) as error:
        write_attributes(node)
    assert error.value.status is Status.INVALID_IR_TYPE
    assert "op Scale 'scale'" in error.value.where and error.value.hint

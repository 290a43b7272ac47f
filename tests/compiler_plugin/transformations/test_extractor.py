"""Tests how a custom op's options are decoded: by the mapping file, extractors or op classes, in this order."""

from __future__ import annotations

import struct
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
from flatbuffers import flexbuffers  # type: ignore[import-untyped]

from compiler_plugin.transformations import (
    Extractor,
    Graph,
    Node,
    Op,
    OpLibrary,
    flexbuffer_options,
    raw_fields,
    raw_options,
)
from compiler_plugin.transformations.custom_ops import write_attributes
from compiler_plugin.transformations.mapping_file import MappedOp
from compiler_plugin.transformations.partial_inference import PartialInference
from litert.core.element_type import ElementType
from litert.core.errors import LiteRtError
from litert.core.status import Status
from litert.model.builder import ModelBuilder
from litert.model.graph import Model
from litert.model.reader import read_model
from litert.model.writer import write_model

FLEX = bytes(flexbuffers.Dumps({"axis": 2, "beta": 0.5}))
RAW = struct.pack("<if", 2, 0.5)
FIELDS = raw_fields(("axis", "int32"), ("beta", "float32"))


class Foo(Op):
    op = "Foo"

    def __init__(self, graph: Graph, attrs: Mapping[str, Any]) -> None:
        super().__init__(graph, {"axis": -1, "by": "the class"}, attrs)


class FooExtractor(Extractor):
    op = "Foo"

    @classmethod
    def extract(cls, node: Node) -> bool:
        Foo.update_node_stat(node, {"axis": flexbuffer_options(node)["axis"], "by": "an extractor"})
        return cls.enabled


def make_model(options: bytes = FLEX, op: str = "Foo") -> Model:
    b = ModelBuilder()
    x = b.input("x", "float32", (2, 6))
    made = [("y", "float32", (2, 6))]
    b.output(b.op(op, [x], made) if op.isupper() else b.custom(op, [x], made, options=options))
    return b.build()


def extracted(library: OpLibrary, options: bytes = FLEX, op: str = "Foo") -> Node:
    model = make_model(options, op)
    subgraph = model.subgraphs[0]
    return Graph(model, subgraph, PartialInference(subgraph), ops=library).nodes[0]


def test_an_extractor_gives_attributes() -> None:
    node = extracted(OpLibrary([Foo], [FooExtractor]))
    assert node.attributes() == {"axis": 2, "by": "an extractor"}
    assert isinstance(node.op_definition, Foo) and not node.is_changed


def test_an_enabled_class_is_its_own_extractor() -> None:
    node = extracted(OpLibrary([Foo]))
    assert node.attributes() == {"axis": 2, "beta": 0.5, "by": "the class"}

    class Quiet(Foo):
        enabled = False

    node = extracted(OpLibrary([Quiet]))
    assert node.attributes() == {"axis": 2, "beta": 0.5} and node.op_definition is None


def test_the_mapping_file_comes_first_then_extractors_then_the_standard() -> None:
    def mapped(has_parameters: bool) -> dict[str, MappedOp]:
        return {"Foo": MappedOp("Foo", has_parameters)}

    both = [Foo], [FooExtractor]
    assert extracted(OpLibrary(*both, mapped(True))).attributes() == {"axis": 2, "beta": 0.5}
    assert extracted(OpLibrary(*both, mapped(False))).attributes() == {}
    assert extracted(OpLibrary()).attributes() == {"axis": 2, "beta": 0.5}

    class Declines(Extractor):
        op = "Foo"

        def extract(self, node: Node) -> bool:
            return False

    assert extracted(OpLibrary([Foo], [Declines])).by == "the class"
    assert not extracted(OpLibrary([], [Declines])).has("by")


def test_a_disabled_extractor_is_not_asked() -> None:
    class Disabled(FooExtractor):
        enabled = False

    library = OpLibrary([Foo], [Disabled, FooExtractor])
    assert extracted(library).by == "an extractor"
    assert extracted(OpLibrary([Foo], [Disabled])).by == "the class"


def test_raw_bytes_are_read_by_fields() -> None:
    class RawExtractor(Extractor):
        op = "Foo"

        def extract(self, node: Node) -> bool:
            Foo.update_node_stat(node, raw_options(node, FIELDS))
            return True

    assert extracted(OpLibrary([], [RawExtractor]), RAW).beta == 0.5

    class RawFoo(Foo):
        raw_options = FIELDS

    assert extracted(OpLibrary([RawFoo]), RAW).axis == 2


def test_an_extractor_can_read_the_bytes_themselves() -> None:
    class ByHand(Extractor):
        op = "Foo"

        def extract(self, node: Node) -> bool:
            (axis,) = struct.unpack_from("<i", node.custom_options)
            Foo.update_node_stat(node, {"axis": axis})
            return True

    assert extracted(OpLibrary([Foo], [ByHand]), RAW).axis == 2


def test_an_extractor_can_make_a_node_another_op() -> None:
    class Adapter(Extractor):
        op = "vendor.FooV2"

        def extract(self, node: Node) -> bool:
            Foo.update_node_stat(node, flexbuffer_options(node))
            return True

    node = extracted(OpLibrary([Foo], [Adapter]), op="vendor.FooV2")
    assert (node.op, node.type, node.axis) == ("Foo", "Foo", 2)
    assert node.graph.get_op_nodes(op="Foo") == [node]
    assert node.graph.get_op_nodes(op="vendor.FooV2") == []


def test_a_copy_of_an_op_that_was_written_is_the_same_op() -> None:
    """A partition has copies of ops with the names and options that were written, not those of the model file."""

    class Adapter(Extractor):
        op = "vendor.FooV2"

        def extract(self, node: Node) -> bool:
            RawFoo.update_node_stat(node, flexbuffer_options(node))
            return True

    class RawFoo(Foo):
        enabled = False
        raw_options = FIELDS

        def __init__(self, graph: Graph, attrs: Mapping[str, Any]) -> None:
            super().__init__(graph, {"type": "acme.Foo", **attrs})

        def backend_attrs(self) -> list[Any]:
            return [("axis", lambda node: 10 * node.axis), "beta"]

    library = OpLibrary([RawFoo], [Adapter])
    node = extracted(library, op="vendor.FooV2")
    write_attributes(node)
    library.remember(node)
    assert node.model_op is not None and node.op == "acme.Foo"
    assert bytes(node.custom_options) == struct.pack("<if", 20, 0.5)
    partition = make_model(op="acme.Foo")
    (copy,) = partition.subgraphs[0].ops
    copy.custom_options = node.model_op.custom_options
    again = Graph(partition, partition.subgraphs[0], ops=library, layout="NCHW")
    (same,) = again.nodes
    assert (same.op, same.type, same.axis, same.beta) == ("Foo", "acme.Foo", 2, 0.5)
    assert not again.touched
    same.axis = 3
    write_attributes(same)
    assert same.op == "acme.Foo" and bytes(same.custom_options) == struct.pack("<if", 30, 0.5)


def test_an_extractor_of_a_builtin_op_adds_attributes() -> None:
    class Marks(Extractor):
        op = "SOFTMAX"

        def extract(self, node: Node) -> bool:
            node.is_wide = node.in_port(0).data.get_shape()[-1] > 4  # type: ignore[index]
            return True

    node = extracted(OpLibrary([], [Marks]), op="SOFTMAX")
    assert node.is_wide is True and node.beta == 0.0

    class Takes(Extractor):
        op = "SOFTMAX"

        def extract(self, node: Node) -> bool:
            Foo.update_node_stat(node)
            return True

    with pytest.raises(LiteRtError, match="SOFTMAX 'y' is not a custom op and cannot become a Foo"):
        extracted(OpLibrary([Foo], [Takes]), op="SOFTMAX")


def test_a_user_op_of_the_model_is_inferred() -> None:
    class Wider(Op):
        op = "Foo"

        @staticmethod
        def infer(node: Node) -> None:
            node.out_port(0).data.set_shape((*node.in_port(0).data.get_shape(), node.axis))  # type: ignore[misc]

    node = extracted(OpLibrary([Wider]))
    assert node.out_port(0).data.get_shape() == (2, 6, 2)


def test_a_type_that_the_model_says_is_kept() -> None:
    class ArgMax(Op):
        op = "Foo"

        @staticmethod
        def infer(node: Node) -> None:
            node.out_port(0).data.set_shape(node.in_port(0).data.get_shape() or ())

    model = make_model()
    model.subgraphs[0].outputs[0].element_type = ElementType.INT32
    subgraph = model.subgraphs[0]
    graph = Graph(model, subgraph, PartialInference(subgraph), ops=OpLibrary([ArgMax]))
    assert graph.nodes[0].out_port(0).get_data_type() is ElementType.INT32
    same = extracted(OpLibrary([ArgMax]))
    same.graph.parameters[0].out_port(0).set_data_type("float16")
    assert same.out_port(0).get_data_type() is ElementType.FLOAT16


def raises(node: Node) -> bool:
    raise KeyError("gamma")


def reads_beyond(node: Node) -> bool:
    struct.unpack_from("<i", node.custom_options, 400)
    return True


def reads_a_struct(node: Node) -> bool:
    raw_options(node, raw_fields(("all", "int64", 9)))
    return True


def reads_a_flexbuffer(node: Node) -> bool:
    node.axis = flexbuffer_options(node)["axis"]
    return True


@pytest.mark.parametrize(
    ("function", "says", "status"),
    [
        (raises, "KeyError: 'gamma'", Status.INVALID_TRANSFORMATION),
        (reads_beyond, "error: unpack_from requires a buffer of", Status.INVALID_TRANSFORMATION),
        (
            reads_a_struct, "the field 'all' begins at byte 0 and has 72 bytes, but the options have only 8",
            Status.INVALID_ARGUMENT,
        ),
        (
            reads_a_flexbuffer, "the op's custom options (8 bytes) are not a FlexBuffer map",
            Status.INVALID_FLATBUFFER,
        ),
        (lambda node: None, "extract must return True or False, but returns None", Status.INVALID_TRANSFORMATION),
        (lambda node: exit(3), "SystemExit: 3", Status.INVALID_TRANSFORMATION),
    ],
    ids=["raises", "reads beyond", "long struct", "no FlexBuffer", "no answer", "exits"],
)  # fmt: skip
def test_an_extractor_that_fails_names_op_and_files(
    function: Any, says: str, status: Status, tmp_path: Path
) -> None:
    class Fails(Extractor):
        op = "Foo"

        def extract(self, node: Node) -> bool:
            return function(node)  # type: ignore[no-any-return]

    path = tmp_path / "m.tflite"
    write_model(make_model(RAW), path)
    with read_model(path) as model, pytest.raises(LiteRtError) as error:
        Graph(model, model.subgraphs[0], ops=OpLibrary([], [Fails]))
    assert says in error.value.what and error.value.status is status
    assert f"Fails.extract of {__file__}" in error.value.where
    assert f"op Foo 'y' of {path}" in error.value.where


def test_options_that_are_too_short_for_a_class_name_it() -> None:
    class Long(Op):
        op = "Foo"
        raw_options = raw_fields(("all", "int64", 9))

    with pytest.raises(LiteRtError) as error:
        extracted(OpLibrary([Long]), RAW)
    assert f"Long of {__file__}, op Foo 'y'" in error.value.where


def test_an_option_with_the_name_of_what_every_op_has_needs_an_extractor() -> None:
    options = bytes(flexbuffers.Dumps({"type": "wide", "axis": 1}))
    with pytest.raises(LiteRtError, match="option 'type' cannot become an attribute"):
        extracted(OpLibrary([Foo]), options)

    class Renames(Extractor):
        op = "Foo"

        def extract(self, node: Node) -> bool:
            Foo.update_node_stat(node, {"kind": flexbuffer_options(node)["type"]})
            return True

    node = extracted(OpLibrary([Foo], [Renames]), options)
    assert (node.type, node.kind) == ("Foo", "wide")


def test_a_name_that_is_taken_twice_is_an_error_with_both_files() -> None:
    class Foo2(Op):
        op = "Foo"

    class FooExtractor2(FooExtractor):
        pass

    for classes, extractors in (([Foo, Foo2], []), ([], [FooExtractor, FooExtractor2])):
        with pytest.raises(LiteRtError) as error:
            OpLibrary(classes, extractors)
        assert error.value.status is Status.ALREADY_EXISTS
        assert "the name 'Foo' occurs twice" in error.value.what
        assert error.value.what.count(__file__) == 2


@pytest.mark.parametrize(
    ("name", "says"),
    [
        ("CONV_2D", "op = 'CONV_2D' is the name of a builtin operator"),
        ("", "the class attribute 'op' must be the name of an op, but is ''"),
        (None, "the class attribute 'op' must be the name of an op, but is None"),
    ],
)
def test_a_name_that_no_user_op_can_have_is_refused(name: Any, says: str) -> None:
    cls = type("Mine", (Op,), {"op": name, "__module__": __name__})
    with pytest.raises(LiteRtError) as error:
        OpLibrary([cls])
    assert says in error.value.what and "Mine" in error.value.where

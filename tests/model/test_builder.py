"""Tests the model builder."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
import pytest

from litert.core.errors import LiteRtError
from litert.core.quantization import Quantization
from litert.core.status import Status
from litert.model.blob import Blob
from litert.model.builder import ModelBuilder, SubgraphBuilder
from litert.model.builtin_options import find_options_type
from litert.model.custom_options import find_flexbuffer_options
from litert.model.flexbuffer import FlexValue
from litert.model.schema import BUILTIN_OPERATORS, UNIONS
from litert.model.table import Table
from litert.model.writer import to_bytes

F32 = "float32"


def test_ops_know_their_tensors_and_tensors_their_ops() -> None:
    b = ModelBuilder()
    x = b.input("x", F32, (4,))
    y = b.op("RELU", [x], [("y", F32, (4,))])
    z = b.op("ADD", [y, y], [("z", F32, (4,))])
    b.output(z)
    main = b.build().subgraphs[0]
    relu, add = main.ops
    assert (x.uses, y.uses, y.producer, z.producer) == ([relu], [add, add], relu, add)
    assert [t.name for t in main.tensors] == ["x", "y", "z"] and main.outputs == [z]


def test_an_op_with_several_outputs_gives_a_tuple() -> None:
    b = ModelBuilder()
    made = b.custom("Split", [b.input("x", F32, (2,))], [("a", F32, (1,)), ("b", F32, (1,))])
    assert [t.name for t in made] == ["a", "b"]
    assert b.custom("Print", [made[0]], []) == ()


def test_ops_of_one_kind_share_an_operator_code() -> None:
    b = ModelBuilder()
    x = b.input("x", F32, (1,))
    for version in (1, 1, 2):
        b.op("RELU", [x], [("y", F32, (1,))], version=version)
    b.custom("RELU", [x], [("y", F32, (1,))])
    codes = [(c.builtin_code, c.custom_code, c.version) for c in b.build().operator_codes]
    assert codes == [(19, None, 1), (19, None, 2), (32, "RELU", 1)]


@pytest.mark.parametrize("outputs", ["y", ["y"], [("y", F32)]])
def test_an_output_that_is_not_described_is_refused(outputs: Any) -> None:
    b = ModelBuilder()
    with pytest.raises(LiteRtError, match=r"must be a tensor or \(name, element type, shape\)"):
        b.custom("A", [b.input("x", F32, (1,))], outputs)


def test_inputs_without_a_list_are_refused() -> None:
    b = ModelBuilder()
    with pytest.raises(LiteRtError, match="'x', but must be a list of tensors"):
        b.custom("A", b.input("x", F32, (1,)), [("y", F32, (1,))])  # type: ignore[arg-type]


def test_a_builder_is_not_written_in_place_of_its_model() -> None:
    with pytest.raises(LiteRtError, match="cannot write a ModelBuilder") as error:
        to_bytes(ModelBuilder())  # type: ignore[arg-type]
    assert "build" in error.value.hint


def test_options_go_by_the_schemas_names() -> None:
    b = ModelBuilder()
    x = b.input("x", F32, (1, 4, 4, 1))
    b.op("MAX_POOL_2D", [x], [("y", F32, (1, 2, 2, 1))], padding="VALID", stride_w=2, stride_h=2)
    b.op("STABLEHLO_CONCATENATE", [x, x], [("z", F32, (2, 4, 4, 1))], dimension=0)
    pool, concatenate = b.build().subgraphs[0].ops
    assert pool.options == Table.make("Pool2DOptions", padding=1, stride_w=2, stride_h=2)
    assert concatenate.options is None and concatenate.options_2 is not None
    assert concatenate.options_2.get("dimension") == 0


def test_each_options_table_belongs_to_an_operator() -> None:
    found = {find_options_type(name) for name in BUILTIN_OPERATORS.values()}
    tables = {
        (union, table)
        for union in ("BuiltinOptions", "BuiltinOptions2")
        for table in UNIONS[union].values()
        if table != "NONE"
    }
    assert found - {None} == tables


def test_a_map_becomes_a_flexbuffer_and_bytes_stay() -> None:
    b = ModelBuilder()
    x = b.input("x", F32, (1,))
    cases: list[Mapping[str, FlexValue] | bytes | None] = [
        {"alpha": 0.5, "taps": [1, 2]}, b"raw", None
    ]  # fmt: skip
    for options in cases:
        b.custom("Op", [x], [("y", F32, (1,))], options=options)
    first, second, third = (op.custom_options for op in b.build().subgraphs[0].ops)
    assert first and find_flexbuffer_options(first.view) == {"alpha": 0.5, "taps": (1, 2)}
    assert second and bytes(second) == b"raw" and third is None


def test_a_constant_has_its_data_and_may_share_them() -> None:
    b = ModelBuilder()
    w = b.constant("w", np.arange(6, dtype=np.float32).reshape(2, 3))
    again = b.constant("again", w.buffer, F32, (3, 2))
    assert (w.shape, again.shape) == ((2, 3), (3, 2)) and w.buffer is again.buffer
    assert w.is_constant and np.frombuffer(w.data, np.float32).tolist() == [0, 1, 2, 3, 4, 5]
    model = b.build()
    assert model.buffers[0].blob is None and len(model.buffers) == 2


def test_control_flow_has_subgraphs_of_its_own() -> None:
    b = ModelBuilder()
    cond, body = b.subgraph("cond"), b.subgraph("body")
    x = b.input("x", F32, (1,))
    b.op("WHILE", [x], [("y", F32, (1,))], cond_subgraph_index=cond, body_subgraph_index=body)
    model = b.build()
    options = model.subgraphs[0].ops[0].options
    assert options and (options.get("cond_subgraph_index"), options.get("body_subgraph_index")) == (
        1,
        2,
    )
    assert [s.name for s in model.subgraphs] == ["main", "cond", "body"]


def test_all_that_a_tensor_can_be_is_kept() -> None:
    b = ModelBuilder()
    quantization = Quantization((0.5,), (3,))
    x = b.input("x", "int8", (1, 8), quantization=quantization, shape_signature=(-1, 8))
    state = b.tensor("state", F32, (4,), is_variable=True)
    assert (x.quantization, x.shape, x.shape_signature) == (quantization, (1, 8), (-1, 8))
    assert str(x.type) == "tensor<?x8xi8>" and state.is_variable and not x.is_variable


def test_signatures_name_tensors_or_take_their_names() -> None:
    b = ModelBuilder()
    x = b.input("x", F32, (1,))
    b.output(b.op("RELU", [x], [("y", F32, (1,))]))
    b.signature("plain")
    b.signature("named", {"image": x}, {"mask": b.graph.outputs[0]})
    plain, named = b.build().signatures
    assert [name for name, _ in plain.inputs + plain.outputs] == ["x", "y"]
    assert [name for name, _ in named.inputs + named.outputs] == ["image", "mask"]


def op(b: ModelBuilder, name: str, **options: Any) -> None:
    b.op(name, [b.input("x", F32, (1,))], [("y", F32, (1,))], **options)


def use_of_another_subgraph(b: ModelBuilder) -> None:
    b.op("RELU", [b.subgraph("other").input("x", F32, (1,))], [("y", F32, (1,))])


def second_producer(b: ModelBuilder) -> None:
    x = b.input("x", F32, (1,))
    b.op("RELU", [x], [b.op("RELU", [x], [("y", F32, (1,))])])


def output_of_another_subgraph(b: SubgraphBuilder) -> None:
    b.output(ModelBuilder().input("x", F32, (1,)))


@pytest.mark.parametrize(
    "build",
    [
        lambda b: op(b, "NO_SUCH_OP"),
        lambda b: op(b, "CONV_2D", stride=1),
        lambda b: op(b, "CONV_2D", padding="MOST"),
        lambda b: op(b, "CONV_2D", stride_w="two"),
        lambda b: op(b, "RELU", alpha=1),
        lambda b: b.custom("Op", [], [], options={"x": object()}),
        lambda b: b.custom("Op", [], [], options={"x": 2**70}),
        lambda b: b.constant("c", Blob(b"12"), "int8", (3,)),
        lambda b: b.constant("c", [1, 2], "int8", (2,), sparsity=Table.make("SparsityParameters")),
        lambda b: b.input("x", "float33", (1,)),
        lambda b: b.input("x", F32, (-1, 3)),
        use_of_another_subgraph,
        second_producer,
        output_of_another_subgraph,
    ],
    ids=["operator", "option", "enum", "type", "no options", "value", "huge", "size", "sparse",
         "element type", "negative", "other subgraph", "second producer", "other output"],
)  # fmt: skip
def test_what_no_model_can_hold_is_refused(build: Callable[[ModelBuilder], object]) -> None:
    b = ModelBuilder()
    with pytest.raises(LiteRtError) as error:
        build(b)
    assert error.value.status is Status.INVALID_ARGUMENT
    assert not b.graph.ops or b.graph.ops[0].name == "RELU"

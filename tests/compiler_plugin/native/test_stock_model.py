"""Tests that stock LiteRT's compiler context shows the same model as the file holds."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from compiler_plugin.native.compiler_context import CompilerContext
from compiler_plugin.native.exported.host_context import HostContext
from compiler_plugin.native.exported.stock_model import read_model, read_subgraph, why_unclear
from compiler_plugin.native.option_slots import hidden_options, option_slots
from litert.abi.definitions import ffi
from litert.core.quantization import BlockwiseQuantization, Quantization
from litert.model.builder import ModelBuilder
from litert.model.builtin_options import (
    BUILTIN_NUMBERS,
    find_options_type,
    get_builtin_option,
    read_builtin_options,
)
from litert.model.graph import Model, Op, Subgraph, Tensor
from litert.model.reader import read_model as read_file
from litert.model.schema import ENUMS
from litert.model.schema_types import FieldKind, table_schema
from litert.model.table import Table
from litert.model.writer import to_bytes
from tests.compiler_plugin.native.stock_host import StockHost, StockModel

HEAD_SIZE = 1104
"""The size of the compiler context in LiteRT's main branch."""

Read = Callable[[Model], list[Subgraph]]


@pytest.fixture(params=[1408, HEAD_SIZE])
def host(request: pytest.FixtureRequest) -> StockHost:
    return StockHost(request.param)


@pytest.fixture
def read(host: StockHost, tmp_path: Path) -> Read:
    """Returns a model's subgraphs as stock shows them."""

    def through_stock(model: Model) -> list[Subgraph]:
        path = tmp_path / "model.tflite"
        path.write_bytes(to_bytes(model))
        return stock_subgraphs(host, path)

    return through_stock


def stock_subgraphs(host: StockHost, path: Path) -> list[Subgraph]:
    stock = read_model(HostContext(host.context), StockModel(path).handle)
    return [each.subgraph for each in stock]


def test_a_tensor_has_one_handle_however_it_is_come_by(tmp_path: Path) -> None:
    """This holds in stock and here: plugins use the handle to find connected ops."""
    builder = ModelBuilder()
    x = builder.input("x", "float32", (2,))
    y = builder.op("NEG", [x], [("y", "float32", (2,))])
    builder.output(builder.op("MUL", [y, y], [("z", "float32", (2,))]))
    model = builder.build()
    path = tmp_path / "model.tflite"
    path.write_bytes(to_bytes(model))
    host = StockHost()
    subgraph = StockModel(path).subgraph(host)
    own = CompilerContext.take("Acme")
    with own.showing(model.subgraphs[0]):
        number = own.handles.of(model.subgraphs[0])
        for table, graph in ((host.context, subgraph), (own.table, number)):
            graph = ffi.cast("LiteRtSubgraph", graph)
            for _ in range(60):  # after some calls, the fast getters answer
                joins_ops(table, graph)
    own.close()


def joins_ops(table: Any, graph: Any) -> None:
    def ask(slot: str, kind: str, *arguments: Any) -> Any:
        answer = ffi.new(f"{kind}*")
        assert getattr(table, slot)(*arguments, answer) == 0
        return answer[0]

    def op(index: int) -> Any:
        return ask("get_subgraph_op", "LiteRtOp", graph, index)

    first = ask("get_op_input", "LiteRtTensor", op(0), 0)
    middle = ask("get_op_output", "LiteRtTensor", op(0), 0)
    last = ask("get_op_output", "LiteRtTensor", op(1), 0)
    assert first == ask("get_subgraph_input", "LiteRtTensor", graph, 0)
    assert last == ask("get_subgraph_output", "LiteRtTensor", graph, 0)
    assert {middle} == {ask("get_op_input", "LiteRtTensor", op(1), index) for index in (0, 1)}
    assert len({first, middle, last}) == 3 and op(0) == op(0) != op(1)


def described(subgraph: Subgraph) -> list[object]:
    """Returns everything that a plugin can read of a subgraph, as plain values."""
    return [
        [tensor(t) for t in subgraph.inputs],
        [tensor(t) for t in subgraph.outputs],
        *(operation(op) for op in subgraph.ops),
    ]


def tensor(value: Tensor) -> object:
    quantization = value.quantization or Quantization()
    return (
        value.name,
        value.element_type,
        value.shape,
        tuple(quantization.scale),
        tuple(quantization.zero_point),
        quantization.quantized_dimension if len(quantization.scale) > 1 else 0,
        value.producer.name if value.producer else None,
        sorted(op.name for op in value.uses),
        bytes(value.data),
    )


def operation(op: Op) -> object:
    return (
        op.name,
        bytes(op.custom_options or b"") if op.is_custom else dict(read_builtin_options(op)),
        [tensor(value) for value in op.inputs if value is not None],
        [tensor(value) for value in op.outputs],
    )


NETWORKS = ("face_landmark_with_attention", "iris_landmark", "hand_landmark_lite", "hand_recrop")


@pytest.mark.parametrize("name", NETWORKS)
def test_a_real_network_is_read_as_its_file_has_it(name: str, networks: Path) -> None:
    path = networks / f"{name}.tflite"
    with read_file(str(path)) as model:
        (found,) = stock_subgraphs(StockHost(), path)
        assert described(found) == described(model.subgraphs[0])


def unusual(type_name: str) -> dict[str, Any]:
    """Returns a value for each field of a table: not the field's default, and not its neighbours' values."""
    values: dict[str, Any] = {}
    for number, field in enumerate(table_schema(type_name).fields.values(), 2):
        if field.type_name in ENUMS:
            values[field.name] = 1
        elif field.kind is FieldKind.VECTOR:
            values[field.name] = [number, 3] if field.code == "i" else b"x"
        elif field.code == "?":
            values[field.name] = not field.default
        else:
            values[field.name] = number
    return values


@pytest.mark.parametrize("operator", option_slots())
def test_each_slot_tells_the_option_that_it_is_named_after(operator: str, read: Read) -> None:
    options_type = find_options_type(operator)
    assert options_type is not None
    options = unusual(options_type[1])
    b = ModelBuilder()
    x = b.input("x", "float32", (1, 4, 4, 2))
    b.output(b.op(operator, [x], [("y", "float32", (1, 4, 4, 2))], **options))
    (subgraph,) = read(b.build())
    told = {slot.field for slot in option_slots()[operator]}
    expected = {name: options[name] for name in told if operator != "SPLIT_V"}
    for name, value in expected.items():
        found = read_builtin_options(subgraph.ops[0])[name]
        assert (list(found) if isinstance(found, tuple) else found) == value, name


def test_no_operator_is_both_told_and_hidden() -> None:
    assert not [operator for operator in option_slots() if hidden_options(operator)]
    assert hidden_options("LSTM") and not hidden_options("TRANSPOSE")
    assert "fused_activation_function" in hidden_options("L2_NORMALIZATION")


def test_options_that_no_slot_tells_come_from_tensors(read: Read) -> None:
    b = ModelBuilder()
    x = b.input("x", "float32", (2, 4))
    axis = b.constant("axis", [1], "int32")
    best = b.op("ARG_MAX", [x, axis], [("best", "int64", (2,))], output_type="INT64")
    cast = b.op(
        "CAST", [best], [("cast", "int16", (2,))], in_data_type="INT64", out_data_type="INT16"
    )
    product = b.op("REDUCE_PROD", [x, axis], [("p", "float32", (2, 1))], keep_dims=True)
    sizes = b.constant("sizes", [1, 3], "int32")
    parts = b.op(
        "SPLIT_V",
        [x, sizes, axis],
        [("a", "float32", (2, 1)), ("b", "float32", (2, 3))],
        num_splits=2,
    )
    b.output(cast, product, *parts)
    model = b.build()
    (subgraph,) = read(model)
    assert described(subgraph) == described(model.subgraphs[0])


def test_an_op_without_options_has_the_schema_s_defaults(read: Read) -> None:
    b = ModelBuilder()
    x = b.input("x", "float32", (1, 4))
    b.output(b.op("ADD", [x, x], [("y", "float32", (1, 4))]))
    model = b.build()
    model.subgraphs[0].ops[0].options = None
    (subgraph,) = read(model)
    assert get_builtin_option(subgraph.ops[0], "fused_activation_function") == "NONE"


def test_custom_options_come_as_they_are(read: Read) -> None:
    b = ModelBuilder()
    x = b.input("x", "int8", (3,), quantization=Quantization((0.5,), (-3,)))
    y = b.custom("MyOp", [x], [("y", "int8", (3,))], options=b"\0raw\xff")
    b.output(b.custom("MyOp", [y], [("z", "int8", (3,))]))
    model = b.build()
    (subgraph,) = read(model)
    assert described(subgraph) == described(model.subgraphs[0])
    assert subgraph.ops[0].code is subgraph.ops[1].code


def test_quantization_of_each_kind(read: Read, host: StockHost) -> None:
    b = ModelBuilder()
    x = b.input("x", "int8", (1, 4), quantization=Quantization((0.25,), (7,)))
    scales = tuple(float(s) for s in np.linspace(0.5, 2, 3).astype(np.float32))
    per_channel = Quantization(scales, (0, 1, 2), 0)
    w = b.constant("w", np.ones((3, 4), np.int8), quantization=per_channel)
    block = b.constant("s", np.ones((3, 2), np.float16))
    blockwise = Quantization(blockwise=BlockwiseQuantization(block, None, 2))
    v = b.constant("v", np.ones((3, 4), np.int8), quantization=blockwise)
    y = b.op("FULLY_CONNECTED", [x, w], [("y", "int8", (1, 3))])
    b.output(y, b.op("FULLY_CONNECTED", [x, v], [("z", "int8", (1, 3))]))
    model = b.build()
    (subgraph,) = read(model)
    assert described(subgraph) == described(model.subgraphs[0])
    found = subgraph.ops[1].inputs[1]
    assert found is not None and found.blockwise is not None
    assert found.blockwise.block_size == 2 and found.blockwise.scales is not None
    assert found.blockwise.scales.name == "s"


def test_tensors_share_what_they_share_in_the_file(read: Read) -> None:
    b = ModelBuilder()
    x = b.input("x", "float32", (2,))
    w = b.constant("w", np.ones(2, np.float32))
    v = b.constant("v", w.buffer, "float32", (2,))
    b.output(
        b.op("ADD", [b.op("ADD", [x, w], [("y", "float32", (2,))]), v], [("z", "float32", (2,))])
    )
    (subgraph,) = read(b.build())
    first, second = (op.inputs[1] for op in subgraph.ops)
    assert first is not None and second is not None and first.buffer is second.buffer


def test_a_dimension_is_unknown_only_where_the_file_says_that_the_tensor_has_a_rank(
    read: Read,
) -> None:
    def dynamic(has_rank: bool) -> Tensor:
        b = ModelBuilder()
        x = b.input("x", "float32", (1, 4), shape_signature=(-1, 4))
        b.output(b.op("RELU", [x], [("y", "float32", (1, 4))]))
        x.has_rank = has_rank
        return read(b.build())[0].inputs[0]

    assert dynamic(True).type.shape == (-1, 4) and dynamic(True).shape == (1, 4)
    assert dynamic(False).type.shape == (1, 4)


def test_an_input_that_is_left_out_is_not_shown(read: Read) -> None:
    b = ModelBuilder()
    x = b.input("x", "float32", (1, 4))
    w = b.constant("w", np.ones((3, 4), np.float32))
    b.output(b.op("FULLY_CONNECTED", [x, w, None], [("y", "float32", (1, 3))]))
    (subgraph,) = read(b.build())
    assert [t.name for t in subgraph.ops[0].inputs if t] == ["x", "w"]


def test_a_composite_is_shown_with_its_name_and_attributes(read: Read) -> None:
    b = ModelBuilder()
    body = b.subgraph("body")
    v = body.input("v", "float32", (4,))
    body.output(body.op("RELU", [v], [("w", "float32", (4,))]))
    x = b.input("x", "float32", (4,))
    b.output(b.op("STABLEHLO_COMPOSITE", [x], [("y", "float32", (4,))]))
    model = b.build()
    model.subgraphs[0].ops[0].options_2 = Table.make(
        "StableHLOCompositeOptions",
        name="acme.op",
        decomposition_subgraph_index=body.index,
        composite_attributes=b"{}",
        version=3,
    )
    subgraphs = read(model)
    assert len(subgraphs) == 2
    (op,) = subgraphs[0].ops
    assert op.options_2 is not None
    assert (op.options_2.get("name"), op.options_2.get("version")) == ("acme.op", 3)
    assert bytes(op.options_2.get("composite_attributes")) == b"{}"
    assert op.options_2.get("decomposition_subgraph_index") == 1


UNCLEAR: Sequence[tuple[str, str]] = [
    ("L2_NORMALIZATION", "fused_activation_function"),
    ("LOCAL_RESPONSE_NORMALIZATION", "radius"),
    ("REVERSE_SEQUENCE", "seq_dim"),
]


@pytest.mark.parametrize(("operator", "option"), UNCLEAR)
def test_an_op_whose_options_are_hidden_is_unclear(operator: str, option: str, read: Read) -> None:
    assert operator in BUILTIN_NUMBERS
    b = ModelBuilder()
    x = b.input("x", "float32", (1, 4))
    b.output(b.op(operator, [x], [("y", "float32", (1, 4))]))
    b.output(b.op("RELU", [x], [("z", "float32", (1, 4))]))
    hidden, clear = read(b.build())[0].ops
    assert option in why_unclear(hidden) and not why_unclear(clear)


def test_a_sparse_constant_is_unclear(networks: Path) -> None:
    path = networks / "pose_detection.tflite"
    (subgraph,) = stock_subgraphs(StockHost(), path)
    reasons = {op.name: why_unclear(op) for op in subgraph.ops if why_unclear(op)}
    assert reasons and all("sparse" in reason for reason in reasons.values())


def test_handles_of_ops_are_kept(host: StockHost, tmp_path: Path) -> None:
    b = ModelBuilder()
    x = b.input("x", "float32", (1, 4))
    b.output(b.op("RELU", [x], [("y", "float32", (1, 4))]))
    path = tmp_path / "model.tflite"
    path.write_bytes(to_bytes(b.build()))
    stock = read_subgraph(HostContext(host.context), StockModel(path).subgraph(host))
    assert list(stock.handles) == stock.subgraph.ops and all(stock.handles.values())

from __future__ import annotations

import pytest

from litert.core.element_type import ElementType
from litert.core.quantization import BlockwiseQuantization, Quantization, QuantizationKind
from litert.model.blob import Blob
from litert.model.builder import ModelBuilder
from litert.model.graph import (
    EXTERNAL_SIZE,
    Buffer,
    Model,
    Op,
    OperatorCode,
    Subgraph,
    Tensor,
    builtin_name,
)
from litert.model.reader import read_model
from litert.model.writer import to_bytes

EMPTY = Buffer()
ADD = OperatorCode(0)


def tensor(name: str, quantization: Quantization | None = None) -> Tensor:
    return Tensor(name, ElementType.INT8, (1, 4), EMPTY, quantization)


def test_a_tensor_knows_who_makes_and_who_reads_it() -> None:
    x, y, z = tensor("x"), tensor("y"), tensor("z")
    square = Op(ADD, [x, x], [y])
    last = Op(ADD, [y, None, x], [z])
    assert x.producer is None and y.producer is square
    assert x.uses == [square, square, last] and y.uses == [last]
    square.set_input(1, y)
    assert x.uses == [square, last] and y.uses == [last, square]
    last.set_input(1, x)
    assert x.uses == [square, last, last]
    last.release()
    assert x.uses == [square] and z.producer is None


def test_an_output_that_another_op_has_taken_over_keeps_its_producer() -> None:
    x, y = tensor("x"), tensor("y")
    old, new = Op(ADD, [x], [y]), Op(ADD, [x], [y])
    old.release()
    assert y.producer is new


def test_many_readers_of_one_tensor_are_released_one_by_one() -> None:
    x = tensor("x")
    ops = [Op(ADD, [x, x], [tensor("y")]) for _ in range(20_000)]
    for op in reversed(ops):
        op.release()
    assert x.uses == []


def test_removed_tensors_leave_the_others_in_order() -> None:
    tensors = [tensor(name) for name in "abcd"]
    subgraph = Subgraph("main", list(tensors))
    subgraph.remove_tensors([tensors[2], tensors[0]])
    assert [t.name for t in subgraph.tensors] == ["b", "d"]


def test_ops_have_the_names_of_the_schema() -> None:
    assert Op(OperatorCode(3), [], []).name == "CONV_2D"
    assert Op(OperatorCode(32, "MyOp"), [], []).name == "MyOp"
    assert builtin_name(9999) == "BUILTIN_9999"


def test_metadata_is_replaced_where_it_stands() -> None:
    model = Model(buffers=[EMPTY])
    for name, data in (("a", b"1"), ("b", b"2"), ("a", b"3")):
        model.set_metadata(name, Blob(data))
    assert [(m.name, bytes(m.buffer.blob or b"")) for m in model.metadata] == [
        ("a", b"3"),
        ("b", b"2"),
    ]
    found = model.find_metadata("b")
    assert found is not None and bytes(found) == b"2"
    assert model.find_metadata("c") is None
    assert [m.name for m in read_model(to_bytes(model)).metadata] == ["a", "b"]


def test_new_data_that_are_large_go_behind_the_flatbuffer() -> None:
    model = Model(buffers=[EMPTY])
    model.set_metadata("small", Blob(bytes(EXTERNAL_SIZE - 1)))
    model.set_metadata("large", Blob(bytes(EXTERNAL_SIZE)))
    assert [m.buffer.is_external for m in model.metadata] == [False, True]


@pytest.mark.parametrize(
    ("quantization", "kind"),
    [
        (Quantization(scale=(0.5,), zero_point=(3,)), QuantizationKind.PER_TENSOR),
        (
            Quantization(scale=(0.5, 0.25), zero_point=(0, 0), quantized_dimension=1),
            QuantizationKind.PER_CHANNEL,
        ),
        (Quantization(min=(-1.0,), max=(1.0,)), QuantizationKind.NONE),
        (Quantization(custom=b"anything"), QuantizationKind.NONE),
    ],
    ids=["per tensor", "per channel", "range alone", "custom"],
)
def test_quantization_is_written_and_read(
    quantization: Quantization, kind: QuantizationKind
) -> None:
    model = Model(buffers=[EMPTY], subgraphs=[Subgraph("main", [tensor("x", quantization)])])
    found = read_model(to_bytes(model)).subgraphs[0].tensors[0].quantization
    assert found == quantization
    assert found.kind is kind


def blockwise_model(blockwise: BlockwiseQuantization, others: list[Tensor]) -> Model:
    weights = tensor("weights", Quantization(blockwise=blockwise))
    return Model(buffers=[EMPTY], subgraphs=[Subgraph("main", [tensor("x"), weights, *others])])


@pytest.mark.parametrize("dimensions", [None, (0, 1)], ids=["block-wise", "multi-axis"])
def test_scales_in_tensors_are_found_again_when_others_go(
    dimensions: tuple[int, ...] | None,
) -> None:
    scales, zero_points = tensor("scales"), tensor("zero points")
    blocks = BlockwiseQuantization(
        scales, zero_points, 32, () if dimensions else (1, 32), dimensions
    )
    model = read_model(to_bytes(blockwise_model(blocks, [tensor("y"), scales, zero_points])))
    main = model.subgraphs[0]
    main.remove_tensors([main.tensors[0], main.tensors[2]])
    main.tensors.reverse()
    again = read_model(to_bytes(model)).subgraphs[0]
    assert [t.name for t in again.tensors] == ["zero points", "scales", "weights"]
    found = again.tensors[2].quantization
    assert found is not None and found.kind is QuantizationKind.BLOCK_WISE
    assert found.blockwise is not None
    assert found.blockwise.scales is again.tensors[1]
    assert found.blockwise.zero_points is again.tensors[0]
    assert found.blockwise.block_size == 32
    assert found.blockwise.block_shape == blocks.block_shape
    assert found.blockwise.quantized_dimensions == dimensions


def test_a_clone_has_all_but_its_ops() -> None:
    x = tensor("x", Quantization(scale=(0.5,), zero_point=(0,)))
    x.shape_signature, x.is_variable, x.has_rank = (-1, 4), True, True
    Op(ADD, [x], [x])
    clone = read_model(
        to_bytes(Model(buffers=[EMPTY], subgraphs=[Subgraph(tensors=[x.clone()])]))
    ).subgraphs[0].tensors[0].clone()  # fmt: skip
    assert (clone.name, clone.shape, clone.shape_signature) == ("x", (1, 4), (-1, 4))
    assert clone.is_variable and clone.has_rank and clone.quantization == x.quantization
    assert clone.producer is None and clone.uses == []


def test_an_op_may_be_released_and_attached_without_an_input() -> None:
    b = ModelBuilder()
    x = b.input("x", "float32", (2,))
    y = b.custom("MyOp", [None, x], [("y", "float32", (2,))])
    (op,) = b.build().subgraphs[0].ops
    op.release()
    assert y.producer is None and not x.uses
    op.attach()
    assert y.producer is op and x.uses == [op]
    op.set_input(0, x)
    op.set_input(1, None)
    op.remove_input(1)
    assert op.inputs == [x]
    assert x.uses == [op] and (repr(op), repr(x)) == (
        "Op(MyOp)",
        "Tensor('x', tensor<2xf32>)",
    )


def test_an_output_that_another_op_makes_by_now_keeps_it() -> None:
    b = ModelBuilder()
    x = b.input("x", "float32", (2,))
    y = b.custom("MyOp", [x], [("y", "float32", (2,))])
    z = b.custom("MyOp", [x], [("z", "float32", (2,))])
    first, second = b.build().subgraphs[0].ops
    second.set_output(0, y)
    first.set_output(0, z)
    assert (y.producer, z.producer) == (second, first)

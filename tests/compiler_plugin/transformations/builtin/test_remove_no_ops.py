"""Tests that ops which change nothing are removed."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from litert.core.quantization import Quantization
from litert.model.builder import ModelBuilder
from tests.compiler_plugin.transformations.builtin.rewrites import build, check_same, transform

SHAPE = (2, 3, 4)


def ints(*values: int) -> Any:
    return np.array(values, np.int32)


def surrounded(middle: Any) -> Any:
    """Returns a function that builds a model with one op before and one after the tested ops."""

    def make(b: ModelBuilder) -> Any:
        x = b.op("NEG", [b.input("x", "float32", SHAPE)], [("n", "float32", SHAPE)])
        return b.op("ABS", [middle(b, x)], [("y", "float32", SHAPE)])

    return make


def op(b: ModelBuilder, name: str, x: Any, *more: Any, shape: Any = SHAPE, **options: Any) -> Any:
    constants = [b.constant(f"c{len(b.graph.tensors)}_{i}", m) for i, m in enumerate(more)]
    return b.op(name, [x, *constants], [(f"t{len(b.graph.tensors)}", "float32", shape)], **options)


NO_OPS: dict[str, Any] = {
    "reshape": lambda b, x: op(b, "RESHAPE", x, ints(*SHAPE), new_shape=SHAPE),
    "two reshapes": lambda b, x: op(
        b, "RESHAPE", op(b, "RESHAPE", x, ints(24), shape=(24,)), ints(*SHAPE)
    ),
    "expand and reshape": lambda b, x: op(
        b, "RESHAPE", op(b, "EXPAND_DIMS", x, ints(1)[0], shape=(2, 1, 3, 4)), ints(*SHAPE)
    ),
    "expand and squeeze": lambda b, x: op(
        b, "SQUEEZE", op(b, "EXPAND_DIMS", x, ints(1)[0], shape=(2, 1, 3, 4)), squeeze_dims=[1]
    ),
    "reshapes to another rank": lambda b, x: op(
        b, "RESHAPE", op(b, "RESHAPE", x, ints(1, *SHAPE), shape=(1, *SHAPE)), ints(*SHAPE)
    ),
    "transpose": lambda b, x: op(b, "TRANSPOSE", x, ints(0, 1, 2)),
    "transposes that cancel": lambda b, x: op(
        b, "TRANSPOSE", op(b, "TRANSPOSE", x, ints(2, 0, 1), shape=(4, 2, 3)), ints(1, 2, 0)
    ),
    "cast": lambda b, x: op(b, "CAST", x, in_data_type="FLOAT32", out_data_type="FLOAT32"),
    "pad by nothing": lambda b, x: op(b, "PAD", x, np.zeros((3, 2), np.int32)),
    "slice of all": lambda b, x: op(b, "SLICE", x, ints(0, 0, 0), ints(-1, 3, -1)),
    "strided slice of all": lambda b, x: op(
        b, "STRIDED_SLICE", x, ints(0, 0, 0), ints(2, 3, 4), ints(1, 1, 1)
    ),
    "strided slice of all by masks": lambda b, x: op(
        b, "STRIDED_SLICE", x, ints(1, 1, 2), ints(0, 3, 0), ints(1, 1, 1), begin_mask=7, end_mask=5
    ),
    "pad by nothing, with a value": lambda b, x: op(
        b, "PADV2", x, np.zeros((3, 2), np.int32), np.float32(7)
    ),
    "plus 0": lambda b, x: op(b, "ADD", x, np.float32(0)),
    "minus 0": lambda b, x: op(b, "SUB", x, np.float32(0)),
    "times 1": lambda b, x: op(b, "MUL", x, np.ones((1, 1), np.float32)),
    "divided by 1": lambda b, x: op(b, "DIV", x, np.float32(1)),
    "concatenation of one": lambda b, x: op(b, "CONCATENATION", x, axis=0),
}


@pytest.mark.parametrize("case", NO_OPS)
def test_what_changes_nothing_goes(case: str) -> None:
    ops, _ = check_same(surrounded(NO_OPS[case]), "remove_no_ops", exact=True)
    assert ops == ["NEG", "ABS"]


OTHERS: dict[str, Any] = {
    "0 minus": lambda b, x: b.op("SUB", [b.constant("z", np.float32(0)), x], [("s", "float32", SHAPE)]),
    "1 divided by": lambda b, x: b.op("DIV", [b.constant("o", np.float32(1)), x], [("d", "float32", SHAPE)]),
    "plus 0 with an activation": lambda b, x: op(
        b, "ADD", x, np.float32(0), fused_activation_function="RELU"
    ),
    "a slice of the second half": lambda b, x: op(
        b, "CONCATENATION", op(b, "SLICE", x, ints(1, 0, 0), ints(1, 3, 4), shape=(1, 3, 4)),
        np.zeros((1, 3, 4), np.float32), axis=0,
    ),
    "a strided slice backwards": lambda b, x: op(
        b, "STRIDED_SLICE", x, ints(0, -1, 0), ints(2, -4, 4), ints(1, -1, 1)
    ),
    "a transpose of equal sizes": lambda b, x: op(
        b, "RESHAPE",
        op(b, "TRANSPOSE", op(b, "RESHAPE", x, ints(2, 2, 6), shape=(2, 2, 6)), ints(1, 0, 2), shape=(2, 2, 6)),
        ints(*SHAPE),
    ),
}  # fmt: skip


@pytest.mark.parametrize("case", OTHERS)
def test_what_changes_something_stays(case: str) -> None:
    before = len(build(surrounded(OTHERS[case])).subgraphs[0].ops)
    ops, _ = check_same(surrounded(OTHERS[case]), "remove_no_ops", exact=True)
    assert len(ops) == before


def test_reshapes_that_cancel_do_not_prevent_a_fusion() -> None:
    def make(b: ModelBuilder) -> Any:
        x = b.input("x", "float32", SHAPE)
        product = b.op("MUL", [x, x], [("m", "float32", SHAPE)])
        flat = op(b, "RESHAPE", product, ints(24), shape=(24,))
        return b.op("RELU", [op(b, "RESHAPE", flat, ints(*SHAPE))], [("y", "float32", SHAPE)])

    ops, matches = check_same(make, "remove_no_ops", "fuse_activation")
    assert ops == ["MUL"] and matches["fuse_activation"] == 1


def test_transposes_that_do_not_cancel_become_one() -> None:
    def middle(b: ModelBuilder, x: Any) -> Any:
        x = op(b, "TRANSPOSE", x, ints(2, 0, 1), shape=(4, 2, 3))
        x = op(b, "TRANSPOSE", x, ints(0, 2, 1), shape=(4, 3, 2))
        return op(b, "RESHAPE", x, ints(*SHAPE))

    ops, _ = check_same(surrounded(middle), "remove_no_ops", exact=True)
    assert ops == ["NEG", "TRANSPOSE", "RESHAPE", "ABS"]


def test_a_no_op_between_input_and_output_of_the_model_stays() -> None:
    def make(b: ModelBuilder) -> Any:
        return op(b, "RESHAPE", b.input("x", "float32", SHAPE), ints(*SHAPE))

    assert check_same(make, "remove_no_ops")[0] == ["RESHAPE"]


def test_a_result_keeps_its_name_when_its_op_goes() -> None:
    def make(b: ModelBuilder) -> Any:
        x = b.op("NEG", [b.input("x", "float32", SHAPE)], [("n", "float32", SHAPE)])
        return op(b, "RESHAPE", x, ints(*SHAPE))

    assert check_same(make, "remove_no_ops")[0] == ["NEG"]


@pytest.mark.parametrize(("op", "unknown", "matches"), [
    ("RESHAPE", (-1, 4), 1),
    ("RESHAPE", (-1, -1), 0),
    ("CAST", (-1, -1), 1),
    ("PAD", (-1, 4), 0),
])  # fmt: skip
def test_of_unknown_sizes_those_go_that_cannot_change(
    op: str, unknown: tuple[int, ...], matches: int
) -> None:
    b = ModelBuilder()
    x = b.input("x", "float32", (1, 4), shape_signature=unknown)
    more = {
        "RESHAPE": [b.input("shape", "int32", (2,))],
        "PAD": [b.constant("amounts", ints(0, 0, 0, 0).reshape(2, 2))],
    }
    h = b.tensor("h", "float32", (1, 4), shape_signature=unknown)
    b.op(op, [x, *more.get(op, [])], [h])
    y = b.tensor("y", "float32", (1, 4), shape_signature=unknown)
    b.op("NEG", [h], [y])
    b.output(y)
    assert transform(b.build(), "remove_no_ops") == {"remove_no_ops": matches}


@pytest.mark.parametrize(("scale", "left"), [(0.5, []), (0.25, ["DEQUANTIZE", "QUANTIZE"])])
def test_quantizing_what_was_quantized_goes_where_the_scale_is_the_same(
    scale: float, left: list[str]
) -> None:
    def make(b: ModelBuilder) -> Any:
        x = b.input("x", "int8", (8,), quantization=Quantization((0.5,), (1,)))
        n = b.tensor("n", "int8", (8,), quantization=Quantization((0.5,), (1,)))
        b.op("MAXIMUM", [x, x], [n], version=2)
        f = b.op("DEQUANTIZE", [n], [("f", "float32", (8,))])
        q = b.tensor("q", "int8", (8,), quantization=Quantization((scale,), (1,)))
        b.op("QUANTIZE", [f], [q])
        y = b.tensor("y", "int8", (8,), quantization=Quantization((scale,), (1,)))
        b.op("MINIMUM", [q, q], [y], version=2)
        return y

    ops, _ = check_same(make, "remove_no_ops", exact=True)
    assert ops == ["MAXIMUM", *left, "MINIMUM"]


@pytest.mark.parametrize("name", ["ADD", "SUB", "MUL", "DIV", "PRELU"])
def test_an_op_that_lacks_an_operand_is_left_for_stock_to_refuse(name: str) -> None:
    model = build(surrounded(lambda b, x: op(b, name, x)))
    names = ["fuse_hard_swish", "fuse_swish", "remove_no_ops", "decompose_prelu"]
    assert [transform(model, name) for name in names] == [{name: 0} for name in names]

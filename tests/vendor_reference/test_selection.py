"""Tests which ops the reference vendor takes, and the reasons why it refuses the others."""

from __future__ import annotations

import numpy as np
import pytest

from litert.core.element_type import ElementType
from litert.core.quantization import Quantization
from litert.model.builder import ModelBuilder
from litert.model.graph import Tensor
from tests.vendor_reference.layers import custom_layer
from vendor_reference.compiler.op_selection import select_ops
from vendor_reference.custom_layers.custom_layer import CustomLayer, LayerFile
from vendor_reference.custom_layers.kernel_spec import TensorArgument

SOURCE = LayerFile("k.cl", b"__kernel void k() {}", is_asset=True)
SHAPE = (1, 2, 2, 3)


def layers(*names: str) -> dict[str, CustomLayer]:
    return {name: custom_layer(name, "k.cl", [SOURCE]) for name in names}


def answers(b: ModelBuilder, *names: str) -> dict[str, str]:
    """Returns the reason for each refused op by the name of its first output; "" if the op is taken."""
    subgraph = b.build().subgraphs[0]
    selected = select_ops(subgraph, layers(*names))
    assert len(selected.taken) + len(selected.refused) == len(subgraph.ops)
    assert selected.taken == [op for op in subgraph.ops if op in selected.taken]
    return {op.outputs[0].name: selected.refused.get(op, "") for op in subgraph.ops}


def dequantized(
    b: ModelBuilder, name: str, dtype: str = "float16", quantization: Quantization | None = None
) -> Tensor:
    stored = b.constant(f"{name}_stored", np.ones(SHAPE, dtype), quantization=quantization)
    result: Tensor = b.op("DEQUANTIZE", [stored], [(name, "float32", SHAPE)])
    return result


def custom(b: ModelBuilder, op: str, inputs: list[Tensor | None], name: str = "y") -> Tensor:
    result: Tensor = b.custom(op, inputs, [(name, "float32", SHAPE)])
    return result


def test_custom_ops_with_an_asset_are_taken_and_others_have_a_reason() -> None:
    b = ModelBuilder()
    x = b.input("x", "float32", SHAPE)
    mine = custom(b, "Mine", [x], "mine")
    other = custom(b, "Other", [mine], "other")
    relu = b.op("RELU", [other], [("relu", "float32", SHAPE)])
    b.output(b.op("LOCAL_RESPONSE_NORMALIZATION", [relu], [("norm", "float32", SHAPE)]))
    found = answers(b, "Mine")
    assert found["mine"] == ""
    assert found["other"] == "no asset for the op: give one with --npu_custom_op_info=Other,path"
    assert found["relu"].startswith("a builtin op; use --reference_ops or an asset to move")
    assert "--reference_ops" not in found["norm"] and "use an asset to move the op" in found["norm"]


def test_constants_that_feed_only_taken_ops_come_along() -> None:
    b = ModelBuilder()
    x = b.input("x", "float32", SHAPE)
    half = dequantized(b, "half")
    bytes_ = dequantized(b, "bytes", "int8", Quantization([0.5], [3]))
    b.output(custom(b, "Mine", [x, half, bytes_], "mine"))
    assert set(answers(b, "Mine").values()) == {""}


def test_a_constant_that_others_read_too_stays() -> None:
    b = ModelBuilder()
    x = b.input("x", "float32", SHAPE)
    shared = dequantized(b, "shared")
    b.output(
        custom(b, "Mine", [x, shared], "mine"),
        b.op("ADD", [x, shared], [("sum", "float32", SHAPE)]),
    )
    found = answers(b, "Mine")
    assert found["shared"] == "ADD reads the result, and stays on the CPU" and found["mine"] == ""


def test_a_constant_that_is_an_output_stays() -> None:
    b = ModelBuilder()
    shared = dequantized(b, "shared")
    b.output(custom(b, "Mine", [shared], "mine"), shared)
    assert answers(b, "Mine")["shared"] == "the result is an output of the model"


def test_a_dequantize_of_something_computed_stays() -> None:
    b = ModelBuilder()
    x = b.input("x", "int8", SHAPE, quantization=Quantization([0.5], [0]))
    real = b.op("DEQUANTIZE", [x], [("real", "float32", SHAPE)])
    b.output(custom(b, "Mine", [real], "mine"))
    assert answers(b, "Mine")["real"].startswith("the op does not dequantize a constant")


@pytest.mark.parametrize(
    ("quantization", "says"),
    [
        (None, "the constant has no scale"),
        (Quantization([0.5, 0.5]), "2 scales along dimension 0 of tensor<1x2x2x3xi8>"),
        (Quantization([0.5] * 3, quantized_dimension=4), "3 scales along dimension 4"),
        (Quantization([0.5], [1, 2]), "1 scales, but 2 zero points"),
    ],
)
def test_a_constant_with_a_damaged_quantization_stays(
    quantization: Quantization | None, says: str
) -> None:
    b = ModelBuilder()
    b.output(custom(b, "Mine", [dequantized(b, "real", "int8", quantization)], "mine"))
    found = answers(b, "Mine")
    assert says in found["real"] and found["mine"] == ""


def test_a_per_channel_constant_without_zero_points_comes_along() -> None:
    b = ModelBuilder()
    real = dequantized(b, "real", "int8", Quantization([0.5, 0.25, 1.0], quantized_dimension=3))
    b.output(custom(b, "Mine", [real], "mine"))
    assert answers(b, "Mine")["real"] == ""


@pytest.mark.parametrize(
    ("element_type", "says"),
    [
        ("string", "input 0 has type STRING, which no kernel can read"),
        ("int4", "input 0 has type INT4"),
    ],
)
def test_types_that_no_kernel_can_read_stay(element_type: str, says: str) -> None:
    b = ModelBuilder()
    x = b.input("x", ElementType[element_type.upper()], SHAPE)
    b.output(custom(b, "Mine", [x]))
    assert says in answers(b, "Mine")["y"]


def test_dynamic_shapes_stay_without_bounds() -> None:
    b = ModelBuilder()
    x = b.input("x", "float32", (1, 4), shape_signature=(-1, 4))
    b.output(b.custom("Mine", [x], [("y", "float32", (1, 4))]))
    assert answers(b, "Mine")["y"] == (
        "input 0 ('x', tensor<?x4xf32>) has no bound; give a bound with --shape_bounds=x:100x4"
    )


def test_variable_tensors_stay() -> None:
    b = ModelBuilder()
    state = b.tensor("state", "float32", SHAPE, is_variable=True)
    b.output(custom(b, "Mine", [state]))
    assert "input 0 is a variable tensor" in answers(b, "Mine")["y"]


def test_a_constant_of_the_wrong_size_stays() -> None:
    b = ModelBuilder()
    w = b.constant("w", np.ones(3, "float32"))
    w.shape = (4,)
    b.output(custom(b, "Mine", [w]))
    assert (
        "input 0 is a constant of 12 bytes, but its type tensor<4xf32> needs 16 bytes"
        in answers(b, "Mine")["y"]
    )


def test_an_input_that_is_left_out_must_not_be_read() -> None:
    b = ModelBuilder()
    x = b.input("x", "float32", SHAPE)
    b.output(custom(b, "Mine", [x, None]))
    subgraph = b.build().subgraphs[0]
    op = subgraph.ops[0]
    assert "input 1 is omitted" in select_ops(subgraph, layers("Mine")).refused[op]
    bound = [TensorArgument(False, 0), TensorArgument(True, 0)]
    layer = custom_layer("Mine", "k.json", [SOURCE], arguments=bound)
    assert select_ops(subgraph, {"Mine": layer}).taken == [op]


@pytest.mark.parametrize("names", [["MaxPoolingWithArgmax2D"], ["MaxUnpooling2D"]])
def test_of_two_ops_that_share_indices_both_are_taken_or_none(names: list[str]) -> None:
    def build() -> ModelBuilder:
        b = ModelBuilder()
        x = b.input("x", "float32", SHAPE)
        pooled, indices = b.custom(
            "MaxPoolingWithArgmax2D", [x], [("pool", "float32", SHAPE), ("at", "float32", SHAPE)]
        )
        b.output(custom(b, "MaxUnpooling2D", [pooled, indices], "unpool"))
        return b

    found = answers(build(), *names)
    assert found["pool"] and found["unpool"]
    assert any("give assets for both ops" in reason for reason in found.values())
    both = answers(build(), "MaxPoolingWithArgmax2D", "MaxUnpooling2D")
    assert set(both.values()) == {""}

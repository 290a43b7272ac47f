"""Tests the output types and shapes inferred for a new op of each builtin kind, against stock's interpreter."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Any, NamedTuple

import numpy as np
import pytest
from ai_edge_litert.interpreter import Interpreter, OpResolverType

from compiler_plugin.transformations.graph import Graph
from compiler_plugin.transformations.kernel_rules import (
    find_output_quantization,
    find_output_type,
)
from compiler_plugin.transformations.partial_inference import PartialInference
from litert.core.element_type import ElementType
from litert.core.quantization import Quantization
from litert.model.builder import ModelBuilder
from litert.model.graph import Op, OperatorCode, Tensor
from litert.model.schema import BUILTIN_OPERATORS
from litert.model.writer import to_bytes


class Given(NamedTuple):
    """An input of the model."""

    shape: tuple[int, ...]
    type: str = "float32"


class Case(NamedTuple):
    """An op; arrays among its inputs become constants."""

    inputs: tuple[Any, ...]
    options: Mapping[str, Any] = MappingProxyType({})
    outputs: int = 1
    version: int = 1


PICTURE = Given((1, 6, 6, 4))
VECTOR = Given((4,))
WHOLE = Given((4,), "int32")
TRUTH = Given((4,), "bool")
CUBE = Given((1, 4, 4, 4, 2))
COMPLEX = Given((2, 3), "complex64")


def i32(*values: Any) -> Any:
    return np.array(
        values[0] if len(values) == 1 and isinstance(values[0], list) else values, np.int32
    )


def f32(*shape: int) -> Any:
    return np.full(shape, 0.5, np.float32)


ONE = np.int32(1)
STRIDES = {"padding": "SAME", "stride_w": 2, "stride_h": 2}
POOL = {**STRIDES, "filter_width": 2, "filter_height": 2}
CONV_3D = {"padding": "SAME", "stride_d": 1, "stride_w": 1, "stride_h": 1}
GATES = [f32(3, 2)] * 4
BIASES = [f32(3)] * 4

CASES: dict[str, Case] = {
    **{
        name: Case((VECTOR,))
        for name in (
            "ABS", "CEIL", "COS", "ELU", "EXP", "FLOOR", "GELU", "HARD_SWISH", "LOG", "LOGISTIC", "NEG",
            "RELU", "RELU6", "RELU_0_TO_1", "RELU_N1_TO_1", "ROUND", "RSQRT", "SIGN", "SIN", "SQRT",
            "SQUARE", "TANH", "ZEROS_LIKE",
        )
    },
    **{
        name: Case((VECTOR, VECTOR))
        for name in (
            "ADD", "ATAN2", "DIV", "FLOOR_DIV", "FLOOR_MOD", "MAXIMUM", "MINIMUM", "MUL", "POW",
            "SQUARED_DIFFERENCE", "SUB", "EQUAL", "NOT_EQUAL", "LESS", "LESS_EQUAL", "GREATER",
            "GREATER_EQUAL", "STABLEHLO_ADD", "STABLEHLO_MAXIMUM", "STABLEHLO_MINIMUM",
            "STABLEHLO_MULTIPLY",
        )
    },
    **{name: Case((TRUTH, TRUTH)) for name in ("LOGICAL_AND", "LOGICAL_OR")},
    **{
        name: Case((PICTURE, i32(1, 2)), {"keep_dims": True})
        for name in ("MEAN", "SUM", "REDUCE_MAX", "REDUCE_MIN", "REDUCE_PROD")
    },
    **{
        name: Case((Given((2, 4), "bool"), i32(1)), {"keep_dims": False})
        for name in ("REDUCE_ALL", "REDUCE_ANY")
    },
    **{
        name: Case((Given((4, 3)), i32(0, 0, 1, 1), np.int32(2)))
        for name in ("UNSORTED_SEGMENT_MAX", "UNSORTED_SEGMENT_MIN", "UNSORTED_SEGMENT_PROD",
                     "UNSORTED_SEGMENT_SUM")
    },
    "ADD_N": Case((VECTOR, VECTOR, VECTOR)),
    "ARG_MAX": Case((PICTURE, np.int32(3)), {"output_type": "INT32"}),
    "ARG_MIN": Case((PICTURE, np.int32(3)), {"output_type": "INT64"}),
    "AVERAGE_POOL_2D": Case((PICTURE,), POOL),
    "BATCH_MATMUL": Case((Given((2, 3, 4)), Given((2, 4, 5)))),
    "BATCH_TO_SPACE_ND": Case((Given((4, 3, 3, 1)), i32(2, 2), i32([[0, 0], [0, 0]]))),
    "BITWISE_XOR": Case((WHOLE, WHOLE)),
    "BROADCAST_ARGS": Case((i32(1, 3), i32(2, 1))),
    "BROADCAST_TO": Case((VECTOR, i32(3, 4)), version=2),
    "BUCKETIZE": Case((VECTOR,), {"boundaries": [0.0, 1.0]}),
    "CAST": Case((VECTOR,), {"in_data_type": "FLOAT32", "out_data_type": "INT64"}),
    "COMPLEX_ABS": Case((COMPLEX,)),
    "CONCATENATION": Case((PICTURE, PICTURE), {"axis": 3}),
    "CONV_2D": Case((PICTURE, f32(8, 3, 3, 4), f32(8)), STRIDES),
    "CONV_3D": Case((CUBE, f32(2, 2, 2, 2, 3), f32(3)), CONV_3D),
    "CONV_3D_TRANSPOSE": Case((i32(1, 4, 4, 4, 3), f32(2, 2, 2, 3, 2), CUBE), CONV_3D),
    "CUMSUM": Case((VECTOR, np.int32(0))),
    "DEPTHWISE_CONV_2D": Case((PICTURE, f32(1, 3, 3, 8), f32(8)), {**STRIDES, "depth_multiplier": 2}),
    "DEPTH_TO_SPACE": Case((PICTURE,), {"block_size": 2}),
    "DEQUANTIZE": Case((np.array([1, 2], np.float16),)),
    "DILATE": Case((VECTOR, i32(2), np.float32(0))),
    "DYNAMIC_UPDATE_SLICE": Case((Given((4, 4)), Given((2, 2)), i32(1, 1))),
    "EMBEDDING_LOOKUP": Case((i32(1, 0), f32(3, 5))),
    "EMBEDDING_LOOKUP_SPARSE": Case((i32(1, 0), i32([[0, 0], [1, 0]]), i32(2, 1), f32(2), f32(3, 5))),
    "EXPAND_DIMS": Case((VECTOR, ONE)),
    "FAKE_QUANT": Case((VECTOR,), {"min": -1.0, "max": 1.0, "num_bits": 8}),
    "FILL": Case((i32(2, 3), np.float32(7))),
    "FULLY_CONNECTED": Case((Given((2, 4)), f32(3, 4), f32(3))),
    "GATHER": Case((PICTURE, i32(0, 2)), {"axis": 1}),
    "GATHER_ND": Case((PICTURE, i32([[0, 1], [0, 2]]))),
    "HASHTABLE": Case((), {"table_id": 1, "key_dtype": "INT64", "value_dtype": "STRING"}),
    "HASHTABLE_LOOKUP": Case((i32(1, 2), i32(1, 2, 3), f32(3, 4)), outputs=2),
    "IMAG": Case((COMPLEX,)),
    "L2_NORMALIZATION": Case((PICTURE,)),
    "L2_POOL_2D": Case((PICTURE,), POOL),
    "LEAKY_RELU": Case((VECTOR,), {"alpha": 0.1}),
    "LOCAL_RESPONSE_NORMALIZATION": Case((PICTURE,), {"radius": 1, "bias": 1.0, "alpha": 1.0, "beta": 1.0}),
    "LOGICAL_NOT": Case((TRUTH,)),
    "LOG_SOFTMAX": Case((VECTOR,)),
    "LSH_PROJECTION": Case((f32(2, 1), Given((3, 2), "int32"), f32(3)), {"type": "SPARSE"}),
    "MATRIX_DIAG": Case((Given((2, 3)),)),
    "MATRIX_SET_DIAG": Case((Given((3, 3)), Given((3,)))),
    "MAX_POOL_2D": Case((PICTURE,), POOL),
    "MIRROR_PAD": Case((VECTOR, i32([[1, 2]])), {"mode": "REFLECT"}),
    "MULTINOMIAL": Case((Given((2, 3)), np.int32(5))),
    "NON_MAX_SUPPRESSION_V4": Case(
        (Given((6, 4)), Given((6,)), np.int32(3), np.float32(0.5), np.float32(0.1)), outputs=2
    ),
    "NON_MAX_SUPPRESSION_V5": Case(
        (Given((6, 4)), Given((6,)), np.int32(3), np.float32(0.5), np.float32(0.1), np.float32(0.5)),
        outputs=3,
    ),
    "ONE_HOT": Case((WHOLE, np.int32(5), np.float32(1), np.float32(0)), {"axis": -1}),
    "PACK": Case((VECTOR, VECTOR), {"axis": 0, "values_count": 2}),
    "PAD": Case((VECTOR, i32([[1, 2]]))),
    "PADV2": Case((VECTOR, i32([[1, 2]]), np.float32(3))),
    "PRELU": Case((PICTURE, f32(1, 1, 4))),
    "RANDOM_STANDARD_NORMAL": Case((i32(2, 3),), {"seed": 1}),
    "RANDOM_UNIFORM": Case((i32(2, 3),), {"seed": 1}),
    "RANGE": Case((np.int32(0), np.int32(6), np.int32(2))),
    "RANK": Case((PICTURE,)),
    "REAL": Case((COMPLEX,)),
    "RESHAPE": Case((PICTURE, i32(-1, 8))),
    "RESIZE_BILINEAR": Case((PICTURE, i32(3, 9))),
    "RESIZE_NEAREST_NEIGHBOR": Case((PICTURE, i32(3, 9))),
    "REVERSE_SEQUENCE": Case((Given((2, 3)), i32(1, 2)), {"seq_dim": 1, "batch_dim": 0}),
    "REVERSE_V2": Case((VECTOR, i32(0))),
    "RFFT2D": Case((Given((4, 4)), i32(4, 4))),
    "RIGHT_SHIFT": Case((WHOLE, WHOLE)),
    "RNN": Case(
        (Given((1, 2)), f32(3, 2), f32(3, 3), f32(3), "variable"), {"fused_activation_function": "NONE"}
    ),
    "SCATTER_ND": Case((i32([[1], [3]]), Given((2,)), i32(5))),
    "SEGMENT_SUM": Case((Given((4, 3)), i32(0, 0, 1, 1))),
    "SELECT": Case((TRUTH, VECTOR, VECTOR)),
    "SELECT_V2": Case((TRUTH, Given((3, 4)), VECTOR)),
    "SHAPE": Case((PICTURE,), {"out_type": "INT64"}),
    "SLICE": Case((PICTURE, i32(0, 1, 1, 0), i32(1, 2, 2, -1))),
    "SOFTMAX": Case((VECTOR,), {"beta": 1.0}),
    "SPACE_TO_BATCH_ND": Case((Given((1, 6, 6, 1)), i32(2, 2), i32([[0, 0], [0, 0]]))),
    "SPACE_TO_DEPTH": Case((PICTURE,), {"block_size": 2}),
    "SPARSE_TO_DENSE": Case((i32([[0, 1], [1, 0]]), i32(2, 2), f32(2), np.float32(0))),
    "SPLIT": Case((np.int32(3), PICTURE), {"num_splits": 2}, outputs=2),
    "SPLIT_V": Case((PICTURE, i32(1, 3), np.int32(3)), {"num_splits": 2}, outputs=2),
    "SQUEEZE": Case((PICTURE,), {"squeeze_dims": [0]}),
    "STABLEHLO_PAD": Case(
        (VECTOR, np.float32(0)),
        {"edge_padding_low": [1], "edge_padding_high": [2], "interior_padding": [0]},
    ),
    "STABLEHLO_SHIFT_LEFT": Case((WHOLE, WHOLE)),
    "STRIDED_SLICE": Case((PICTURE, i32(0, 0), i32(1, 6), i32(1, 2)), {"shrink_axis_mask": 1}),
    "SVDF": Case(
        (Given((1, 2)), f32(4, 2), f32(4, 3), None, "variable"),
        {"rank": 1, "fused_activation_function": "NONE"},
    ),
    "TILE": Case((VECTOR, i32(3))),
    "TOPK_V2": Case((PICTURE, np.int32(2)), outputs=2),
    "TRANSPOSE": Case((PICTURE, i32(0, 3, 1, 2))),
    "TRANSPOSE_CONV": Case((i32(1, 12, 12, 3), f32(3, 2, 2, 4), PICTURE), STRIDES),
    "UNIQUE": Case((i32(5, 5, 7),), {"idx_out_type": "INT64"}, outputs=2),
    "UNPACK": Case((Given((2, 3)),), {"num": 2, "axis": 0}, outputs=2),
    "VAR_HANDLE": Case((), {"container": "", "shared_name": "v"}),
    "WHERE": Case((np.array([True, False, True]),)),
}  # fmt: skip

NOT_HERE = {
    "BIDIRECTIONAL_SEQUENCE_LSTM", "BIDIRECTIONAL_SEQUENCE_RNN", "LSTM", "UNIDIRECTIONAL_SEQUENCE_LSTM",
    "UNIDIRECTIONAL_SEQUENCE_RNN",  # many inputs; the output type is the first input's
    "HASHTABLE_FIND", "HASHTABLE_IMPORT", "HASHTABLE_SIZE", "ASSIGN_VARIABLE", "READ_VARIABLE",  # resource ops
    "DENSIFY",  # only for sparse constants
    "BITCAST", "QUANTIZE",  # the creator sets the type
    "CONCAT_EMBEDDINGS", "CALL", "DELEGATE", "SKIP_GRAM", "CUSTOM",  # no kernel, or only for strings
    "PLACEHOLDER_FOR_GREATER_OP_CODES", "CALL_ONCE", "IF", "WHILE", "REDUCE_WINDOW",
}  # fmt: skip


DEPENDS_ON_DATA = {"MULTINOMIAL", "SEGMENT_SUM"}
"""Cases whose output shape depends on data; other such ops have constants for these inputs."""


def test_each_builtin_op_is_here_or_said_not_to_be() -> None:
    known = {name for name in BUILTIN_OPERATORS.values() if not name.startswith("STABLEHLO_")}
    assert known - NOT_HERE - set(CASES) == set()


@pytest.mark.parametrize("name", CASES)
def test_types_and_shapes_are_those_of_stock(name: str) -> None:
    case = CASES[name]
    b = ModelBuilder()
    inputs: list[Tensor | None] = []
    for index, given in enumerate(case.inputs):
        if given is None:
            inputs.append(None)
        elif isinstance(given, Given):
            inputs.append(b.input(f"x{index}", given.type, given.shape))
        elif isinstance(given, str):
            size = (1, 3) if name == "RNN" else (1, 12)
            inputs.append(b.tensor(f"x{index}", "float32", size, is_variable=True))
        else:
            inputs.append(b.constant(f"c{index}", given))
    model = b.build()
    subgraph = model.subgraphs[0]
    graph = Graph(model, subgraph, PartialInference(subgraph))
    node = graph.create_op(
        name,
        [None if tensor is None else graph.out_port_of(tensor) for tensor in inputs],
        case.options, outputs=case.outputs, version=case.version,
    )  # fmt: skip
    graph.infer()
    graph.topological_sort()
    subgraph.outputs = list(node.output_tensors)
    expected = stock_types(to_bytes(model))
    for tensor, (element_type, shape) in zip(node.output_tensors, expected, strict=True):
        assert tensor.element_type is element_type
        if tensor.shape_signature is None:
            assert tensor.shape == shape
        else:
            assert name in DEPENDS_ON_DATA and len(shape) == len(tensor.shape_signature)
            assert all(
                known in (-1, size)
                for known, size in zip(tensor.shape_signature, shape, strict=True)
            )


def stock_types(data: bytes) -> list[tuple[ElementType, tuple[int, ...]]]:
    """Returns the types and shapes of the results in stock's interpreter after a run."""
    interpreter = Interpreter(
        model_content=data,
        experimental_op_resolver_type=OpResolverType.BUILTIN_WITHOUT_DEFAULT_DELEGATES,
    )
    interpreter.allocate_tensors()
    for details in interpreter.get_input_details():
        ones = np.ones(details["shape"], details["dtype"])
        interpreter.set_tensor(details["index"], ones)
    interpreter.invoke()
    return [
        (
            ElementType.RESOURCE
            if d["dtype"] is np.object_
            else ElementType.from_numpy(d["dtype"]),
            tuple(d["shape"].tolist()),
        )
        for d in interpreter.get_output_details()
    ]


@pytest.mark.parametrize(
    "name, inputs, signature",
    [
        ("WHERE", [Given((2, 3), "bool")], (-1, 2)),
        ("RANGE", [Given((), "int32")] * 3, (-1,)),
        ("FILL", [Given((3,), "int32"), Given(())], (-1, -1, -1)),
        ("RESHAPE", [VECTOR, Given((2,), "int32")], (-1, -1)),
        ("TILE", [Given((2, 3)), Given((2,), "int32")], (-1, -1)),
        ("TOPK_V2", [Given((2, 3)), Given((), "int32")], (2, -1)),
        ("RESIZE_BILINEAR", [PICTURE, Given((2,), "int32")], (1, -1, -1, 4)),
        ("UNIQUE", [WHOLE], (-1,)),
        ("ONE_HOT", [WHOLE, Given((), "int32"), Given(()), Given(())], (-1, -1)),
    ],
)
def test_of_a_shape_that_depends_on_data_the_rank_is_known(
    name: str, inputs: list[Given], signature: tuple[int, ...]
) -> None:
    b = ModelBuilder()
    for index, given in enumerate(inputs):
        b.input(f"x{index}", given.type, given.shape)
    model = b.build()
    subgraph = model.subgraphs[0]
    graph = Graph(model, subgraph, PartialInference(subgraph))
    outputs = CASES[name].outputs
    node = graph.create_op(name, graph.parameters, CASES[name].options, outputs=outputs)
    reader = graph.create_op("NEG", [node], name="reader")
    assert node.out_port(0).data.get_shape() == signature
    assert reader.out_port(0).data.get_shape() == signature


def test_quantization_stays_where_numbers_are_only_moved() -> None:
    scale = Quantization([0.5], [3])
    buffer = ModelBuilder().build().buffers[0]
    x = Tensor("x", ElementType.INT8, (4,), buffer, scale)
    per_channel = Tensor("w", ElementType.INT8, (4,), buffer, Quantization([0.5] * 4, [0] * 4))
    numbers = {name: number for number, name in BUILTIN_OPERATORS.items()}

    def quantization(name: str, tensor: Tensor) -> Quantization | None:
        out = Tensor("y", ElementType.NONE, (), buffer)
        return find_output_quantization(Op(OperatorCode(numbers[name]), [tensor], [out]), 0)

    assert quantization("RESHAPE", x) == scale
    assert quantization("TANH", x) is None
    assert quantization("RESHAPE", per_channel) is None
    y = Tensor("y", ElementType.NONE, (), buffer)
    assert find_output_type(Op(OperatorCode(numbers["QUANTIZE"]), [x], [y]), 0) is None

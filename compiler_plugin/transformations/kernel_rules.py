"""Rules for the element types, quantization and ranks that TFLite's kernels give their outputs.

The outputs of most ops have the element type of the first input. For the other ops, this module says whether the
type is fixed, is the type of another input, or is an option. For QUANTIZE, BITCAST and other ops without a rule,
the code that creates the op must set the type.

For some ops, stock LiteRT knows output shapes only at run time. If such an op is new, the file has no output
shapes, and the rules determine at least the rank.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TypeAlias, TypeVar

from compiler_plugin.transformations.stock_region import Shape
from litert.core.element_type import ElementType
from litert.core.quantization import Quantization, QuantizationKind
from litert.model.builtin_options import get_builtin_option, option_names
from litert.model.graph import Op, Tensor

ShapeOf: TypeAlias = Callable[[Tensor], Shape | None]

_E = ElementType
_Fact = TypeVar("_Fact")


def _by_name(groups: Mapping[_Fact, str]) -> Mapping[str, _Fact]:
    return {name: fact for fact, names in groups.items() for name in names.split()}


_FIXED = _by_name({
    (_E.BOOL,): "EQUAL NOT_EQUAL LESS LESS_EQUAL GREATER GREATER_EQUAL LOGICAL_AND LOGICAL_OR LOGICAL_NOT "
        "REDUCE_ALL REDUCE_ANY STABLEHLO_COMPARE",
    (_E.COMPLEX64,): "RFFT2D",
    (_E.FLOAT32,): "COMPLEX_ABS DEQUANTIZE IMAG RANDOM_STANDARD_NORMAL RANDOM_UNIFORM REAL",
    (_E.INT32,): "BUCKETIZE LSH_PROJECTION RANK",
    (_E.INT32, _E.INT32): "NON_MAX_SUPPRESSION_V4",
    (_E.INT32, _E.FLOAT32, _E.INT32): "NON_MAX_SUPPRESSION_V5",
    (_E.INT64,): "HASHTABLE_SIZE MULTINOMIAL WHERE",
    (_E.RESOURCE,): "HASHTABLE VAR_HANDLE",
})  # fmt: skip
"""Element types of the outputs of ops whose output types never vary."""

_BY_INPUT = _by_name({
    1: "FILL SCATTER_ND SELECT SELECT_V2 SPLIT STABLEHLO_SELECT",
    2: "CONV_3D_TRANSPOSE HASHTABLE_FIND ONE_HOT SPARSE_TO_DENSE TRANSPOSE_CONV",
})  # fmt: skip
"""Index of the input that determines the element type of all outputs, for ops where this is not input 0."""

_BY_OPTION = {
    "ARG_MAX": "output_type",
    "ARG_MIN": "output_type",
    "CAST": "out_data_type",
    "SHAPE": "out_type",
}

_SECOND_OUTPUT = {"HASHTABLE_LOOKUP": _E.UINT8, "TOPK_V2": _E.INT32}

_LOOKUPS = {"EMBEDDING_LOOKUP": 1, "EMBEDDING_LOOKUP_SPARSE": 4, "HASHTABLE_LOOKUP": 2}
"""Index of the input that contains the table of a lookup op; quantized rows are returned as float32."""

_BY_POSITION = frozenset({"ASSIGN_VARIABLE", "WHILE", "STABLEHLO_WHILE"})

_OPEN = frozenset({
    "BITCAST", "CALL", "CALL_ONCE", "CUSTOM", "DELEGATE", "IF", "QUANTIZE", "READ_VARIABLE",
    "STABLEHLO_CASE", "STABLEHLO_COMPOSITE", "STABLEHLO_CONVERT", "STABLEHLO_CUSTOM_CALL", "STABLEHLO_IOTA",
    "STABLEHLO_RNG_BIT_GENERATOR",
})  # fmt: skip

_SAME_QUANTIZATION = frozenset({
    "AVERAGE_POOL_2D", "BATCH_TO_SPACE_ND", "BROADCAST_TO", "CONCATENATION", "DEPTH_TO_SPACE",
    "DYNAMIC_UPDATE_SLICE", "EXPAND_DIMS", "FILL", "GATHER", "GATHER_ND", "MAX_POOL_2D", "MIRROR_PAD", "PACK",
    "PAD", "PADV2", "REDUCE_MAX", "REDUCE_MIN", "RESHAPE", "RESIZE_BILINEAR", "RESIZE_NEAREST_NEIGHBOR",
    "REVERSE_SEQUENCE", "REVERSE_V2", "SELECT", "SELECT_V2", "SLICE", "SPACE_TO_BATCH_ND", "SPACE_TO_DEPTH",
    "SPLIT", "SPLIT_V", "SQUEEZE", "STRIDED_SLICE", "TILE", "TOPK_V2", "TRANSPOSE", "UNPACK",
})  # fmt: skip
"""Ops that move or select elements without changing them, so that the output has the quantization of the input."""

_RANK_IS_LENGTH_OF = _by_name({
    0: "CONV_3D_TRANSPOSE FILL RANDOM_STANDARD_NORMAL RANDOM_UNIFORM TRANSPOSE_CONV",
    1: "BROADCAST_TO RESHAPE SLICE SPARSE_TO_DENSE",
    2: "SCATTER_ND",
})  # fmt: skip
"""Index of the input whose number of elements is the rank of the output."""


def _unknown(rank: int) -> Shape:
    return (-1,) * rank


_BY_FIRST_SHAPE: dict[str, Callable[[Shape], Shape | None]] = {
    **dict.fromkeys(
        ("BATCH_TO_SPACE_ND", "CUMSUM", "MIRROR_PAD", "PAD", "PADV2", "RFFT2D", "SPACE_TO_BATCH_ND",
         "TILE", "TRANSPOSE"),
        lambda first: _unknown(len(first)),
    ),
    "EXPAND_DIMS": lambda first: _unknown(len(first) + 1),
    "MULTINOMIAL": lambda first: (first[0], -1) if len(first) == 2 else None,
    "ONE_HOT": lambda first: _unknown(len(first) + 1),
    "RESIZE_BILINEAR": lambda first: (first[0], -1, -1, first[3]) if len(first) == 4 else None,
    "RESIZE_NEAREST_NEIGHBOR": lambda first: (first[0], -1, -1, first[3]) if len(first) == 4 else None,
    "SEGMENT_SUM": lambda first: (-1, *first[1:]),
    "TOPK_V2": lambda first: (*first[:-1], -1) if first else None,
    "UNSORTED_SEGMENT_SUM": lambda first: (-1, *first[1:]),
    "WHERE": lambda first: (-1, len(first)),
}  # fmt: skip
"""Functions that derive the known dimensions of the output from the shape of input 0."""

_OF_RANK_ONE = frozenset({"NON_MAX_SUPPRESSION_V4", "NON_MAX_SUPPRESSION_V5", "RANGE", "UNIQUE"})


def find_output_type(op: Op, index: int) -> ElementType | None:
    """Returns the element type of a builtin op's output; None if neither inputs nor options determine the type."""
    name = op.name
    if name in _OPEN:
        return None
    if name in _FIXED:
        types = _FIXED[name]
        return types[index] if index < len(types) else None
    if index == 1 and name in _SECOND_OUTPUT:
        return _SECOND_OUTPUT[name]
    if name in _BY_OPTION:
        return _option_type(op, _BY_OPTION[name])
    if name == "UNIQUE" and index == 1:
        return _option_type(op, "idx_out_type")
    if name in _LOOKUPS:
        table = _input(op, _LOOKUPS[name])
        if table is None:
            return None
        is_scaled = (
            table.element_type in (_E.INT4, _E.INT8, _E.UINT8) and table.quantization is not None
        )
        return _E.FLOAT32 if is_scaled else table.element_type
    source = _input(op, _source_index(name, index))
    if source is None or source.element_type is _E.NONE:
        return None
    return source.element_type


def find_output_quantization(op: Op, index: int) -> Quantization | None:
    """Returns an input's per-tensor quantization if the output has the same quantization; otherwise None."""
    if op.name not in _SAME_QUANTIZATION or find_output_type(op, index) is None:
        return None
    source = _input(op, _source_index(op.name, index))
    if source is None or source.element_type is not find_output_type(op, index):
        return None
    quantization = source.quantization
    if quantization is None or quantization.kind is not QuantizationKind.PER_TENSOR:
        return None
    return quantization


def _source_index(name: str, output_index: int) -> int:
    return output_index if name in _BY_POSITION else _BY_INPUT.get(name, 0)


def _input(op: Op, index: int) -> Tensor | None:
    return op.inputs[index] if index < len(op.inputs) else None


def _option_type(op: Op, option: str) -> ElementType | None:
    assert option in option_names(op)
    # The file and `ElementType` have the same names, but different numbers.
    return ElementType.__members__.get(get_builtin_option(op, option))


def find_data_shape(op: Op, shape_of: ShapeOf) -> Shape | None:
    """Returns the known dimensions of an output whose shape stock LiteRT determines only at run time.

    Unknown dimensions are -1, in the returned shape and in the shapes from `shape_of`; None means that not even
    the rank is known.
    """
    name = op.name
    if name in _OF_RANK_ONE:
        return (-1,)
    source = _input(op, _RANK_IS_LENGTH_OF.get(name, 0))
    shape = None if source is None else shape_of(source)
    if shape is None:
        return None
    if name in _RANK_IS_LENGTH_OF:
        return _unknown(shape[0]) if len(shape) == 1 and shape[0] >= 0 else None
    return _BY_FIRST_SHAPE[name](shape) if name in _BY_FIRST_SHAPE else None

"""Random calls of each op of the library: shapes, options, types and values that its declaration allows.

An op whose result has the shape of its operands needs no maker here. Every other op has a maker in MAKERS, which
draws an `OpCase` from the types that the op declares and the options that the maker lists.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from math import prod
from types import MappingProxyType
from typing import Any, TypeVar

import numpy as np
from hypothesis import strategies as st

from litert.core.element_type import ElementType
from litert.model.builder import ModelBuilder
from litert.model.graph import Model
from tests.vendor_reference.executables import Array
from vendor_reference.compiler.library.library_op import ElementwiseOp, LibraryOp

Options = Mapping[str, Any]
Choice = TypeVar("Choice")

FUSED = ("NONE", "RELU", "RELU6", "RELU_N1_TO_1")
PADDINGS = ("SAME", "VALID")
_STRIDES = {"stride_h": (1, 2, 3), "stride_w": (1, 2)}
_DILATIONS = {"dilation_h_factor": (1, 2), "dilation_w_factor": (1, 3)}
NEED_SCALES = ("QUANTIZE", "DEQUANTIZE")
"""Ops on quantized tensors, which have no maker; `test_library_elementwise.py` tests them."""
EXACT = 0.0
SUM = 4e-6
"""The tolerance for sums of up to a few hundred products, relative to the greatest magnitude."""
HALF = 1e-3
"""The tolerance for float16 results, relative to the greatest magnitude."""


@dataclass(frozen=True)
class Given:
    """An input of an op.

    Attributes:
      is_constant: whether it is a constant in the model; otherwise a run gives it.
      is_half: whether the model stores it as float16 and a DEQUANTIZE converts it to float32.
    """

    array: Array
    is_constant: bool = False
    is_half: bool = False


@dataclass(frozen=True)
class OpCase:
    """A call of an op.

    Attributes:
      inputs: the inputs; None stands for an omitted input.
      results: the element type of each result.
      shapes: shapes of the results, for ops whose shapes stock LiteRT checks but does not compute.
    """

    name: str
    inputs: Sequence[Given | None]
    options: Options = field(default_factory=dict)
    results: Sequence[str] = ("float32",)
    shapes: Sequence[tuple[int, ...]] = ()

    def __str__(self) -> str:
        inputs = [
            "none" if g is None else f"{g.array.dtype}{list(g.array.shape)}"
            + ("" if not g.is_constant else f"={g.array.tolist()}" if g.array.size < 9 else "#")
            for g in self.inputs
        ]  # fmt: skip
        options = ", ".join(f"{key}={value}" for key, value in self.options.items())
        return f"{self.name}({', '.join(inputs)}) {{{options}}}"


class Drawing:
    """Draws the parts of a case."""

    def __init__(self, draw: Callable[[st.SearchStrategy[Any]], Any], dtype: str) -> None:
        """`dtype` is the element type of the op's tensors."""
        self._draw = draw
        self.dtype = dtype

    def size(self, low: int, high: int) -> int:
        return int(self._draw(st.integers(low, high)))

    def sizes(self, rank: int, high: int) -> tuple[int, ...]:
        return tuple(self.size(1, high) for _ in range(rank))

    def choose(self, choices: Sequence[Choice]) -> Choice:
        chosen: Choice = self._draw(st.sampled_from(choices))
        return chosen

    def tensor(self, *shape: int, dtype: str = "") -> Given:
        """Draws an input of a run: numbers around 0, in some cases also NaN and infinities."""
        values = self._numbers(shape, dtype or self.dtype)
        self._strew_specials(values)
        return Given(values)

    def weights(self, *shape: int, depth: int = 1, has_specials: bool = True) -> Given:
        """Draws a constant, in some cases with NaN and infinities; a float32 one may be stored as float16.

        The more products a sum has, the smaller the factors are, because a clamp would hide most of a large sum.
        """
        values = (self._numbers(shape, self.dtype) / depth**0.5).astype(self.dtype)
        if has_specials:
            self._strew_specials(values)
        return Given(values, True, self.dtype == "float32" and self.choose((False, True)))

    def data_or_weights(self, *shape: int) -> Given:
        is_constant = self.choose((False, True))
        return self.weights(*shape) if is_constant else self.tensor(*shape)

    def order(self, rank: int) -> Sequence[int]:
        return list(self._draw(st.permutations(range(rank))))

    def case(
        self, name: str, inputs: Sequence[Given | None], options: Options, results: int = 1
    ) -> OpCase:
        """Returns a case whose results have the element type of its tensors."""
        return OpCase(name, inputs, options, [self.dtype] * results)

    def _strew_specials(self, values: Array) -> None:
        """Sets some floats to NaN, infinities or 0, in some cases."""
        if values.dtype.kind == "f" and values.size and self.choose((False, False, False, True)):
            random = np.random.default_rng(self.size(0, 99))
            at = random.integers(0, values.size, 2 + values.size // 40)
            values.ravel()[at] = random.choice([np.nan, np.inf, -np.inf, 0.0, -0.0], at.size)

    def _numbers(self, shape: Sequence[int], dtype: str) -> Array:
        random = np.random.default_rng(self.size(0, 2**32 - 1))
        if dtype == "bool":
            return np.asarray(random.integers(0, 2, shape), np.bool_)
        if np.dtype(dtype).kind in "iu":
            low = 0 if np.dtype(dtype).kind == "u" else -99
            return np.asarray(random.integers(low, 99, shape)).astype(dtype)
        return np.asarray(random.normal(size=shape) * 2).astype(dtype)


@dataclass(frozen=True)
class Maker:
    """Draws the cases of an op.

    Attributes:
      make: returns a case for a `Drawing` and chosen options.
      options: choices for each option.
      tolerance: tolerance for float32 results, relative to the greatest magnitude.
      lacks: types that stock LiteRT's kernel does not support.
    """

    make: Callable[[Drawing, dict[str, Any]], OpCase]
    options: Mapping[str, Sequence[Any]] = field(default_factory=dict)
    tolerance: float = 2e-6
    lacks: Sequence[str] = ()

    def limit(self, dtype: str) -> float:
        """Returns the tolerance for results of a type, relative to the greatest magnitude."""
        halves = HALF if self.tolerance else EXACT
        return {"float32": self.tolerance, "float16": halves}.get(dtype, EXACT)


def ints(*values: Any) -> Given:
    return Given(np.array(values, np.int32), is_constant=True)


def find_maker(op: LibraryOp) -> Maker | None:
    """Returns an op's maker, or None if it has none."""
    if op.name in MAKERS:
        return MAKERS[op.name]
    return _elementwise_maker(op) if isinstance(op, ElementwiseOp) else None


@st.composite
def cases(draw: Any, op: LibraryOp) -> OpCase:
    """Draws a case of an op."""
    maker = find_maker(op)
    assert maker is not None
    types = [_TYPES[t] for t in op.types if t in _TYPES and _TYPES[t] not in maker.lacks]
    drawing = Drawing(draw, draw(st.sampled_from(types)))
    options = {key: draw(st.sampled_from(values)) for key, values in maker.options.items()}
    return maker.make(drawing, options)


def build(
    cases: Sequence[OpCase],
    shapes: Sequence[tuple[int, ...]],
    for_stock: bool = False,
    patterns: Mapping[str, Sequence[int]] | None = None,
) -> Model:
    """Builds a model with all cases side by side.

    Args:
      cases: cases, none of which reads a result of another.
      shapes: shapes of all results of all cases, in order.
      for_stock: whether to replace float16, which stock LiteRT's kernels do not support, with float32.
      patterns: shapes of inputs by name, with -1 for dynamic sizes; all sizes of the results are then dynamic.
    """
    given_patterns = patterns or {}
    b = ModelBuilder()
    remaining = iter(shapes)
    for number, case in enumerate(cases):
        inputs = [
            None
            if given is None
            else add_input(b, f"case{number}_x{i}", given, for_stock, given_patterns)
            for i, given in enumerate(case.inputs)
        ]
        outputs = [
            b.tensor(
                f"case{number}_y{i}",
                _widened(dtype, for_stock),
                shape := next(remaining),
                shape_signature=None if patterns is None else [-1] * len(shape),
            )
            for i, dtype in enumerate(case.results)
        ]
        b.op(case.name, inputs, outputs, **case.options)
        b.output(*outputs)
    return b.build()


def add_input(
    b: ModelBuilder,
    name: str,
    given: Given,
    for_stock: bool = False,
    patterns: Mapping[str, Sequence[int]] = MappingProxyType({}),
) -> Any:
    """Adds an input of a case and returns its tensor; the other arguments are those of `build`."""
    array = given.array
    if given.is_half:
        stored = b.constant(f"{name}_half", array.astype(np.float16))
        return b.op("DEQUANTIZE", [stored], [(name, "float32", array.shape)])
    array = array.astype(_widened(str(array.dtype), for_stock))
    if given.is_constant:
        return b.constant(name, array)
    return b.input(name, array.dtype, array.shape, shape_signature=patterns.get(name))


def _widened(dtype: str, for_stock: bool) -> str:
    return "float32" if for_stock and dtype == "float16" else dtype


_OWN_OPTIONS: Mapping[str, Mapping[str, Sequence[Any]]] = {
    "LEAKY_RELU": {"alpha": (0.25, -0.5, 1.5)},
    "GELU": {"approximate": (False, True)},
}
"""Options of elementwise ops, besides the fused activation."""


def _elementwise_maker(op: LibraryOp) -> Maker:
    """Returns a maker for operands of one shape or broadcast to it, with the options that the op declares."""

    def make(d: Drawing, options: dict[str, Any]) -> OpCase:
        shape = d.sizes(d.size(1, 4), 9)
        inputs = [d.tensor(*shape)]
        for _ in range(op.num_inputs[0] - 1):
            kept = shape[d.size(0, len(shape)) :]
            inputs.append(d.data_or_weights(*(d.choose((n, n, 1)) for n in kept)))
        return d.case(op.name, inputs, options)

    start = "the fused activation must be "
    activations = [text for text in op.constraints if text.startswith(start)]
    listed = activations[0].removeprefix(start).replace(" or ", ", ") if activations else ""
    choices = listed.split(", ") if listed else []
    options = dict(_OWN_OPTIONS.get(op.name, {}))
    if choices:
        options["fused_activation_function"] = choices
    lacks = ("int64",) if op.name in ("ABS", "SQUARED_DIFFERENCE") else ()
    return Maker(make, options, lacks=lacks)


_E = ElementType
_TYPES = {
    _E.FLOAT32: "float32", _E.FLOAT16: "float16", _E.INT32: "int32", _E.INT64: "int64", _E.INT8: "int8",
    _E.UINT8: "uint8", _E.INT16: "int16", _E.BOOL: "bool",
}  # fmt: skip


def _convolution(d: Drawing, options: dict[str, Any]) -> OpCase:
    """Draws a convolution, in some cases with groups of channels.

    With padding, no filter weight is NaN or infinite: padding times it is 0 on the NPU, but NaN in stock LiteRT.
    """
    rows, columns, groups = d.size(1, 5), d.size(1, 4), options.pop("groups")
    channels, results = d.size(1, 19), groups * d.size(1, 40 // groups)
    height, width = _window_sides(d, rows, columns, options)
    depth, is_padded = rows * columns * channels, options["padding"] == "SAME"
    weights = d.weights(results, rows, columns, channels, depth=depth, has_specials=not is_padded)
    inputs = [d.tensor(d.size(1, 2), height, width, channels * groups), weights]
    return d.case("CONV_2D", [*inputs, d.weights(results)], options)


def _depthwise(d: Drawing, options: dict[str, Any]) -> OpCase:
    rows, columns, channels = d.size(1, 5), d.size(1, 4), d.size(1, 40)
    height, width = _window_sides(d, rows, columns, options)
    results = channels * options["depth_multiplier"]
    inputs = [d.tensor(d.size(1, 2), height, width, channels), d.weights(1, rows, columns, results)]
    return d.case("DEPTHWISE_CONV_2D", [*inputs, d.weights(results)], options)


def _transposed_convolution(d: Drawing, options: dict[str, Any]) -> OpCase:
    rows, columns, channels, results = d.size(1, 4), d.size(1, 3), d.size(1, 19), d.size(1, 20)
    batch, height, width = d.size(1, 2), d.size(1, 7), d.size(1, 6)

    def result(size: int, taps: int, stride: int) -> int:
        return size * stride if options["padding"] == "SAME" else (size - 1) * stride + taps

    sides = result(height, rows, options["stride_h"]), result(width, columns, options["stride_w"])
    depth = rows * columns * channels
    inputs = [
        ints(batch, *sides, results),
        d.weights(results, rows, columns, channels, depth=depth),
    ]
    inputs.append(d.tensor(batch, height, width, channels))
    return d.case("TRANSPOSE_CONV", [*inputs, *d.choose(((), (d.weights(results),)))], options)


def _fully_connected(d: Drawing, options: dict[str, Any]) -> OpCase:
    depth, results = d.size(1, 70), d.size(1, 40)
    inputs = [
        d.tensor(*d.sizes(d.size(1, 3), 6), depth),
        d.weights(results, depth, depth=depth),
        d.choose((None, d.weights(results))),
    ]
    return d.case("FULLY_CONNECTED", inputs, options)


def _matrix_product(d: Drawing, options: dict[str, Any]) -> OpCase:
    """Draws matrices with batch dimensions, which are broadcast to each other."""
    batches, (rows, depth, columns) = d.sizes(d.size(0, 2), 3), d.sizes(3, 20)
    lhs = (depth, rows) if options["adj_x"] else (rows, depth)
    rhs = (columns, depth) if options["adj_y"] else (depth, columns)
    repeated = tuple(d.choose((n, 1)) for n in batches)
    inputs = [d.tensor(*batches, *lhs), d.data_or_weights(*repeated, *rhs)]
    return d.case("BATCH_MATMUL", inputs, options)


def _pooling(name: str) -> Callable[[Drawing, dict[str, Any]], OpCase]:
    def make(d: Drawing, options: dict[str, Any]) -> OpCase:
        rows, columns = options["filter_height"], options["filter_width"]
        height, width = _window_sides(d, rows, columns, options)
        return d.case(name, [d.tensor(d.size(1, 2), height, width, d.size(1, 40))], options)

    return make


def _resize(name: str) -> Callable[[Drawing, dict[str, Any]], OpCase]:
    def make(d: Drawing, options: dict[str, Any]) -> OpCase:
        if options["align_corners"] and options["half_pixel_centers"]:
            options["align_corners"] = False  # stock refuses both together
        x = d.tensor(d.size(1, 2), d.size(1, 9), d.size(1, 9), d.size(1, 20))
        return d.case(name, [x, ints(*d.sizes(2, 17))], options)

    return make


def _reduction(name: str) -> Callable[[Drawing, dict[str, Any]], OpCase]:
    def make(d: Drawing, options: dict[str, Any]) -> OpCase:
        rank = d.size(1, 4)
        axes = [axis for axis in range(rank) if d.choose((False, True))] or [d.size(0, rank - 1)]
        if d.choose((False, True)):
            axes[0] -= rank
        return d.case(name, [d.tensor(*d.sizes(rank, 12)), ints(*axes)], options)

    return make


def _of_rows(name: str) -> Callable[[Drawing, dict[str, Any]], OpCase]:
    def make(d: Drawing, options: dict[str, Any]) -> OpCase:
        return d.case(name, [d.tensor(*d.sizes(d.size(1, 4), 40))], options)

    return make


def _extreme(name: str) -> Callable[[Drawing, dict[str, Any]], OpCase]:
    def make(d: Drawing, options: dict[str, Any]) -> OpCase:
        shape = d.sizes(d.size(1, 4), 20)
        axis = Given(np.array(d.size(-len(shape), len(shape) - 1), np.int32), is_constant=True)
        dtype = d.choose(("int32", "int64"))
        options["output_type"] = dtype.upper()
        x = d.tensor(*shape).array
        is_number = x == x  # for NaN, stock's result depends on the CPU's vectors
        return OpCase(
            name, [Given(np.where(is_number, x, 0).astype(x.dtype)), axis], options, [dtype]
        )

    return make


def _strided_slice(d: Drawing, options: dict[str, Any]) -> OpCase:
    shape = d.sizes(d.size(1, 4), 9)
    begin, end, stride = [], [], []
    for size in shape:
        first, last = sorted((d.size(0, size - 1), d.size(0, size - 1)))
        is_backwards = d.choose((False, False, True))
        begin.append(last if is_backwards else first)
        end.append(first - 1 - size if is_backwards else last + 1)
        stride.append(-d.size(1, 3) if is_backwards else d.size(1, 3))
    masks = {key: value & (2 ** len(shape) - 1) for key, value in options.items()}
    shrunk = masks["shrink_axis_mask"]
    for axis in range(len(shape)):
        if shrunk >> axis & 1:
            stride[axis], end[axis] = 1, begin[axis] + 1
            masks["begin_mask"] &= ~(1 << axis)
    inputs = [d.tensor(*shape), ints(*begin), ints(*end), ints(*stride)]
    return d.case("STRIDED_SLICE", inputs, masks)


def _slice(d: Drawing, options: dict[str, Any]) -> OpCase:
    shape = d.sizes(d.size(1, 4), 9)
    begin = [d.size(0, size - 1) for size in shape]
    size = [d.choose((-1, d.size(1, n - b))) for n, b in zip(shape, begin, strict=True)]
    sizes = [n - b if s == -1 else s for n, b, s in zip(shape, begin, size, strict=True)]
    case = d.case("SLICE", [d.tensor(*shape), ints(*begin), ints(*size)], options)
    return replace(case, shapes=[tuple(sizes)])


def _split(d: Drawing, options: dict[str, Any]) -> OpCase:
    parts, shape = d.size(1, 4), list(d.sizes(d.size(1, 4), 7))
    axis = d.size(0, len(shape) - 1)
    shape[axis] *= parts
    chosen = Given(np.array(d.choose((axis, axis - len(shape))), np.int32), is_constant=True)
    return d.case("SPLIT", [chosen, d.tensor(*shape)], {"num_splits": parts}, results=parts)


def _split_by_sizes(d: Drawing, options: dict[str, Any]) -> OpCase:
    parts, shape = d.sizes(d.size(1, 4), 5), list(d.sizes(d.size(1, 4), 7))
    axis = d.size(-len(shape), len(shape) - 1)
    shape[axis] = sum(parts)
    sizes = [-1 if i == options["index_of_unknown_size"] else size for i, size in enumerate(parts)]
    chosen = Given(np.array(axis, np.int32), is_constant=True)
    inputs = [d.tensor(*shape), ints(*sizes), chosen]
    return d.case("SPLIT_V", inputs, {"num_splits": len(parts)}, results=len(parts))


def _tile(d: Drawing, options: dict[str, Any]) -> OpCase:
    shape = d.sizes(d.size(1, 4), 7)
    return d.case("TILE", [d.tensor(*shape), ints(*d.sizes(len(shape), 3))], options)


def _broadcast(d: Drawing, options: dict[str, Any]) -> OpCase:
    shape = d.sizes(d.size(1, 4), 7)
    kept = [d.choose((n, 1)) for n in shape[d.size(0, len(shape) - 1) :]]
    return d.case("BROADCAST_TO", [d.tensor(*kept), ints(*shape)], {"version": 2})


def _pack(d: Drawing, options: dict[str, Any]) -> OpCase:
    shape, count = d.sizes(d.size(0, 3), 7), d.size(1, 4)
    axis = d.size(-len(shape) - 1, len(shape))
    inputs = [d.data_or_weights(*shape) for _ in range(count - 1)]
    return d.case("PACK", [d.tensor(*shape), *inputs], {"axis": axis, "values_count": count})


def _unpack(d: Drawing, options: dict[str, Any]) -> OpCase:
    shape = list(d.sizes(d.size(1, 4), 7))
    axis, num = d.size(-len(shape), len(shape) - 1), d.size(1, 4)
    shape[axis] = num
    return d.case("UNPACK", [d.tensor(*shape)], {"axis": axis, "num": num}, results=num)


def _gather(d: Drawing, options: dict[str, Any]) -> OpCase:
    """Draws indices within the dimension, as an input of a run or as a constant."""
    shape = d.sizes(d.size(1, 4), 7)
    axis, count = d.size(-len(shape), len(shape) - 1), d.sizes(d.size(1, 2), 5)
    numbers = [d.size(0, shape[axis] - 1) for _ in range(prod(count))]
    indices = np.array(numbers, d.choose((np.int32, np.int64))).reshape(count)
    inputs = [d.tensor(*shape), Given(indices, is_constant=d.choose((False, True)))]
    return d.case("GATHER", inputs, {"axis": axis})


def _depth_to_space(d: Drawing, options: dict[str, Any]) -> OpCase:
    shape = (*d.sizes(3, 5), d.size(1, 9) * options["block_size"] ** 2)
    return d.case("DEPTH_TO_SPACE", [d.tensor(*shape)], options)


def _space_to_depth(d: Drawing, options: dict[str, Any]) -> OpCase:
    rows, columns = (n * options["block_size"] for n in d.sizes(2, 4))
    shape = (d.size(1, 2), rows, columns, d.size(1, 9))
    return d.case("SPACE_TO_DEPTH", [d.tensor(*shape)], options)


def _padding(name: str) -> Callable[[Drawing, dict[str, Any]], OpCase]:
    def make(d: Drawing, options: dict[str, Any]) -> OpCase:
        shape = d.sizes(d.size(1, 4), 7)
        most = [size - (options.get("mode") == "REFLECT") for size in shape]
        most = most if name == "MIRROR_PAD" else [3] * len(shape)
        sides = ints(*([d.size(0, n), d.size(0, n)] for n in most))
        value = [Given(d.weights().array, is_constant=True)] if name == "PADV2" else []
        return d.case(name, [d.tensor(*shape), sides, *value], options)

    return make


def _comparison(name: str) -> Callable[[Drawing, dict[str, Any]], OpCase]:
    def make(d: Drawing, options: dict[str, Any]) -> OpCase:
        shape = d.sizes(d.size(1, 4), 9)
        other = [d.choose((n, n, 1)) for n in shape[d.size(0, len(shape)) :]]
        lhs = d.tensor(*shape)
        rhs = d.data_or_weights(*other)
        equal = Given(lhs.array.copy())
        rhs = d.choose((rhs, equal))
        return OpCase(name, [lhs, rhs], options, ["bool"])

    return make


def _select(d: Drawing, options: dict[str, Any]) -> OpCase:
    shape = (*d.sizes(d.size(0, 3), 7), d.size(2, 7))  # with one element, stock uses another rank
    conditions = d.tensor(*(d.choose((n, 1)) for n in shape), dtype="bool")
    return d.case(
        "SELECT_V2", [conditions, d.tensor(*shape), d.data_or_weights(*shape[1:])], options
    )


def _power(d: Drawing, options: dict[str, Any]) -> OpCase:
    """Draws positive bases, because powers of negative numbers may not be real."""
    shape = d.sizes(d.size(1, 4), 9)
    base = d.tensor(*shape)
    return d.case("POW", [Given(np.abs(base.array) + 1), d.data_or_weights(*shape[-1:])], options)


def _concatenation(d: Drawing, options: dict[str, Any]) -> OpCase:
    shape = d.sizes(d.size(1, 4), 7)
    axis = d.size(-len(shape), len(shape) - 1)
    inputs: list[Given] = []
    for _ in range(d.size(1, 4)):
        sizes = list(shape)
        sizes[axis] = d.size(1, 7)
        inputs.append(d.data_or_weights(*sizes) if inputs else d.tensor(*sizes))
    return d.case("CONCATENATION", inputs, {"axis": axis})


def _reshape(d: Drawing, options: dict[str, Any]) -> OpCase:
    shape = d.sizes(d.size(1, 4), 6)
    target = d.choose(([prod(shape)], [*shape, 1], [-1, shape[-1]]))
    return d.case("RESHAPE", [d.tensor(*shape), ints(*target)], {"new_shape": list(target)})


def _squeeze(d: Drawing, options: dict[str, Any]) -> OpCase:
    shape = (1, *d.sizes(d.size(1, 3), 3))
    ones = [axis for axis, size in enumerate(shape) if size == 1]
    return d.case("SQUEEZE", [d.tensor(*shape)], {"squeeze_dims": d.choose((ones, ones[:1]))})


def _expand(d: Drawing, options: dict[str, Any]) -> OpCase:
    shape = d.sizes(d.size(1, 4), 6)
    return d.case("EXPAND_DIMS", [d.tensor(*shape), ints(d.size(-len(shape) - 1, len(shape)))], {})


def _transpose(d: Drawing, options: dict[str, Any]) -> OpCase:
    rank = d.size(1, 5)
    return d.case("TRANSPOSE", [d.tensor(*d.sizes(rank, 9)), ints(*d.order(rank))], options)


def _shape(d: Drawing, options: dict[str, Any]) -> OpCase:
    x = d.tensor(*d.sizes(d.size(1, 4), 9))
    return OpCase("SHAPE", [x], options, [options["out_type"].lower()])


def _cast(d: Drawing, options: dict[str, Any]) -> OpCase:
    x = d.tensor(*d.sizes(d.size(1, 4), 9))
    return OpCase("CAST", [x], {}, [options["out_data_type"].lower()])


def _window_sides(d: Drawing, rows: int, columns: int, options: Options) -> tuple[int, int]:
    """Draws the height and width of an input; without padding, the window fits in it."""
    taps = [
        (size - 1) * options.get(f"dilation_{side}_factor", 1) + 1
        for side, size in (("h", rows), ("w", columns))
    ]
    least = taps if options["padding"] == "VALID" else [1, 1]
    return d.size(least[0], least[0] + 12), d.size(least[1], least[1] + 17)


_WINDOW = {"padding": PADDINGS, **_STRIDES, "fused_activation_function": FUSED}
_ANY_FUSED = {"fused_activation_function": (*FUSED, "TANH", "SIGN_BIT")}
_POOL = {**_WINDOW, **_ANY_FUSED, "filter_height": (1, 2, 3, 5), "filter_width": (1, 2, 4)}
_RESIZE = {"align_corners": (False, True), "half_pixel_centers": (False, True)}
_KEEP = {"keep_dims": (False, True)}
_MASKS = {f"{name}_mask": (0, 0, 5, 10) for name in ("begin", "end", "shrink_axis")}
_ADJOINTS = {"adj_x": (False, True), "adj_y": (False, True)}
_BLOCKS = {"block_size": (2, 3)}
_CASTS = {"out_data_type": ("FLOAT32", "INT32", "INT64", "INT8", "UINT8", "BOOL")}
_BYTES = ("int8", "uint8")  # without scales, stock crashes on them
_COMPARISONS = ("LESS", "LESS_EQUAL", "GREATER", "GREATER_EQUAL")

MAKERS: Mapping[str, Maker] = {
    "CONV_2D": Maker(_convolution, {**_WINDOW, **_DILATIONS, "groups": (1, 1, 1, 2, 3)}, SUM),
    "DEPTHWISE_CONV_2D": Maker(
        _depthwise,
        {**_WINDOW, **_ANY_FUSED, **_DILATIONS, "depth_multiplier": (1, 1, 2, 3)},
        SUM,
    ),
    "TRANSPOSE_CONV": Maker(_transposed_convolution, _WINDOW, SUM),
    "FULLY_CONNECTED": Maker(
        _fully_connected, {"fused_activation_function": FUSED, "keep_num_dims": (False, True)}, SUM
    ),
    "BATCH_MATMUL": Maker(_matrix_product, _ADJOINTS, SUM),
    "AVERAGE_POOL_2D": Maker(_pooling("AVERAGE_POOL_2D"), _POOL),
    "MAX_POOL_2D": Maker(_pooling("MAX_POOL_2D"), _POOL, tolerance=EXACT),
    "RESIZE_BILINEAR": Maker(_resize("RESIZE_BILINEAR"), _RESIZE),
    "RESIZE_NEAREST_NEIGHBOR": Maker(_resize("RESIZE_NEAREST_NEIGHBOR"), _RESIZE, tolerance=EXACT),
    **{name: Maker(_reduction(name), _KEEP, SUM) for name in ("MEAN", "SUM", "REDUCE_PROD")},
    **{name: Maker(_reduction(name), _KEEP, EXACT) for name in ("REDUCE_MAX", "REDUCE_MIN")},
    **{
        name: Maker(_extreme(name), lacks=("int64", "int16"), tolerance=EXACT)
        for name in ("ARG_MAX", "ARG_MIN")
    },
    "SOFTMAX": Maker(_of_rows("SOFTMAX"), {"beta": (1.0, 0.5)}),
    "LOG_SOFTMAX": Maker(_of_rows("LOG_SOFTMAX")),
    "L2_NORMALIZATION": Maker(_of_rows("L2_NORMALIZATION")),
    "STRIDED_SLICE": Maker(_strided_slice, _MASKS, tolerance=EXACT),
    "SLICE": Maker(_slice, tolerance=EXACT),
    "SPLIT": Maker(_split, lacks=("int64", "bool"), tolerance=EXACT),
    "SPLIT_V": Maker(
        _split_by_sizes, {"index_of_unknown_size": (-1, 0)}, lacks=("bool",), tolerance=EXACT
    ),
    "TILE": Maker(_tile, tolerance=EXACT),
    "BROADCAST_TO": Maker(_broadcast, tolerance=EXACT),
    "PACK": Maker(_pack, lacks=("bool",), tolerance=EXACT),
    "UNPACK": Maker(_unpack, lacks=("int64",), tolerance=EXACT),
    "GATHER": Maker(_gather, tolerance=EXACT),
    "DEPTH_TO_SPACE": Maker(_depth_to_space, _BLOCKS, lacks=("int16", "bool"), tolerance=EXACT),
    "SPACE_TO_DEPTH": Maker(_space_to_depth, _BLOCKS, lacks=("int16", "bool"), tolerance=EXACT),
    "MIRROR_PAD": Maker(
        _padding("MIRROR_PAD"), {"mode": ("REFLECT", "SYMMETRIC")}, tolerance=EXACT
    ),
    "PAD": Maker(_padding("PAD"), tolerance=EXACT),
    "PADV2": Maker(_padding("PADV2"), tolerance=EXACT),
    **{
        name: Maker(_comparison(name), tolerance=EXACT, lacks=_BYTES)
        for name in ("EQUAL", "NOT_EQUAL")
    },
    **{
        name: Maker(_comparison(name), tolerance=EXACT, lacks=(*_BYTES, "bool"))
        for name in _COMPARISONS
    },
    "SELECT_V2": Maker(_select, tolerance=EXACT),
    "POW": Maker(_power),
    "CONCATENATION": Maker(_concatenation, tolerance=EXACT),
    "RESHAPE": Maker(_reshape, tolerance=EXACT),
    "SQUEEZE": Maker(_squeeze, tolerance=EXACT),
    "EXPAND_DIMS": Maker(_expand, tolerance=EXACT),
    "TRANSPOSE": Maker(_transpose, tolerance=EXACT),
    "SHAPE": Maker(_shape, {"out_type": ("INT32", "INT64")}, tolerance=EXACT),
    "CAST": Maker(_cast, _CASTS, tolerance=EXACT),
}

"""Random small models for property tests, of ops with and without a choice of layout, in any order."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from math import prod
from typing import Any

import numpy as np
from hypothesis import strategies as st

from litert.model.builder import ModelBuilder
from litert.model.graph import Model, Tensor

_MAX_ELEMENTS = 2000
_SAME = {"padding": "SAME", "stride_w": 1, "stride_h": 1}
_UNARY = ("RELU", "ABS", "TANH", "HARD_SWISH", "NEG")

Draw = Callable[..., Any]


@st.composite
def models(draw: Draw) -> Model:
    """Draws a model of up to twenty ops, whose inputs are mostly images."""
    growing = _Growing(draw)
    for _ in range(draw(st.integers(4, 20))):
        growing.add_op()
    return growing.build()


class _Growing:
    """Builds a model op by op; each op reads existing tensors."""

    def __init__(self, draw: Draw) -> None:
        self.draw = draw
        self.b = ModelBuilder()
        self.count = 0
        sizes = st.sampled_from([1, 2, 2, 3, 4, 4, 5])
        self.pool = [
            self.b.input(f"x{index}", "float32", [draw(sizes) for _ in range(rank)])
            for index, rank in enumerate(draw(st.sampled_from([(4,), (4, 4), (5,), (4, 2)])))
        ]

    def build(self) -> Model:
        unread = [tensor for tensor in self.pool if not tensor.uses]
        more = self.draw(st.lists(st.sampled_from(self.pool), max_size=2))
        self.b.output(*dict.fromkeys([*unread, *more]))
        return self.b.build()

    def add_op(self) -> None:
        make = self.draw(st.sampled_from(_MAKERS))
        # prefers the newest tensor, so that ops form chains
        source = self.draw(st.sampled_from([*self.pool, *self.pool[-1:] * 3]))
        made = make(self, source)
        if made is not None:
            self.pool += made if isinstance(made, tuple) else (made,)

    def op(self, name: str, inputs: Sequence[Any], *shapes: Sequence[int], **options: Any) -> Any:
        if any(prod(shape) > _MAX_ELEMENTS for shape in shapes):
            return None
        outputs = []
        for shape in shapes:
            self.count += 1
            outputs.append((f"t{self.count}", "float32", tuple(shape)))
        return self.b.op(name, inputs, outputs, **options)

    def floats(self, *shape: int) -> Tensor:
        self.count += 1
        values = np.sin(np.arange(prod(shape)) * 1.7 + self.count).astype(np.float32)
        return self.b.constant(f"k{self.count}", values.reshape(shape))

    def ints(self, *values: Any) -> Tensor:
        self.count += 1
        return self.b.constant(f"i{self.count}", np.array(values, np.int32))

    def scalar(self, value: int) -> Tensor:
        self.count += 1
        return self.b.constant(f"i{self.count}", np.array(value, np.int32))

    def axis(self, x: Tensor) -> int:
        chosen: int = self.draw(st.integers(0, len(x.shape) - 1))
        return chosen


def _replaced(shape: Sequence[int], axis: int, size: int) -> tuple[int, ...]:
    return (*shape[:axis], size, *shape[axis + 1 :])


def _conv(g: _Growing, x: Tensor) -> Any:
    if len(x.shape) != 4:
        return None
    n, h, w, c = x.shape
    channels = g.draw(st.integers(1, 5))
    inputs = [x, g.floats(channels, 2, 1, c), g.floats(channels)]
    options = {**_SAME, "dilation_w_factor": 1, "dilation_h_factor": 1}
    return g.op("CONV_2D", inputs, (n, h, w, channels), **options)


def _depthwise(g: _Growing, x: Tensor) -> Any:
    if len(x.shape) != 4:
        return None
    n, h, w, c = x.shape
    inputs = [x, g.floats(1, 2, 2, 2 * c), g.floats(2 * c)]
    options = {**_SAME, "dilation_w_factor": 1, "dilation_h_factor": 1, "depth_multiplier": 2}
    return g.op("DEPTHWISE_CONV_2D", inputs, (n, h, w, 2 * c), **options)


def _pool(g: _Growing, x: Tensor) -> Any:
    if len(x.shape) != 4:
        return None
    return g.op("MAX_POOL_2D", [x], x.shape, filter_width=2, filter_height=2, **_SAME)


def _resize(g: _Growing, x: Tensor) -> Any:
    if len(x.shape) != 4:
        return None
    n, h, _, c = x.shape
    return g.op("RESIZE_NEAREST_NEIGHBOR", [x, g.ints(h + 1, 2)], (n, h + 1, 2, c))


def _unary(g: _Growing, x: Tensor) -> Any:
    return g.op(g.draw(st.sampled_from(_UNARY)), [x], x.shape)


def _add(g: _Growing, x: Tensor) -> Any:
    """Adds an ADD with a tensor of the same shape, or a MUL with a constant that is broadcast."""
    same = [t for t in g.pool if t.shape == x.shape]
    if g.draw(st.booleans()):
        return g.op("ADD", [x, g.draw(st.sampled_from(same))], x.shape)
    if len(x.shape) > 4:
        return g.op("MUL", [x, g.floats(x.shape[-1])], x.shape)
    shape = [size if g.draw(st.booleans()) else 1 for size in x.shape]
    return g.op("MUL", [x, g.floats(*shape[g.axis(x) :])], x.shape)


def _add_vector(g: _Growing, x: Tensor) -> Any:
    """Adds a SUB of a computed tensor of lower rank."""
    fits = [
        t
        for t in g.pool
        if 0 < len(t.shape) < min(len(x.shape), 4) and x.shape[-len(t.shape) :] == t.shape
    ]
    if not fits or len(x.shape) > 4:
        return None
    return g.op("SUB", [x, g.draw(st.sampled_from(fits))], x.shape)


def _concatenate(g: _Growing, x: Tensor) -> Any:
    axis = g.axis(x)
    rest = _replaced(x.shape, axis, 0)
    fits = [t for t in g.pool if len(t.shape) == len(rest) and _replaced(t.shape, axis, 0) == rest]
    other = g.draw(st.sampled_from(fits))
    shape = _replaced(x.shape, axis, x.shape[axis] + other.shape[axis])
    return g.op("CONCATENATION", [x, other], shape, axis=axis - len(shape))


def _split(g: _Growing, x: Tensor) -> Any:
    axis = g.axis(x)
    if x.shape[axis] % 2:
        return None
    half = _replaced(x.shape, axis, x.shape[axis] // 2)
    return g.op("SPLIT", [g.scalar(axis), x], half, half, num_splits=2)


def _slice(g: _Growing, x: Tensor) -> Any:
    begin = [g.draw(st.integers(0, size - 1)) for size in x.shape]
    size = [g.draw(st.integers(1, s - a)) for a, s in zip(begin, x.shape, strict=True)]
    return g.op("SLICE", [x, g.ints(*begin), g.ints(*size)], size)


def _strided_slice(g: _Growing, x: Tensor) -> Any:
    axis = g.axis(x)
    ends = [2 if place == axis else size for place, size in enumerate(x.shape)]
    rank = len(x.shape)
    vectors = [g.ints(*[0] * rank), g.ints(*ends), g.ints(*[1] * rank)]
    shrinks = g.draw(st.booleans()) and rank > 1
    if shrinks:
        shape = (*x.shape[:axis], *x.shape[axis + 1 :])
        return g.op("STRIDED_SLICE", [x, *vectors], shape, shrink_axis_mask=1 << axis)
    shape = _replaced(x.shape, axis, min(2, x.shape[axis]))
    return g.op("STRIDED_SLICE", [x, *vectors], shape, begin_mask=5)


def _pad(g: _Growing, x: Tensor) -> Any:
    pads = [[g.draw(st.integers(0, 1)), g.draw(st.integers(0, 2))] for _ in x.shape]
    shape = [size + sum(pad) for size, pad in zip(x.shape, pads, strict=True)]
    return g.op("PAD", [x, g.ints(*pads)], shape)


def _tile(g: _Growing, x: Tensor) -> Any:
    times = [g.draw(st.integers(1, 2)) for _ in x.shape]
    return g.op("TILE", [x, g.ints(*times)], [a * b for a, b in zip(x.shape, times, strict=True)])


def _reduce(g: _Growing, x: Tensor) -> Any:
    axes = sorted(g.draw(st.sets(st.integers(0, len(x.shape) - 1), min_size=1)))
    if g.draw(st.booleans()):
        shape = [1 if axis in axes else size for axis, size in enumerate(x.shape)]
        return g.op("REDUCE_MAX", [x, g.ints(*axes)], shape, keep_dims=True)
    shape = [size for axis, size in enumerate(x.shape) if axis not in axes]
    return g.op("REDUCE_MAX", [x, g.ints(*axes)], shape) if shape else None


def _transpose(g: _Growing, x: Tensor) -> Any:
    order = g.draw(st.permutations(range(len(x.shape))))
    return g.op("TRANSPOSE", [x, g.ints(*order)], [x.shape[axis] for axis in order])


def _transpose_layout(g: _Growing, x: Tensor) -> Any:
    if len(x.shape) != 4:
        return None
    order = g.draw(st.sampled_from([(0, 3, 1, 2), (0, 2, 3, 1)]))
    return g.op("TRANSPOSE", [x, g.ints(*order)], [x.shape[axis] for axis in order])


def _reshape(g: _Growing, x: Tensor) -> Any:
    """Adds a RESHAPE that joins neighbouring dimensions and inserts dimensions of size 1."""
    shape: list[int] = []
    for size in x.shape:
        if shape and g.draw(st.booleans()):
            shape[-1] *= size
        else:
            shape.append(size)
    while len(shape) < 5 and g.draw(st.booleans()):
        shape.insert(g.draw(st.integers(0, len(shape))), 1)
    return g.op("RESHAPE", [x, g.ints(*shape)], shape, new_shape=tuple(shape))


def _squeeze(g: _Growing, x: Tensor) -> Any:
    ones = [axis for axis, size in enumerate(x.shape) if size == 1]
    if not ones or len(x.shape) < 2:
        return None
    gone = g.draw(st.sampled_from(ones))
    return g.op("SQUEEZE", [x], (*x.shape[:gone], *x.shape[gone + 1 :]), squeeze_dims=(gone,))


def _expand(g: _Growing, x: Tensor) -> Any:
    if len(x.shape) > 4:
        return None
    axis = g.draw(st.integers(0, len(x.shape)))
    return g.op("EXPAND_DIMS", [x, g.scalar(axis)], (*x.shape[:axis], 1, *x.shape[axis:]))


def _pack(g: _Growing, x: Tensor) -> Any:
    if len(x.shape) > 4:
        return None
    axis = g.draw(st.integers(0, len(x.shape)))
    shape = (*x.shape[:axis], 2, *x.shape[axis:])
    return g.op("PACK", [x, x], shape, axis=axis, values_count=2)


def _unpack(g: _Growing, x: Tensor) -> Any:
    axis = g.axis(x)
    if len(x.shape) < 2 or x.shape[axis] > 3:
        return None
    shape = (*x.shape[:axis], *x.shape[axis + 1 :])
    return g.op("UNPACK", [x], *[shape] * x.shape[axis], axis=axis, num=x.shape[axis])


def _gather(g: _Growing, x: Tensor) -> Any:
    axis = g.axis(x)
    if g.draw(st.booleans()) and len(x.shape) > 1:
        shape = (*x.shape[:axis], *x.shape[axis + 1 :])
        return g.op("GATHER", [x, g.scalar(x.shape[axis] - 1)], shape, axis=axis)
    return g.op("GATHER", [x, g.ints(0, x.shape[axis] - 1)], _replaced(x.shape, axis, 2), axis=axis)


def _softmax(g: _Growing, x: Tensor) -> Any:
    return g.op("SOFTMAX", [x], x.shape, beta=1.0) if len(x.shape) <= 4 else None


def _scale_by_shape(g: _Growing, x: Tensor) -> Any:
    """Adds a FILL or a BROADCAST_TO whose target shape is the SHAPE of x."""
    if len(x.shape) > 4:
        return None
    g.count += 1
    sizes = g.b.op("SHAPE", [x], [(f"s{g.count}", "int32", (len(x.shape),))], out_type="INT32")
    if g.draw(st.booleans()):
        part = g.op("FILL", [sizes, g.b.constant(f"v{g.count}", np.float32(0.5))], x.shape)
    else:
        part = g.op("BROADCAST_TO", [g.floats(x.shape[-1]), sizes], x.shape, version=2)
    return None if part is None else g.op("ADD", [x, part], x.shape)


def _transpose_conv(g: _Growing, x: Tensor) -> Any:
    """Adds a TRANSPOSE_CONV whose output shape is constant or computed."""
    if len(x.shape) != 4:
        return None
    n, h, w, c = x.shape
    shape = (n, 2 * h, 2 * w, 3)
    target = g.ints(*shape)
    if g.draw(st.booleans()):
        g.count += 1
        sizes = g.b.op("SHAPE", [x], [(f"s{g.count}", "int32", (4,))], out_type="INT32")
        g.count += 1
        twice = g.b.op("MUL", [sizes, g.ints(1, 2, 2, 0)], [(f"s{g.count}", "int32", (4,))])
        g.count += 1
        target = g.b.op("ADD", [twice, g.ints(0, 0, 0, 3)], [(f"s{g.count}", "int32", (4,))])
    inputs = [target, g.floats(3, 2, 2, c), x]
    return g.op("TRANSPOSE_CONV", inputs, shape, padding="SAME", stride_w=2, stride_h=2)


def _conv_3d(g: _Growing, x: Tensor) -> Any:
    if len(x.shape) != 5:
        return None
    options = {**_SAME, "stride_d": 1}
    options |= dict.fromkeys(("dilation_d_factor", "dilation_w_factor", "dilation_h_factor"), 1)
    inputs = [x, g.floats(2, 1, 2, x.shape[4], 3), g.floats(3)]
    return g.op("CONV_3D", inputs, (*x.shape[:4], 3), **options)


def _depth_to_space(g: _Growing, x: Tensor) -> Any:
    if len(x.shape) != 4 or x.shape[3] % 4:
        return None
    n, h, w, c = x.shape
    return g.op("DEPTH_TO_SPACE", [x], (n, 2 * h, 2 * w, c // 4), block_size=2)


def _space_to_batch(g: _Growing, x: Tensor) -> Any:
    if len(x.shape) != 4:
        return None
    n, h, w, c = x.shape
    inputs = [x, g.ints(1, 2), g.ints([0, 1], [w % 2, 0])]
    return g.op("SPACE_TO_BATCH_ND", inputs, (2 * n, h + 1, (w + w % 2) // 2, c))


def _select(g: _Growing, x: Tensor) -> Any:
    if len(x.shape) > 4:
        return None
    g.count += 1
    above = g.b.op("GREATER", [x, g.floats(1)], [(f"c{g.count}", "bool", x.shape)])
    return g.op("SELECT_V2", [above, x, g.floats(x.shape[-1])], x.shape)


def _reverse(g: _Growing, x: Tensor) -> Any:
    return g.op("REVERSE_V2", [x, g.ints(g.axis(x))], x.shape)


def _cumulate(g: _Growing, x: Tensor) -> Any:
    return g.op("CUMSUM", [x, g.scalar(g.axis(x) - len(x.shape))], x.shape)


def _fully_connected(g: _Growing, x: Tensor) -> Any:
    if len(x.shape) < 2:
        return None
    weights = g.floats(3, x.shape[-1])
    shape = (*x.shape[:-1], 3)
    return g.op("FULLY_CONNECTED", [x, weights, g.floats(3)], shape, keep_num_dims=True)


def _half_filter(g: _Growing, x: Tensor) -> Any:
    """Adds a convolution and a PRELU whose constants are float16 and go through DEQUANTIZE."""
    if len(x.shape) != 4:
        return None
    g.count += 1
    shapes = {"f": (2, 1, 1, x.shape[3]), "s": (1, 1, 2)}
    made = []
    for kind, shape in shapes.items():
        half = np.linspace(-1, 1, prod(shape)).reshape(shape).astype(np.float16)
        stored = g.b.constant(f"{kind}{g.count}_half", half)
        made.append(g.b.op("DEQUANTIZE", [stored], [(f"{kind}{g.count}", "float32", shape)]))
    options = {**_SAME, "dilation_w_factor": 1, "dilation_h_factor": 1}
    y = g.op("CONV_2D", [x, made[0], g.floats(2)], (*x.shape[:3], 2), **options)
    return None if y is None else g.op("PRELU", [y, made[1]], y.shape)


def _computed_slice(g: _Growing, x: Tensor) -> Any:
    """Adds a SLICE whose begin is computed, so that only a run determines it."""
    g.count += 1
    rank = len(x.shape)
    sizes = g.b.op("SHAPE", [x], [(f"s{g.count}", "int32", (rank,))], out_type="INT32")
    g.count += 1
    begin = g.b.op("SUB", [sizes, g.ints(*x.shape)], [(f"b{g.count}", "int32", (rank,))])
    return g.op("SLICE", [x, begin, g.ints(*x.shape)], x.shape)


_MAKERS: Sequence[Callable[[_Growing, Tensor], Any]] = (
    _conv, _conv, _conv, _conv, _conv, _depthwise, _pool, _resize, _unary, _add, _add, _add_vector, _concatenate,
    _split, _slice, _strided_slice, _pad, _tile, _reduce, _transpose, _transpose_layout, _reshape,
    _reshape, _squeeze, _expand, _pack, _unpack, _gather, _softmax, _scale_by_shape,
    _transpose_conv, _conv_3d, _conv_3d, _depth_to_space, _space_to_batch, _select, _reverse, _cumulate,
    _fully_connected, _half_filter, _computed_slice,
)  # fmt: skip

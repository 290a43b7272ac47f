"""Random small models of the ops that built-in transformations match: chains with forks, in float32 and int8.

Each maker reads a tensor of shape `[1, height, width, channels]`, adds one op or a few, and returns another such
tensor. Constants come from a seed and have few digits, so that a failing model is easy to read.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, TypeAlias

import numpy as np
from hypothesis import strategies as st

from litert.core.quantization import Quantization
from litert.model.builder import ModelBuilder
from litert.model.builtin_options import get_builtin_option, option_names
from litert.model.graph import Tensor
from litert.model.reader import read_model
from litert.model.tensor_data import decode_constant
from litert.model.writer import to_bytes

Draw: TypeAlias = Callable[[st.SearchStrategy[Any]], Any]
Array: TypeAlias = np.ndarray[Any, Any]

_ACTIVATIONS = ("NONE", "RELU", "RELU6", "RELU_N1_TO_1")
_SCALE = Quantization(scale=(0.05,), zero_point=(3,))


class RandomModel:
    """Builds a random model, op by op."""

    def __init__(self, draw: Draw) -> None:
        self.draw = draw
        self.b = ModelBuilder()
        self._random = np.random.default_rng(draw(st.integers(0, 1 << 16)))
        self._count = 0

    def input(self, size: Sequence[int]) -> Tensor:
        """Adds the input of the model."""
        self.is_resizable = self.flag()
        shape = (1, *size)
        return self.b.input("x", "float32", shape, shape_signature=self.signature(shape))

    def op(self, name: str, inputs: Sequence[Tensor | None], shape: Any, **options: Any) -> Tensor:
        """Adds an op with one float32 output."""
        is_computed = any(t is not None and not t.is_constant for t in inputs)
        signature = self.signature(shape) if is_computed else None
        out = self.b.tensor(self.name(), "float32", shape, shape_signature=signature)
        made: Tensor = self.b.op(name, inputs, [out], **options)
        return made

    def quantized(
        self,
        name: str,
        inputs: Sequence[Tensor | None],
        shape: Any,
        q: Quantization,
        **options: Any,
    ) -> Tensor:
        """Adds an op with one int8 output."""
        signature = self.signature(shape)
        out = self.b.tensor(self.name(), "int8", shape, quantization=q, shape_signature=signature)
        made: Tensor = self.b.op(name, inputs, [out], **options)
        return made

    def signature(self, shape: Sequence[int]) -> Sequence[int] | None:
        """Returns the shape signature if the batch size is unknown, else None."""
        return (-1, *shape[1:]) if self.is_resizable else None

    def target(self, shape: Sequence[int]) -> Tensor:
        """Adds a shape as a constant."""
        return self.const(np.array(self.signature(shape) or shape))

    def reshape(self, x: Tensor, shape: Sequence[int]) -> Tensor:
        """Adds a RESHAPE."""
        new_shape = self.signature(shape) or shape
        return self.op("RESHAPE", [x, self.target(shape)], shape, new_shape=new_shape)

    def const(self, value: Any, q: Quantization | None = None) -> Tensor:
        """Adds a constant; int64 becomes int32, and float64 becomes float32."""
        data = np.asarray(value)
        if data.dtype == np.float64:
            data = data.astype(np.float32)
        elif data.dtype == np.int64:
            data = data.astype(np.int32)
        return self.b.constant(self.name("c"), data, quantization=q)

    def numbers(self, *shape: int) -> Array:
        """Returns random numbers between -2 and 2, none near 0."""
        sign = self._random.choice([-1.0, 1.0], shape)
        return (sign * self._random.integers(1, 9, shape) / 4).astype(np.float32)

    def weights(self, *shape: int) -> Tensor:
        """Adds weights: a constant, float16 data with DEQUANTIZE, or a sum of constants that is not folded."""
        values = self.numbers(*shape)
        kind = self.draw(st.sampled_from(["plain", "half", "sum"]))
        if kind == "half":
            return self.op("DEQUANTIZE", [self.const(values.astype(np.float16))], shape)
        if kind == "sum":
            return self.op("ADD", [self.const(values), self.const(np.float32(0.125))], shape)
        return self.const(values)

    def activation(self) -> str:
        """Returns a fused activation, most often NONE."""
        name: str = self.draw(st.sampled_from(("NONE", *_ACTIVATIONS)))
        return name

    def flag(self) -> bool:
        return bool(self.draw(st.booleans()))

    def name(self, prefix: str = "t") -> str:
        self._count += 1
        return f"{prefix}{self._count}"


class RandomFile(bytes):
    """The bytes of a model; the representation lists its ops."""

    def __repr__(self) -> str:
        lines = []
        for op in read_model(bytes(self)).subgraphs[0].ops:
            inputs = ", ".join(_text(tensor) for tensor in op.inputs)
            options = {name: get_builtin_option(op, name) for name in option_names(op)}
            lines.append(f"{_text(op.outputs[0])} = {op.name}({inputs}) {options}")
        return "\n".join(["", *lines])


def _text(tensor: Tensor | None) -> str:
    if tensor is None:
        return "-"
    if not tensor.is_constant:
        return f"{tensor.name}{list(tensor.shape)}"
    return str(decode_constant(tensor.element_type, tensor.shape, tensor.data).tolist())


Maker: TypeAlias = Callable[[RandomModel, Tensor], Tensor]


@st.composite
def models(draw: Draw) -> RandomFile:
    """Draws a random model with one input; its outputs are all unread tensors, and up to two others."""
    m = RandomModel(draw)
    size = draw(st.tuples(st.integers(1, 6), st.integers(1, 6), st.integers(1, 3)))
    x = m.input(size)
    pool = [x]
    for maker in draw(st.lists(st.sampled_from(MAKERS), min_size=1, max_size=8)):
        source = pool[-1] if m.flag() else draw(st.sampled_from(pool))
        if maker is quantized_chain:
            source = x  # a tiny change before QUANTIZE could alter the rounding
        made = maker(m, source)
        if made is not source:
            pool.append(made)
    if len(pool) == 1:
        pool.append(m.op("RELU", [x], x.shape))
    unread = [t for op in m.b.graph.ops for t in op.outputs if not t.uses]
    m.b.output(*unread, *draw(st.lists(st.sampled_from(pool), max_size=2)))
    m.b.signature("serving_default")
    return RandomFile(to_bytes(m.b.build()))


def convolution(m: RandomModel, x: Tensor) -> Tensor:
    """Adds CONV_2D or DEPTHWISE_CONV_2D, often with a pad before it and a scale after it."""
    stride, dilation = m.draw(st.sampled_from([(1, 1), (2, 1), (1, 2)]))
    has_pad = m.flag()
    if has_pad:
        amount = m.draw(st.sampled_from([(0, 1), (1, 1), (dilation, dilation)]))
        x = pad(m, x, rows=amount, columns=amount)
    _, height, width, channels = x.shape
    sizes = (height, width)
    taps = [m.draw(st.sampled_from([1, 3, 3])) for _ in sizes]
    windows = [(tap - 1) * dilation + 1 for tap in taps]
    is_valid = (has_pad or m.flag()) and all(
        w <= size for w, size in zip(windows, sizes, strict=True)
    )
    rows_columns = [
        (size - window) // stride + 1 if is_valid else -(-size // stride)
        for size, window in zip(sizes, windows, strict=True)
    ]
    options = {"padding": "VALID" if is_valid else "SAME", "stride_h": stride, "stride_w": stride}
    options |= {"dilation_h_factor": dilation, "dilation_w_factor": dilation}
    if m.flag():
        count = m.draw(st.integers(1, 3))
        kernel, op = m.weights(count, *taps, channels), "CONV_2D"
    else:
        multiplier = m.draw(st.integers(1, 2))
        count = channels * multiplier
        kernel, op = m.weights(1, *taps, count), "DEPTHWISE_CONV_2D"
        options["depth_multiplier"] = multiplier
    has_scale = m.flag()
    options["fused_activation_function"] = "NONE" if has_scale else m.activation()
    y = m.op(op, [x, kernel, m.weights(count)], (1, *rows_columns, count), **options)
    return scale(m, y) if has_scale else y


def scale(m: RandomModel, x: Tensor) -> Tensor:
    """Adds a sum, difference, product or quotient with a constant, in either order."""
    op = m.draw(st.sampled_from(["ADD", "SUB", "MUL", "DIV"]))
    channels = x.shape[-1]
    shape = m.draw(st.sampled_from([(), (1,), (channels,), (1, 1, 1, channels), tuple(x.shape)]))
    value = m.numbers(*shape)
    if m.draw(st.integers(0, 3)) == 0:
        value = np.full(shape, 1.0 if op in ("MUL", "DIV") else 0.0, np.float32)
    operands = [x, m.const(value)]
    if op != "DIV" and m.draw(st.integers(0, 3)) == 0:  # x may contain 0
        operands.reverse()
    return m.op(op, operands, x.shape, fused_activation_function=m.activation())


def pad(m: RandomModel, x: Tensor, rows: Any = None, columns: Any = None) -> Tensor:
    """Adds PAD or PADV2 of rows and columns, seldom of channels."""
    drawn = [m.draw(st.sampled_from(_PADS)) for _ in range(2)]
    amounts = [(0, 0), rows or drawn[0], columns or drawn[1], (0, 0)]
    if m.draw(st.integers(0, 9)) == 0:
        amounts[3] = (0, 1)
    shape = [size + sum(amount) for size, amount in zip(x.shape, amounts, strict=True)]
    inputs = [x, m.const(np.array(amounts, np.int32))]
    if m.flag():
        return m.op("PAD", inputs, shape)
    value = m.draw(st.sampled_from([0.0, 0.0, 1.5]))
    return m.op("PADV2", [*inputs, m.const(np.float32(value))], shape)


_PADS = ((0, 0), (0, 1), (1, 1), (1, 0), (2, 2))


def activation(m: RandomModel, x: Tensor) -> Tensor:
    """Adds an elementwise activation op."""
    op = m.draw(st.sampled_from(["RELU", "RELU6", "RELU_N1_TO_1", "LOGISTIC", "HARD_SWISH"]))
    return m.op(op, [x], x.shape)


def hard_swish(m: RandomModel, x: Tensor) -> Tensor:
    """Adds x * relu6(x + 3) / 6, in one of its spellings."""
    three, six = m.const(np.float32(3)), m.const(np.float32(6))
    if m.flag():
        gate = m.op("ADD", [x, three], x.shape, fused_activation_function="RELU6")
    else:
        gate = m.op("RELU6", [m.op("ADD", [three, x], x.shape)], x.shape)
    sixth = m.const(np.float32(1 / 6))
    order = m.draw(st.integers(0, 3))
    if order == 0:
        return m.op("DIV", [m.op("MUL", [x, gate], x.shape), six], x.shape)
    if order == 1:
        return m.op("MUL", [sixth, m.op("MUL", [gate, x], x.shape)], x.shape)
    if order == 2:
        return m.op("MUL", [m.op("MUL", [gate, sixth], x.shape), x], x.shape)
    return m.op("MUL", [m.op("MUL", [x, sixth], x.shape), gate], x.shape)


def swish(m: RandomModel, x: Tensor) -> Tensor:
    """Adds x * sigmoid(beta * x)."""
    inner = m.op("MUL", [x, m.const(m.numbers())], x.shape) if m.flag() else x
    operands = [x, m.op("LOGISTIC", [inner], x.shape)]
    return m.op("MUL", operands[:: 1 if m.flag() else -1], x.shape)


def prelu(m: RandomModel, x: Tensor) -> Tensor:
    return m.op("PRELU", [x, m.weights(1, 1, x.shape[-1])], x.shape)


def gelu(m: RandomModel, x: Tensor) -> Tensor:
    return m.op("GELU", [x], x.shape, approximate=m.flag())


def fully_connected(m: RandomModel, x: Tensor) -> Tensor:
    """Adds FULLY_CONNECTED of each pixel, with an output of rank 4 or a matrix that is reshaped back."""
    rows = m.draw(st.integers(1, 4))
    inputs = [x, m.weights(rows, x.shape[-1]), m.weights(rows) if m.flag() else None]
    keep = m.flag()
    flat = (int(np.prod(x.shape[:-1])), rows)
    shape = (*x.shape[:-1], rows)
    options = {"keep_num_dims": keep, "fused_activation_function": m.activation()}
    y = m.op("FULLY_CONNECTED", inputs, shape if keep else flat, **options)
    if m.flag():
        y = scale(m, y) if keep else y
    return y if keep else m.reshape(y, shape)


def reshape(m: RandomModel, x: Tensor) -> Tensor:
    """Adds a RESHAPE, often followed by ops that change the shape again without reordering elements."""
    _, height, width, channels = x.shape
    shape = m.draw(
        st.sampled_from(
            [tuple(x.shape), (1, width, height, channels), (1, height * width, channels, 1)]
        )
    )
    y = m.reshape(x, shape)
    if m.flag():
        return y
    if m.is_resizable or m.flag():
        return m.reshape(y, x.shape)
    y = m.op("SQUEEZE", [y], shape[1:], squeeze_dims=[0])
    return m.op("EXPAND_DIMS", [y, m.const(np.array(0, np.int32))], shape)


def transpose(m: RandomModel, x: Tensor) -> Tensor:
    """Adds one or two TRANSPOSE."""
    y = x
    for _ in range(m.draw(st.integers(1, 2))):
        order = (0, *m.draw(st.permutations([1, 2, 3])))
        y = m.op("TRANSPOSE", [y, m.const(np.array(order))], [y.shape[axis] for axis in order])
    return y


def slices(m: RandomModel, x: Tensor) -> Tensor:
    """Adds SLICE or STRIDED_SLICE, often of the whole tensor."""
    start = [0, *(m.draw(st.sampled_from([0, 0, size - 1])) for size in x.shape[1:])]
    shape = [size - at for size, at in zip(x.shape, start, strict=True)]
    if m.flag():
        return m.op("SLICE", [x, m.const(np.array(start)), m.target(shape)], shape)
    strides = np.ones(4, np.int32)
    if not any(start) and m.flag():
        strides[1] = -1  # reverses the rows
    begin, end = np.array(start), np.array(x.shape)
    mask = 3 if strides[1] < 0 else 1  # axes that are taken in full
    inputs = [x, m.const(begin), m.const(end), m.const(strides)]
    return m.op("STRIDED_SLICE", inputs, shape, begin_mask=mask, end_mask=mask)


def join(m: RandomModel, x: Tensor) -> Tensor:
    """Adds CONCATENATION of one or two tensors, or a sum or product of two branches that may be equal."""
    op = m.draw(st.sampled_from(["RELU", "ABS", "LOGISTIC"]))
    other = m.op(op, [x], x.shape)
    kind = m.draw(st.sampled_from(["one", "two", "sum", "twins"]))
    if kind == "one":
        return m.op("CONCATENATION", [x], x.shape, axis=3)
    if kind == "two":
        return m.op("CONCATENATION", [x, other], (*x.shape[:3], 2 * x.shape[3]), axis=3)
    if kind == "twins":
        return m.op("MUL", [other, m.op(op, [x], x.shape)], x.shape)
    return m.op("ADD", [other, x], x.shape, fused_activation_function=m.activation())


def cast(m: RandomModel, x: Tensor) -> Tensor:
    return m.op("CAST", [x], x.shape, in_data_type="FLOAT32", out_data_type="FLOAT32")


def quantized_chain(m: RandomModel, x: Tensor) -> Tensor:
    """Adds QUANTIZE, some int8 ops, and DEQUANTIZE."""
    q = _SCALE
    y = m.quantized("QUANTIZE", [x], x.shape, q)
    for op in m.draw(st.lists(st.sampled_from(_QUANTIZED), max_size=4)):
        out = q if m.flag() else Quantization(scale=(0.04,), zero_point=(-5,))
        if op in ("RELU", "RELU6", "HARD_SWISH"):
            y = m.quantized(op, [y], y.shape, out)
        elif op == "CONV_2D":
            y, out = _quantized_convolution(m, y, q, out), out
        elif op == "ADD":
            other = m.const(np.full(1, 23, np.int8), Quantization(scale=(0.05,), zero_point=(3,)))
            y = m.quantized(op, [y, other], y.shape, out, fused_activation_function=m.activation())
        elif op == "AGAIN":
            y = m.quantized("QUANTIZE", [m.op("DEQUANTIZE", [y], y.shape)], y.shape, out)
        else:
            out = q
            y = _quantized_move(m, op, y, q)
        q = out
    return m.op("DEQUANTIZE", [y], y.shape)


_QUANTIZED = (
    "RELU", "RELU6", "HARD_SWISH", "CONV_2D", "ADD", "AGAIN", "PAD", "RESHAPE", "TRANSPOSE",
)  # fmt: skip


def _quantized_convolution(m: RandomModel, x: Tensor, q: Quantization, out: Quantization) -> Tensor:
    channels = x.shape[-1]
    scales = tuple(0.01 * (i + 1) for i in range(2))
    kernel = (m.numbers(2, 1, 1, channels) * 50).astype(np.int8)
    weights = m.const(kernel, Quantization(scale=scales, zero_point=(0, 0)))
    of_bias = Quantization(scale=tuple(q.scale[0] * s for s in scales), zero_point=(0, 0))
    bias = m.const(np.array([40, -70], np.int32), of_bias)
    options = {"padding": "VALID", "stride_h": 1, "stride_w": 1, "dilation_h_factor": 1}
    options |= {"dilation_w_factor": 1, "fused_activation_function": m.activation()}
    return m.quantized("CONV_2D", [x, weights, bias], (*x.shape[:3], 2), out, version=3, **options)


def _quantized_move(m: RandomModel, op: str, x: Tensor, q: Quantization) -> Tensor:
    if op == "RESHAPE":
        return m.quantized(op, [x, m.target(x.shape)], x.shape, q, new_shape=m.signature(x.shape))
    if op == "TRANSPOSE":
        order = [0, 2, 1, 3]
        return m.quantized(op, [x, m.const(np.array(order))], [x.shape[a] for a in order], q)
    amounts = m.const(np.array([[0, 0], [1, 1], [0, 0], [0, 0]], np.int32))
    return m.quantized(op, [x, amounts], (1, x.shape[1] + 2, *x.shape[2:]), q)


MAKERS: tuple[Maker, ...] = (
    convolution, convolution, scale, pad, activation, hard_swish, swish, prelu, gelu,
    fully_connected, reshape, transpose, slices, join, cast, quantized_chain,
)  # fmt: skip

"""Small models of common ops, and of what is easily forgotten about them."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any

from litert.conformance.plugin_subject import NamedModel
from litert.core.quantization import Quantization
from litert.model.builder import ModelBuilder
from litert.model.graph import Tensor

_SHAPE = (1, 4, 4, 8)
_LARGE = (1, 64, 64, 8)
_UNARY: Mapping[str, Mapping[str, Any]] = {
    "RELU": {}, "LOGISTIC": {}, "TANH": {}, "ABS": {},
    "SOFTMAX": {"beta": 1.0},
}  # fmt: skip
_BINARY = ("ADD", "MUL", "SUB")


def custom_op_models(names: Sequence[str]) -> list[NamedModel]:
    """One model for each custom op, of one float input and output."""
    return [_make(name, partial(_custom, name=name)) for name in names]


def default_models() -> list[NamedModel]:
    """Models of builtin ops."""
    models = [_make(name, partial(_binary, name=name)) for name in _BINARY]
    models.append(_make("MUL of one input", _square))
    models.append(_make("MUL by a constant", _scale))
    models.append(_make("SUB, then MUL", _chain))
    models += [_large(name) for name in _BINARY]
    models += [_make(f"{name} of a row", partial(_broadcast, name=name)) for name in _BINARY]
    models += [_make(f"{name} with RELU", partial(_fused, name=name)) for name in _BINARY]
    models += [_make(name, partial(_unary, name=name)) for name in _UNARY]
    models.append(_make("CONV_2D", _conv))
    models.append(_make("MAX_POOL_2D", _pool))
    models.append(_make("FULLY_CONNECTED", _fully_connected))
    models.append(_quantized_add())
    return models


def _make(name: str, build: Callable[[ModelBuilder, Tensor], Tensor]) -> NamedModel:
    builder = ModelBuilder()
    x = builder.input("x", "float32", _SHAPE)
    builder.output(build(builder, x))
    return NamedModel(name, builder.build())


def _large(name: str) -> NamedModel:
    """Runs of it last long enough to meet in threads."""
    builder = ModelBuilder()
    inputs = [builder.input(tensor, "float32", _LARGE) for tensor in ("x", "z")]
    builder.output(builder.op(name, inputs, [("y", "float32", _LARGE)]))
    return NamedModel(f"{name} of 128 KiB", builder.build())


def _op(
    builder: ModelBuilder, name: str, inputs: Sequence[Tensor], result: str = "y", **options: Any
) -> Tensor:
    made: Tensor = builder.op(name, inputs, [(result, "float32", _SHAPE)], **options)
    return made


def _custom(builder: ModelBuilder, x: Tensor, name: str) -> Tensor:
    made: Tensor = builder.custom(name, [x], [("y", "float32", _SHAPE)])
    return made


def _unary(builder: ModelBuilder, x: Tensor, name: str) -> Tensor:
    return _op(builder, name, [x], **_UNARY[name])


def _binary(builder: ModelBuilder, x: Tensor, name: str) -> Tensor:
    return _op(builder, name, [x, builder.input("z", "float32", _SHAPE)])


def _broadcast(builder: ModelBuilder, x: Tensor, name: str) -> Tensor:
    return _op(builder, name, [x, builder.input("z", "float32", (1, 1, 4, 1))])


def _fused(builder: ModelBuilder, x: Tensor, name: str) -> Tensor:
    z = builder.input("z", "float32", _SHAPE)
    return _op(builder, name, [x, z], fused_activation_function="RELU")


def _square(builder: ModelBuilder, x: Tensor) -> Tensor:
    return _op(builder, "MUL", [x, x])


def _scale(builder: ModelBuilder, x: Tensor) -> Tensor:
    import numpy as np

    values = np.linspace(-2, 3, 128, dtype=np.float32).reshape(_SHAPE)
    return _op(builder, "MUL", [x, builder.constant("c", values)])


def _chain(builder: ModelBuilder, x: Tensor) -> Tensor:
    """The order of inputs matters, and one is read twice."""
    z = builder.input("z", "float32", _SHAPE)
    difference = _op(builder, "SUB", [z, x], "d")
    return _op(builder, "MUL", [difference, x])


def _conv(builder: ModelBuilder, x: Tensor) -> Tensor:
    import numpy as np

    values = np.random.default_rng(0)
    weights = builder.constant("w", values.uniform(-1, 1, (8, 3, 3, 8)).astype(np.float32))
    bias = builder.constant("b", values.uniform(-1, 1, 8).astype(np.float32))
    return _op(builder, "CONV_2D", [x, weights, bias], padding="SAME", stride_w=1, stride_h=1)


def _pool(builder: ModelBuilder, x: Tensor) -> Tensor:
    sizes = {"stride_w": 2, "stride_h": 2, "filter_width": 2, "filter_height": 2}
    outputs = [("y", "float32", (1, 2, 2, 8))]
    made: Tensor = builder.op("MAX_POOL_2D", [x], outputs, padding="VALID", **sizes)
    return made


def _fully_connected(builder: ModelBuilder, x: Tensor) -> Tensor:
    import numpy as np

    values = np.random.default_rng(1)
    weights = builder.constant("w", values.uniform(-0.3, 0.3, (10, 8)).astype(np.float32))
    bias = builder.constant("b", values.uniform(-1, 1, 10).astype(np.float32))
    outputs = [("y", "float32", (1, 4, 4, 10))]
    made: Tensor = builder.op("FULLY_CONNECTED", [x, weights, bias], outputs, keep_num_dims=True)
    return made


def _quantized_add() -> NamedModel:
    builder = ModelBuilder()
    x, z = (
        builder.input(name, "int8", _SHAPE, quantization=Quantization((scale,), (zero,)))
        for name, scale, zero in (("x", 0.05, 3), ("z", 0.04, -7))
    )
    y = builder.tensor("y", "int8", _SHAPE, quantization=Quantization((0.1,), (1,)))
    builder.output(builder.op("ADD", [x, z], [y]))
    return NamedModel("ADD of int8", builder.build())

"""Small models of common ops, and of what is easily forgotten about them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from litert.conformance.plugin_subject import NamedModel
from litert.core.quantization import Quantization
from litert.model.builder import ModelBuilder

_SHAPE = (1, 4, 4, 8)
_LARGE = (1, 64, 64, 8)  # runs of it last long enough to meet in threads
_BINARY = ("ADD", "MUL", "SUB")
_UNARY: Mapping[str, Mapping[str, Any]] = {
    "RELU": {}, "LOGISTIC": {}, "TANH": {}, "ABS": {}, "SOFTMAX": {"beta": 1.0},
}  # fmt: skip
_CONV: Mapping[str, Any] = {"padding": "SAME", "stride_w": 1, "stride_h": 1}
_POOL: Mapping[str, Any] = {
    "padding": "VALID", "stride_w": 2, "stride_h": 2, "filter_width": 2, "filter_height": 2,
}  # fmt: skip


def custom_op_models(names: Sequence[str]) -> list[NamedModel]:
    """One model for each custom op, of one float input and output."""
    models = []
    for name in names:
        builder = ModelBuilder()
        x = builder.input("x", "float32", _SHAPE)
        builder.output(builder.custom(name, [x], [("y", "float32", _SHAPE)]))
        models.append(NamedModel(name, builder.build()))
    return models


def default_models() -> list[NamedModel]:
    """Models of builtin ops."""
    import numpy as np

    z = {"z": _SHAPE}
    scale = np.linspace(-2, 3, 128, dtype=np.float32).reshape(_SHAPE)
    return [
        *(_model(op, op, z) for op in _BINARY),
        _square(),
        _model("MUL by a constant", "MUL", {"c": scale}),
        _chain(),
        *(_model(f"{op} of 128 KiB", op, {"z": _LARGE}, x=_LARGE, y=_LARGE) for op in _BINARY),
        *(_model(f"{op} of a row", op, {"z": (1, 1, 4, 1)}) for op in _BINARY),
        *(_model(f"{op} with RELU", op, z, fused_activation_function="RELU") for op in _BINARY),
        *(_model(op, op, {}, **options) for op, options in _UNARY.items()),
        _model("CONV_2D", "CONV_2D", _weights(0, 1, (8, 3, 3, 8)), **_CONV),
        _model("MAX_POOL_2D", "MAX_POOL_2D", {}, y=(1, 2, 2, 8), **_POOL),
        _model(
            "FULLY_CONNECTED",
            "FULLY_CONNECTED",
            _weights(1, 0.3, (10, 8)),
            y=(1, 4, 4, 10),
            keep_num_dims=True,
        ),
        _quantized_add(),
    ]


def _model(
    name: str,
    op: str,
    others: Mapping[str, Any],
    *,
    x: Sequence[int] = _SHAPE,
    y: Sequence[int] = _SHAPE,
    **options: Any,
) -> NamedModel:
    """One op: its first input and its output have these shapes, `others` are shapes and constants by name."""
    builder = ModelBuilder()
    inputs = [builder.input("x", "float32", x)]
    for other, value in others.items():
        is_input = isinstance(value, tuple)
        inputs.append(
            builder.input(other, "float32", value) if is_input else builder.constant(other, value)
        )
    builder.output(builder.op(op, inputs, [("y", "float32", y)], **options))
    return NamedModel(name, builder.build())


def _weights(seed: int, largest: float, shape: Sequence[int]) -> Mapping[str, Any]:
    """Weights of a shape, and a bias for their first dimension."""
    import numpy as np

    values = np.random.default_rng(seed)
    weights = values.uniform(-largest, largest, shape).astype(np.float32)
    return {"w": weights, "b": values.uniform(-1, 1, shape[0]).astype(np.float32)}


def _square() -> NamedModel:
    builder = ModelBuilder()
    x = builder.input("x", "float32", _SHAPE)
    builder.output(builder.op("MUL", [x, x], [("y", "float32", _SHAPE)]))
    return NamedModel("MUL of one input", builder.build())


def _chain() -> NamedModel:
    """The order of inputs matters, and one is read twice."""
    builder = ModelBuilder()
    x, z = (builder.input(name, "float32", _SHAPE) for name in "xz")
    difference = builder.op("SUB", [z, x], [("d", "float32", _SHAPE)])
    builder.output(builder.op("MUL", [difference, x], [("y", "float32", _SHAPE)]))
    return NamedModel("SUB, then MUL", builder.build())


def _quantized_add() -> NamedModel:
    builder = ModelBuilder()
    x, z = (
        builder.input(name, "int8", _SHAPE, quantization=Quantization((scale,), (zero,)))
        for name, scale, zero in (("x", 0.05, 3), ("z", 0.04, -7))
    )
    y = builder.tensor("y", "int8", _SHAPE, quantization=Quantization((0.1,), (1,)))
    builder.output(builder.op("ADD", [x, z], [y]))
    return NamedModel("ADD of int8", builder.build())

"""Tests that the layout change of a damaged model succeeds or is refused with a message, and never crashes."""

from __future__ import annotations

import random

import pytest

from compiler_plugin.transformations.layout_change.change import change_layout
from litert.core.errors import LiteRtError
from litert.core.quantization import Quantization
from litert.model.blob import Blob
from litert.model.graph import Model
from litert.model.table import Table
from tests.compiler_plugin.transformations.layout_change.test_rules import CASES, sandwich


def damage(model: Model, rng: random.Random) -> None:
    """Damages a random shape, input, constant, options table or quantization."""
    op = rng.choice([op for op in model.ops() if op.inputs])
    index = rng.randrange(len(op.inputs))
    tensor = rng.choice([t for t in (*op.inputs, *op.outputs) if t is not None])
    kind = rng.randrange(8)
    if kind == 0:
        tensor.shape = tuple(rng.choice([0, 1, 2, 7]) for _ in range(rng.randrange(7)))
    elif kind == 1:
        op.set_input(index, None)
    elif kind == 2:
        op.set_input(index, rng.choice(model.subgraphs[0].tensors))
    elif kind == 3:
        op.remove_input(index)
    elif kind == 4 and tensor.is_constant:
        tensor.buffer.blob = Blob(bytes(tensor.data[: rng.randrange(len(tensor.data))]))
    elif kind == 5 and tensor.is_constant:
        tensor.buffer.blob = Blob(rng.randbytes(len(tensor.data)))
    elif kind == 6:
        op.options = rng.choice(
            [
                None,
                Table.make("SqueezeOptions", squeeze_dims=(99,)),
                Table.make("PackOptions", axis=9),
            ]
        )
    else:
        tensor.quantization = Quantization((1.0, 2.0), (0, 0), rng.randrange(9))
        tensor.shape_signature = (-1,) * rng.randrange(6)


@pytest.mark.parametrize("name", CASES)
def test_a_damaged_model_is_changed_or_refused(name: str) -> None:
    rng = random.Random(name)
    for _ in range(40):
        model = sandwich(CASES[name])
        for _ in range(rng.randrange(1, 4)):
            damage(model, rng)
        try:
            change_layout(model, model.subgraphs[0], "NCHW")
        except LiteRtError as error:
            assert error.what

"""Tests that the accessors of the `tflite` package read what the writer wrote."""

from __future__ import annotations

import numpy as np
import tflite

from litert.core.element_type import ElementType
from litert.model.builder import ModelBuilder
from litert.model.writer import to_bytes


def test_the_tflite_package_reads_what_we_write() -> None:
    builder = ModelBuilder()
    x = builder.input("x", ElementType.FLOAT32, (2, 3))
    weights = np.arange(12, dtype=np.float32).reshape(4, 3)
    y = builder.op(
        "FULLY_CONNECTED",
        [x, builder.constant("w", weights), None],
        [("y", "float32", (2, 4))],
        fused_activation_function=tflite.ActivationFunctionType.RELU,
    )
    builder.output(builder.custom("MyOp", [y], [("z", "float32", (2, 4))], options=b"raw"))
    model = tflite.Model.GetRootAs(to_bytes(builder.build()))
    graph = model.Subgraphs(0)
    dense, custom = (graph.Operators(i) for i in range(graph.OperatorsLength()))

    codes = [model.OperatorCodes(op.OpcodeIndex()) for op in (dense, custom)]
    assert codes[0].BuiltinCode() == tflite.BuiltinOperator.FULLY_CONNECTED
    assert codes[1].CustomCode() == b"MyOp"
    assert custom.CustomOptionsAsNumpy().tobytes() == b"raw"

    options = tflite.FullyConnectedOptions()
    options.Init(dense.BuiltinOptions().Bytes, dense.BuiltinOptions().Pos)
    assert options.FusedActivationFunction() == tflite.ActivationFunctionType.RELU
    assert dense.Inputs(2) == -1

    w = graph.Tensors(dense.Inputs(1))
    assert (w.Name(), w.ShapeAsNumpy().tolist()) == (b"w", [4, 3])
    assert model.Buffers(w.Buffer()).DataAsNumpy().tobytes() == weights.tobytes()
    assert [graph.Tensors(graph.Outputs(0)).Name(), graph.OutputsLength()] == [b"z", 1]

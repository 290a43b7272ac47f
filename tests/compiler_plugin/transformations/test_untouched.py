"""Tests that data which no transformation changes stays as it is and is not read."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from compiler_plugin.report import Report
from compiler_plugin.transformations import TransformOptions
from compiler_plugin.transforming import transform_model
from litert.model.blob import Blob
from litert.model.builder import ModelBuilder
from litert.model.graph import Model
from litert.model.reader import read_model
from litert.model.writer import write_model

LARGE = 1 << 20


def with_weights() -> Model:
    """Builds a layer with 4 MiB of weights, followed by a RESHAPE that changes nothing."""
    builder = ModelBuilder()
    x = builder.input("x", "float32", (1, 1024))
    weights = builder.constant("w", np.ones((1024, 1024), np.float32))
    y = builder.op("FULLY_CONNECTED", [x, weights, None], [("y", "float32", (1, 1024))])
    same = builder.constant("shape", np.array([1, 1024], np.int32))
    z = builder.op("RESHAPE", [y, same], [("z", "float32", (1, 1024))], new_shape=[1, 1024])
    builder.output(builder.op("ABS", [z], [("out", "float32", (1, 1024))]))
    return builder.build()


def test_weights_are_not_read_where_other_ops_change(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "in.tflite"
    write_model(with_weights(), path)
    read: list[int] = []
    view = vars(Blob)["view"].fget

    def watch(blob: Blob) -> memoryview:
        read.append(blob.size)
        found: memoryview = view(blob)
        return found

    monkeypatch.setattr(Blob, "view", property(watch))
    report = Report("transform", str(path))
    with read_model(path) as model:
        transform_model(model, TransformOptions(selection=["all"]), report)
        assert [op.name for op in model.ops()] == ["FULLY_CONNECTED", "ABS"]
    assert read and max(read) < LARGE

"""Tests the metrics of NPU calls."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from dispatch.api import Metric
from litert.core.errors import LiteRtError
from litert.core.status import Status
from tests.runtime.conftest import Load
from tests.runtime.npu_models import FLOAT, NpuModelBuilder

X = np.array([1, 2, 3, 4], np.float32)


def two_calls(**settings: int) -> bytes:
    builder = NpuModelBuilder(settings)
    x = builder.input("x", FLOAT, (4,), shape_signature=(4,))
    y = builder.npu("nap", [x], [("y", FLOAT, (4,))])
    builder.output(builder.npu("double", [y], [("z", FLOAT, (4,))]))
    return builder.bytes()


@pytest.mark.parametrize("vendor_measures", [False, True])
def test_each_call_is_measured(load: Load, vendor: Any, vendor_measures: bool) -> None:
    model = load(two_calls(metrics=int(vendor_measures)))
    model.run({"x": X})
    model.start_metrics_collection()
    for _ in range(3):
        model.run({"x": X})
    nap, double = model.stop_metrics_collection().calls
    model.run({"x": X})
    assert (nap.name, double.name) == ("nap", "double")
    assert len(nap.times_s) == len(double.times_s) == 3
    assert min(nap.times_s) >= 0.001  # the duration of its sleep
    expected = [Metric("runs", 3)] if vendor_measures else []
    assert list(nap.vendor) == list(double.vendor) == expected


def test_a_model_without_calls_has_no_metrics(load: Load) -> None:
    from litert.model.builder import ModelBuilder
    from litert.model.writer import to_bytes

    builder = ModelBuilder()
    x = builder.input("x", FLOAT, (4,))
    builder.output(builder.op("ADD", [x, x], [("y", FLOAT, (4,))]))
    model = load(to_bytes(builder.build()))
    model.start_metrics_collection()
    assert model.stop_metrics_collection().calls == []


def test_a_start_without_an_end_is_refused_and_so_is_an_end_without_a_start(load: Load) -> None:
    model = load(two_calls())
    with pytest.raises(LiteRtError) as error:
        model.stop_metrics_collection()
    assert error.value.status is Status.NOT_FOUND
    model.start_metrics_collection()
    with pytest.raises(LiteRtError) as error:
        model.start_metrics_collection()
    assert error.value.status is Status.ALREADY_EXISTS
    model.stop_metrics_collection()


def test_metrics_go_on_where_a_resize_opens_the_call_anew(load: Load) -> None:
    builder = NpuModelBuilder({"max_bytes": 64, "metrics": 1})
    x = builder.input("x", FLOAT, (2,), shape_signature=(-1,))
    found = builder.tensor("found", FLOAT, (1,), shape_signature=(-1,))
    builder.npu("positive", [x], [found, ("shape", "int32", (1,))], shape_outputs={0: 1})
    builder.output(found)
    model = load(builder.bytes())
    model.start_metrics_collection()
    model.run({"x": X[:2]})
    model.run({"x": X})
    (call,) = model.stop_metrics_collection().calls
    assert len(call.times_s) == 2
    assert list(call.vendor) == [Metric("runs", 1), Metric("runs", 1)]

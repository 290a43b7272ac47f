"""Metrics as a dispatch library hands them over."""

from __future__ import annotations

from typing import Any

from dispatch.api import Metric
from dispatch.native.answers import check_answer, decode, read_any
from litert.abi.definitions import ffi
from litert.core.errors import LiteRtError
from litert.core.status import Status

_MOST = 1 << 16  # metrics of one collection


def read_metrics(functions: Any, metrics: Any) -> list[Metric]:
    """What a collection has; the object is destroyed.

    Args:
      functions: cffi's `LiteRtDispatchInterface*`.
      metrics: cffi's `LiteRtDispatchMetrics`.

    Raises:
      LiteRtError: the library's, or that it returned nonsense.
    """
    try:
        number = ffi.new("int*")
        check_answer(functions.get_num_metrics(metrics, number))
        if not 0 <= number[0] <= _MOST:
            raise LiteRtError(Status.RUNTIME_FAILURE, f"it has {number[0]} metrics")
        return [_read(functions, metrics, index) for index in range(number[0])]
    finally:
        check_answer(functions.destroy_metrics(metrics))


def _read(functions: Any, metrics: Any, index: int) -> Metric:
    found = ffi.new("LiteRtMetric*")
    check_answer(functions.get_metric(metrics, index, found))
    name = decode(found.name, f"the name of metric {index}")
    return Metric(name, read_any(found.value, f"metric '{name}'"))

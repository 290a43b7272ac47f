"""The functions of `LiteRtDispatchInterface` for metrics, over a table in Python."""

from __future__ import annotations

from typing import Any

from dispatch.api import Metric
from dispatch.native.exported.functions import Functions
from dispatch.native.exported.host import need
from dispatch.native.exported.objects import ExportedCall, ExportedMetrics
from litert.abi.definitions import ffi
from litert.core.errors import LiteRtError
from litert.core.status import Status

_BOOL, _INT, _REAL, _STRING = 1, 2, 3, 8  # LiteRtAnyType


class MetricsFunctions:
    """What a host measures with; all of it or none is in a table."""

    def __init__(self, functions: Functions) -> None:
        self._handles = functions.handles
        self._vendor = functions.vendor

    def start_metrics_collection(self, handle: int, detail_level: int) -> None:
        call = self._handles.get(handle, ExportedCall)
        self._vendor.call("start_metrics_collection", call.context, detail_level)
        call.is_measured = True

    def stop_metrics_collection(self, handle: int, out: Any) -> None:
        call = self._handles.get(handle, ExportedCall)
        need(out)
        if not call.is_measured:
            raise LiteRtError(
                Status.RUNTIME_FAILURE,
                "metrics are stopped that were not started",
                f"function '{call.function_name}'",
            )
        call.is_measured = False
        measured = self._vendor.call("stop_metrics_collection", call.context)
        out[0] = self._handles.put(ExportedMetrics(list(measured)))

    def get_num_metrics(self, handle: int, out: Any) -> None:
        need(out)[0] = len(self._handles.get(handle, ExportedMetrics).values)

    def get_metric(self, handle: int, index: int, out: Any) -> None:
        metrics = self._handles.get(handle, ExportedMetrics)
        need(out)
        if not 0 <= index < len(metrics.values):
            raise LiteRtError(
                Status.INDEX_OOB, f"metric {index}, where there are {len(metrics.values)}"
            )
        _write(metrics.values[index], out, metrics.texts)

    def destroy_metrics(self, handle: int) -> None:
        self._handles.get(handle, ExportedMetrics)
        self._handles.drop(handle)


def _write(metric: Metric, out: Any, texts: list[object]) -> None:
    def keep(text: str) -> Any:
        kept = ffi.new("char[]", text.encode())
        texts.append(kept)
        return kept

    out.name = keep(metric.name)
    value = metric.value
    if isinstance(value, bool):
        out.value.type, out.value.bool_value = _BOOL, value
    elif isinstance(value, int):
        out.value.type, out.value.int_value = _INT, value
    elif isinstance(value, float):
        out.value.type, out.value.real_value = _REAL, value
    else:
        out.value.type, out.value.str_value = _STRING, keep(value)

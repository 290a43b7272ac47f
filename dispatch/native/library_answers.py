"""What a dispatch library's functions answer: a status, text, values, metrics."""

from __future__ import annotations

from typing import Any

from dispatch.api import Metric
from litert.abi.definitions import ffi
from litert.abi.status_codes import check
from litert.core.errors import LiteRtError
from litert.core.status import Status

_MOST = 4096  # bytes of a text
_MOST_METRICS = 1 << 16  # of one collection
_NONE, _BOOL, _INT, _REAL, _STRING, _POINTER = 0, 1, 2, 3, 8, 9  # LiteRtAnyType


def check_answer(status: int) -> None:
    """Raises what a library's function has returned, unless it is Ok; the host adds whose and which it is."""
    check(status, "the library's function failed")


def answer(c_type: str, function: Any, *arguments: Any) -> Any:
    """What a library's function writes behind its other arguments, a value of a C type."""
    made = ffi.new(f"{c_type}*")
    check_answer(function(*arguments, made))
    return made[0]


def decode(text: Any, what: str) -> str:
    """A C string.

    Raises:
      LiteRtError: RUNTIME_FAILURE for NULL, with `what` it should be.
    """
    if not text:
        raise LiteRtError(Status.RUNTIME_FAILURE, f"{what} is NULL")
    found: bytes = ffi.string(text, _MOST)
    return found.decode(errors="replace")


def read_any(value: Any, what: str) -> bool | int | float | str:
    """A `LiteRtAny`; a pointer as its address.

    Raises:
      LiteRtError: RUNTIME_FAILURE, for one that holds nothing, with `what` it should be.
    """
    kind = int(value.type)
    if kind == _BOOL:
        return bool(value.bool_value)
    if kind == _INT:
        return int(value.int_value)
    if kind == _REAL:
        return float(value.real_value)
    if kind == _STRING:
        return decode(value.str_value, what)
    if kind == _POINTER:
        return int(ffi.cast("uintptr_t", value.ptr_value))
    raise LiteRtError(Status.RUNTIME_FAILURE, f"{what} is of type {kind}")


def read_metrics(functions: Any, metrics: Any) -> list[Metric]:
    """What a collection has; the object is destroyed.

    Args:
      functions: cffi's `LiteRtDispatchInterface*`.
      metrics: cffi's `LiteRtDispatchMetrics`.

    Raises:
      LiteRtError: the library's, or that it returned nonsense.
    """
    try:
        number = answer("int", functions.get_num_metrics, metrics)
        if not 0 <= number <= _MOST_METRICS:
            raise LiteRtError(Status.RUNTIME_FAILURE, f"it has {number} metrics")
        return [_read(functions, metrics, index) for index in range(number)]
    finally:
        check_answer(functions.destroy_metrics(metrics))


def _read(functions: Any, metrics: Any, index: int) -> Metric:
    found = answer("LiteRtMetric", functions.get_metric, metrics, index)
    name = decode(found.name, f"the name of metric {index}")
    return Metric(name, read_any(found.value, f"metric '{name}'"))

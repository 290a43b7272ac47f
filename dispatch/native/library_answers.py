"""Reads the results of a dispatch library's functions: statuses, strings, values and metrics."""

from __future__ import annotations

from typing import Any

from dispatch.api import Metric
from litert.abi.definitions import ffi
from litert.abi.handles import address_of
from litert.abi.status_codes import check
from litert.core.errors import VENDOR_REPAIRS, LiteRtError
from litert.core.status import Status

_MOST = 4096  # bytes of a text
_MOST_METRICS = 1 << 16  # of one collection
_FIELDS = {1: "bool_value", 2: "int_value", 3: "real_value", 8: "str_value", 9: "ptr_value"}
"""For each `LiteRtAnyType`, the field of a `LiteRtAny` that contains the value."""


def check_answer(status: int) -> None:
    """Raises an error if a function's status is not Ok; the host adds the names of the library and function."""
    check(
        status,
        "the library's function failed with this status; only the library's own log, if any, gives the reason",
    )


def answer(c_type: str, function: Any, *arguments: Any) -> Any:
    """Calls a function of the library, and returns the value that it stores through its last argument."""
    made = ffi.new(f"{c_type}*")
    check_answer(function(*arguments, made))
    return made[0]


def decode(text: Any, what: str) -> str:
    """Converts a C string to a str; for NULL, raises an error in which the string is called `what`."""
    if not text:
        raise LiteRtError(Status.RUNTIME_FAILURE, f"{what} is NULL", hint=VENDOR_REPAIRS)
    found: bytes = ffi.string(text, _MOST)
    return found.decode(errors="replace")


def read_metrics(functions: Any, metrics: Any) -> list[Metric]:
    """Reads the metrics from a `LiteRtDispatchMetrics`, and destroys the `LiteRtDispatchMetrics`."""
    try:
        number = answer("int", functions.get_num_metrics, metrics)
        if not 0 <= number <= _MOST_METRICS:
            what = f"the library reports {number} metrics, but the number must be from 0 to {_MOST_METRICS}"
            raise LiteRtError(Status.RUNTIME_FAILURE, what, hint=VENDOR_REPAIRS)
        return [_read(functions, metrics, index) for index in range(number)]
    finally:
        check_answer(functions.destroy_metrics(metrics))


def _read(functions: Any, metrics: Any, index: int) -> Metric:
    found = answer("LiteRtMetric", functions.get_metric, metrics, index)
    name = decode(found.name, f"the name of metric {index}")
    field = _FIELDS.get(found.value.type)
    if field is None:
        what = f"the value of metric '{name}' has type {found.value.type}, which is not a type of metrics"
        raise LiteRtError(Status.RUNTIME_FAILURE, what, hint=VENDOR_REPAIRS)
    value = getattr(found.value, field)
    if field == "str_value":
        value = decode(value, f"metric '{name}'")
    if field == "ptr_value":
        value = address_of(value)
    return Metric(name, value)

"""Checks the metrics that a vendor returns."""

from __future__ import annotations

from collections.abc import Sequence

from dispatch.api import Metric
from dispatch.vendor import Vendor


def check_metrics(vendor: Vendor, metrics: object, of_call: str) -> Sequence[Metric]:
    """Checks that the result of `stop_metrics_collection` is a sequence of `Metric`, and returns it."""
    if not isinstance(metrics, Sequence) or not all(map(_is_metric, metrics)):
        raise vendor.nonsense(
            f"stop_metrics_collection{of_call}",
            f"the vendor returned {metrics!r:.80}, not a sequence of Metric",
            "The function must return a list of Metric(name, value).",
        )
    return metrics


def _is_metric(value: object) -> bool:
    return (
        isinstance(value, Metric)
        and isinstance(value.name, str)
        and isinstance(value.value, (bool, int, float, str))
    )

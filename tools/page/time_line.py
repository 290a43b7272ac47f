"""Makes the time line of an HTML page from recorded spans of time."""

from __future__ import annotations

from collections.abc import Sequence

from litert.core.counts import count_text
from litert.core.tracing import Span, SpanKind

from ..console import name_text
from .page import ShownSpan

_MOST = 4000
"""Greatest number of spans that a page draws."""
_QUEUES = "NPU"
"""Name of the one track on which all queues are shown; each call has its own queue."""


def show_spans(spans: Sequence[Span]) -> tuple[list[ShownSpan], str]:
    """Returns spans with times relative to the first span, and a sentence if the shortest spans are omitted."""
    queues = {span.track for span in spans if span.kind is SpanKind.TASK}
    kept = sorted(spans, key=lambda span: -span.duration_ns)[:_MOST]
    begin = min((span.start_ns for span in kept), default=0)
    shown = [
        ShownSpan(
            span.kind.value,
            name_text(span.name),
            (span.start_ns - begin) / 1e9,
            span.duration_ns / 1e9,
            _QUEUES if span.track in queues else name_text(span.track),
            {name: name_text(v) if isinstance(v, str) else v for name, v in span.details.items()},
        )
        for span in sorted(kept, key=lambda span: span.start_ns)
    ]
    left = len(spans) - len(kept)
    return shown, f"The {count_text(left, 'shortest span')} are not shown." if left else ""

"""Tests how the time of an NPU call is split: the parts do not overlap, and their sum is the whole call."""

from __future__ import annotations

import random
from collections.abc import Mapping

import pytest

from litert.core.tracing import Span, SpanKind
from litert.runtime.call_parts import call_parts
from litert.runtime.op_timer import OpRun

RUN = OpRun((0, 0), 1000, 2000, (), ())


def span(kind: SpanKind, name: str, begin: int, end: int, **details: str | int) -> Span:
    return Span(kind, name, begin, end - begin, "track", details)


def split(*spans: Span, run: OpRun = RUN) -> Mapping[tuple[str, str], int]:
    ordered = sorted(spans, key=lambda one: (one.start_ns, -one.duration_ns))
    return {
        (part.kind.value, part.name): part.duration_ns for part in call_parts(run, "f", ordered)
    }


INVOKE = span(SpanKind.CALL, "f", 1100, 1900)


def test_the_device_s_time_is_not_the_host_s() -> None:
    found = split(
        INVOKE,
        span(SpanKind.HOST, "enqueue", 1200, 1500, call="f"),
        span(SpanKind.WAIT, "queue", 1500, 1800, call="f"),
        span(SpanKind.TASK, "a", 1400, 1600, call="f", task=0),
    )
    assert found == {
        ("task", "a"): 200,
        ("host", "enqueue"): 200,
        ("wait", "queue"): 200,
        ("invoke", "invoke"): 200,
        ("host", "runtime"): 200,
    }


def test_a_wait_within_the_host_s_work_is_a_wait() -> None:
    found = split(
        INVOKE, span(SpanKind.HOST, "work", 1200, 1800), span(SpanKind.WAIT, "lock", 1300, 1400)
    )
    assert found["wait", "lock"] == 100 and found["host", "work"] == 500


def test_copies_around_invoke_are_transfers_and_not_the_runtime_s() -> None:
    found = split(INVOKE, span(SpanKind.TRANSFER, "inputs", 1010, 1090, call="f"))
    assert found == {
        ("transfer", "inputs"): 80,
        ("invoke", "invoke"): 800,
        ("host", "runtime"): 120,
    }


@pytest.mark.parametrize(
    "other",
    [
        span(SpanKind.TASK, "other", 1300, 1400, call="g"),  # belongs to another call
        span(SpanKind.TASK, "other", 2100, 2200, call="f"),  # belongs to a later run
        span(SpanKind.CPU_OP, "other", 1300, 1400),
    ],
)
def test_what_is_not_of_the_call_is_not_in_it(other: Span) -> None:
    assert split(INVOKE, other) == {("invoke", "invoke"): 800, ("host", "runtime"): 200}


def test_any_spans_add_up_to_the_call() -> None:
    kinds = [SpanKind.TASK, SpanKind.TRANSFER, SpanKind.WAIT, SpanKind.HOST]
    for seed in range(200):
        made = random.Random(seed)
        spans = [INVOKE]
        for number in range(made.randrange(12)):
            begin = made.randrange(1000, 2000)
            kind = made.choice(kinds)
            spans.append(span(kind, f"{number}", begin, begin + made.randrange(400), call="f"))
        found = split(*spans)
        assert sum(found.values()) == 1000 and min(found.values()) >= 0, seed

"""Tests that spans are recorded only while a recording is active."""

from __future__ import annotations

import threading
from collections.abc import Callable

import pytest

from litert.core import tracing
from litert.core.tracing import Span, SpanKind


def test_spans_nest_in_time_and_keep_their_details() -> None:
    with (
        tracing.record() as recording,
        tracing.span(SpanKind.STEP, "outer"),
        tracing.span(SpanKind.PASS, "inner", num_ops=3),
    ):
        pass
    outer, inner = recording.spans
    assert (inner.name, inner.kind, inner.details) == ("inner", SpanKind.PASS, {"num_ops": 3})
    assert outer.start_ns <= inner.start_ns
    assert inner.start_ns + inner.duration_ns <= outer.start_ns + outer.duration_ns
    assert inner.track == outer.track == threading.current_thread().name


def test_a_span_that_raises_is_recorded() -> None:
    with (
        tracing.record() as recording,
        pytest.raises(ValueError, match="no"),
        tracing.span(SpanKind.STEP, "bad"),
    ):
        raise ValueError("no")
    assert [one.name for one in recording.spans] == ["bad"]


def test_overlapping_recordings_have_what_happened_in_each() -> None:
    measured = Span(SpanKind.TASK, "kernel", 1, 2, "queue")
    with tracing.record() as first:
        with tracing.record() as second:
            tracing.add(measured)
        tracing.add(measured)
    tracing.add(measured)
    assert (len(first.spans), len(second.spans)) == (2, 1)
    assert not tracing.is_recording()


def test_other_threads_have_tracks_of_their_own() -> None:
    def work() -> None:
        with tracing.span(SpanKind.RUN, "there"):
            pass

    with tracing.record() as recording:
        thread = threading.Thread(target=work, name="helper")
        thread.start()
        thread.join()
    assert [one.track for one in recording.spans] == ["helper"]


def test_a_recording_of_one_thread_has_no_others() -> None:
    with tracing.record(own_thread=True) as own, tracing.record() as both:
        thread = threading.Thread(target=tracing.add, args=[Span(SpanKind.RUN, "other", 1, 1, "t")])
        thread.start()
        thread.join()
        with tracing.span(SpanKind.RUN, "own"):
            pass
    assert [one.name for one in own.spans] == ["own"]
    assert sorted(one.name for one in both.spans) == ["other", "own"]


def test_a_pause_records_nothing() -> None:
    @tracing.measured(SpanKind.STEP, "work")
    def work(number: int) -> int:
        return number

    with tracing.record() as recording:
        assert work(1) == 1
        with tracing.paused():
            assert not tracing.is_recording()
            work(2)
        work(3)
    assert [one.name for one in recording.spans] == ["work", "work"]


def in_thread(work: Callable[[], None]) -> None:
    thread = threading.Thread(target=work)
    thread.start()
    thread.join()


def test_a_recording_of_one_thread_is_none_to_others() -> None:
    answers = []
    with tracing.record(own_thread=True):
        in_thread(lambda: answers.append(tracing.is_recording()))
        answers.append(tracing.is_recording())
    assert answers == [False, True]


def test_a_pause_leaves_other_threads_recordings_alone() -> None:
    def pause() -> None:
        with tracing.record(own_thread=True) as own:
            with tracing.paused(), tracing.span(SpanKind.RUN, "paused"):
                release.set()
                done.wait(10)
            with tracing.span(SpanKind.RUN, "after"):
                pass
        names.extend(one.name for one in own.spans)

    names: list[str] = []
    release, done = threading.Event(), threading.Event()
    thread = threading.Thread(target=pause)
    with tracing.record(own_thread=True) as here:
        thread.start()
        release.wait(10)
        with tracing.span(SpanKind.RUN, "here"):
            pass
        done.set()
        thread.join()
    assert [one.name for one in here.spans] == ["here"] and names == ["after"]
    assert not tracing.RECORDINGS


def test_a_recording_that_ends_while_another_thread_pauses_it_has_ended() -> None:
    def pause() -> None:
        with tracing.paused():
            release.set()
            done.wait(10)

    release, done = threading.Event(), threading.Event()
    thread = threading.Thread(target=pause)
    with tracing.record():
        thread.start()
        release.wait(10)
    done.set()
    thread.join()
    assert not tracing.RECORDINGS


def test_what_takes_time_to_find_out_is_found_out_once_and_when_it_is_read() -> None:
    asked = []

    def find() -> list[Span]:
        asked.append("asked")
        return [
            Span(SpanKind.TASK, "late", 3, 1, "queue"),
            Span(SpanKind.TASK, "early", 1, 1, "queue"),
        ]

    with tracing.record() as first, tracing.record() as second:
        tracing.add(Span(SpanKind.TASK, "middle", 2, 1, "queue"))
        tracing.add_later(find)
    assert asked == []
    for recording in (first, second, first):
        assert [one.name for one in recording.spans] == ["early", "middle", "late"]
    assert asked == ["asked"]

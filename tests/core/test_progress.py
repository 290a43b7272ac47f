"""Tests that work reports its progress to the listener."""

from __future__ import annotations

import threading
from collections.abc import Iterator

import pytest

from litert.core.errors import LiteRtError
from litert.core.interrupts import on_interrupt
from litert.core.progress import counted, counting, is_heard, listening, tell, told
from litert.core.status import Status

Heard = list[tuple[str, int, int]]


@pytest.fixture
def heard() -> Iterator[Heard]:
    steps: Heard = []
    with listening(lambda *now: steps.append(now)):
        yield steps


def test_each_item_of_a_step_is_told_when_it_is_done(heard: Heard) -> None:
    assert [*told("build", "ab")] == ["a", "b"]
    assert heard == [("build", 0, 2), ("build", 1, 2), ("build", 2, 2)]


def test_parts_of_a_step_that_is_counted_are_not_heard(heard: Heard) -> None:
    for _ in told("tune", "ab"):
        assert not is_heard()
        tell("lower", 1, 10)
        list(told("build", "xyz"))
    tell("write", 1, 1)
    assert [step for step, *_ in heard] == ["tune", "tune", "tune", "write"]


def test_a_step_that_ends_early_hides_nothing_behind_it(heard: Heard) -> None:
    for _ in told("first", "ab"):
        break
    tell("second", 1, 1)
    with pytest.raises(ValueError):
        for _ in counted("third", iter("ab"), 0):
            raise ValueError
    tell("fourth", 1, 1)
    with pytest.raises(ValueError), counting("fifth", 3):
        raise ValueError
    tell("sixth", 1, 1)
    steps = ["first", "second", "third", "fourth", "fifth", "sixth"]
    assert [step for step, *_ in heard] == steps


def test_nobody_hears_without_a_listener_nor_from_another_thread(heard: Heard) -> None:
    def work() -> None:
        assert not is_heard()
        assert [*told("build", "ab")] == ["a", "b"]

    thread = threading.Thread(target=work)
    thread.start()
    thread.join()
    with listening(None):
        work()
    assert not heard and is_heard()


def test_an_interrupt_collects_what_is_kept_from_the_inside_out() -> None:
    with (
        pytest.raises(KeyboardInterrupt) as interrupt,
        on_interrupt(lambda: "out is as it was"),
        on_interrupt(lambda: ""),
        on_interrupt(lambda: "2 of 3 are kept"),
    ):
        raise KeyboardInterrupt
    assert interrupt.value.args == ("2 of 3 are kept", "out is as it was")


def test_an_error_that_stands_for_an_interrupt_says_what_is_kept_too() -> None:
    with pytest.raises(LiteRtError) as error, on_interrupt(lambda: "out is as it was"):
        raise LiteRtError(Status.CANCELLED, "interrupted", "a.py:6", "Before it ran: b.")
    assert error.value.hint == "Before it ran: b. out is as it was."
    with pytest.raises(LiteRtError) as other, on_interrupt(lambda: "out is as it was"):
        raise LiteRtError(Status.NOT_FOUND, "no such file", "a.py")
    assert not other.value.hint

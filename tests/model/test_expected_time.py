"""Tests that expected times of NPU calls are stored in compiled files and passed between processes."""

from __future__ import annotations

import json

import pytest

from litert.core.errors import LiteRtError
from litert.core.status import Status
from litert.model.blob import Blob
from litert.model.expected_time import (
    EXPECTED_TIMES_KEY,
    ExpectedCall,
    ExpectedTime,
    find_time_mistake,
    pack_time,
    read_expected_times,
    set_expected_times,
    unpack_time,
)
from litert.model.graph import Model

TIME = ExpectedTime(900_000, 50_000, 50_000, 2_000_000, num_unknown=1)


def test_a_file_keeps_what_is_expected_of_its_calls() -> None:
    model = Model()
    calls = [ExpectedCall("Partition_0", 0, TIME), ExpectedCall("Partition_0", 1, TIME)]
    set_expected_times(model, calls)
    assert read_expected_times(model) == calls


def test_a_file_without_any_has_none() -> None:
    model = Model()
    set_expected_times(model, [])
    assert not model.metadata and read_expected_times(model) == ()


@pytest.mark.parametrize("time", [TIME, None])
def test_an_expected_time_goes_to_another_process(time: ExpectedTime | None) -> None:
    assert unpack_time(json.loads(json.dumps(pack_time(time)))) == time


@pytest.mark.parametrize(
    "time",
    [ExpectedTime(-1, 0, 0, 0), ExpectedTime(0, 0, "far", 0), 12],  # type: ignore[arg-type]
)
def test_a_vendor_that_expects_nonsense_is_told(time: object) -> None:
    assert find_time_mistake(time)
    assert not find_time_mistake(TIME) and not find_time_mistake(None)


@pytest.mark.parametrize(
    ("text", "status"),
    [
        ('{"version": 2, "calls": []}', Status.WRONG_VERSION),
        ('{"version": 1}', Status.INVALID_FLATBUFFER),
        ('{"version": 1, "calls": [{"call": "f", "module": 0}]}', Status.INVALID_FLATBUFFER),
        ("[", Status.INVALID_FLATBUFFER),
    ],
)
def test_a_damaged_entry_is_refused(text: str, status: Status) -> None:
    model = Model()
    model.set_metadata(EXPECTED_TIMES_KEY, Blob(text.encode()))
    with pytest.raises(LiteRtError) as error:
        read_expected_times(model, "model.tflite")
    assert error.value.status is status and "model.tflite" in error.value.where


def test_times_are_told_in_words() -> None:
    assert str(TIME) == (
        "1.000 ms, with 0.050 ms of transfers; 2.000 ms on the CPU; neither time includes 1 op of unknown time"
    )
    both = ExpectedTime.sum([TIME, TIME])
    assert both.npu_ns == 2 * TIME.npu_ns and both.num_unknown == 2

"""Tests that memory plans of NPU calls are stored in compiled files and passed between processes."""

from __future__ import annotations

import json

import pytest

from litert.core.errors import LiteRtError
from litert.core.status import Status
from litert.model.blob import Blob
from litert.model.graph import Model
from litert.model.memory_plan import (
    MEMORY_KEY,
    CallMemory,
    MemoryPlan,
    MemorySpaceUse,
    PlacedBuffer,
    find_plan_mistake,
    pack_plan,
    read_memory,
    set_memory,
    unpack_plan,
)

PLAN = MemoryPlan(
    ["conv", "relu"],
    [MemorySpaceUse("CMX", 4096, 1 << 20), MemorySpaceUse("DDR", 0)],
    [PlacedBuffer("x", 0, 0, 4096, 0, 1)],
)


def test_a_file_keeps_the_memory_of_its_calls() -> None:
    model = Model()
    calls = [CallMemory("Partition_0", 0, PLAN), CallMemory("Partition_0", 1, PLAN)]
    set_memory(model, calls)
    assert read_memory(model) == calls


def test_a_file_without_any_has_none() -> None:
    model = Model()
    set_memory(model, [])
    assert not model.metadata and read_memory(model) == ()


@pytest.mark.parametrize("plan", [PLAN, None])
def test_a_plan_goes_to_another_process(plan: MemoryPlan | None) -> None:
    assert unpack_plan(json.loads(json.dumps(pack_plan(plan)))) == plan


@pytest.mark.parametrize(
    ("buffer", "problem"),
    [
        (PlacedBuffer("x", 2, 0, 64, 0, 0), "'x' is in memory 2 of 2"),
        (PlacedBuffer("x", 0, 0, 64, 0, 2), "'x' takes space in steps 0 to 2 of 2"),
        (PlacedBuffer("x", 0, 0, 64, 1, 0), "'x' takes space in steps 1 to 0 of 2"),
        (PlacedBuffer("x", 0, -1, 64, 0, 0), "-1"),
        (PlacedBuffer("x", 0, "far", 64, 0, 0), "far"),  # type: ignore[arg-type]
    ],
)
def test_a_vendor_s_plan_is_checked(buffer: PlacedBuffer, problem: str) -> None:
    plan = MemoryPlan(PLAN.steps, PLAN.spaces, [buffer])
    assert problem in find_plan_mistake(plan)
    assert find_plan_mistake(PLAN) == find_plan_mistake(None) == ""
    assert find_plan_mistake("a lot")


@pytest.mark.parametrize(
    ("text", "status"),
    [
        ('{"version":2,"calls":[]}', Status.WRONG_VERSION),
        ('{"version":1,"calls":[{}]}', Status.INVALID_FLATBUFFER),
        ("{", Status.INVALID_FLATBUFFER),
    ],
)
def test_an_entry_that_nobody_writes_is_refused(text: str, status: Status) -> None:
    model = Model()
    model.set_metadata(MEMORY_KEY, Blob(text.encode()))
    with pytest.raises(LiteRtError) as error:
        read_memory(model)
    assert error.value.status is status and MEMORY_KEY in error.value.where

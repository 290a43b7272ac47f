"""A vendor's description of an NPU's memory during a call, for people to look at.

A compiled file holds the plans as JSON under the metadata key `litert_npu_memory`. A run does not
need the plans.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from litert.core.checked_json import JsonNode
from litert.core.codec import ANY_TEXT, array, nullable, record, row
from litert.core.status import Status
from litert.model.call_metadata import WHOLE_NUMBER, CallMetadata, find_format_mistake
from litert.model.graph import Model

MEMORY_KEY = "litert_npu_memory"


@dataclass(frozen=True, slots=True)
class MemorySpaceUse:
    """A memory of the NPU.

    Attributes:
      name: The vendor's name of the memory: `CMX`, `DDR`.
      used: Number of bytes that the call takes, from the start of the memory.
      capacity: Number of bytes of the memory; 0 if the vendor does not say.
    """

    name: str
    used: int
    capacity: int = 0


@dataclass(frozen=True, slots=True)
class PlacedBuffer:
    """A range of a memory that holds one object for some steps of a call.

    Attributes:
      name: Name of the tensor, or purpose of the range.
      space: Index of the memory.
      offset, size: Position and size of the range, in bytes.
      first, last: First and last step, both included.
    """

    name: str
    space: int
    offset: int
    size: int
    first: int
    last: int


@dataclass(frozen=True, slots=True)
class MemoryPlan:
    """The memory plan of one call.

    Attributes:
      steps: The vendor's names of the NPU's steps, in execution order.
      spaces: Memories of the NPU.
      buffers: Ranges of memory, in any order.
    """

    steps: Sequence[str]
    spaces: Sequence[MemorySpaceUse]
    buffers: Sequence[PlacedBuffer]


@dataclass(frozen=True, slots=True)
class CallMemory:
    """The memory plan of a call of a file.

    Attributes:
      call: Name of the call's function in the byte code.
      module: Index of the byte code module.
      plan: Memory plan of the call.
    """

    call: str
    module: int
    plan: MemoryPlan


def set_memory(model: Model, calls: Sequence[CallMemory]) -> None:
    """Stores memory plans of calls in a model; does nothing if there are no calls."""
    _ENTRY.write(model, calls)


def read_memory(model: Model, where: str = "") -> Sequence[CallMemory]:
    """Returns the memory plans of a model's calls that the file contains; same errors as `CallMetadata.read`."""
    return _ENTRY.read(model, where)


def pack_plan(plan: MemoryPlan | None) -> object:
    """Returns a plan as plain data."""
    return _PLAN.dump(plan)


def unpack_plan(packed: object) -> MemoryPlan | None:
    """Reads the plain data that `pack_plan` made."""
    return _PLAN.read(JsonNode(packed, "$", "memory of a call", Status.SERIALIZATION))


def find_plan_mistake(plan: object) -> str:
    """Returns the mistake in a vendor's memory plan of a call; "" if there is no mistake."""
    return find_format_mistake(plan, MemoryPlan, _PLAN)


def _check(node: JsonNode, plan: MemoryPlan) -> None:
    for buffer in plan.buffers:
        if buffer.space >= len(plan.spaces):
            raise node.error(f"'{buffer.name}' is in memory {buffer.space} of {len(plan.spaces)}")
        if not buffer.first <= buffer.last < max(len(plan.steps), 1):
            steps = f"steps {buffer.first} to {buffer.last} of {len(plan.steps)}"
            raise node.error(f"'{buffer.name}' takes space in {steps}")


_SPACE = row(MemorySpaceUse, name=ANY_TEXT, used=WHOLE_NUMBER, capacity=WHOLE_NUMBER)
_BUFFER = row(
    PlacedBuffer,
    name=ANY_TEXT,
    space=WHOLE_NUMBER,
    offset=WHOLE_NUMBER,
    size=WHOLE_NUMBER,
    first=WHOLE_NUMBER,
    last=WHOLE_NUMBER,
)
_MEMORY_PLAN = record(
    MemoryPlan,
    steps=array(ANY_TEXT),
    spaces=array(_SPACE),
    buffers=array(_BUFFER),
    check=_check,
)
_PLAN = nullable(_MEMORY_PLAN)
_ENTRY = CallMetadata(
    MEMORY_KEY, record(CallMemory, call=ANY_TEXT, module=WHOLE_NUMBER, plan=_MEMORY_PLAN)
)

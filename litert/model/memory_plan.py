"""A vendor's description of how an NPU call uses the NPU's memory, for people to read.

A compiled file stores these memory plans as JSON under the metadata key `litert_npu_memory`. The runtime does not
need the plans to run the model.
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
    """A memory of the NPU, and how much of this memory an NPU call uses.

    Attributes:
      name: The vendor's name of the memory, such as `CMX` or `DDR`.
      used: Number of bytes that the NPU call uses, from the start of the memory.
      capacity: Size of the memory, in bytes; 0 if the vendor does not give the size.
    """

    name: str
    used: int
    capacity: int = 0


@dataclass(frozen=True, slots=True)
class PlacedBuffer:
    """A range of the NPU's memory that is reserved for one object during some steps of an NPU call.

    Attributes:
      name: Name of the tensor in this range of memory; for a range without a tensor, its purpose.
      space: Index of the memory in `MemoryPlan.spaces`.
      offset, size: Offset and size of the range, in bytes.
      first, last: Indices of the first and the last step during which the memory holds the object.
    """

    name: str
    space: int
    offset: int
    size: int
    first: int
    last: int


@dataclass(frozen=True, slots=True)
class MemoryPlan:
    """The memory plan of one NPU call.

    Attributes:
      steps: The vendor's names of the NPU's steps, in execution order.
      spaces: Memories of the NPU.
      buffers: Ranges of the memories that the NPU call uses, in any order.
    """

    steps: Sequence[str]
    spaces: Sequence[MemorySpaceUse]
    buffers: Sequence[PlacedBuffer]


@dataclass(frozen=True, slots=True)
class CallMemory:
    """The memory plan of an NPU call in a compiled file.

    Attributes:
      call: Name of the NPU call's function in the byte code.
      module: Index of the byte code module that contains the NPU call's function.
      plan: Memory plan of the NPU call.
    """

    call: str
    module: int
    plan: MemoryPlan


def set_memory(model: Model, calls: Sequence[CallMemory]) -> None:
    """Stores the memory plans of NPU calls in a model; does nothing if `calls` is empty."""
    _ENTRY.write(model, calls)


def read_memory(model: Model, where: str = "") -> Sequence[CallMemory]:
    """Returns the memory plans of NPU calls from a model; raises the same errors as `CallMetadata.read`."""
    return _ENTRY.read(model, where)


def pack_plan(plan: MemoryPlan | None) -> object:
    """Converts a memory plan to plain data."""
    return _PLAN.dump(plan)


def unpack_plan(packed: object) -> MemoryPlan | None:
    """Converts plain data from `pack_plan` back to a memory plan."""
    return _PLAN.read(JsonNode(packed, "$", "memory of a call", Status.SERIALIZATION))


def find_plan_mistake(plan: object) -> str:
    """Returns the mistake in a vendor's memory plan; "" if the plan has no mistake."""
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

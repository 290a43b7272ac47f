"""What lies where in the memory of an NPU while a call runs: what a vendor says of it, for whoever shows it.

A compiled file has it as JSON under the metadata key `litert_npu_memory`. Nothing needs it to run.
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
      name: as the vendor calls it: `CMX`, `DDR`.
      used: bytes from its start that the call takes.
      capacity: bytes that the NPU has of it; 0 where the vendor does not say.
    """

    name: str
    used: int
    capacity: int = 0


@dataclass(frozen=True, slots=True)
class PlacedBuffer:
    """A stretch of a memory that holds one thing for some of a call's steps.

    Attributes:
      name: of the tensor, or what it is for.
      space: index of the memory.
      offset, size: in bytes.
      first, last: steps, both included.
    """

    name: str
    space: int
    offset: int
    size: int
    first: int
    last: int


@dataclass(frozen=True, slots=True)
class MemoryPlan:
    """The memory of one call.

    Attributes:
      steps: what the NPU does one after another, by the names that the vendor has for it.
      spaces: the NPU's memories.
      buffers: in any order.
    """

    steps: Sequence[str]
    spaces: Sequence[MemorySpaceUse]
    buffers: Sequence[PlacedBuffer]


@dataclass(frozen=True, slots=True)
class CallMemory:
    """The memory of a call of a file.

    Attributes:
      call: name of its function in the byte code.
      module: index of the byte code module.
      plan: what lies where.
    """

    call: str
    module: int
    plan: MemoryPlan


def set_memory(model: Model, calls: Sequence[CallMemory]) -> None:
    """Puts the memory of calls into a model; nothing, where there are no calls."""
    _ENTRY.write(model, calls)


def read_memory(model: Model, where: str = "") -> Sequence[CallMemory]:
    """The memory of a model's calls, as far as the file says it; errors as `CallMetadata.read`."""
    return _ENTRY.read(model, where)


def pack_plan(plan: MemoryPlan | None) -> object:
    """A plan as plain data."""
    return _PLAN.dump(plan)


def unpack_plan(packed: object) -> MemoryPlan | None:
    """What `pack_plan` made."""
    return _PLAN.read(JsonNode(packed, "$", "memory of a call", Status.SERIALIZATION))


def find_plan_mistake(plan: object) -> str:
    """What is wrong with what a vendor gives as a call's memory; "" for nothing."""
    return find_format_mistake(plan, MemoryPlan, _PLAN)


def _check(node: JsonNode, plan: MemoryPlan) -> None:
    for buffer in plan.buffers:
        if buffer.space >= len(plan.spaces):
            raise node.error(f"'{buffer.name}' is in memory {buffer.space} of {len(plan.spaces)}")
        if not buffer.first <= buffer.last < max(len(plan.steps), 1):
            steps = f"steps {buffer.first} to {buffer.last} of {len(plan.steps)}"
            raise node.error(f"'{buffer.name}' is there in {steps}")


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

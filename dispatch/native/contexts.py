"""What stands in Python for the contexts of a dispatch library, and what must live as long as they do."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from dispatch.mem_buffer import MemBuffer
from dispatch.scheduling import SchedulingInfo
from litert.abi.definitions import ffi


@dataclass(slots=True, eq=False)
class NativeDevice:
    """A device context.

    Attributes:
      handle: cffi's `LiteRtDispatchDeviceContext`.
      options: handle of the options that it was made with.
      kept: buffers, and their structs, that the library may look at until the context is gone.
      was_told_of_assets: whether the log says that the library takes none.
    """

    handle: Any
    options: int
    kept: list[object] = field(default_factory=list)
    was_told_of_assets: bool = False

    def keep(self, buffer: MemBuffer) -> Any:
        """A buffer as cffi's `LiteRtMemBuffer*`, valid as long as the context."""
        base = ffi.cast("void*", buffer.base_address)
        struct = ffi.new("LiteRtMemBuffer*", [buffer.fd, base, buffer.offset, buffer.size, 0])
        self.kept.append((buffer, struct))
        return struct


@dataclass(slots=True, eq=False)
class NativeCall:
    """An invocation context.

    Attributes:
      handle: cffi's `LiteRtDispatchInvocationContext`.
      scheduling: what runs are told, cffi's struct of it, and the text that the struct points to.
      run_options: handle of the next run's; 0 for none.
      input_events: handles of events that the next run waits for.
      run_events: handles of all events of the last run.
    """

    handle: Any
    device: NativeDevice
    num_inputs: int
    num_outputs: int
    scheduling: tuple[SchedulingInfo, Any, object] | None = None
    run_options: int = 0
    input_events: list[int] = field(default_factory=list)
    run_events: list[int] = field(default_factory=list)

    def scheduling_struct(self, info: SchedulingInfo) -> Any:
        """Scheduling info as cffi's `LiteRtSchedulingInfo*`, made once for all runs with it."""
        if self.scheduling is not None and self.scheduling[0] is info:
            return self.scheduling[1]
        given = (info.original_uid, info.debug_feature_id, info.priority, info.job_group_id)
        text = ffi.new("char[]", (info.debug_feature_id or "").encode(errors="replace"))
        struct = ffi.new("LiteRtSchedulingInfo*")
        struct.fields_mask = sum(1 << bit for bit, value in enumerate(given) if value is not None)
        struct.original_uid = int(ffi.cast("int32_t", info.original_uid or 0))  # signed there
        struct.debug_feature_id = text
        struct.job_priority = info.priority or 0
        if info.job_group_id is not None:
            struct.group_id = list(info.job_group_id)
        self.scheduling = info, struct, text
        return struct


@dataclass(slots=True, eq=False)
class NativeRegistration:
    """A buffer that a library knows: the library's number, and our handle of the buffer."""

    handle: int
    buffer: int

"""Python objects for the contexts of a dispatch library; each keeps alive the objects that its context uses."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from dispatch.mem_buffer import MemBuffer
from dispatch.scheduling import SchedulingInfo
from litert.abi.definitions import ffi


@dataclass(slots=True, eq=False)
class NativeDevice:
    """A device context of a dispatch library.

    Attributes:
      handle: The library's context, as cffi's `LiteRtDispatchDeviceContext`.
      options: Handle of the options that the context was created with.
      kept: Buffers and their C structs, which the library may read until the context is destroyed.
      was_told_of_assets: Whether the host has already logged the warning that the library does not accept assets.
    """

    handle: Any
    options: int
    kept: list[object] = field(default_factory=list)
    was_told_of_assets: bool = False

    def keep(self, buffer: MemBuffer) -> Any:
        """Converts a buffer to cffi's `LiteRtMemBuffer*`, which stays valid as long as the context."""
        base = ffi.cast("void*", buffer.base_address)
        struct = ffi.new("LiteRtMemBuffer*", [buffer.fd, base, buffer.offset, buffer.size, 0])
        self.kept.append((buffer, struct))
        return struct


@dataclass(slots=True, eq=False)
class NativeCall:
    """An invocation context of a dispatch library.

    Attributes:
      handle: The library's context, as cffi's `LiteRtDispatchInvocationContext`.
      scheduling: Scheduling info of the last run, as Python object and as cffi struct, and the string to which the
        struct points.
      run_options: Handle of the next run's options; 0 for no options.
      input_events: Handles of the events that the next run waits for.
      run_events: Handles of all events of the last run.
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
        """Converts scheduling info to cffi's `LiteRtSchedulingInfo*`; runs with the same info share one struct."""
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
    """A buffer registered with a library: the library's number for it, and the host's handle of it."""

    handle: int
    buffer: int

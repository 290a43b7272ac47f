"""Scheduling info of a run: user, priority and group (LiteRT's `litert/c/internal/litert_scheduling_info.h`)."""

from __future__ import annotations

import os
from dataclasses import dataclass

from litert.core.errors import LiteRtError
from litert.core.status import Status

HIGHEST_PRIORITY = 0
LOWEST_PRIORITY = 1000
_GROUP_ID_BYTES = 16


@dataclass(frozen=True, slots=True)
class SchedulingInfo:
    """The scheduling info for the runs of an NPU call; a field with the value None is not set.

    Attributes:
      original_uid: Id of the user for whom the run is made.
      debug_feature_id: Name of the application's feature that requests the run.
      priority: Priority of the run, from 0 (highest) to 1000 (lowest).
      job_group_id: Id of 16 bytes; runs that belong together have the same id.
    """

    original_uid: int | None = None
    debug_feature_id: str | None = None
    priority: int | None = None
    job_group_id: bytes | None = None

    def __post_init__(self) -> None:
        if self.priority is not None and not HIGHEST_PRIORITY <= self.priority <= LOWEST_PRIORITY:
            raise LiteRtError(
                Status.INVALID_ARGUMENT,
                f"the priority of a run is {self.priority}, which is out of range",
                "scheduling info",
                f"Give a priority from {HIGHEST_PRIORITY} (highest) to {LOWEST_PRIORITY} (lowest).",
            )
        if self.job_group_id is not None and len(self.job_group_id) != _GROUP_ID_BYTES:
            raise LiteRtError(
                Status.INVALID_ARGUMENT,
                f"the job group id has {len(self.job_group_id)} bytes, which is the wrong length",
                "scheduling info",
                f"Give {_GROUP_ID_BYTES} bytes, such as the bytes of a UUID.",
            )

    def with_defaults(self) -> SchedulingInfo:
        """Returns a copy in which fields that are None have the default values of LiteRT's runtime."""
        return SchedulingInfo(
            os.getuid() if self.original_uid is None else self.original_uid,
            "" if self.debug_feature_id is None else self.debug_feature_id,
            HIGHEST_PRIORITY if self.priority is None else self.priority,
            bytes(_GROUP_ID_BYTES) if self.job_group_id is None else self.job_group_id,
        )

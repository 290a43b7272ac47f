"""How a run stands among others (LiteRT's `litert/c/internal/litert_scheduling_info.h`)."""

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
    """How a call stands among others; fields that are None were not given.

    Attributes:
      original_uid: the user that the run is for.
      debug_feature_id: what of the application asks for it.
      priority: 0 is the highest, 1000 the lowest.
      job_group_id: 16 bytes; jobs that belong together have the same.
    """

    original_uid: int | None = None
    debug_feature_id: str | None = None
    priority: int | None = None
    job_group_id: bytes | None = None

    def __post_init__(self) -> None:
        if self.priority is not None and not HIGHEST_PRIORITY <= self.priority <= LOWEST_PRIORITY:
            raise LiteRtError(
                Status.INVALID_ARGUMENT,
                f"the priority is {self.priority}",
                "scheduling info",
                f"Give one from {HIGHEST_PRIORITY}, the highest, to {LOWEST_PRIORITY}.",
            )
        if self.job_group_id is not None and len(self.job_group_id) != _GROUP_ID_BYTES:
            raise LiteRtError(
                Status.INVALID_ARGUMENT,
                f"the job group id has {len(self.job_group_id)} bytes",
                "scheduling info",
                f"Give {_GROUP_ID_BYTES}, such as those of a UUID.",
            )

    def with_defaults(self) -> SchedulingInfo:
        """The same, with what LiteRT's runtime gives in place of None."""
        return SchedulingInfo(
            os.getuid() if self.original_uid is None else self.original_uid,
            "" if self.debug_feature_id is None else self.debug_feature_id,
            HIGHEST_PRIORITY if self.priority is None else self.priority,
            bytes(_GROUP_ID_BYTES) if self.job_group_id is None else self.job_group_id,
        )

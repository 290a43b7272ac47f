"""How the process of a device is limited, and whether it is in a sandbox."""

from __future__ import annotations

import os
from dataclasses import dataclass

from litert.host.sandbox import SandboxMode


@dataclass(frozen=True, slots=True)
class Limits:
    """Of one device process.

    Attributes:
      build_timeout_s: seconds for each call that opens, loads or builds something, and for a call's first run.
      call_timeout_s: seconds for each other call, such as a run.
      memory_bytes: how much data it may have in memory, and how much for tensors; 0 for half of the machine's.
      sandbox: whether it runs in a sandbox.
    """

    build_timeout_s: float = 30.0
    call_timeout_s: float = 10.0
    memory_bytes: int = 0
    sandbox: SandboxMode = SandboxMode.TRY

    @property
    def most_bytes(self) -> int:
        """`memory_bytes`, or its default."""
        half = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE") // 2
        return self.memory_bytes or half

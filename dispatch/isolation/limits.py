"""How the process of a device is limited, and whether it is in a sandbox."""

from __future__ import annotations

from dataclasses import dataclass

from litert.host.child_process import half_of_memory
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

    build_timeout_s: float
    call_timeout_s: float
    memory_bytes: int
    sandbox: SandboxMode

    @property
    def most_bytes(self) -> int:
        """`memory_bytes`, or its default."""
        return self.memory_bytes or half_of_memory()

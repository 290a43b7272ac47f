"""Time and memory limits of a device process, and whether the process runs in a sandbox."""

from __future__ import annotations

from dataclasses import dataclass

from litert.host.child_process import half_of_memory
from litert.host.sandbox import SandboxMode

LEAST_MEMORY_BYTES = 32 << 20
"""Smallest memory limit of a device process: Python alone, without a driver, needs about 20 MiB."""


@dataclass(frozen=True, slots=True)
class Limits:
    """Time and memory limits of one device process.

    Attributes:
      build_timeout_s: Time limit in seconds for each function call that opens, loads or builds something, and for
        the first run of an NPU call.
      call_timeout_s: Time limit in seconds for every other function call, such as a later run.
      memory_bytes: Memory limit in bytes. The limit applies separately to the model's tensors and to the other
        data of the process. 0 means half of the machine's memory.
      sandbox: Whether the device process runs in a sandbox.
    """

    build_timeout_s: float
    call_timeout_s: float
    memory_bytes: int
    sandbox: SandboxMode

    @property
    def most_bytes(self) -> int:
        """The memory limit in bytes: `memory_bytes`, or half of the machine's memory if `memory_bytes` is 0."""
        return self.memory_bytes or half_of_memory()

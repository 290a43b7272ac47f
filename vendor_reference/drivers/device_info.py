"""The properties of an OpenCL device, and the device's identity, on which compiled binaries depend."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import cache
from itertools import takewhile

from litert.core.codec import BOOLEAN, TEXT, integer, record


@dataclass(frozen=True, slots=True)
class DeviceInfo:
    """A device.

    Attributes:
      kind: Type of the device: GPU, CPU, ACCELERATOR or CUSTOM.
      memory_bytes: Size of the memory that kernels can address, in bytes.
      has_fp16: Whether kernels can compute with values of type `half`.
      processor: Model and instruction sets of a CPU (see `describe_processor`); "" for other devices.
    """

    platform: str
    platform_version: str
    name: str
    version: str
    driver_version: str
    kind: str
    compute_units: int
    memory_bytes: int
    has_fp16: bool
    processor: str = ""

    @property
    def identity(self) -> Sequence[str]:
        """Identity of the device, which is equal for devices that can run the same binary."""
        return (
            self.platform,
            self.platform_version,
            self.name,
            self.version,
            self.driver_version,
            self.processor,
        )

    def __str__(self) -> str:
        return f"{self.platform}:{self.name} ({self.kind}, {self.platform_version.strip()})"


DEVICE_INFO = record(
    DeviceInfo,
    platform=TEXT,
    platform_version=TEXT,
    name=TEXT,
    version=TEXT,
    driver_version=TEXT,
    kind=TEXT,
    compute_units=integer(0, 1 << 32),
    memory_bytes=integer(0, 1 << 64),
    has_fp16=BOOLEAN,
    processor=TEXT,
)
"""Codec that converts a device's properties to plain data, and back."""

_MODEL = (
    "vendor_id", "cpu family", "model", "stepping", "CPU implementer", "CPU part", "CPU variant",
)  # fmt: skip
_INSTRUCTIONS = ("flags", "Features")


@cache
def describe_processor() -> str:
    """Describes this machine's CPU: manufacturer, model numbers, and a digest of its instruction sets.

    OpenCL drivers report only the brand of a CPU, such as "AMD EPYC", which does not reveal whether the CPU has
    AVX-512.
    """
    fields: dict[str, str] = {}
    # Only the first CPU: reading all lines takes long on a large machine.
    with (
        suppress(OSError),
        open("/proc/cpuinfo", encoding="utf-8", errors="replace", buffering=1024) as lines,
    ):
        for line in takewhile(lambda line: ":" in line, lines):
            name, _, value = line.partition(":")
            fields[name.strip()] = value.strip()
    model = " ".join(fields[name] for name in _MODEL if name in fields)
    instructions = sorted(" ".join(fields.get(name, "") for name in _INSTRUCTIONS).split())
    return f"{model} {hashlib.sha256(' '.join(instructions).encode()).hexdigest()[:8]}"

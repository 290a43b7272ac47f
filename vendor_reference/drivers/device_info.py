"""What an OpenCL device says of itself, and what its binaries depend on."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, fields
from functools import cache
from typing import Any

from litert.core.checked_json import JsonNode


@dataclass(frozen=True, slots=True)
class DeviceInfo:
    """A device.

    Attributes:
      kind: GPU, CPU, ACCELERATOR or CUSTOM.
      memory_bytes: that kernels can address.
      has_fp16: whether kernels can compute with `half`.
      processor: for a CPU, which model with which instructions (see `describe_processor`); else "".
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
        """What a binary is built for: equal for devices that run the same one."""
        return (
            self.platform,
            self.platform_version,
            self.name,
            self.version,
            self.driver_version,
            self.processor,
        )

    def to_json(self) -> Mapping[str, Any]:
        """As values of JSON."""
        return asdict(self)

    @classmethod
    def from_json(cls, node: JsonNode) -> DeviceInfo:
        """From values of JSON.

        Raises:
          LiteRtError: with the node's status, for a field that is missing, unknown or of another type.
        """
        found = node.fields([field.name for field in fields(cls)])
        read: Mapping[str, Callable[[JsonNode], object]]
        read = {"str": JsonNode.text, "int": _read_number, "bool": JsonNode.boolean}
        values: dict[str, Any] = {
            field.name: read[str(field.type)](found[field.name]) for field in fields(cls)
        }
        return cls(**values)

    def __str__(self) -> str:
        return f"{self.platform}:{self.name} ({self.kind}, {self.platform_version.strip()})"


def _read_number(node: JsonNode) -> int:
    return node.integer(0, 1 << 64)


_MODEL = (
    "vendor_id",
    "cpu family",
    "model",
    "stepping",
    "CPU implementer",
    "CPU part",
    "CPU variant",
)
_INSTRUCTIONS = ("flags", "Features")


@cache
def describe_processor() -> str:
    """This machine's CPU: maker, model numbers, and a digest of its instruction sets.

    Drivers name a CPU by its brand alone ("AMD EPYC"), which may have AVX-512 or not.
    """
    fields = dict(_read_cpuinfo())
    model = " ".join(fields[name] for name in _MODEL if name in fields)
    instructions = sorted(" ".join(fields.get(name, "") for name in _INSTRUCTIONS).split())
    return f"{model} {hashlib.sha256(' '.join(instructions).encode()).hexdigest()[:8]}"


def _read_cpuinfo() -> Sequence[tuple[str, str]]:
    """The lines of the first CPU; to read those of all takes long on a large machine."""
    found = []
    try:
        with open("/proc/cpuinfo", encoding="utf-8", errors="replace", buffering=1024) as lines:
            for line in lines:
                name, colon, value = line.partition(":")
                if not colon:
                    break
                found.append((name.strip(), value.strip()))
    except OSError:
        pass
    return found

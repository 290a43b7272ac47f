"""What a built kernel declares, as the device's driver says it: the compiler compares its bindings with that."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from litert.core.checked_json import JsonNode

BY_VALUE = "by value"
SPACES = ("__global", "__constant", "__local", BY_VALUE, "")
"""Where an argument can lie; "" is where the driver does not say."""


@dataclass(frozen=True, slots=True)
class KernelArgument:
    """One argument, as the source declares it; texts are "" where the driver does not say.

    Attributes:
      space: one of `SPACES`.
      type_name: without qualifiers: `float*`, `int`, a name that the source gives a type.
    """

    space: str
    type_name: str
    name: str

    def __str__(self) -> str:
        space = f"{self.space} " if self.space not in ("", BY_VALUE) else ""
        return f"{space}{self.type_name} {self.name}"


@dataclass(frozen=True, slots=True)
class KernelSignature:
    """A kernel as it was built for a device.

    Attributes:
      arguments: in order.
      max_group_size: work items that the device takes in a group of this kernel.
    """

    arguments: tuple[KernelArgument, ...]
    max_group_size: int


def dump_signatures(kernels: Mapping[str, KernelSignature]) -> dict[str, object]:
    """Kernels by name, as `json` writes them."""
    return {
        name: {
            "arguments": [[a.space, a.type_name, a.name] for a in kernel.arguments],
            "max_group_size": kernel.max_group_size,
        }
        for name, kernel in kernels.items()
    }


def parse_signatures(node: JsonNode) -> dict[str, KernelSignature]:
    """Kernels by name.

    Raises:
      LiteRtError: for anything that `dump_signatures` does not make.
    """
    return {name: _parse_signature(kernel) for name, kernel in node.entries().items()}


def _parse_signature(node: JsonNode) -> KernelSignature:
    fields = node.fields(("arguments", "max_group_size"))
    arguments = []
    for argument in fields["arguments"].items():
        space, type_name, name = argument.items(3, 3)
        arguments.append(KernelArgument(space.text(SPACES), type_name.text(), name.text()))
    return KernelSignature(tuple(arguments), fields["max_group_size"].integer(0, 2**63 - 1))

"""What a built kernel declares, as the device's driver says it: the compiler compares its bindings with that."""

from __future__ import annotations

from dataclasses import dataclass

from litert.core.codec import TEXT, entries, frozen_array, integer, named, record, row

BY_VALUE = "by value"
SPACES = ("__global", "__constant", "__local", BY_VALUE, "")
"""Where an argument can lie; "" is where the driver does not say."""


@dataclass(frozen=True, slots=True)
class DeclaredArgument:
    """One argument, as the source declares it; texts are "" where the driver does not say.

    Attributes:
      space: one of `SPACES`.
      type_name: without qualifiers: `float*`, `int`, `struct P`, another name that the source gives a type.
    """

    space: str
    type_name: str
    name: str

    @property
    def is_struct(self) -> bool:
        """Whether it is a struct or a union by value."""
        is_named = self.type_name.startswith(("struct ", "union "))
        return is_named and self.space == BY_VALUE and not self.type_name.endswith("*")

    def __str__(self) -> str:
        space = f"{self.space} " if self.space not in ("", BY_VALUE) else ""
        return f"{space}{self.type_name} {self.name}"


@dataclass(frozen=True, slots=True)
class KernelSignature:
    """A kernel as it was built for a device.

    Attributes:
      max_group_size: work items that the device takes in a group of this kernel.
    """

    arguments: tuple[DeclaredArgument, ...]
    max_group_size: int


SIGNATURES = entries(
    record(
        KernelSignature,
        arguments=frozen_array(
            row(
                DeclaredArgument,
                space=named({space: space for space in SPACES}),
                type_name=TEXT,
                name=TEXT,
            )
        ),
        max_group_size=integer(0, 2**63 - 1),
    )
)
"""Kernels by name, as plain data."""

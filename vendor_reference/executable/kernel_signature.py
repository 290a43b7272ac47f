"""The declaration of a built kernel, as the driver reports it; the compiler compares its bindings with it."""

from __future__ import annotations

from dataclasses import dataclass

from litert.core.codec import TEXT, entries, frozen_array, integer, named, record, row

BY_VALUE = "by value"
SPACES = ("__global", "__constant", "__local", BY_VALUE, "")
"""Address spaces of arguments; "" if the driver does not report one."""


@dataclass(frozen=True, slots=True)
class DeclaredArgument:
    """One kernel argument in the source; texts are "" if the driver does not report them.

    Attributes:
      space: Address space, one of `SPACES`.
      type_name: Type without qualifiers: `float*`, `int`, `struct P`, another name that the source gives a type.
    """

    space: str
    type_name: str
    name: str

    @property
    def is_struct(self) -> bool:
        """Whether the argument is a struct or union by value."""
        is_named = self.type_name.startswith(("struct ", "union "))
        return is_named and self.space == BY_VALUE and not self.type_name.endswith("*")

    def __str__(self) -> str:
        space = f"{self.space} " if self.space not in ("", BY_VALUE) else ""
        return f"{space}{self.type_name} {self.name}"


@dataclass(frozen=True, slots=True)
class KernelSignature:
    """A kernel that was built for a device.

    Attributes:
      max_group_size: Most work items in a work group of this kernel on the device.
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
"""Converts kernels by name to plain data."""

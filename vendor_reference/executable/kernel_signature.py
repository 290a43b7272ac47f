"""The declaration of a built kernel, as the driver reports it.

The compiler compares the arguments that it binds with this declaration.
"""

from __future__ import annotations

from dataclasses import dataclass

from litert.core.codec import BOOLEAN, TEXT, entries, frozen_array, integer, named, record, row

BY_VALUE = "by value"
SPACES = ("__global", "__constant", "__local", BY_VALUE, "")
"""Address spaces that a kernel argument can have; "" if the driver does not report the address space."""


@dataclass(frozen=True, slots=True)
class DeclaredArgument:
    """The declaration of a kernel argument in the source code; fields are "" if the driver does not report them.

    Attributes:
      space: Address space of the argument, one of `SPACES`.
      type_name: Type of the argument without qualifiers, such as `float*`, `int`, `struct P` or a `typedef` name.
      is_const: Whether the argument is a pointer to `const` or `__constant` data; false if the driver does not
        report this.
    """

    space: str
    type_name: str
    name: str
    is_const: bool = False

    @property
    def is_struct(self) -> bool:
        """Whether the argument is a struct or union that is passed by value."""
        is_named = self.type_name.startswith(("struct ", "union "))
        return is_named and self.space == BY_VALUE and not self.type_name.endswith("*")

    def __str__(self) -> str:
        space = f"{self.space} " if self.space not in ("", BY_VALUE) else ""
        const = "const " if self.is_const and self.space != "__constant" else ""
        return f"{space}{const}{self.type_name} {self.name}"


@dataclass(frozen=True, slots=True)
class KernelSignature:
    """The declaration of a kernel that was built for a device.

    Attributes:
      max_group_size: Maximum number of work items in a work group of this kernel on the device.
    """

    arguments: tuple[DeclaredArgument, ...]
    max_group_size: int


SIGNATURES = entries(
    record(
        KernelSignature,
        arguments=frozen_array(
            row(
                DeclaredArgument,
                least=3,  # binary layers of version 0.1.0 do not have `is_const`
                space=named({space: space for space in SPACES}),
                type_name=TEXT,
                name=TEXT,
                is_const=BOOLEAN,
            )
        ),
        max_group_size=integer(0, 2**63 - 1),
    )
)
"""Codec that converts kernel declarations by name to plain data, and back."""

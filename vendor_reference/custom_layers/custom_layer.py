"""A custom op's implementation, read from its asset: a kernel and its bindings to the op."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass, field
from enum import Enum

from litert.core.output_shape import OutputShape
from vendor_reference.custom_layers.kernel_spec import KernelSpec
from vendor_reference.custom_layers.value_sources import ValueSource


@dataclass(frozen=True, slots=True)
class LayerFile:
    """A file of a layer.

    Attributes:
      path: Path relative to the asset's folder, with `/`.
      data: Bytes of the file; empty if a binary layer leaves the file out.
      is_asset: Whether the file lies in the asset itself rather than in a companion.
      sha256: SHA-256 of the bytes, in hex, if they are left out.
      packed_in: The asset in which the file is packed.
      sizes: If the bytes are left out, built-in defines that the code for all shapes takes as arguments; None if
        there is only code for fixed shapes.
    """

    path: str
    data: bytes = field(repr=False)
    is_asset: bool = False
    sha256: str = ""
    packed_in: bytes | None = field(default=None, repr=False)
    sizes: Sequence[str] | None = None

    @property
    def digest(self) -> str:
        """SHA-256 of the file's bytes, in hex."""
        return self.sha256 or hashlib.sha256(self.data).hexdigest()

    @property
    def asset_data(self) -> bytes:
        """The bytes to embed: the file's own, or those of the asset in which it is packed."""
        return self.data if self.packed_in is None else self.packed_in


class LayerType(str, Enum):
    """The kind of task that a layer becomes on the VPUIP level."""

    OCL = "OCL"
    """An OpenCL kernel."""
    CPP = "CPP"
    """A function in a shared object."""


@dataclass(frozen=True, slots=True)
class Define:
    """A `#define name value` in front of the sources.

    Attributes:
      name: The name with all text in front of the value: `N`, `F(x)`, `N 42`.
      type: `int`, `float`, `int[]`, `float[]`, or "" to keep the value unchanged.
      is_plain: Whether the type only determines how an array is written, without conversion and checks.
    """

    name: str
    source: ValueSource
    type: str = ""
    is_plain: bool = False


@dataclass(frozen=True, slots=True)
class ShapeKernel:
    """An additional kernel that computes the shapes of outputs.

    It runs as one work item before the layer's kernel. Its arguments are pointers to `uint` in global memory: the
    shapes of the op's inputs, then of its outputs, which it writes.
    """

    entry: str
    sources: Sequence[LayerFile]


@dataclass(frozen=True, slots=True)
class CustomLayer:
    """A kernel for an op.

    Attributes:
      op_name: Name of the ops that the layer implements: a custom code or a builtin operator.
      kernel: The kernel of the description, still without files, defines and the op's own values.
      sources: Source files of the program, in order.
      headers: Files that the sources include.
      defines: Defines in front of the sources, after the built-in defines.
      defines_options: Whether each option is also a define, `PARAM_<key>`.
      defines_quantization: Whether scale and zero point of each quantized tensor are defines, such as
        `INPUT0_SCALE`.
      type: Kind of task that runs the layer.
      output_shapes: How to compute each output's shape if it is dynamic; formulas use B, F, Y, X of input 0 unless
        they name another tensor. None if not given.
      shape_kernel: Kernel that computes the shapes of all outputs instead; None if there is none.
      notes: Sentences for the report about ambiguous or ignored parts of the description.
    """

    op_name: str
    kernel: KernelSpec
    sources: Sequence[LayerFile]
    headers: Sequence[LayerFile] = ()
    defines: Sequence[Define] = ()
    defines_options: bool = False
    defines_quantization: bool = False
    type: LayerType = LayerType.OCL
    output_shapes: Sequence[OutputShape | None] | None = None
    shape_kernel: ShapeKernel | None = None
    notes: Sequence[str] = ()

    @property
    def file_name(self) -> str:
        """Name of the asset, for messages."""
        return self.kernel.where

    def files(self) -> Sequence[LayerFile]:
        """Lists sources, headers and the shape kernel's sources; a file may occur several times."""
        more = self.shape_kernel.sources if self.shape_kernel else ()
        return (*self.sources, *self.headers, *more)

    @property
    def is_native(self) -> bool:
        """Whether the layer is only machine code, which runs only if that is allowed."""
        return self.type is LayerType.CPP or any(file.sha256 for file in self.files())

    def asset_name(self, file: LayerFile) -> str:
        """Returns the name of a file of this layer in `register_asset`."""
        return self.op_name if file.is_asset else f"{self.op_name}/{file.path}"

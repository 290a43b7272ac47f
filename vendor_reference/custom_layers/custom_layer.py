"""The implementation of a custom op, read from an asset: a kernel, and the binding of its arguments to the op."""

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
      path: Path relative to the asset's folder, with `/` as separator.
      data: Bytes of the file; empty if a binary layer omits the file.
      is_asset: Whether the file is stored in the asset itself rather than in a companion file.
      sha256: SHA-256 of the file's bytes, in hex, if a binary layer omits the bytes.
      packed_in: Bytes of the asset that contains the file; None if the file is not packed in an asset.
      sizes: If the file's bytes are omitted, the built-in size defines that the machine code for all shapes takes
        as arguments; None if there is only machine code for fixed shapes.
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
        """The bytes to embed in a compiled file: the file's own bytes, or the asset that contains the file."""
        return self.data if self.packed_in is None else self.packed_in


class LayerType(str, Enum):
    """The kind of task that a layer becomes on the VPUIP level of the compiler."""

    OCL = "OCL"
    """The layer is an OpenCL kernel."""
    CPP = "CPP"
    """The layer is code in a shared object."""


@dataclass(frozen=True, slots=True)
class Define:
    """A `#define name value` that precedes the kernel's source code.

    Attributes:
      name: The text between `#define` and the value, such as `N`, `F(x)` or `N 42`.
      type: Type to which the define's value is converted: `int`, `float`, `int[]` or `float[]`; "" leaves the
        value unchanged.
      is_plain: Whether the type only determines the notation of an array's value; the value is then neither
        converted nor checked.
    """

    name: str
    source: ValueSource
    type: str = ""
    is_plain: bool = False


@dataclass(frozen=True, slots=True)
class ShapeKernel:
    """An additional kernel that computes the shapes of outputs.

    The shape kernel runs as one work item before the layer's kernel. Its arguments are pointers to `uint` in
    global memory: first the shapes of the op's inputs, then the shapes of its outputs, which the shape kernel
    writes.
    """

    entry: str
    sources: Sequence[LayerFile]


@dataclass(frozen=True, slots=True)
class CustomLayer:
    """A kernel that implements an op.

    Attributes:
      op_name: Name of the ops that the layer implements: a custom code or a builtin operator.
      kernel: The kernel as the layer's description specifies it; it does not contain source files, defines, or
        values of a specific op.
      sources: Source files of the program, in order.
      headers: Files that the sources include.
      defines: Defines of the layer, which follow the built-in defines and precede the sources.
      defines_options: Whether each option of the op is also a define `PARAM_<key>`.
      defines_quantization: Whether the scale and zero point of each quantized tensor are defines, such as
        `INPUT0_SCALE`.
      type: Kind of the task that runs the layer.
      output_shapes: How to compute the shape of each output with a dynamic shape; B, F, Y and X in formulas are
        sizes of input 0, unless the formulas name another tensor. None if the description has no output shapes.
      shape_kernel: Kernel that computes the shapes of all outputs in place of `output_shapes`; None if there is no
        such kernel.
      notes: Notes for the report about ambiguous or ignored parts of the description, as sentences.
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
        """File name of the asset, for messages."""
        return self.kernel.where

    def files(self) -> Sequence[LayerFile]:
        """Returns the layer's sources, headers and shape kernel sources; a file may occur several times."""
        more = self.shape_kernel.sources if self.shape_kernel else ()
        return (*self.sources, *self.headers, *more)

    @property
    def is_native(self) -> bool:
        """Whether the layer consists of machine code alone, which runs only if the user allows machine code."""
        return self.type is LayerType.CPP or any(file.sha256 for file in self.files())

    def asset_name(self, file: LayerFile) -> str:
        """Returns the asset name under which a file of this layer is registered on the device."""
        return self.op_name if file.is_asset else f"{self.op_name}/{file.path}"

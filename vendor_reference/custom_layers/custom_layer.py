"""A custom op's implementation, once its asset is read: a kernel, and how it is bound to the op."""

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
    """A file that a layer is made of.

    Attributes:
      path: from the asset's folder, with `/`.
      data: its bytes; empty where a binary layer leaves them out.
      is_asset: whether it lies in the asset itself, else a companion of it.
      sha256: of its bytes, in hex, where they are left out.
      packed_in: the asset, where the file is packed in it.
      sizes: where its bytes are left out, built-in defines that its code for all shapes takes as arguments; None
        where there is code for fixed shapes alone.
    """

    path: str
    data: bytes = field(repr=False)
    is_asset: bool = False
    sha256: str = ""
    packed_in: bytes | None = field(default=None, repr=False)
    sizes: Sequence[str] | None = None

    @property
    def digest(self) -> str:
        """SHA-256 of its bytes, in hex."""
        return self.sha256 or hashlib.sha256(self.data).hexdigest()

    @property
    def asset_data(self) -> bytes:
        """What is embedded for it: its bytes, or the asset that it is packed in."""
        return self.data if self.packed_in is None else self.packed_in


class LayerType(str, Enum):
    """What runs a layer: the task of the VPUIP level that it becomes."""

    OCL = "OCL"
    """An OpenCL kernel."""
    CPP = "CPP"
    """A function in a shared object."""


@dataclass(frozen=True, slots=True)
class Define:
    """`#define name value` in front of the sources.

    Attributes:
      name: with what else stands in front of the value: `N`, `F(x)`, `N 42`.
      type: `int`, `float`, `int[]`, `float[]`, or "" for the value as it is.
      is_plain: whether the type converts and checks nothing, and only says how an array is written.
    """

    name: str
    source: ValueSource
    type: str = ""
    is_plain: bool = False


@dataclass(frozen=True, slots=True)
class ShapeKernel:
    """A kernel of its own that finds the shapes of outputs.

    It runs as one work item, before the layer's kernel. Its arguments are the shapes of the op's inputs, then
    those of its outputs, which it writes: pointers to `uint` in global memory.
    """

    entry: str
    sources: Sequence[LayerFile]


@dataclass(frozen=True, slots=True)
class CustomLayer:
    """A kernel for an op.

    Attributes:
      op_name: name of the ops that it implements: a custom code, or a builtin op's.
      kernel: as the description has it: files, defines, and what is the op's own are not in it yet.
      sources: files that make up the program, in order.
      headers: files that they include.
      defines: put in front of the sources, behind the built-in ones.
      defines_options: whether each option is a define too, as `PARAM_<key>`.
      defines_quantization: whether each quantized tensor's scale and zero point are defines, `INPUT0_SCALE`.
      type: what runs it.
      output_shapes: for each output how its shape is found, where the model leaves it open; formulas are in input
        0's B, F, Y, X unless they say otherwise. None: not given.
      shape_kernel: finds the shapes of all outputs instead; None where there is none.
      notes: sentences for the report about what its description has, and is read otherwise than it may seem.
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
        """Of the asset, for messages."""
        return self.kernel.where

    def files(self) -> Sequence[LayerFile]:
        """Sources, then headers, then a shape kernel's sources; a file that is several occurs several times."""
        more = self.shape_kernel.sources if self.shape_kernel else ()
        return (*self.sources, *self.headers, *more)

    @property
    def is_native(self) -> bool:
        """Whether it is machine code and nothing else, which runs only where that is allowed."""
        return self.type is LayerType.CPP or any(file.sha256 for file in self.files())

    def asset_name(self, file: LayerFile) -> str:
        """What `register_asset` calls a file of this layer."""
        return self.op_name if file.is_asset else f"{self.op_name}/{file.path}"

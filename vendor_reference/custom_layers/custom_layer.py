"""A custom op's implementation, once its asset is read: a kernel, and how it is bound to the op."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from litert.core.element_type import ElementType
from vendor_reference.custom_layers.formula import Formula
from vendor_reference.custom_layers.value_sources import ValueSource


@dataclass(frozen=True, slots=True)
class LayerFile:
    """A file that a layer is made of.

    Attributes:
      path: from the asset's folder, with `/`.
      data: its bytes.
      is_asset: whether it is the asset itself, else a companion of it.
    """

    path: str
    data: bytes = field(repr=False)
    is_asset: bool = False


@dataclass(frozen=True, slots=True)
class TensorBinding:
    """Input or output `index` of the op."""

    is_output: bool
    index: int

    def __str__(self) -> str:
        return f"{'output' if self.is_output else 'input'} {self.index}"


@dataclass(frozen=True, slots=True)
class ScalarBinding:
    """A number, passed by value."""

    element_type: ElementType
    source: ValueSource


@dataclass(frozen=True, slots=True)
class ConstantBinding:
    """Numbers that kernels read from memory."""

    element_type: ElementType
    source: ValueSource


@dataclass(frozen=True, slots=True)
class LocalBinding:
    """Local memory of a work group; `size` is in elements."""

    element_type: ElementType
    size: Formula


@dataclass(frozen=True, slots=True)
class InternalBinding:
    """Scratch memory for one run of the kernel, not cleared; `size` is in elements."""

    element_type: ElementType
    size: Formula


Binding = TensorBinding | ScalarBinding | ConstantBinding | LocalBinding | InternalBinding


@dataclass(frozen=True, slots=True)
class Define:
    """`#define name value` in front of the sources.

    Attributes:
      type: `int`, `float`, `int[]`, `float[]`, or "" for the value as it is.
    """

    name: str
    source: ValueSource
    type: str = ""


@dataclass(frozen=True, slots=True)
class WorkSizes:
    """How many work items there are.

    Attributes:
      global_size: 1 to 3 formulas; empty is one work item for each element of output 0.
      local_size: as many, or empty: the driver chooses.
      of: the tensor whose B, F, Y, X the formulas use.
    """

    global_size: Sequence[Formula] = ()
    local_size: Sequence[Formula] = ()
    of: TensorBinding = TensorBinding(is_output=True, index=0)


@dataclass(frozen=True, slots=True)
class CustomLayer:
    """An OpenCL kernel for an op.

    Attributes:
      op_name: the custom code of the ops that it implements.
      file_name: of the asset, for messages.
      entry: the kernel's name; "" for the one named like the op, or the only one.
      sources: files that make up the program, in order.
      headers: files that they include.
      arguments: of the kernel, in order; None for the op's inputs, then its outputs.
      defines: put in front of the sources, behind the built-in ones.
      defines_options: whether each FlexBuffer option is a define too, as `PARAM_<key>`.
    """

    op_name: str
    file_name: str
    sources: Sequence[LayerFile]
    headers: Sequence[LayerFile] = ()
    entry: str = ""
    arguments: Sequence[Binding] | None = None
    defines: Sequence[Define] = ()
    defines_options: bool = False
    build_options: str = ""
    work_sizes: WorkSizes = field(default_factory=WorkSizes)

    def files(self) -> Sequence[LayerFile]:
        """Sources, then headers; a file that is both occurs twice."""
        return (*self.sources, *self.headers)

    def asset_name(self, file: LayerFile) -> str:
        """What `register_asset` calls a file of this layer."""
        return self.op_name if file.is_asset else f"{self.op_name}/{file.path}"

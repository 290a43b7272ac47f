"""A layer's kernel as the levels carry it: options and quantization are put in, shapes and layouts are not.

The frontend makes one of a custom layer and its op, or of a builtin op's entry in the library; it stays with the
op from level to level, as an attribute, and becomes a kernel task when layouts and shapes are settled.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TypeAlias

from litert.core.element_type import ElementType
from vendor_reference.custom_layers.custom_layer import Format
from vendor_reference.executable.cpu_op import CpuConfig, CpuOp
from vendor_reference.executable.executable import Source


@dataclass(frozen=True, slots=True)
class TensorArgument:
    """Input or output `index` of the op.

    Attributes:
      format: that the kernel asked for: it names the order where several formats have the same memory.
    """

    is_output: bool
    index: int
    format: Format = Format.ANY


@dataclass(frozen=True, slots=True)
class ShapeArgument:
    """The actual shape of an input or output, `uint` in DDR."""

    is_output: bool
    index: int


@dataclass(frozen=True, slots=True)
class ScalarArgument:
    """The bytes of `data`, passed by value."""

    element_type: ElementType
    data: bytes


@dataclass(frozen=True, slots=True)
class ConstantArgument:
    """The bytes of `data`, in memory."""

    element_type: ElementType
    data: bytes


@dataclass(frozen=True, slots=True)
class LocalArgument:
    """Local memory of a work group; `size` is a formula, in elements."""

    element_type: ElementType
    size: str


@dataclass(frozen=True, slots=True)
class InternalArgument:
    """Scratch memory for one run, in DDR; `size` is a formula, in elements."""

    element_type: ElementType
    size: str


KernelArgument: TypeAlias = (
    TensorArgument
    | ShapeArgument
    | ScalarArgument
    | ConstantArgument
    | LocalArgument
    | InternalArgument
)


@dataclass(frozen=True, slots=True)
class CpuKernel:
    """A function in a shared object, which stands where an OpenCL kernel does.

    Attributes:
      op: as its library is told of it.
      implementation: index of the library's.
      config: with all layouts settled.
      asked_shapes: the shapes of its outputs as the model has them, where runs ask the library for those with -1.
    """

    op: CpuOp
    implementation: int
    config: CpuConfig
    asked_shapes: tuple[tuple[int, ...], ...] = ()


@dataclass(frozen=True, slots=True)
class KernelSpec:
    """A kernel, and how it is bound and launched.

    Attributes:
      title: the layer's name, for the prelude and messages.
      where: the asset's file name, for messages; "" for the library's own.
      text: the library's own source; "" where `sources` are a user's.
      sources: a user's files, in order.
      headers: files that they include.
      entry: the kernel; "" for the one named like the op, or the only one, which a build tells.
      arguments: of the kernel, in order.
      defines: names and texts, in order, behind the built-in ones.
      build_options: for the OpenCL compiler.
      global_size: formulas over the B, F, Y, X of `sizes_of`; empty is one work item for each element of output 0.
      local_size: as many, or empty: the driver chooses.
      counts_from_end: whether the last dimension of `sizes_of` is X, the one before it Y, and so on.
      uses_init: whether sources, headers or defines name the `_INIT` form of a built-in array.
      max_num_shaves: 0 is no limit.
      op_name: the op that it is for, for messages and metrics; "" for `title`.
      absent_inputs: those that the op leaves out; nobody passes them.
      flat_inputs: those whose B, F, Y, X are 1, 1, 1 and all their elements.
      in_place: whether output 0 may be written over input 0.
      mentions: built-in defines of sizes that the text has; None: any can be there.
      cpu: what runs in place of an OpenCL kernel, out of the only source; nothing of the launch counts then.
    """

    title: str
    arguments: tuple[KernelArgument, ...]
    where: str = ""
    text: str = ""
    sources: tuple[Source, ...] = ()
    headers: tuple[Source, ...] = ()
    entry: str = ""
    defines: tuple[tuple[str, str], ...] = ()
    build_options: str = ""
    global_size: tuple[str, ...] = ()
    local_size: tuple[str, ...] = ()
    sizes_of: TensorArgument = TensorArgument(is_output=True, index=0)
    counts_from_end: bool = False
    uses_init: bool = False
    max_num_shaves: int = 0
    op_name: str = ""
    absent_inputs: tuple[int, ...] = ()
    flat_inputs: tuple[int, ...] = ()
    in_place: bool = False
    mentions: tuple[str, ...] | None = None
    cpu: CpuKernel | None = None

    @property
    def location(self) -> str:
        """Asset and op, for messages."""
        op = f"op '{self.op_name or self.title}'"
        return f"{self.where}, {op}" if self.where else op

"""A kernel: its arguments, its text, and how it is launched.

A description (`custom_layer.py`) has one for all ops of a name: values that each op has for itself are named by
their source. The compiler's frontend puts them in; a builtin op's entry in the library makes one without a
description. So it stays with the op from level to level, as an attribute, and becomes a kernel task when layouts
and shapes are settled.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TypeAlias

from litert.core.element_type import ElementType
from vendor_reference.custom_layers.layout import Format as Format
from vendor_reference.custom_layers.value_sources import ValueSource
from vendor_reference.executable.cpu_op import CpuConfig, CpuOp
from vendor_reference.executable.executable import Source
from vendor_reference.firmware.instructions import Command


@dataclass(frozen=True, slots=True)
class TensorArgument:
    """Input or output `index` of the op.

    Attributes:
      format: that the kernel wants it in; it also names the order where several formats have the same memory.
      element_type: that a description wants; None for the tensor's own. The frontend makes requirements of both
        this and the next.
      is_strided: whether the kernel goes by pitches and offset, and so takes a view of a larger tensor.
      is_zeroed: whether the device fills the output with zeros before each run of the kernel, which adds to it.
      order, panel: for a constant that an instruction wants packed; see `Constant`.
    """

    is_output: bool
    index: int
    format: Format = Format.ANY
    element_type: ElementType | None = None
    is_strided: bool = False
    is_zeroed: bool = False
    order: tuple[int, ...] = ()
    panel: int = 0

    def __str__(self) -> str:
        return f"{'output' if self.is_output else 'input'} {self.index}"


def tensor_arguments(num_inputs: int, num_outputs: int = 1) -> tuple[TensorArgument, ...]:
    """All inputs of an op, then its outputs, as a kernel of the library takes them."""
    inputs = (TensorArgument(is_output=False, index=index) for index in range(num_inputs))
    outputs = (TensorArgument(is_output=True, index=index) for index in range(num_outputs))
    return (*inputs, *outputs)


@dataclass(frozen=True, slots=True)
class DataArgument:
    """The constant input of that name; the frontend finds it.

    Attributes:
      is_flat: whether its B, F, Y, X are 1, 1, 1 and all its elements, as configurations have data.
    """

    name: str
    is_flat: bool = False


@dataclass(frozen=True, slots=True)
class ShapeArgument:
    """The actual shape of an input or output, as `uint` in memory, in the tensor's own order of dimensions.

    That of an output is the kernel's to write: it finds its result's shape itself.
    """

    is_output: bool
    index: int


@dataclass(frozen=True, slots=True)
class _NumberArgument:
    """Where numbers come from, or their bytes."""

    element_type: ElementType
    source: ValueSource

    @property
    def data(self) -> bytes:
        """The bytes that the frontend has put in."""
        assert isinstance(self.source, bytes)
        return self.source


class ScalarArgument(_NumberArgument):
    """A number, passed by value."""

    __slots__ = ()


class ConstantArgument(_NumberArgument):
    """Numbers that kernels read from memory."""

    __slots__ = ()


@dataclass(frozen=True, slots=True)
class LocalArgument:
    """Local memory of a work group; `size` is a formula, in elements."""

    element_type: ElementType
    size: str


@dataclass(frozen=True, slots=True)
class InternalArgument:
    """Scratch memory in DDR for one run of the kernel, not cleared; `size` is a formula, in elements.

    `element_type` is None in a description for that of input 0.
    """

    element_type: ElementType | None
    size: str


KernelArgument: TypeAlias = (
    TensorArgument
    | DataArgument
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
      title: the layer's name, for the prelude and messages; "" in a description for the op's.
      where: the asset's file name, for messages; "" for the library's own.
      sources: files, in order.
      headers: files that they include.
      entry: the kernel; "" for the one named like the op, or the only one, which a build tells.
      arguments: of the kernel, in order; none in a description for the op's inputs, then its outputs.
      defines: names and texts, in order, behind the built-in ones.
      build_options: for the OpenCL compiler.
      global_size: formulas over the B, F, Y, X of `sizes_of`; empty is one work item for each element of output 0.
      local_size: as many, or empty: the driver chooses. Of a configuration, 1 stands for those that lack, and
        those beyond are defines alone.
      counts_from_end: whether the last dimension of `sizes_of` is X, the one before it Y, and so on.
      uses_init: whether sources, headers or defines name the `_INIT` form of a built-in array.
      max_num_shaves: the most vector processors that it may be spread over; 0 is no limit.
      op_name: the op that it is for, for messages and metrics; "" for `title`.
      absent_inputs: those that the op leaves out; nobody passes them.
      flat_inputs: those whose B, F, Y, X are 1, 1, 1 and all their elements.
      in_place: whether output 0 may be written over input 0.
      mentions: built-in defines of sizes that the text has; None: any can be there.
      commands: of the firmware, which run in place of an OpenCL kernel; a place is the index of its argument.
        Nothing of the launch counts then.
      cpu_layer: what runs in place of an OpenCL kernel, out of the only source; nothing of the launch counts then.
    """

    title: str = ""
    arguments: tuple[KernelArgument, ...] = ()
    where: str = ""
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
    commands: tuple[Command, ...] = ()
    cpu_layer: CpuKernel | None = None

    @property
    def location(self) -> str:
        """Asset and op, for messages."""
        op = f"op '{self.op_name or self.title}'"
        return f"{self.where}, {op}" if self.where else op

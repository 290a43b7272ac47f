"""A kernel's specification: its arguments, its text, and how it is launched.

A description (`custom_layer.py`) has one specification for all ops of a name, and names the sources of each op's
own values. The compiler's frontend fills in these values; the library makes specifications of builtin ops without
a description. The specification is an attribute of the op on all levels, and becomes a kernel task when layouts
and shapes are known.
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
      format: Format that the kernel wants; it also names the order if several formats have the same memory.
      element_type: Element type that the description asks for; None for the tensor's own. The frontend turns this
        field and the next into requirements.
      is_strided: Whether the kernel uses pitches and offset, and so accepts a view of a larger tensor.
      is_zeroed: Whether the device zeroes the output before each run, since the kernel adds to it.
      order, panel: Packing of a constant that an instruction wants; see `Constant`.
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
    """Binds all inputs of an op, then its outputs, for a kernel of the library."""
    inputs = (TensorArgument(is_output=False, index=index) for index in range(num_inputs))
    outputs = (TensorArgument(is_output=True, index=index) for index in range(num_outputs))
    return (*inputs, *outputs)


@dataclass(frozen=True, slots=True)
class DataArgument:
    """The constant input of a name, which the frontend finds.

    Attributes:
      is_flat: Whether B, F, Y, X are 1, 1, 1 and the number of elements, as for data in configurations.
    """

    name: str
    is_flat: bool = False


@dataclass(frozen=True, slots=True)
class ShapeArgument:
    """The actual shape of an input or output, as `uint` in memory, in the tensor's own order of dimensions.

    For an output, the kernel writes the shape, since it computes its result's shape itself.
    """

    is_output: bool
    index: int


@dataclass(frozen=True, slots=True)
class _NumberArgument:
    """The source of numbers, or their bytes."""

    element_type: ElementType
    source: ValueSource

    @property
    def data(self) -> bytes:
        """The bytes that the frontend filled in."""
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

    In a description, `element_type` None means that of input 0.
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
    """A function in a shared object, in place of an OpenCL kernel.

    Attributes:
      op: Description of the op for the library.
      implementation: Index of the library's implementation.
      config: Configuration with all layouts chosen.
      asked_shapes: Output shapes in the model, if runs ask the library for dimensions of -1.
    """

    op: CpuOp
    implementation: int
    config: CpuConfig
    asked_shapes: tuple[tuple[int, ...], ...] = ()


@dataclass(frozen=True, slots=True)
class KernelSpec:
    """A kernel, with its bindings and launch.

    Attributes:
      title: Name of the layer, for the prelude and messages; "" in a description for the op's name.
      where: the asset's file name, for messages; "" for the library's own.
      sources: Source files, in order.
      headers: Files that the sources include.
      entry: Name of the kernel; "" for the kernel named like the op, or the only one, which the build finds.
      arguments: Arguments of the kernel, in order; empty in a description for the op's inputs, then its outputs.
      defines: Names and texts of defines, in order, after the built-in defines.
      build_options: Build options for the OpenCL compiler.
      global_size: Formulas over B, F, Y, X of `sizes_of`; empty for one work item per element of output 0.
      local_size: Formulas of the local work size, as many; empty lets the driver choose. In a configuration,
        missing sizes are 1, and further sizes are only defines.
      counts_from_end: Whether the last dimension of `sizes_of` is X, the one before it Y, and so on.
      uses_init: whether sources, headers or defines name the `_INIT` form of a built-in array.
      max_num_shaves: Most vector processors (shaves) that may share the work; 0 for no limit.
      op_name: Name of the op, for messages and metrics; "" for `title`.
      absent_inputs: Inputs that the op omits; they are not passed.
      flat_inputs: Inputs whose B, F, Y, X are 1, 1, 1 and the number of elements.
      in_place: Whether output 0 may share the memory of input 0.
      mentions: Built-in size defines that the text uses; None if unknown.
      commands: Firmware commands that run in place of an OpenCL kernel; a place is the index of its argument.
        The launch fields are then unused.
      cpu_layer: Function in the only source that runs in place of an OpenCL kernel; the launch fields are then
        unused.
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

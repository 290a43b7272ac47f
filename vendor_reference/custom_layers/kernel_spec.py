"""A kernel's specification: its arguments, its source code, and its launch parameters.

A layer description (`custom_layer.py`) contains one kernel specification for all ops with the layer's name, and
says where the values of each single op come from. The compiler's frontend inserts these values. For builtin ops,
the kernel library creates specifications without a description. On all levels of the compiler, the specification
is an attribute of the op; when layouts and shapes are known, it becomes a kernel task.
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
    """A kernel argument that is bound to input or output `index` of the op.

    Attributes:
      format: Format (memory order) that the kernel requires; if several formats describe the same memory, it also
        determines which dimensions are B, F, Y and X.
      element_type: Element type that the description requires; None for the tensor's own type. The compiler's
        frontend converts the fields `element_type` and `is_strided` to requirements of the op.
      is_strided: Whether the kernel uses pitches and offset, and therefore accepts a view of a larger tensor.
      is_zeroed: Whether the device fills the output with zeros before each run, since the kernel accumulates in
        it.
      order, panel: How a constant must be packed for a firmware instruction; see `Constant`.
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
    """Creates the arguments of a library kernel, which are all inputs of the op and then its outputs."""
    inputs = (TensorArgument(is_output=False, index=index) for index in range(num_inputs))
    outputs = (TensorArgument(is_output=True, index=index) for index in range(num_outputs))
    return (*inputs, *outputs)


@dataclass(frozen=True, slots=True)
class DataArgument:
    """A kernel argument that is bound to a constant input by name; the compiler's frontend finds the input.

    Attributes:
      is_flat: Whether the kernel sees the data as one-dimensional (B, F and Y are 1, and X is the number of
        elements), as in `.xml` configurations.
    """

    name: str
    is_flat: bool = False


@dataclass(frozen=True, slots=True)
class ShapeArgument:
    """A kernel argument that points to the actual shape of an input or output.

    The dimensions are `uint` numbers in the tensor's own order. If the tensor is an output, the kernel itself
    computes and writes the shape.
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
    """A kernel argument that is a number, passed by value."""

    __slots__ = ()


class ConstantArgument(_NumberArgument):
    """A kernel argument that points to constant numbers in memory."""

    __slots__ = ()


@dataclass(frozen=True, slots=True)
class LocalArgument:
    """A kernel argument that is local memory of the work group; `size` is a formula for the number of elements."""

    element_type: ElementType
    size: str


@dataclass(frozen=True, slots=True)
class InternalArgument:
    """A kernel argument that is uninitialized scratch memory in DDR.

    `size` is a formula for the number of elements. In a layer description, `element_type` None stands for the
    element type of input 0.
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
    """A function in a shared object that runs in place of an OpenCL kernel.

    Attributes:
      op: Description of the op for the library of CPU layers.
      implementation: Index of the chosen implementation in the library.
      config: Configuration with all layouts chosen.
      asked_shapes: Output shapes in the model, if the library computes their unknown dimensions (-1) in each run.
    """

    op: CpuOp
    implementation: int
    config: CpuConfig
    asked_shapes: tuple[tuple[int, ...], ...] = ()


@dataclass(frozen=True, slots=True)
class KernelSpec:
    """A kernel with its argument bindings and launch parameters.

    Attributes:
      title: Name of the layer, for the prelude and messages; "" in a description stands for the op's name.
      where: File name of the asset, for messages; "" for a kernel of the kernel library.
      sources: Source files of the kernel's program, in order.
      headers: Files that the sources include.
      entry: Name of the kernel. "" stands for the kernel with the op's name, or else for the only kernel; the
        build finds this kernel.
      arguments: Arguments of the kernel, in order; in a description, no arguments stand for the op's inputs and
        then its outputs.
      defines: Names and values of the layer's defines, in order; they follow the built-in defines.
      build_options: Build options for the OpenCL compiler.
      global_size: Formulas for the global work size, over B, F, Y and X of the tensor `sizes_of`; empty for one
        work item per element of output 0.
      local_size: Formulas for the local work size, as many as for the global work size; if it is empty, the driver
        chooses the size. In an `.xml` configuration, missing local sizes are 1, and surplus local sizes are only
        defines.
      counts_from_end: Whether the letters X, Y, F and B in sizes stand for dimensions counted from the end of the
        tensor's shape: X is the last dimension, Y the second last, and so on.
      uses_init: Whether sources, headers or defines use the `_INIT` form of a built-in array.
      max_num_shaves: Maximum number of vector processors (shaves) that share the work; 0 for no limit.
      op_name: Name of the op, for messages and metrics; "" if it is the same as `title`.
      absent_inputs: Indices of the inputs that the op omits; the kernel does not get them.
      flat_inputs: Indices of the inputs that the kernel sees as one-dimensional: B, F and Y are 1, and X is the
        number of elements.
      in_place: Whether output 0 may share the memory of input 0.
      mentions: Built-in size defines that the kernel's source code uses; None if unknown.
      commands: Firmware commands that run in place of an OpenCL kernel; each field for a memory location holds the
        index of an argument. With commands, the launch fields are unused.
      cpu_layer: Function that runs in place of an OpenCL kernel; it is in the only source, which is a shared
        object. With a CPU layer, the launch fields are unused.
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
        """File name of the asset and name of the op, for messages."""
        op = f"op '{self.op_name or self.title}'"
        return f"{self.where}, {op}" if self.where else op

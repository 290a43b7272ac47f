"""The NPU executable as Python objects, which the reference compiler emits and the reference device runs.

The executable is the only interface between the reference vendor's compiler and device.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from enum import Enum
from math import prod
from typing import TypeAlias

from litert.core.element_type import ElementType
from litert.core.errors import LiteRtError
from litert.core.sizes import MOST, Shapes, Size, evaluate, find_largest
from litert.core.status import Status
from litert.core.tensor_type import RankedTensorType
from litert.model.blob import Blob
from vendor_reference.executable.cpu_op import CpuConfig, CpuOp
from vendor_reference.firmware.instructions import Instruction

ALIGNMENT = 64
"""Alignment of constants in a module, and of tensors in a function's arenas, in bytes."""

HOLE = "\ue000"
"""Placeholder for a size in a program's text: a private-use character, which no name or define contains."""


class ArgumentKind(str, Enum):
    """Kinds of memory or values that can be bound to a kernel argument."""

    INPUT = "input"
    """The argument is input `index` of the function."""
    OUTPUT = "output"
    """The argument is output `index` of the function."""
    CONSTANT = "constant"
    """The argument is constant `index` of the executable."""
    DDR = "ddr"
    """The argument is `size_bytes` bytes at `offset` in the DDR arena, which holds data between tasks."""
    CMX = "cmx"
    """The argument is `size_bytes` bytes at `offset` in the CMX arena, which is scratchpad memory."""
    LOCAL = "local"
    """The argument is `size_bytes` bytes of OpenCL local memory."""
    SCALAR = "scalar"
    """The argument is the bytes of `scalar`, passed by value."""
    SHAPE = "shape"
    """The argument is memory in DDR that contains the dimensions of shape `index` of the function."""


@dataclass(frozen=True, slots=True)
class Argument:
    """A value that is bound to a kernel argument; fields that do not apply to its kind are 0 or empty."""

    kind: ArgumentKind
    index: int = 0
    offset: int = 0
    size_bytes: int = 0
    scalar: bytes = b""


@dataclass(frozen=True, slots=True)
class Source:
    """A source file of a program.

    Attributes:
      asset: Name of the registered asset that contains the source file: the op's name, or `<op>/<path>` for a
        companion file.
      file_name: Path relative to the asset's folder. Build errors and `#include` directives contain this path.
      sha256: SHA-256 of the asset, in hex, to detect a different file under the same name.
    """

    asset: str
    file_name: str
    sha256: str


@dataclass(frozen=True, slots=True)
class Program:
    """An OpenCL program: a prelude and sources, which are built with build options.

    Equal programs are built only once.

    Attributes:
      prelude: Text that precedes the first source, with defines that describe the tensors.
      headers: Files that the sources may include. An `#include` gives a path relative to the including file's
        folder or the asset's folder.
      holes: Sizes that replace the `HOLE`s in the prelude, in order; each combination of size values makes a
        separate program.
    """

    prelude: str
    sources: Sequence[Source]
    build_options: str = ""
    headers: Sequence[Source] = ()
    holes: tuple[Size, ...] = ()


@dataclass(frozen=True, slots=True)
class KernelTask:
    """A task that launches an OpenCL kernel.

    Attributes:
      op_name: Name (custom code) of the op, for messages and metrics.
      program: Index of the kernel's program in the executable.
      global_size: Global work size, in 1 to 3 dimensions; if a dimension is 0, the kernel is not launched.
      local_size: Local work size, with as many dimensions as the global work size; if it is None, the driver
        chooses a local work size.
      num_shaves: Number of vector processors (shaves) that share the work; 0 for all shaves of the SoC.
      zeroed: Indices of the arguments whose memory is filled with zeros before each launch.
      tensor: Name that the op's first output has in the model; "" for a task that the compiler added.
      least_bytes: For each argument, the minimum size of its memory that the compiled kernel requires, in bytes; 0
        for no minimum.
      most_items: Number of work items for the largest shapes; None if this number is unknown.
    """

    op_name: str
    program: int
    entry: str
    arguments: Sequence[Argument]
    global_size: Sequence[Size]
    local_size: Sequence[Size] | None = None
    num_shaves: int = 0
    zeroed: Sequence[int] = ()
    tensor: str = ""
    least_bytes: Sequence[int] = ()
    most_items: int | None = None


@dataclass(frozen=True, slots=True)
class CpuPlace:
    """The memory of a tensor that a CPU layer reads or writes.

    Attributes:
      argument: Memory of the tensor: an input, an output, a constant or part of DDR.
      strides: Stride of each memory dimension, in elements; empty if the memory is dense.
      offset: Offset of the tensor's first element in the memory, in elements.
      shape: Index of the tensor's dynamic shape in the function; None if the shape is fixed.
    """

    argument: Argument
    strides: tuple[int, ...] = ()
    offset: int = 0
    shape: int | None = None


@dataclass(frozen=True, slots=True)
class CpuTask:
    """A task that calls a function of a CPU layer in a shared object.

    Attributes:
      op_name: Name (custom code) of the op, for messages and metrics.
      asset: Name of the asset that contains the shared object.
      op: Description of the op, in which each dynamic shape is replaced by its largest shape.
      implementation: Index of the chosen implementation in the library.
      config: Configuration of the kernel, with all layouts chosen.
      inputs: Memory of the op's inputs; None for an omitted input.
      tensor: Name that the op's first output has in the model.
    """

    op_name: str
    asset: Source
    op: CpuOp
    implementation: int
    config: CpuConfig
    inputs: tuple[CpuPlace | None, ...]
    outputs: tuple[CpuPlace, ...]
    tensor: str = ""

    @property
    def entry(self) -> str:
        """Name of the CPU layer's call, for metrics and messages."""
        return self.op.layer_type

    @property
    def places(self) -> Sequence[CpuPlace | None]:
        """The memory of the inputs and then of the outputs; None for an omitted input."""
        return (*self.inputs, *self.outputs)

    @property
    def arguments(self) -> Sequence[Argument]:
        """The memory of all inputs and outputs, in order; omitted inputs are skipped."""
        return [place.argument for place in self.places if place is not None]

    @property
    def input_shapes(self) -> Sequence[int]:
        """Indices of the input shapes that are dynamic (known only at run time)."""
        return [p.shape for p in self.inputs if p is not None and p.shape is not None]

    @property
    def shapes(self) -> Sequence[int]:
        """Indices of all input and output shapes that are dynamic (known only at run time)."""
        return [*self.input_shapes, *(p.shape for p in self.outputs if p.shape is not None)]


@dataclass(frozen=True, slots=True)
class LayerCommand:
    """A command that the firmware runs.

    Attributes:
      instruction: Name of the command's instruction; the executable lists the instruction's fields.
      words: Values of the instruction's fields in order, as 32-bit words. In a field of type `Place`, 1 means the
        first argument, and 0 means no argument.
    """

    instruction: str
    words: Sequence[Size]


@dataclass(frozen=True, slots=True)
class LayerTask:
    """A task that runs a layer of the kernel library, as a sequence of firmware commands.

    Attributes:
      op_name: Name of the builtin op, for messages and metrics.
      arguments: Memory to which the commands' fields of type `Place` refer.
      tensor: Name that the op's first output has in the model; "" for a task that the compiler added.
    """

    op_name: str
    arguments: Sequence[Argument]
    commands: Sequence[LayerCommand]
    tensor: str = ""

    @property
    def entry(self) -> str:
        """Name of the library layer, for metrics and messages."""
        return ", ".join(dict.fromkeys(command.instruction for command in self.commands))


Task: TypeAlias = KernelTask | CpuTask | LayerTask

DEQUANTIZED_INTEGERS = (
    ElementType.INT8, ElementType.UINT8, ElementType.INT16, ElementType.INT32,
)  # fmt: skip
"""Integer element types of stored constants that can be dequantized to float32."""


@dataclass(frozen=True, slots=True)
class Dequantization:
    """The conversion of a stored constant to the float32 tensor that kernels read, done once at load time.

    Attributes:
      scale, zero_point: One scale and one zero point, or one of each per index of `dimension`; both fields are
        empty for a float16 constant.
    """

    scale: Sequence[float] = ()
    zero_point: Sequence[int] = ()
    dimension: int = 0


@dataclass(frozen=True, slots=True)
class Constant:
    """A stored constant, and the form in which kernels read the constant.

    Attributes:
      tensor_type: Tensor type of the stored data, which is in row-major order.
      dequantization: How to dequantize the constant; None if kernels read the stored elements.
      order: Memory order of the dimensions for kernels, from the outermost to the innermost; empty for row-major
        order.
      panel: Number of columns in a panel, if kernels need the columns grouped into panels; otherwise 0. `[K, N]`
        becomes `[ceil(N / panel), K, panel]`, padded with zeros after the last column. All dimensions except the
        last count as rows.
    """

    tensor_type: RankedTensorType
    data: Blob
    dequantization: Dequantization | None = None
    order: Sequence[int] = ()
    panel: int = 0

    @property
    def size_bytes(self) -> int:
        """Size of the constant as kernels read it, in bytes."""
        shape, bits = self.tensor_type.shape, self.tensor_type.element_type.bits
        count = prod(shape)
        if self.panel and count:
            last = shape[self.order[-1] if self.order else -1]
            count = count // last * -(-last // self.panel) * self.panel
        return count * (32 if self.dequantization is not None else bits) // 8


class ShapeKind(str, Enum):
    """Kinds of dynamic shapes, by the part of the system that determines the shape at run time."""

    INPUT = "input"
    """The caller sets the shape, which is the shape of the function's input `index`."""
    COMPUTED = "computed"
    """The device computes the shape with the formulas `sizes`, before or during a run."""
    WRITTEN = "written"
    """The kernel of the function's task `index` writes the shape."""
    ASKED = "asked"
    """Before CPU layer task `index` runs, the task's library returns the shape of the task's output `output`."""


@dataclass(frozen=True, slots=True)
class ShapeValue:
    """The shape of a tensor with at least one dimension that is known only at run time.

    Kernels see the dimensions as `uint` numbers in the order of the tensor's dimensions.

    Attributes:
      name: Name of the tensor, for messages.
      pattern: Shape in the model, with -1 for dimensions that are known only at run time.
      bound: Largest allowed shape, for which memory is allocated. The fixed dimensions of `pattern` have the same
        size in the bound.
      offset: Offset of the stored dimensions in the function's DDR arena, in bytes.
      sizes: If the device computes the shape: for each dimension, a formula that may use earlier shapes.
    """

    name: str
    kind: ShapeKind
    pattern: tuple[int, ...]
    bound: tuple[int, ...]
    offset: int
    index: int = 0
    sizes: tuple[Size, ...] = ()
    output: int = 0

    @property
    def size_bytes(self) -> int:
        """Size of the memory in DDR that contains the dimensions, in bytes."""
        return 4 * len(self.pattern)


@dataclass(frozen=True, slots=True)
class DynamicOutput:
    """A function's output that has a dynamic shape (known only at run time); all fields are indices.

    Attributes:
      shape_output: Index of the int32 output that receives the shape.
    """

    output: int
    shape_output: int
    shape: int


@dataclass(frozen=True, slots=True)
class Tap:
    """An inner tensor of the model that can be read after a task, until a later task reuses the memory.

    Attributes:
      name: Name of the tensor in the model.
      task: Index of the task that writes the tensor.
      argument: Memory of the tensor: part of DDR or CMX, or an output.
      tensor_type: Tensor type, with the shape in the model and the element type in memory.
      strides: Stride of each dimension of the tensor, in elements.
      offset: Offset of the tensor's first element in the memory, in elements.
    """

    name: str
    task: int
    argument: Argument
    tensor_type: RankedTensorType
    strides: tuple[int, ...] = ()
    offset: int = 0


@dataclass(frozen=True, slots=True)
class Function:
    """A function of the executable: the tasks of one NPU call, in order.

    Attributes:
      name: Name of the function, for `invocation_context_create`.
      inputs, outputs: Tensor types of the inputs and outputs, in which each dynamic shape is replaced by its
        largest shape.
      ddr_size: Size of the DDR arena for shapes and for values that pass between tasks, in bytes.
      cmx_size: Size of the CMX arena (scratchpad memory), in bytes.
      shapes: Dynamic shapes (known only at run time); each shape follows the shapes from which it is computed.
      dynamic_outputs: Outputs that have a dynamic shape.
      needs_fp16: Whether the function is only for devices with fp16 arithmetic. On these devices, it replaces the
        function that has the same name, inputs and outputs and is for all devices.
      taps: Inner tensors that can be read during a run, in the order of the tasks.
    """

    name: str
    inputs: Sequence[RankedTensorType]
    outputs: Sequence[RankedTensorType]
    tasks: Sequence[Task]
    ddr_size: int = 0
    cmx_size: int = 0
    shapes: Sequence[ShapeValue] = ()
    dynamic_outputs: Sequence[DynamicOutput] = ()
    needs_fp16: bool = False
    taps: Sequence[Tap] = ()

    @property
    def kernel_tasks(self) -> Sequence[KernelTask]:
        """Lists the tasks that launch OpenCL kernels."""
        return [task for task in self.tasks if isinstance(task, KernelTask)]

    def find_bytes(self, argument: Argument, constants: Sequence[Constant]) -> int:
        """Returns the size of an argument's memory, in bytes; 0 for arguments that are values or shapes."""
        kind, index = argument.kind, argument.index
        if kind is ArgumentKind.INPUT:
            return self.inputs[index].size_bytes
        if kind is ArgumentKind.OUTPUT:
            return self.outputs[index].size_bytes
        return constants[index].size_bytes if kind is ArgumentKind.CONSTANT else argument.size_bytes

    def find_used(self, kind: ArgumentKind, *tasks: type[Task]) -> set[int]:
        """Returns the indices of all arguments of a kind in the function's tasks, or in tasks of certain types."""
        wanted = tasks or (KernelTask, CpuTask, LayerTask)
        used = (task for task in self.tasks if isinstance(task, wanted))
        return {a.index for task in used for a in task.arguments if a.kind is kind}


@dataclass(frozen=True, slots=True)
class Executable:
    """The contents of a byte code module of the reference vendor, for one SoC model.

    Attributes:
      instructions: Instructions that the module's commands use, with the fields that they had at compile time.
    """

    soc_model: str
    functions: Sequence[Function]
    programs: Sequence[Program]
    constants: Sequence[Constant]
    instructions: Sequence[Instruction] = ()

    def functions_on(self, has_fp16: bool) -> Mapping[str, Function]:
        """Returns, for each function name, the function that a device with or without fp16 arithmetic runs."""
        common = {f.name: f for f in self.functions if not f.needs_fp16}
        return common | {f.name: f for f in self.functions if f.needs_fp16 and has_fp16}

    def programs_on(self, has_fp16: bool) -> Collection[int]:
        """Lists the programs that the functions need on a device with or without fp16 arithmetic."""
        functions = self.functions_on(has_fp16).values()
        return {task.program for function in functions for task in function.kernel_tasks}


def describe_tasks(function: Function) -> str:
    """Lists the kernels of a function with their ops, without duplicates."""
    return ", ".join(dict.fromkeys(f"{t.entry} of op '{t.op_name}'" for t in function.tasks))


def most_items(global_size: Sequence[Size], shapes: Sequence[ShapeValue]) -> int:
    """Returns the number of work items for the largest shapes; raises INVALID_ARGUMENT if a size has no value."""
    return prod(find_largest(size, lambda shape: shapes[shape].bound) for size in global_size)


def work_size(
    global_size: Sequence[Size], local_size: Sequence[Size] | None, shapes: Shapes, where: str
) -> tuple[tuple[int, ...], tuple[int, ...] | None]:
    """Evaluates the formulas of a task's work sizes; if the local size is None, the driver chooses the local size.

    Raises:
      LiteRtError: INVALID_ARGUMENT, if a size has no value, if a local size is 0 or does not divide the global
        size, or if there are too many work items.
    """
    items = tuple(evaluate(size, shapes, where) for size in global_size)
    if prod(items) > MOST:
        raise LiteRtError(
            Status.INVALID_ARGUMENT,
            f"global size {list(items)} makes {prod(items)} work items, but at most {MOST} are possible",
            where,
            "Set smaller global sizes, and let each work item do more work.",
        )
    if local_size is None:
        return items, None
    group = tuple(evaluate(size, shapes, where) for size in local_size)
    if 0 in group:
        raise LiteRtError(
            Status.INVALID_ARGUMENT,
            f"local size {list(group)} contains a 0, so that a work group would have no work items",
            where,
            "Set each local size to at least 1, or omit the local sizes to let the driver choose.",
        )
    if any(g % k for g, k in zip(items, group, strict=True)):
        raise LiteRtError(
            Status.INVALID_ARGUMENT,
            f"global size {list(items)} is not a multiple of local size {list(group)}",
            where,
            "Round the global size up, for example with ((X+15)/16)*16 for a local size of 16, and let the kernel "
            "check its index.",
        )
    return items, group


def format_shape(shape: Sequence[int]) -> str:
    """Formats a shape like a shape bound, such as `100x3x?`; `?` is a dimension that is known only at run time."""
    return "x".join("?" if d < 0 else str(d) for d in shape) or "a single number"


def align(size: int) -> int:
    """Rounds a size up to a multiple of `ALIGNMENT`."""
    return (size + ALIGNMENT - 1) // ALIGNMENT * ALIGNMENT

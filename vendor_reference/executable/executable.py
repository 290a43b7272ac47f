"""The NPU executable in memory, which the reference compiler emits and the reference device runs.

It is the only interface between this vendor's compiler and device.
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
"""Alignment of constants in a module and of places in a function's arenas, in bytes."""

HOLE = "\ue000"
"""Placeholder in a text that a size replaces: a character for private use, which no name or define contains."""


class ArgumentKind(str, Enum):
    """Kinds of memory or values that a kernel argument is bound to."""

    INPUT = "input"
    """Input `index` of the function."""
    OUTPUT = "output"
    """Output `index` of the function."""
    CONSTANT = "constant"
    """Constant `index` of the executable."""
    DDR = "ddr"
    """`size_bytes` at `offset` in the function's DDR arena, for a value that passes between tasks."""
    CMX = "cmx"
    """`size_bytes` at `offset` in the function's CMX arena, the scratchpad."""
    LOCAL = "local"
    """`size_bytes` of OpenCL local memory."""
    SCALAR = "scalar"
    """The bytes of `scalar`, passed by value."""
    SHAPE = "shape"
    """The dimensions of shape `index` of the function, in DDR."""


@dataclass(frozen=True, slots=True)
class Argument:
    """One kernel argument; fields that its kind does not use are 0 or empty."""

    kind: ArgumentKind
    index: int = 0
    offset: int = 0
    size_bytes: int = 0
    scalar: bytes = b""


@dataclass(frozen=True, slots=True)
class Source:
    """A source of a program.

    Attributes:
      asset: Name of the registered asset that contains the source (an op, or a companion `<op>/<path>`).
      file_name: Path relative to the asset's folder, as build errors and `#include` name it.
      sha256: SHA-256 of the asset, in hex, which detects another file under the same name.
    """

    asset: str
    file_name: str
    sha256: str


@dataclass(frozen=True, slots=True)
class Program:
    """An OpenCL program: a prelude and sources, built with options.

    Equal programs are built once.

    Attributes:
      prelude: Text before the first source, with defines about the tensors.
      headers: Files that the sources may include, by file name, relative to the including file's folder or the
        asset's folder.
      holes: Sizes that replace the `HOLE`s in the prelude, in order; each combination of values is a program of
        its own.
    """

    prelude: str
    sources: Sequence[Source]
    build_options: str = ""
    headers: Sequence[Source] = ()
    holes: tuple[Size, ...] = ()


@dataclass(frozen=True, slots=True)
class KernelTask:
    """One kernel launch.

    Attributes:
      op_name: Custom code of the op, for messages and metrics.
      program: Index into the executable's programs.
      global_size: Global work size, 1 to 3 dimensions; a zero means that nothing is launched.
      local_size: Local work size, as many dimensions; None lets the driver choose.
      num_shaves: Number of vector processors (shaves) that share the work; 0 for all of the SoC's.
      zeroed: Indices of the arguments whose memory is zeroed before each launch.
      tensor: Name of the op's first output in the model; "" if the compiler added the task.
      least_bytes: Least size of each argument's memory that the kernel was compiled for, in bytes; 0 for none.
      most_items: Number of work items for the largest shapes; None if unknown.
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
    """The memory of a CPU layer's tensor.

    Attributes:
      argument: An input, an output, a constant or a place in DDR.
      strides: Stride of each memory dimension, in elements; empty for dense memory.
      offset: Offset of the first element, in elements.
      shape: Index of the shape that is known only at run time; None if the shape is fixed.
    """

    argument: Argument
    strides: tuple[int, ...] = ()
    offset: int = 0
    shape: int | None = None


@dataclass(frozen=True, slots=True)
class CpuTask:
    """One call of a function in a shared object.

    Attributes:
      op_name: Custom code of the op, for messages and metrics.
      asset: Name of the shared object's asset.
      op: Description of the op, with the largest shapes for dynamic ones.
      implementation: Index of the chosen implementation.
      config: The chosen configuration, with all layouts chosen.
      inputs: None for an omitted input.
      tensor: Name of the op's first output in the model.
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
        """Name of the call, for metrics and messages."""
        return self.op.layer_type

    @property
    def places(self) -> Sequence[CpuPlace | None]:
        """The memory of the inputs, then of the outputs."""
        return (*self.inputs, *self.outputs)

    @property
    def arguments(self) -> Sequence[Argument]:
        """The memory of all tensors, in order, without omitted inputs."""
        return [place.argument for place in self.places if place is not None]

    @property
    def input_shapes(self) -> Sequence[int]:
        """Indices of the input shapes that are known only at run time."""
        return [p.shape for p in self.inputs if p is not None and p.shape is not None]

    @property
    def shapes(self) -> Sequence[int]:
        """Indices of all shapes that are known only at run time."""
        return [*self.input_shapes, *(p.shape for p in self.outputs if p.shape is not None)]


@dataclass(frozen=True, slots=True)
class LayerCommand:
    """A command of the firmware.

    Attributes:
      instruction: Name of the instruction; the executable lists its fields.
      words: The fields in order, as 32-bit words; a place is the number of its argument, from 1; 0 for none.
    """

    instruction: str
    words: Sequence[Size]


@dataclass(frozen=True, slots=True)
class LayerTask:
    """A layer of the library: commands of the firmware, one after another.

    Attributes:
      op_name: Name of the builtin op, for messages and metrics.
      arguments: Memory that the commands' places refer to.
      tensor: Name of the op's first output in the model; "" if the compiler added the task.
    """

    op_name: str
    arguments: Sequence[Argument]
    commands: Sequence[LayerCommand]
    tensor: str = ""

    @property
    def entry(self) -> str:
        """Name of the layer, for metrics and messages."""
        return ", ".join(dict.fromkeys(command.instruction for command in self.commands))


Task: TypeAlias = KernelTask | CpuTask | LayerTask

DEQUANTIZED_INTEGERS = (
    ElementType.INT8, ElementType.UINT8, ElementType.INT16, ElementType.INT32,
)  # fmt: skip
"""Stored element types of constants that a scale converts to float32."""


@dataclass(frozen=True, slots=True)
class Dequantization:
    """The conversion of a stored constant to the float32 tensor that kernels read; it happens once, at load.

    Attributes:
      scale, zero_point: One, or one per index of `dimension`; both empty for float16.
    """

    scale: Sequence[float] = ()
    zero_point: Sequence[int] = ()
    dimension: int = 0


@dataclass(frozen=True, slots=True)
class Constant:
    """A stored constant, and how kernels read it.

    Attributes:
      tensor_type: Type of the stored data, in row-major order.
      dequantization: None if kernels read the stored elements.
      order: Dimension order for kernels, slowest first; empty for row-major order.
      panel: Number of elements of the last dimension that lie together: `[K, N]` becomes
        `[ceil(N / panel), K, panel]`, padded with zeros after the last column; all other dimensions are rows; 0
        for no panels.
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
    """The part of the system that determines a shape at run time."""

    INPUT = "input"
    """The caller: the shape is that of the function's input `index`."""
    COMPUTED = "computed"
    """The device computes the shape by `sizes`, before or during a run."""
    WRITTEN = "written"
    """Task `index` of the function: its kernel writes the shape."""
    ASKED = "asked"
    """The library of task `index`, a CPU layer, returns the shape of output `output` before the task runs."""


@dataclass(frozen=True, slots=True)
class ShapeValue:
    """The shape of a tensor with at least one dimension that is known only at run time.

    Kernels see the dimensions as `uint`s in the tensor's own order.

    Attributes:
      name: Name of the tensor, for messages.
      pattern: The shape in the model, with -1 for dimensions that are known only at run time.
      bound: Largest shape, for which memory is allocated. Fixed dimensions of the pattern are equal here.
      offset: Offset of the dimensions in the function's DDR arena, in bytes.
      sizes: Formula of each dimension over earlier shapes, if the device computes the shape.
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
        """Size of the dimensions in DDR, in bytes."""
        return 4 * len(self.pattern)


@dataclass(frozen=True, slots=True)
class DynamicOutput:
    """An output of a function whose shape is known only at run time; all fields are indices.

    Attributes:
      shape_output: Index of the int32 output that receives the shape.
    """

    output: int
    shape_output: int
    shape: int


@dataclass(frozen=True, slots=True)
class Tap:
    """A tensor of the model that can be read after a task, until a later task reuses the memory.

    Attributes:
      name: Name of the tensor in the model.
      task: Index of the task that writes the tensor.
      argument: a place in DDR or CMX, or an output.
      tensor_type: Shape in the model, and element type in memory.
      strides: Stride of each dimension, in elements.
      offset: Offset of the first element, in elements.
    """

    name: str
    task: int
    argument: Argument
    tensor_type: RankedTensorType
    strides: tuple[int, ...] = ()
    offset: int = 0


@dataclass(frozen=True, slots=True)
class Function:
    """One NPU call: tasks in order.

    Attributes:
      name: Function name for `invocation_context_create`.
      inputs, outputs: Tensor types, with the largest shape for dynamic ones.
      ddr_size: Size of the DDR arena, for values between tasks and for shapes, in bytes.
      cmx_size: Size of the CMX arena (the scratchpad), in bytes.
      shapes: Shapes that are known only at run time; a shape comes after the shapes that it is computed from.
      dynamic_outputs: The outputs that have a dynamic shape.
      needs_fp16: Whether the function is only for devices with fp16 arithmetic. Such devices run it in place of
        the function of the same name for all devices, which has the same inputs and outputs.
      taps: Inner tensors that can be shown, in the order of the tasks.
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
        """Lists the tasks that are kernel launches."""
        return [task for task in self.tasks if isinstance(task, KernelTask)]

    def find_bytes(self, argument: Argument, constants: Sequence[Constant]) -> int:
        """Returns the size of an argument's memory, in bytes; 0 for values and shapes."""
        kind, index = argument.kind, argument.index
        if kind is ArgumentKind.INPUT:
            return self.inputs[index].size_bytes
        if kind is ArgumentKind.OUTPUT:
            return self.outputs[index].size_bytes
        return constants[index].size_bytes if kind is ArgumentKind.CONSTANT else argument.size_bytes

    def find_used(self, kind: ArgumentKind, *tasks: type[Task]) -> set[int]:
        """Collects the indices of all arguments of a kind in the tasks, or in tasks of given types."""
        wanted = tasks or (KernelTask, CpuTask, LayerTask)
        used = (task for task in self.tasks if isinstance(task, wanted))
        return {a.index for task in used for a in task.arguments if a.kind is kind}


@dataclass(frozen=True, slots=True)
class Executable:
    """A byte code module of the reference vendor, for one SoC model.

    Attributes:
      instructions: Instructions of its commands, with their fields at compile time.
    """

    soc_model: str
    functions: Sequence[Function]
    programs: Sequence[Program]
    constants: Sequence[Constant]
    instructions: Sequence[Instruction] = ()

    def functions_on(self, has_fp16: bool) -> Mapping[str, Function]:
        """Selects the function for each name, for a device with or without fp16 arithmetic."""
        common = {f.name: f for f in self.functions if not f.needs_fp16}
        return common | {f.name: f for f in self.functions if f.needs_fp16 and has_fp16}

    def programs_on(self, has_fp16: bool) -> Collection[int]:
        """Lists the programs of the functions for such a device."""
        functions = self.functions_on(has_fp16).values()
        return {task.program for function in functions for task in function.kernel_tasks}


def describe_tasks(function: Function) -> str:
    """Lists the kernels of a function with their ops, each once."""
    return ", ".join(dict.fromkeys(f"{t.entry} of op '{t.op_name}'" for t in function.tasks))


def most_items(global_size: Sequence[Size], shapes: Sequence[ShapeValue]) -> int:
    """Computes the number of work items for the largest shapes; INVALID_ARGUMENT, if a size has no value."""
    return prod(find_largest(size, lambda shape: shapes[shape].bound) for size in global_size)


def work_size(
    global_size: Sequence[Size], local_size: Sequence[Size] | None, shapes: Shapes, where: str
) -> tuple[tuple[int, ...], tuple[int, ...] | None]:
    """Evaluates the global and local work size, of 1 to 3 dimensions; without a local size the driver chooses.

    Raises:
      LiteRtError: INVALID_ARGUMENT, if a size has no value, a local size is 0 or does not divide the global size,
        or there are too many work items.
    """
    items = tuple(evaluate(size, shapes, where) for size in global_size)
    if prod(items) > MOST:
        raise LiteRtError(
            Status.INVALID_ARGUMENT,
            f"global size {list(items)} has too many work items: {prod(items)}, the most are {MOST}",
            where,
        )
    if local_size is None:
        return items, None
    group = tuple(evaluate(size, shapes, where) for size in local_size)
    if 0 in group:
        raise LiteRtError(
            Status.INVALID_ARGUMENT,
            f"local size {list(group)} makes groups without a work item",
            where,
            "A local size is 1 or more; without a local size, the driver chooses.",
        )
    if any(g % k for g, k in zip(items, group, strict=True)):
        raise LiteRtError(
            Status.INVALID_ARGUMENT,
            f"local size {list(group)} does not divide global size {list(items)}",
            where,
            "Round the global size up, as in ((X+15)/16)*16, and let the kernel check its index.",
        )
    return items, group


def format_shape(shape: Sequence[int]) -> str:
    """Formats a shape as `100x3x?`, like bounds; `?` is a dimension that is known only at run time."""
    return "x".join("?" if d < 0 else str(d) for d in shape) or "a single number"


def align(size: int) -> int:
    """Rounds up to a multiple of `ALIGNMENT`."""
    return (size + ALIGNMENT - 1) // ALIGNMENT * ALIGNMENT

"""The NPU executable in memory: what the reference compiler emits and the reference device runs.

Compiler and device of this vendor meet here and nowhere else.
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
"""Of constants in a module, and of places in a function's arenas, in bytes."""

HOLE = "\ue000"
"""Stands in a text where a size is to be put in. It is for private use: no name and no define can have it."""


class ArgumentKind(str, Enum):
    """What a kernel argument is bound to."""

    INPUT = "input"
    """Input `index` of the function."""
    OUTPUT = "output"
    """Output `index` of the function."""
    CONSTANT = "constant"
    """Constant `index` of the executable."""
    DDR = "ddr"
    """`size_bytes` at `offset` of the function's DDR arena: a value between two tasks."""
    CMX = "cmx"
    """The same in its CMX arena, the scratchpad."""
    LOCAL = "local"
    """`size_bytes` of OpenCL local memory."""
    SCALAR = "scalar"
    """The bytes of `scalar`, passed by value."""
    SHAPE = "shape"
    """The numbers of shape `index` of the function, in DDR."""


@dataclass(frozen=True, slots=True)
class Argument:
    """One kernel argument; fields that its kind does not name are 0 or empty."""

    kind: ArgumentKind
    index: int = 0
    offset: int = 0
    size_bytes: int = 0
    scalar: bytes = b""


@dataclass(frozen=True, slots=True)
class Source:
    """A piece of a program's text.

    Attributes:
      asset: name of the registered asset that it lies in (an op, or a companion `<op>/<path>`).
      file_name: its path from the asset's folder: what build errors and `#include` call it.
      sha256: of the asset, in hex, so that another file under that name is noticed.
    """

    asset: str
    file_name: str
    sha256: str


@dataclass(frozen=True, slots=True)
class Program:
    """An OpenCL program: the prelude, then its sources, built with the options.

    Programs that are equal are built once.

    Attributes:
      prelude: text before the first source: defines that say what the kernel works on.
      headers: files that the sources may include, by file name: from the folder of the file that names
        them, or from the asset's folder.
      holes: sizes for the `HOLE`s in the prelude, in order: there is a program for each of their values.
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
      op_name: the custom op that it is for, for messages and metrics.
      program: index into the executable's programs.
      global_size: 1 to 3 sizes; a zero means that there is nothing to do.
      local_size: as many, or None: the driver chooses.
      num_shaves: vector processors that its work is spread over; 0 for all of the SoC's.
      zeroed: indices of the arguments whose memory is filled with zeros before each launch.
      tensor: the op's first output, by its name in the model; "" where the compiler added the task.
      least_bytes: of each argument's memory, 0 where it has none: the kernel was compiled for so much.
      most_items: work items that it was compiled for, with the largest shapes; None where nothing tells.
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
    """Where a tensor of a CPU layer lies.

    Attributes:
      argument: an input, output, constant or place in DDR.
      strides: in elements, of each memory dimension; empty where nothing lies between the elements.
      offset: of the first element, in elements.
      shape: index of the shape that a run tells; None where the op's is the tensor's.
    """

    argument: Argument
    strides: tuple[int, ...] = ()
    offset: int = 0
    shape: int | None = None


@dataclass(frozen=True, slots=True)
class CpuTask:
    """One call of a function in a shared object.

    Attributes:
      op_name: the custom op that it is for, for messages and metrics.
      asset: the shared object.
      op: what it is told of the op; of dynamic shapes the largest.
      implementation: index of the one that was chosen.
      config: that was chosen, with every layout settled.
      inputs: None for one that is left out.
      tensor: the op's first output, by its name in the model.
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
        """What is called, for metrics and messages."""
        return self.op.layer_type

    @property
    def places(self) -> Sequence[CpuPlace | None]:
        """Those of its inputs, then those of its outputs."""
        return (*self.inputs, *self.outputs)

    @property
    def arguments(self) -> Sequence[Argument]:
        """Where its tensors lie, in order, without inputs that are left out."""
        return [place.argument for place in self.places if place is not None]

    @property
    def input_shapes(self) -> Sequence[int]:
        """The shapes of its inputs that a run tells."""
        return [p.shape for p in self.inputs if p is not None and p.shape is not None]

    @property
    def shapes(self) -> Sequence[int]:
        """All its shapes that a run tells."""
        return [*self.input_shapes, *(p.shape for p in self.outputs if p.shape is not None)]


@dataclass(frozen=True, slots=True)
class LayerCommand:
    """A command of the firmware.

    Attributes:
      instruction: its name; the executable has its fields.
      words: the fields, in order, as 32-bit words; for a place the number of its argument, from 1 on; 0 is none.
    """

    instruction: str
    words: Sequence[Size]


@dataclass(frozen=True, slots=True)
class LayerTask:
    """A layer of the library: commands of the firmware, one after another.

    Attributes:
      op_name: the builtin op that it is for, for messages and metrics.
      arguments: memory that the commands' places are in.
      tensor: the op's first output, by its name in the model; "" where the compiler added the task.
    """

    op_name: str
    arguments: Sequence[Argument]
    commands: Sequence[LayerCommand]
    tensor: str = ""

    @property
    def entry(self) -> str:
        """What runs, for metrics and messages."""
        return ", ".join(dict.fromkeys(command.instruction for command in self.commands))


Task: TypeAlias = KernelTask | CpuTask | LayerTask

DEQUANTIZED_INTEGERS = (
    ElementType.INT8, ElementType.UINT8, ElementType.INT16, ElementType.INT32,
)  # fmt: skip
"""Stored types of constants that a scale turns into float32."""


@dataclass(frozen=True, slots=True)
class Dequantization:
    """How a stored constant becomes the float32 tensor that kernels read; done once, at load.

    Attributes:
      scale, zero_point: one, or one for each index of `dimension`; both empty for float16.
    """

    scale: Sequence[float] = ()
    zero_point: Sequence[int] = ()
    dimension: int = 0


@dataclass(frozen=True, slots=True)
class Constant:
    """A constant as it is stored, and how it is read.

    Attributes:
      tensor_type: of the stored data, in row order.
      dequantization: None where kernels read what is stored.
      order: dimensions as they lie for kernels, the slowest first; empty is row order.
      panel: elements of the last of these dimensions that lie together: `[K, N]` becomes
        `[ceil(N / panel), K, panel]`, with zeros behind the last column, and all other dimensions are rows; 0 is
        no panels.
    """

    tensor_type: RankedTensorType
    data: Blob
    dequantization: Dequantization | None = None
    order: Sequence[int] = ()
    panel: int = 0

    @property
    def size_bytes(self) -> int:
        """Of the constant as kernels read it."""
        shape, bits = self.tensor_type.shape, self.tensor_type.element_type.bits
        count = prod(shape)
        if self.panel and count:
            last = shape[self.order[-1] if self.order else -1]
            count = count // last * -(-last // self.panel) * self.panel
        return count * (32 if self.dequantization is not None else bits) // 8


class ShapeKind(str, Enum):
    """Who knows a shape."""

    INPUT = "input"
    """The caller: it is that of input `index` of the function."""
    COMPUTED = "computed"
    """The device, before a run or in it: `sizes` say how."""
    WRITTEN = "written"
    """Task `index` of the function: its kernel writes the shape."""
    ASKED = "asked"
    """The library of task `index`, a CPU layer: it says the shape of its output `output`, before the task runs."""


@dataclass(frozen=True, slots=True)
class ShapeValue:
    """The shape of a tensor, of which a run tells at least one dimension.

    Kernels see it as `uint`s in the tensor's own order of dimensions.

    Attributes:
      name: the tensor's, for messages.
      pattern: the shape as the model has it, with -1 for what a run tells.
      bound: the largest; memory is for that. Where the pattern has a number it is the same.
      offset: of the numbers in the function's DDR.
      sizes: one for each dimension, where it is computed, of shapes that stand before it.
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
        """Of the numbers in DDR."""
        return 4 * len(self.pattern)


@dataclass(frozen=True, slots=True)
class DynamicOutput:
    """An output of a function whose shape a run tells; all three are indices.

    Attributes:
      shape_output: of the int32 output that is told its shape.
    """

    output: int
    shape_output: int
    shape: int


@dataclass(frozen=True, slots=True)
class Tap:
    """A tensor of the model that can be read when a task has run, and until a later task takes its memory.

    Attributes:
      name: the tensor's, in the model.
      task: index of the task that writes it.
      argument: a place in DDR or CMX, or an output.
      tensor_type: the model's shape, and the type of what lies there.
      strides: in elements, of each dimension.
      offset: of the first element, in elements.
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
      name: what `invocation_context_create` is given.
      inputs, outputs: types; of dynamic shape the largest.
      ddr_size: of the arena for values between tasks and for shapes, in bytes.
      cmx_size: of the arena in the scratchpad, in bytes.
      shapes: that runs tell; those that others are computed of stand before them.
      dynamic_outputs: the outputs that have one of them.
      needs_fp16: whether it is for devices with fp16 arithmetic alone. They run it in the place of the function of
        its name that is for all devices, and has the same inputs and outputs.
      taps: tensors between tasks that can be shown, in the order of the tasks.
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
        """The tasks that are kernel launches."""
        return [task for task in self.tasks if isinstance(task, KernelTask)]

    def find_bytes(self, argument: Argument, constants: Sequence[Constant]) -> int:
        """The size of an argument's memory; 0 for what is by value, and for shapes."""
        kind, index = argument.kind, argument.index
        if kind is ArgumentKind.INPUT:
            return self.inputs[index].size_bytes
        if kind is ArgumentKind.OUTPUT:
            return self.outputs[index].size_bytes
        return constants[index].size_bytes if kind is ArgumentKind.CONSTANT else argument.size_bytes

    def find_used(self, kind: ArgumentKind, *tasks: type[Task]) -> set[int]:
        """The indices of all that its tasks, or those of some types, have as arguments of a kind."""
        wanted = tasks or (KernelTask, CpuTask, LayerTask)
        used = (task for task in self.tasks if isinstance(task, wanted))
        return {a.index for task in used for a in task.arguments if a.kind is kind}


@dataclass(frozen=True, slots=True)
class Executable:
    """A byte code module of the reference vendor, for one SoC model.

    Attributes:
      instructions: that its commands have, with the fields that they had when it was compiled.
    """

    soc_model: str
    functions: Sequence[Function]
    programs: Sequence[Program]
    constants: Sequence[Constant]
    instructions: Sequence[Instruction] = ()

    def functions_on(self, has_fp16: bool) -> Mapping[str, Function]:
        """What a device with fp16 arithmetic, or one without, runs for each name."""
        common = {f.name: f for f in self.functions if not f.needs_fp16}
        return common | {f.name: f for f in self.functions if f.needs_fp16 and has_fp16}

    def programs_on(self, has_fp16: bool) -> Collection[int]:
        """Indices of the programs of such a device's functions."""
        functions = self.functions_on(has_fp16).values()
        return {task.program for function in functions for task in function.kernel_tasks}


def describe_tasks(function: Function) -> str:
    """The kernels of a function, or what stands for them, with their ops, each once."""
    return ", ".join(dict.fromkeys(f"{t.entry} of op '{t.op_name}'" for t in function.tasks))


def most_items(global_size: Sequence[Size], shapes: Sequence[ShapeValue]) -> int:
    """Work items with the largest shapes; INVALID_ARGUMENT, if a size has no value then."""
    return prod(find_largest(size, lambda shape: shapes[shape].bound) for size in global_size)


def work_size(
    global_size: Sequence[Size], local_size: Sequence[Size] | None, shapes: Shapes, where: str
) -> tuple[tuple[int, ...], tuple[int, ...] | None]:
    """Global and local size in numbers, of 1 to 3 sizes; without a local one the driver chooses.

    Raises:
      LiteRtError: INVALID_ARGUMENT, if a size has no value, a local one is 0 or does not divide, or there are too
        many work items.
    """
    items = tuple(evaluate(size, shapes, where) for size in global_size)
    if prod(items) > MOST:
        raise LiteRtError(
            Status.INVALID_ARGUMENT,
            f"global size {list(items)} are too many work items: {prod(items)}, the most are {MOST}",
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
            "A local size is 1 or more; where none is given, the driver chooses.",
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
    """`100x3x?`, as bounds are written; `?` stands for what a run tells."""
    return "x".join("?" if d < 0 else str(d) for d in shape) or "a single number"


def align(size: int) -> int:
    """The next multiple of `ALIGNMENT`."""
    return (size + ALIGNMENT - 1) // ALIGNMENT * ALIGNMENT

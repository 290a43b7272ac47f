"""Makes the programs of an executable.

A program has the source code and arguments of one kernel, for one combination of buffer types.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from xdsl.dialects.builtin import ModuleOp
from xdsl.ir import Attribute

from litert.core.errors import LiteRtError
from litert.core.kernel_dims import kernel_dims
from litert.core.sizes import Size
from litert.core.status import Status
from vendor_reference.compiler.emission.function_shapes import FunctionShapes
from vendor_reference.compiler.ir.kernel_attribute import KERNEL
from vendor_reference.compiler.ir.names import read_op_name
from vendor_reference.compiler.ir.types import ranked_type
from vendor_reference.compiler.kernel_bindings import BoundArgument, describe_argument
from vendor_reference.compiler.kernel_tensor import asked_format, flat_tensor, kernel_tensor
from vendor_reference.compiler.layer_kernels import TaskKernels, all_inputs, op_shapes
from vendor_reference.compiler.levels.vpuip import GLOBAL_SIZE, LOCAL_SIZE, OclOp, TaskOp
from vendor_reference.compiler.simplegpu_defines import KernelTensor, write_prelude
from vendor_reference.compiler.work_items import (
    OpShapes,
    described_local_size,
    local_bytes,
    read_formula,
    resolve_work_sizes,
)
from vendor_reference.custom_layers.kernel_spec import KernelSpec, LocalArgument
from vendor_reference.executable.executable import LayerCommand, Program
from vendor_reference.executable.source_text import fill_program, hole_values
from vendor_reference.firmware.instructions import (
    Command,
    FieldValue,
    instruction_set,
)
from vendor_reference.programs.kernel_text import kernel_title


@dataclass(frozen=True, slots=True)
class Launch:
    """The data shared by all tasks that run one kernel on buffers of the same types.

    Attributes:
      program: Index of the program in the executable.
      bindings: Source of the value of each kernel argument.
      local_bytes: Size of each argument that is local memory, in bytes.
    """

    spec: KernelSpec
    program: int
    bindings: Sequence[BoundArgument]
    local_bytes: Sequence[int]
    global_size: Sequence[Size]
    local_size: Sequence[Size]


class Launches:
    """The launches of a module's tasks: programs with their indices; see `Lowered` for samples and titles."""

    def __init__(self, module: ModuleOp) -> None:
        self.programs: dict[Program, int] = {}
        self.samples: list[Program] = []
        self.titles: list[str] = []
        self._launches: dict[object, Launch] = {}
        self._kernels = TaskKernels(module)

    def no_kernel(self, op: TaskOp) -> KernelSpec | None:
        """Returns the spec of a task that runs firmware commands or a function on the host; otherwise None."""
        spec = self._kernels.find(op)
        is_other = spec is not None and (spec.commands or spec.cpu_layer is not None)
        return spec if is_other else None

    def find(self, op: TaskOp, shapes: FunctionShapes) -> Launch:
        """Returns the program of a task, and the source of each argument's value."""
        spec = self._kernels.find(op)
        if spec is None or not isinstance(op, OclOp):
            layer = f"function '{op.callee.root_reference.data}'" if op.callee else "compiled code"
            raise LiteRtError(
                Status.UNSUPPORTED,
                f"task {op.name} runs {layer}, but the attribute {KERNEL} that describes the kernel is missing",
                hint="Add the attribute to the function that the task calls, or to the task if the task runs "
                "compiled code.",
            )
        sizes = (op.numbers(GLOBAL_SIZE), op.numbers(LOCAL_SIZE))
        kernel = op.callee or op.attributes[KERNEL]
        told = shapes.op_shapes(op, spec)
        same = (kernel, op.inputs.types, op.outputs.types, sizes, told)
        launch = self._launches.get(same)
        if launch is None:
            launch = self._launches[same] = self._make(spec, op, sizes, told, shapes)
        return launch

    def _make(
        self,
        spec: KernelSpec,
        op: TaskOp,
        sizes: tuple[Sequence[Size], Sequence[Size]],
        told: OpShapes | None,
        function: FunctionShapes,
    ) -> Launch:
        passed, outputs = op.inputs.types, op.outputs.types
        inputs = all_inputs(spec, passed)
        shapes = told or op_shapes(spec, passed, outputs)
        if told is not None:
            sizes = resolve_work_sizes(spec, told)
        holes: list[Size] = []
        tensors = [_input(spec, i, t, shapes) for i, t in enumerate(inputs)]
        made = [
            kernel_tensor(t, asked_format(spec, True, i), shapes.outputs[i])
            for i, t in enumerate(outputs)
        ]
        local = described_local_size(spec, shapes, sizes[1])
        prelude = write_prelude(spec, tensors, made, sizes[0], local, holes)
        program = Program(prelude, spec.sources, spec.build_options, spec.headers, tuple(holes))
        if program not in self.programs:
            if program.sources:
                name = read_op_name(op.attributes)
                self.titles.append(kernel_title(name, spec.title, function.needs_fp16))
            self.programs[program] = len(self.samples)
            self.samples.append(fill_program(program, hole_values(program, function.bound)))
        read = [None if t is None else ranked_type(t) for t in inputs]
        written = [ranked_type(t) for t in outputs]
        return Launch(
            spec,
            self.programs[program],
            [describe_argument(a, read, written) for a in spec.arguments],
            [
                max(local_bytes(a, spec, shapes, function.bound), 1)
                if isinstance(a, LocalArgument)
                else 0
                for a in spec.arguments
            ],
            *sizes,
        )


def _input(
    spec: KernelSpec, index: int, ir_type: Attribute | None, shapes: OpShapes
) -> KernelTensor | None:
    """Returns an input as the kernel gets it; None for an omitted input."""
    if ir_type is None:
        return None
    if index in spec.flat_inputs:
        return flat_tensor(ir_type)
    return kernel_tensor(ir_type, asked_format(spec, False, index), shapes.inputs[index])


def assemble_command(command: Command, shapes: OpShapes | None = None) -> LayerCommand:
    """Encodes a firmware command; formulas in the command's fields refer to the run-time `shapes`.

    Raises:
      LiteRtError: UNSUPPORTED or INVALID_ARGUMENT, if the firmware has no such command.
    """
    name = command.instruction
    if name not in instruction_set():
        raise LiteRtError(Status.UNSUPPORTED, f"the firmware has no instruction '{name}'")
    instruction, values = instruction_set()[name], dict(command.fields)
    for place in values.keys() & set(instruction.places):
        number = values[place]
        assert isinstance(number, int)
        values[place] = number + 1
    resolved: dict[str, FieldValue] = {
        field: tuple(_resolve(n, shapes) for n in value)
        if isinstance(value, tuple)
        else _resolve(value, shapes)
        for field, value in values.items()
    }
    return LayerCommand(name, instruction.words(resolved))


def _resolve(number: Size | float | str, shapes: OpShapes | None) -> Size | float:
    if not isinstance(number, str):
        return number
    if shapes is None:
        raise LiteRtError(
            Status.INVALID_ARGUMENT,
            f"a field of a command is the formula '{number}', but must be a number, because all shapes are fixed",
        )
    dims = kernel_dims(shapes.inputs[0] or ()) if shapes.inputs else (1, 1, 1, 1)
    return read_formula(number).resolve(dims, shapes.inputs, shapes.outputs)

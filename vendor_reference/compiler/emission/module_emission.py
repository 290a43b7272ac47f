"""Converts VPUIP to an executable: the tasks of its functions, with programs, constants and memory locations.

This step generates the defines that precede a kernel's source code, because not all shapes, layouts and work sizes
are known earlier. A constant that kernels read is stored once for each dimension order that they need.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace

from xdsl.dialects.builtin import DenseIntOrFPElementsAttr, ModuleOp
from xdsl.dialects.func import FuncOp, ReturnOp
from xdsl.ir import BlockArgument, SSAValue

from litert.core.element_type import ElementType
from litert.core.errors import LiteRtError
from litert.core.status import Status
from litert.core.tensor_type import RankedTensorType
from litert.model.blob import Blob
from litert.model.memory_plan import MemoryPlan
from vendor_reference.compiler.emission.cpu_task import emit_cpu_task
from vendor_reference.compiler.emission.function_shapes import FunctionShapes
from vendor_reference.compiler.emission.launches import (
    Launches,
    assemble_command,
)
from vendor_reference.compiler.ir.attributes import read_fp16_of, soc_of
from vendor_reference.compiler.ir.names import (
    at_function,
    bodies,
    functions_of,
    read_op_name,
    read_taps,
)
from vendor_reference.compiler.ir.types import (
    element_strides,
    order_of,
    ranked_type,
    size_bytes_of,
)
from vendor_reference.compiler.kernel_bindings import BoundArgument
from vendor_reference.compiler.layer_kernels import at_layer
from vendor_reference.compiler.levels.layer import input_shapes_of, output_shapes_of
from vendor_reference.compiler.levels.vpuip import (
    DeclareBufferOp,
    EvaluateShapeOp,
    TaskActualShapeOfOp,
    TaskConstantOp,
    TaskOp,
    TaskViewOp,
)
from vendor_reference.custom_layers.kernel_spec import (
    ConstantArgument,
    InternalArgument,
    KernelArgument,
    KernelSpec,
    ScalarArgument,
    ShapeArgument,
    TensorArgument,
)
from vendor_reference.custom_layers.layout import Order, same_memory
from vendor_reference.executable.executable import (
    Argument,
    ArgumentKind,
    Constant,
    CpuTask,
    Executable,
    Function,
    KernelTask,
    LayerTask,
    Program,
    Tap,
    Task,
    align,
    most_items,
)
from vendor_reference.firmware.instructions import Instruction, instruction_set


@dataclass(frozen=True, slots=True)
class Lowered:
    """The result of converting a VPUIP module to an executable.

    Attributes:
      bindings: For each task of each function, the source of each argument's value, to compare with the kernel's
        declaration.
      titles: Titles of the programs with source code, in order. A title contains the name of the program's first
        op, for example `Layer relu1 using Custom Layer ReLU`.
      samples: Programs of the executable; a program that depends on shapes is generated for the largest shapes.
      notes: Sentences for the report.
      memory: Memory plan of each function that has buffers between its tasks, by function name.
    """

    executable: Executable
    bindings: Sequence[Sequence[Sequence[BoundArgument]]]
    titles: Sequence[str]
    samples: Sequence[Program]
    notes: Sequence[str] = ()
    memory: Mapping[str, MemoryPlan] = field(default_factory=dict)

    def kernel_tasks(self) -> Iterator[tuple[Function, KernelTask, Sequence[BoundArgument]]]:
        """Yields each task that runs a kernel, with its function and the sources of its argument values."""
        for function, bindings in zip(self.executable.functions, self.bindings, strict=True):
            for task, bound in zip(function.tasks, bindings, strict=True):
                if isinstance(task, KernelTask):
                    yield function, task, bound


def emit_executable(module: ModuleOp, constants: Mapping[str, Constant]) -> Lowered:
    """Makes an executable from a VPUIP module, with one function for each module function that has tasks.

    If only a build can find the kernel of a custom layer, its entry is "" until `entry_points.py` sets the entry.
    `constants` holds the constants by the keys of the module's resources.

    Raises:
      LiteRtError: INVALID_ARGUMENT, if the module contains ops of a level other than VPUIP, or a constant is
        missing.
    """
    launches, made, functions = Launches(module), EmittedConstants(constants), functions_of(module)
    emissions = [
        _FunctionEmission(function, FunctionShapes(function, functions), launches, made)
        for function, _ in bodies(module)
    ]
    emitted = [_tell_limits(emission.emit(), made.constants) for emission in emissions]
    soc, programs = soc_of(module), list(launches.programs)
    executable = Executable(soc.name, emitted, programs, made.constants, _instructions(emitted))
    bindings = [emission.bindings for emission in emissions]
    return Lowered(executable, bindings, launches.titles, launches.samples)


def _tell_limits(function: Function, constants: Sequence[Constant]) -> Function:
    """Records the shapes that a function's kernels were compiled for, so that a runtime can check them."""
    return replace(
        function,
        tasks=[
            replace(
                task,
                least_bytes=[function.find_bytes(a, constants) for a in task.arguments],
                most_items=_most_items(task, function),
            )
            if isinstance(task, KernelTask)
            else task
            for task in function.tasks
        ],
    )


def _most_items(task: KernelTask, function: Function) -> int | None:
    with suppress(LiteRtError):  # the formula has no value for the largest shapes
        return most_items(task.global_size, function.shapes)
    return None


def _instructions(functions: Sequence[Function]) -> list[Instruction]:
    """Returns the instructions in the commands of some functions."""
    tasks = [t for function in functions for t in function.tasks if isinstance(t, LayerTask)]
    used = dict.fromkeys(command.instruction for task in tasks for command in task.commands)
    return [instruction_set()[name] for name in used]


class _FunctionEmission:
    """Emits one function; launches and constants are shared by all functions."""

    def __init__(
        self,
        function: FuncOp,
        shapes: FunctionShapes,
        launches: Launches,
        constants: EmittedConstants,
    ) -> None:
        self.bindings: list[Sequence[BoundArgument]] = []
        self._function = function
        self._shapes = shapes
        self._launches = launches
        self._constants = constants
        self._places: dict[SSAValue, Argument] = {}
        self._taps: list[Tap] = []

    def emit(self) -> Function:
        function = self._function
        block = function.body.block
        written = written_arguments(function)
        inputs = [a for a in block.args if a not in written]
        outputs = [a for a in block.args if a in written]
        for kind, values in ((ArgumentKind.INPUT, inputs), (ArgumentKind.OUTPUT, outputs)):
            for index, value in enumerate(values):
                self._places[value] = Argument(kind, index)
        tasks: list[Task] = []
        for op in block.ops:
            if isinstance(op, TaskOp):
                spec = self._launches.no_kernel(op)
                if (
                    spec is not None and not op.outputs
                ):  # a task with only shapes, which the library finds
                    self._shapes.add_asked(op, spec)
                    continue
                self._shapes.settle_asked(op, len(tasks))
                self._shapes.add_written(op, len(tasks))
                self._add_taps(op, len(tasks))
                tasks.append(self._kernel_task(op) if spec is None else self._other_task(op, spec))
            elif isinstance(op, TaskActualShapeOfOp):
                place = self._places[op.source]
                self._shapes.add_input(op, place.index)
            elif isinstance(op, EvaluateShapeOp):
                self._shapes.add_computed(op)
            elif isinstance(op, DeclareBufferOp):
                kind = ArgumentKind[op.space.data]
                size = max(size_bytes_of(op.buffer.type), 1)
                offset = op.offset.value.data
                self._places[op.buffer] = Argument(kind, offset=offset, size_bytes=size)
            elif isinstance(op, TaskViewOp):
                self._places[op.result] = self._places[op.source]
            elif not isinstance(op, (TaskConstantOp, ReturnOp)):
                raise LiteRtError(
                    Status.INVALID_ARGUMENT,
                    f"op {op.name} cannot become byte code",
                    at_function(function),
                    "Run the remaining passes first: lower-ie-to-iert, lower-iert-to-vpuip, "
                    "assign-memory-spaces, plan-memory.",
                )
        self._shapes.check_settled()
        dynamic_outputs = self._shapes.dynamic_outputs(outputs)
        ddr_size = self._shapes.place(self._places, self._arena_size(ArgumentKind.DDR))
        output_types = [ranked_type(value.type) for value in outputs]
        for output in dynamic_outputs:  # the host's shapes are signed
            shape = output_types[output.shape_output].shape
            output_types[output.shape_output] = RankedTensorType.of(ElementType.INT32, shape)
        fp16_of = read_fp16_of(function)
        return Function(
            fp16_of or function.sym_name.data,
            [ranked_type(value.type) for value in inputs],
            output_types,
            tasks,
            ddr_size,
            self._arena_size(ArgumentKind.CMX),
            self._shapes.values,
            dynamic_outputs,
            needs_fp16=fp16_of is not None,
            taps=self._taps,
        )

    def _arena_size(self, kind: ArgumentKind) -> int:
        ends = [p.offset + p.size_bytes for p in self._places.values() if p.kind is kind]
        return align(max(ends, default=0))

    def _add_taps(self, op: TaskOp, task: int) -> None:
        for name, value in zip(read_taps(op.attributes), op.outputs, strict=False):
            if name:
                strides, offset = element_strides(value.type)
                place = self._place(value)
                self._taps.append(Tap(name, task, place, ranked_type(value.type), strides, offset))

    def _other_task(self, op: TaskOp, spec: KernelSpec) -> CpuTask | LayerTask:
        self.bindings.append(())
        if not spec.commands:
            return emit_cpu_task(spec, op, self._place, self._shapes.task_shapes(op))
        try:
            told = self._shapes.op_shapes(op, spec)
            commands = [assemble_command(command, told) for command in spec.commands]
        except LiteRtError as error:
            raise at_layer(error, spec) from error
        scratch = iter(op.scratch)
        arguments = [self._argument(argument, op, spec, scratch) for argument in spec.arguments]
        name = spec.op_name or spec.title
        return LayerTask(name, arguments, commands, read_op_name(op.attributes))

    def _kernel_task(self, op: TaskOp) -> KernelTask:
        launch = self._launches.find(op, self._shapes)
        spec = launch.spec
        self.bindings.append(launch.bindings)
        scratch = iter(op.scratch)
        arguments = [
            self._argument(argument, op, spec, scratch, local_bytes)
            for argument, local_bytes in zip(spec.arguments, launch.local_bytes, strict=True)
        ]
        return KernelTask(
            spec.op_name or spec.title,
            launch.program,
            "" if op.outputs else spec.entry,
            arguments,
            list(launch.global_size),
            list(launch.local_size) or None,
            op.num_shaves(),
            [
                index
                for index, argument in enumerate(spec.arguments)
                if isinstance(argument, TensorArgument) and argument.is_zeroed
            ],
            read_op_name(op.attributes),
        )

    def _argument(
        self,
        argument: KernelArgument,
        op: TaskOp,
        spec: KernelSpec,
        scratch: Iterator[SSAValue],
        local_bytes: int = 0,
    ) -> Argument:
        if isinstance(argument, TensorArgument):
            if argument.is_output:
                return self._place(op.outputs[argument.index])
            left_out = sum(absent < argument.index for absent in spec.absent_inputs)
            value = op.inputs[argument.index - left_out]
            if not (argument.order or argument.panel):
                return self._place(value)
            if not isinstance(value.owner, TaskConstantOp):
                what = (
                    f"the kernel supports only a constant as input {argument.index}, because this input must be "
                    "packed"
                )
                raise LiteRtError(Status.UNSUPPORTED, what, spec.location)
            index = self._constant(value.owner, argument.order, argument.panel)
            return Argument(ArgumentKind.CONSTANT, index)
        if isinstance(argument, ShapeArgument):
            shapes = output_shapes_of(op) if argument.is_output else input_shapes_of(op)
            if argument.index not in shapes:
                kind = "output" if argument.is_output else "input"
                what = (
                    f"the kernel needs the shape of {kind} {argument.index}, but the function does not pass this "
                    "shape"
                )
                raise LiteRtError(Status.UNSUPPORTED, what, spec.location)
            return Argument(ArgumentKind.SHAPE, self._shapes.index[shapes[argument.index]])
        if isinstance(argument, ScalarArgument):
            return Argument(ArgumentKind.SCALAR, scalar=argument.data)
        if isinstance(argument, ConstantArgument):
            count = len(argument.data) * 8 // argument.element_type.bits
            index = self._constants.values(argument.element_type, (count,), argument.data)
            return Argument(ArgumentKind.CONSTANT, index)
        if isinstance(argument, InternalArgument):
            buffer = next(scratch, None)
            if buffer is None:
                what = "the kernel needs more internal buffers than its task passes"
                raise LiteRtError(Status.UNSUPPORTED, what, spec.location)
            return self._place(buffer)
        return Argument(ArgumentKind.LOCAL, size_bytes=local_bytes)

    def _place(self, value: SSAValue) -> Argument:
        """Returns the memory location of a buffer; adds constants that a kernel reads to the executable."""
        if value not in self._places:
            owner = value.owner
            assert isinstance(owner, TaskConstantOp)
            self._places[value] = Argument(ArgumentKind.CONSTANT, self._constant(owner))
        return self._places[value]

    def _constant(self, op: TaskConstantOp, order: Order = (), panel: int = 0) -> int:
        order = order or order_of(op.output.type)
        if key := op.key():
            return self._constants.resource(key, order, panel)
        value = op.value
        assert isinstance(value, DenseIntOrFPElementsAttr)
        tensor = ranked_type(op.output.type)
        data = value.data.data
        return self._constants.values(tensor.element_type, tensor.shape, data, order, panel)


def written_arguments(function: FuncOp) -> set[SSAValue]:
    """Returns the outputs of a function: the arguments that its tasks write."""
    roots: dict[SSAValue, SSAValue] = {}
    written: set[SSAValue] = set()
    for op in function.body.block.ops:
        if isinstance(op, TaskViewOp):
            roots[op.result] = roots.get(op.source, op.source)
        elif isinstance(op, TaskOp):
            written.update(roots.get(v, v) for v in (*op.outputs, *op.output_shapes))
        elif isinstance(op, EvaluateShapeOp):
            written.add(op.shapes[-1])
    return {value for value in written if isinstance(value, BlockArgument)}


class EmittedConstants:
    """Collects the executable's constants, in the order of their indices."""

    def __init__(self, table: Mapping[str, Constant]) -> None:
        """`table` holds the constants of the module's resources, by key."""
        self.constants: list[Constant] = []
        self._table = table
        self._places: dict[object, int] = {}

    def resource(self, key: str, order: Order, panel: int = 0) -> int:
        """Returns the index of a constant from the table.

        The device loads the constant in the given order, packed as panels.
        """
        if key not in self._table:
            raise LiteRtError(
                Status.INVALID_ARGUMENT,
                f"the data of constant '{key}' is missing",
                hint="IR text contains no weights: pass --constants with constants.json of the dump, or compile "
                "the model.",
            )
        return self._constant(key, self._table[key], order, panel)

    def values(
        self,
        element_type: ElementType,
        shape: tuple[int, ...],
        data: bytes,
        order: Order = (),
        panel: int = 0,
    ) -> int:
        """Returns the index of the constant that has these bytes."""
        tensor_type = RankedTensorType.of(element_type, shape)
        constant = Constant(tensor_type, Blob(data))
        return self._constant((data, tensor_type), constant, order, panel)

    def _constant(self, key: object, constant: Constant, order: Order, panel: int) -> int:
        shape = constant.tensor_type.shape
        rows = tuple(range(len(shape)))
        if not panel and same_memory(shape, order or rows, rows):
            order = ()
        same = (key, order, panel)
        if same not in self._places:
            self._places[same] = len(self.constants)
            is_same = not order and not panel
            self.constants.append(
                constant if is_same else replace(constant, order=order, panel=panel)
            )
        return self._places[same]

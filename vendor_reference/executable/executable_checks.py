"""Checks the contents of an executable that was read from byte code, so that a run can rely on them.

The checks ensure that indices are in range, that memory lies within its arena, and that each shape is known before
a task needs the shape.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from math import prod

from litert.core.checked_json import JsonNode
from litert.core.counts import count_text, index_range, out_of_range
from litert.core.element_type import ElementType
from litert.core.errors import LiteRtError
from litert.core.sizes import MOST, Dimension, Size, shapes_in
from litert.core.tensor_type import RankedTensorType
from vendor_reference.executable.cpu_op import CpuOperand, TensorConfig, check_channels
from vendor_reference.executable.executable import (
    ALIGNMENT,
    DEQUANTIZED_INTEGERS,
    HOLE,
    Argument,
    ArgumentKind,
    CpuPlace,
    CpuTask,
    Dequantization,
    Executable,
    Function,
    KernelTask,
    LayerCommand,
    LayerTask,
    Program,
    ShapeKind,
    ShapeValue,
    format_shape,
    most_items,
    work_size,
)
from vendor_reference.executable.shape_use import (
    find_dimensions,
    find_needed,
    find_sources,
    find_times,
)

SHAPE_FIELDS: Mapping[ShapeKind, tuple[str, ...]] = {
    ShapeKind.INPUT: ("index",),
    ShapeKind.COMPUTED: ("sizes",),
    ShapeKind.WRITTEN: ("index",),
    ShapeKind.ASKED: ("index", "output"),
}
"""For each kind of dynamic shape, the fields that depend on the kind."""

_READ = (ArgumentKind.INPUT, ArgumentKind.CONSTANT)
_SIZED = {ArgumentKind.LOCAL: "local memory", ArgumentKind.DDR: "DDR", ArgumentKind.CMX: "CMX"}
_WRITTEN_PLACES = ("result", "statistics")
_PROGRAM_PLACE = "program"
_ZEROED = (ArgumentKind.OUTPUT, ArgumentKind.DDR, ArgumentKind.CMX)

_ARGUMENT_FIELDS: Mapping[ArgumentKind, tuple[str, ...]] = {
    ArgumentKind.INPUT: ("index",),
    ArgumentKind.OUTPUT: ("index",),
    ArgumentKind.CONSTANT: ("index",),
    ArgumentKind.DDR: ("offset", "size_bytes"),
    ArgumentKind.CMX: ("offset", "size_bytes"),
    ArgumentKind.LOCAL: ("size_bytes",),
    ArgumentKind.SCALAR: ("scalar",),
    ArgumentKind.SHAPE: ("index",),
}


def check_program(node: JsonNode, program: Program) -> None:
    """Checks that a program has a size for each hole (placeholder) in its prelude."""
    count = program.prelude.count(HOLE)
    if count != len(program.holes):
        raise node.error(
            f"the program has {count_text(len(program.holes), 'size')}, but its text has "
            f"{count_text(count, 'placeholder')} for sizes"
        )


def check_constant(
    node: JsonNode,
    tensor_type: RankedTensorType,
    dequantization: Dequantization | None,
    order: Sequence[int],
    panel: int,
) -> None:
    """Checks that a stored constant can be read with its type, order and scales."""
    element_type, rank = tensor_type.element_type, len(tensor_type.shape)
    if dequantization is not None:
        inner = node.at("dequantization")
        scale, zero_point = dequantization.scale, dequantization.zero_point
        if not (scale or zero_point or dequantization.dimension):
            if element_type is not ElementType.FLOAT16:
                raise inner.error(f"the constant of type {tensor_type} needs a scale, but has none")
        elif element_type not in DEQUANTIZED_INTEGERS:
            raise inner.error(f"a constant of type {tensor_type} cannot be dequantized")
        else:
            check_channels(inner, scale, zero_point, dequantization.dimension, tensor_type)
    if order:
        dims = [dim.integer(0, rank - 1) for dim in node.at("order").items(rank, rank)]
        if len(set(dims)) != rank or element_type.bits < 8:
            raise node.at("order").error(f"{dims} is not a valid dimension order for {tensor_type}")
    if panel and (not rank or element_type.bits < 8):
        raise node.at("panel").error(f"a constant of type {tensor_type} cannot have panels")


def check_argument(node: JsonNode, argument: Argument) -> None:
    """Checks that an argument has exactly the fields of its kind."""
    kind = argument.kind
    assert isinstance(node.value, dict)
    if extra := sorted(node.value.keys() - {"kind", *_ARGUMENT_FIELDS[kind]}):
        fields = "', '".join(extra)
        raise node.error(
            f"an argument of kind {kind.value} cannot have the field{'s'[: len(extra) - 1]} '{fields}'"
        )
    if kind in _SIZED and not argument.size_bytes:
        raise node.error(f"the size of {_SIZED[kind]} is 0")
    if kind is ArgumentKind.SCALAR and not argument.scalar:
        raise node.error("the scalar has no bytes")


def check_kernel_task(node: JsonNode, task: KernelTask) -> None:
    """Checks that constant work sizes match, and that only outputs and memory between tasks are zeroed."""
    for place, index in enumerate(task.zeroed):
        kind = task.arguments[index].kind if index < len(task.arguments) else None
        if kind not in _ZEROED:
            zeroed = node.at("zeroed", place)
            if kind is None:
                raise zeroed.error(out_of_range("argument", index, len(task.arguments)))
            raise zeroed.error(f"an argument of kind {kind.value} cannot be filled with zeros")
    global_size, local_size = task.global_size, task.local_size
    if local_size is not None and len(local_size) != len(global_size):
        raise node.at("local_size").error(
            f"local size {local_size} and global size {global_size} must have equally many dimensions"
        )
    if task.least_bytes:
        node.at("least_bytes").items(len(task.arguments), len(task.arguments))
    if all(isinstance(size, int) for size in (*global_size, *(local_size or ()))):
        try:
            work_size(global_size, local_size, lambda _: (), "")
        except LiteRtError as error:
            raise node.error(error.what) from None


def check_shape(node: JsonNode, shape: ShapeValue) -> None:
    """Checks that a dynamic shape has exactly the fields of its kind, and a valid bound."""
    assert isinstance(node.value, dict)
    kind, wanted = shape.kind, SHAPE_FIELDS[shape.kind]
    if wanted[0] not in node.value or ("sizes" in node.value) == ("index" in node.value):
        raise node.error(
            f"a shape of kind {kind.value} must have the field '{wanted[0]}', and no fields of other kinds"
        )
    if ("output" in node.value) != ("output" in wanted):
        raise node.error(
            f"a shape of kind {kind.value} must {'' if 'output' in wanted else 'not '}have the field 'output'"
        )
    pattern, bound = shape.pattern, shape.bound
    if len(pattern) != len(bound) or any(
        p not in (-1, b) for p, b in zip(pattern, bound, strict=True)
    ):
        what = f"{format_shape(bound)} is not a valid bound for shape {format_shape(pattern)}"
        raise node.at("bound").error(what)
    if prod(bound) > MOST:
        raise node.at("bound").error(f"{format_shape(bound)} is too large")
    if kind is ShapeKind.COMPUTED and len(shape.sizes) != len(pattern):
        what = (
            f"the shape has {count_text(len(shape.sizes), 'size')}, but "
            f"{count_text(len(pattern), 'dimension')}"
        )
        raise node.at("sizes").error(what)


def check_functions(node: JsonNode, executable: Executable, hint: str) -> None:
    """Checks that all indices, offsets and shapes in the functions of an executable are valid.

    `node` is the JSON node of the functions; `hint` is the hint in errors about equal function names.
    """
    for index, function in enumerate(executable.functions):
        checks = _FunctionChecks(node.at(index), function, executable)
        checks.check_tasks()
        checks.check_shapes()
        checks.check_dynamic_outputs()
        checks.check_order()
        checks.check_taps()
        _check_name(node.at(index), function, executable.functions[:index], hint)


def _place_mistake(offset: int, size: int, room: int, memory: str) -> str:
    """Returns why `size` bytes at an offset are not a valid piece of a memory of `room` bytes; "" if they are."""
    if offset % ALIGNMENT:
        return f"offset {offset} is not a multiple of {ALIGNMENT}"
    if offset + size > room:
        return f"{size} bytes at offset {offset} do not fit into the {room} bytes of {memory}"
    return ""


def _check_name(node: JsonNode, function: Function, before: Sequence[Function], hint: str) -> None:
    """Checks that names are unique; only an fp16 function has the name of the function that it replaces."""
    same = [other for other in before if other.name == function.name]
    if not function.needs_fp16 and not same:
        return
    if not function.needs_fp16 or len(same) > 1:
        raise node.error(f"there are two functions named '{function.name}'", hint)
    if not same:
        raise node.error(
            f"function '{function.name}' is the variant for fp16 of a function that does not exist",
            hint,
        )
    taken = same[0]
    if [*function.inputs, *function.outputs] != [*taken.inputs, *taken.outputs]:
        raise node.error(
            f"the fp16 variant of function '{function.name}' has different inputs or outputs", hint
        )


class _FunctionChecks:
    """The checks of one function."""

    def __init__(self, node: JsonNode, function: Function, executable: Executable) -> None:
        self._node = node
        self._function = function
        self._programs = executable.programs
        self._instructions = {i.name: i for i in executable.instructions}
        self._constants = executable.constants
        self._counts = {
            ArgumentKind.INPUT: len(function.inputs),
            ArgumentKind.OUTPUT: len(function.outputs),
            ArgumentKind.CONSTANT: len(executable.constants),
        }
        self._arenas = {
            ArgumentKind.DDR: function.ddr_size,
            ArgumentKind.CMX: function.cmx_size,
        }

    def check_tasks(self) -> None:
        """Checks that all arguments of tasks exist, and that their memory is large enough."""
        for index, task in enumerate(self._function.tasks):
            if isinstance(task, CpuTask):
                self._check_cpu_task(index, task)
            elif isinstance(task, LayerTask):
                self._check_layer_task(index, task)
            else:
                self._check_kernel_task(self._node.at("tasks", index), task)

    def check_shapes(self) -> None:
        """Checks that shapes lie in DDR, and that they refer to existing inputs and tasks."""
        function = self._function
        for index, shape in enumerate(function.shapes):
            node = self._node.at("shapes", index)
            offset, size = shape.offset, shape.size_bytes
            if mistake := _place_mistake(offset, size, function.ddr_size, "DDR"):
                raise node.error(mistake)
            for dimension in (d for size in shape.sizes for d in shapes_in(size)):
                self._check_dimension(dimension, index)
            if shape.kind in (ShapeKind.WRITTEN, ShapeKind.ASKED):
                node.at("index").integer(0, len(function.tasks) - 1)
            elif shape.kind is ShapeKind.INPUT:
                if shape.index >= len(function.inputs):
                    raise node.error(out_of_range("input", shape.index, len(function.inputs)))
                given = function.inputs[shape.index]
                inputs = [s.index for s in function.shapes[:index] if s.kind is ShapeKind.INPUT]
                if shape.index in inputs:
                    raise node.error(f"input {shape.index} has two shapes")
                if given.shape != shape.bound:
                    raise node.error(
                        f"input {shape.index} has type {given}, but its largest shape is "
                        f"{format_shape(shape.bound)}"
                    )

    def check_dynamic_outputs(self) -> None:
        """Checks that dynamic outputs are as large as their bounds, and that shape outputs can hold the shapes."""
        outputs, shapes = self._function.outputs, self._function.shapes
        for place, dynamic in enumerate(self._function.dynamic_outputs):
            node = self._node.at("dynamic_outputs", place)
            output, holder, index = dynamic.output, dynamic.shape_output, dynamic.shape
            if max(output, holder) >= len(outputs) or index >= len(shapes):
                raise node.error(
                    f"shape {index} of output {output} is written to output {holder}, but "
                    f"{index_range('shape', len(shapes))}, and {index_range('output', len(outputs))}"
                )
            bound = shapes[index].bound
            if outputs[output].shape != bound:
                raise node.error(
                    f"output {output} has type {outputs[output]}, but its largest shape is {format_shape(bound)}"
                )
            expected = RankedTensorType.of(ElementType.INT32, (len(bound),))
            if outputs[holder] != expected:
                raise node.error(
                    f"the output for the shape has type {outputs[holder]}, but {expected} is expected"
                )

    def check_order(self) -> None:
        """Checks that all shapes that a task needs are known when the task starts."""
        function, shapes = self._function, self._function.shapes
        for task in function.tasks:
            if isinstance(task, CpuTask):
                self._check_told_shapes(task)
        for index, shape in enumerate(shapes):
            if shape.kind is ShapeKind.ASKED:
                self._check_asked(index)
        times = find_times(function)
        for index, task in enumerate(function.tasks):
            holes: Sequence[Size] = ()
            if isinstance(task, KernelTask):
                holes = self._programs[task.program].holes
            if not isinstance(task, CpuTask):
                for dimension in find_dimensions(task, holes):
                    self._check_dimension(dimension, len(shapes))
                for argument in task.arguments:
                    if argument.kind is ArgumentKind.SHAPE and argument.index >= len(shapes):
                        what = out_of_range("shape", argument.index, len(shapes))
                        raise self._node.error(what)
            if isinstance(task, KernelTask):
                self._check_items(self._node.at("tasks", index, "global_size"), task)
            for needed in find_needed(index, task, holes, shapes):
                if times[needed] >= index:
                    what = f"task {index} needs shape {needed}, which is not known when the task starts"
                    raise self._node.error(what)

    def check_taps(self) -> None:
        """Checks that inner tensors have unique names, and lie in memory that a task can write."""
        function, names = self._function, set[str]()
        for index, tap in enumerate(function.taps):
            node, argument = self._node.at("taps", index), tap.argument
            node.at("task").integer(0, len(function.tasks) - 1)
            if tap.name in names:
                raise node.error(f"the tensor '{tap.name}' occurs twice")
            names.add(tap.name)
            is_output = argument.kind is ArgumentKind.OUTPUT
            if not is_output and argument.kind not in self._arenas:
                raise node.error(f"a tensor cannot be an argument of kind {argument.kind.value}")
            if mistake := self._argument_mistake(argument):
                raise node.at("argument").error(mistake)
            size = function.find_bytes(argument, self._constants)
            shape = tap.tensor_type.shape
            if shape or tap.strides:
                node.at("strides").items(len(shape), len(shape))
            last = sum((d - 1) * s for d, s in zip(shape, tap.strides, strict=True))
            bytes_each = tap.tensor_type.element_type.bits // 8
            if prod(shape) and (tap.offset + last + 1) * bytes_each > size:
                raise node.error(
                    f"a tensor of type {tap.tensor_type} does not fit into its {size} bytes"
                )

    def _argument_mistake(self, argument: Argument) -> str:
        kind, offset, size = argument.kind, argument.offset, argument.size_bytes
        if argument.index >= self._counts.get(kind, MOST):
            return out_of_range(kind.value, argument.index, self._counts[kind])
        if kind in self._arenas:
            return _place_mistake(offset, size, self._arenas[kind], kind.name)
        return ""

    def _check_kernel_task(self, node: JsonNode, task: KernelTask) -> None:
        """Checks that a kernel's arguments have the memory for which the kernel was compiled."""
        if not 0 <= task.program < len(self._programs):
            node.at("program").integer(0, len(self._programs) - 1)
        least = task.least_bytes or [0] * len(task.arguments)
        for number, (argument, needed) in enumerate(zip(task.arguments, least, strict=True)):
            there = node.at("arguments", number)
            if mistake := self._argument_mistake(argument):
                raise there.error(mistake)
            size = self._function.find_bytes(argument, self._constants)
            if size < needed:
                raise there.error(
                    f"the argument has {size} bytes, but the kernel was compiled for at least {needed}"
                )

    def _check_items(self, node: JsonNode, task: KernelTask) -> None:
        if task.most_items is None:
            return
        try:
            items = most_items(task.global_size, self._function.shapes)
        except LiteRtError as error:
            raise node.error(error.what) from None
        if items > task.most_items:
            what = f"the launch has {items} work items, but the kernel was compiled for at most {task.most_items}"
            raise node.error(what)

    def _check_layer_task(self, index: int, task: LayerTask) -> None:
        node = self._node.at("tasks", index)
        for number, command in enumerate(task.commands):
            self._check_command(node.at("commands", number), command, task.arguments)
        for number, argument in enumerate(task.arguments):
            self._place_size(node.at("arguments", number), argument)

    def _check_command(
        self, node: JsonNode, command: LayerCommand, arguments: Sequence[Argument]
    ) -> None:
        instruction = self._instructions.get(command.instruction)
        if instruction is None:
            raise node.error(
                f"the executable does not describe instruction '{command.instruction}'"
            )
        if len(command.words) != instruction.num_words:
            node.at(1).items(instruction.num_words, instruction.num_words)
        names = dict(zip(instruction.place_words, instruction.places, strict=True))
        for number, word in enumerate(command.words):
            if isinstance(word, int):
                most = len(arguments) if number in names else 2**32 - 1
                if word > most:
                    node.at(1, number).integer(0, most)
            elif number in names:
                raise node.at(1, number).error(
                    "a command refers to an argument by a formula, but must use a number"
                )
        for number, name in names.items():
            word = command.words[number]
            assert isinstance(word, int)
            kind = arguments[word - 1].kind if word else None
            if name in _WRITTEN_PLACES and kind in _READ:
                raise node.at(1, number).error(
                    f"the {name} of a command cannot be memory of kind {kind.value}"
                )
            if name == _PROGRAM_PLACE and kind is not ArgumentKind.CONSTANT:
                raise node.at(1, number).error("the program of a command must be a constant")

    def _check_cpu_task(self, index: int, task: CpuTask) -> None:
        config, op = task.config, task.op
        for name, places, operands, tensors in (
            ("inputs", task.inputs, op.inputs, config.inputs),
            ("outputs", task.outputs, op.outputs, config.outputs),
        ):
            nodes = self._node.at("tasks", index, name).items(len(operands), len(operands))
            parts = zip(nodes, places, operands, tensors, strict=True)
            for node, place, operand, tensor in parts:
                if operand is None or tensor is None:
                    if place is not None:
                        raise node.error("memory is given for an omitted input")
                    continue
                if place is None:
                    raise node.error("null is not an object")
                size = self._place_size(node.at("argument"), place.argument)
                if name == "outputs" and place.argument.kind in _READ:
                    read = f"{place.argument.kind.value} {place.argument.index}"
                    raise node.error(f"a CPU layer's output cannot be {read}")
                self._check_place(node, place, operand, tensor, size)

    def _place_size(self, node: JsonNode, argument: Argument) -> int:
        """Returns the size of the memory that an argument refers to, in bytes."""
        kind = argument.kind
        if mistake := self._argument_mistake(argument):
            raise node.error(mistake)
        if kind not in self._arenas and kind not in self._counts:
            raise node.error(f"a tensor cannot be an argument of kind {kind.value}")
        return self._function.find_bytes(argument, self._constants)

    @staticmethod
    def _check_place(
        node: JsonNode, place: CpuPlace, operand: CpuOperand, tensor: TensorConfig, size: int
    ) -> None:
        """Checks that a tensor lies completely in its memory."""
        layout = tensor.layout
        assert layout is not None
        shape = operand.tensor_type.shape
        dims, strides = layout.dims(shape), place.strides or layout.strides(shape)
        if place.strides:
            node.at("strides").items(len(dims), len(dims))
        last = sum((d - 1) * s for d, s in zip(dims, strides, strict=True))
        bytes_each = tensor.element_type.bits // 8
        needed = (place.offset + last + 1) * bytes_each if prod(dims) else 0
        if needed > size:
            raise node.error(
                f"a tensor of type {operand.tensor_type} in layout {layout} needs {needed} bytes, but has {size} "
                "bytes"
            )

    def _check_told_shapes(self, task: CpuTask) -> None:
        """Checks that the memory of dynamic tensors is allocated for their bounds."""
        shapes, node = self._function.shapes, self._node
        for place, operand in zip(task.places, task.op.operands, strict=True):
            if place is None or operand is None or place.shape is None:
                continue
            if place.shape >= len(shapes):
                raise node.error(out_of_range("shape", place.shape, len(shapes)))
            shape = shapes[place.shape]
            if shape.bound != operand.tensor_type.shape:
                raise node.error(
                    f"a tensor has type {operand.tensor_type}, but its largest shape is "
                    f"{format_shape(shape.bound)}"
                )
            if place.strides or place.offset:
                raise node.error("a tensor of dynamic shape cannot have strides or an offset")
            if task.config.dynamic_batch and -1 in shape.pattern[1:]:
                raise node.error(
                    "a kernel with a dynamic batch cannot take a tensor of shape "
                    f"{format_shape(shape.pattern)}"
                )

    def _check_asked(self, index: int) -> None:
        """Checks that a library's shape belongs to an output of its task, and follows the shapes of the inputs."""
        shape, node = self._function.shapes[index], self._node
        task = self._function.tasks[shape.index]
        if not isinstance(task, CpuTask) or shape.output >= len(task.outputs):
            raise node.error(
                f"shape {index} refers to output {shape.output} of task {shape.index}, which is not an "
                "output of a CPU layer"
            )
        if task.outputs[shape.output].shape != index:
            raise node.error(f"shape {index} differs from the shape that its output has")
        for source in find_sources(shape, self._function.tasks):
            if source >= index:
                raise node.error(
                    f"shape {index} is computed from shape {source}, which comes after it"
                )

    def _check_dimension(self, dimension: Dimension, num_known: int) -> None:
        """Checks that a dimension belongs to one of the first `num_known` shapes."""
        shapes = self._function.shapes
        if dimension.shape >= len(shapes):
            raise self._node.error(out_of_range("dynamic shape", dimension.shape, len(shapes)))
        if dimension.shape >= num_known:
            raise self._node.error(
                f"dynamic shape {dimension.shape} is used before the shape is known"
            )
        rank = len(shapes[dimension.shape].pattern)
        if dimension.index >= rank:
            raise self._node.error(
                f"dynamic shape {dimension.shape}: {out_of_range('dimension', dimension.index, rank)}"
            )

"""Partitions become an executable: a function for each, with a task for each op.

What lives between two tasks has its place in DDR.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from math import prod

from litert.core.element_type import ElementType
from litert.core.errors import LiteRtError
from litert.core.status import Status
from litert.core.tensor_type import RankedTensorType
from litert.model.graph import Op, Subgraph, Tensor
from vendor_reference.compiler.kernel_bindings import BoundArgument, describe_binding
from vendor_reference.compiler.memory_planner import LiveRange, plan_memory
from vendor_reference.compiler.module_builder import ModuleBuilder, pack_numbers
from vendor_reference.compiler.overriding import find_layer
from vendor_reference.compiler.prelude import write_prelude
from vendor_reference.compiler.selection import find_refusal
from vendor_reference.compiler.work_items import evaluate_work_sizes, op_dims
from vendor_reference.custom_layers.custom_layer import (
    Binding,
    ConstantBinding,
    CustomLayer,
    DataBinding,
    InternalBinding,
    LocalBinding,
    ScalarBinding,
    ShapeBinding,
    TensorBinding,
)
from vendor_reference.custom_layers.value_sources import OpValues
from vendor_reference.executable.executable import (
    Argument,
    ArgumentKind,
    Dequantization,
    Executable,
    Function,
    KernelTask,
    Program,
)
from vendor_reference.soc import SocModel

_COPY = Program(
    "__kernel void copy_floats(__global const float* from, __global float* to)\n"
    "{\n    to[get_global_id(0)] = from[get_global_id(0)];\n}\n",
    (),
)
"""Hands a dequantized constant out of its partition, to where another partition reads it."""


@dataclass(frozen=True, slots=True)
class Lowered:
    """What the partitions became.

    Attributes:
      bindings: for each task of each function what its arguments are, to compare its kernel with.
      notes: sentences for the report.
    """

    executable: Executable
    bindings: Sequence[Sequence[Sequence[BoundArgument]]]
    notes: Sequence[str]


def lower_partitions(
    soc: SocModel, partitions: Sequence[Subgraph], layers: Mapping[str, CustomLayer]
) -> Lowered:
    """Makes an executable with a function `Partition_<n>` for each partition.

    Its tasks for custom ops have "" as their entry: `entry_points.py` settles it.

    Args:
      soc: what it is made for.
      partitions: mostly of ops that `select_ops` took.
      layers: by custom code.

    Raises:
      LiteRtError: UNSUPPORTED, if a partition does not fit into the SoC, or has an op that the NPU does not
        take; INVALID_ARGUMENT, if an asset does not fit its op.
    """
    module = ModuleBuilder(soc.name)
    bindings: list[Sequence[Sequence[BoundArgument]]] = []
    notes: list[str] = []
    for index, partition in enumerate(partitions):
        lowering = _FunctionLowering(soc, module, layers, notes)
        module.add_function(lowering.lower(f"Partition_{index}", partition))
        bindings.append(lowering.bindings)
    return Lowered(module.build(), bindings, list(dict.fromkeys(notes)))


@dataclass(frozen=True, slots=True)
class _InDdr:
    """A place in DDR, not planned yet: an index into the live ranges."""

    index: int


_Place = Argument | _InDdr


@dataclass(frozen=True, slots=True)
class _Step:
    """A task whose arguments have no offsets yet."""

    op_name: str
    program: int
    entry: str
    arguments: Sequence[_Place]
    global_size: Sequence[int]
    local_size: Sequence[int]
    bindings: Sequence[BoundArgument] = ()


class _FunctionLowering:
    """One partition on its way."""

    def __init__(
        self,
        soc: SocModel,
        module: ModuleBuilder,
        layers: Mapping[str, CustomLayer],
        notes: list[str],
    ) -> None:
        self._soc = soc
        self._module = module
        self._layers = layers
        self._notes = notes
        self._places: dict[Tensor, _Place] = {}
        self._ranges: list[LiveRange] = []
        self._steps: list[_Step] = []

    def lower(self, name: str, partition: Subgraph) -> Function:
        if all(find_layer(op, self._layers) is None for op in partition.ops):  # a half of one
            raise LiteRtError(
                Status.UNSUPPORTED, "a constant whose readers stay on the CPU stays there too"
            )
        for place, op in enumerate(partition.ops):  # any, where the host compiles whole subgraphs
            if reason := find_refusal(op, self._layers):
                where = f"op {place} of '{partition.name}'"
                raise LiteRtError(Status.UNSUPPORTED, f"{op.name}: {reason}", where)
        for index, tensor in enumerate(partition.inputs):
            self._places[tensor] = Argument(ArgumentKind.INPUT, index)
        outputs = {t: Argument(ArgumentKind.OUTPUT, i) for i, t in enumerate(partition.outputs)}
        for op in partition.ops:
            layer = find_layer(op, self._layers)
            if layer is not None:
                self._lower_custom(op, layer, outputs)
            else:
                self._lower_dequantize(op, outputs)
        plan = plan_memory(self._ranges)
        if plan.size > self._soc.ddr_size:
            raise LiteRtError(
                Status.UNSUPPORTED,
                f"{plan.size} bytes live between its tasks, {self._soc.name} has "
                f"{self._soc.ddr_size} of DDR",
            )
        return Function(
            name,
            [_type(t) for t in partition.inputs],
            [_type(t) for t in partition.outputs],
            [self._task(step, plan.offsets) for step in self._steps],
            plan.size,
        )

    @property
    def bindings(self) -> Sequence[Sequence[BoundArgument]]:
        """What the arguments of each task are."""
        return [step.bindings for step in self._steps]

    def _lower_dequantize(self, op: Op, outputs: Mapping[Tensor, Argument]) -> None:
        """A constant that the device dequantizes as it loads it: no task, unless others read it."""
        assert op.name == "DEQUANTIZE" and op.inputs[0] is not None
        stored, result = op.inputs[0], op.outputs[0]
        index = self._module.tensor_constant(stored, _dequantization(stored))
        constant = self._places[result] = Argument(ArgumentKind.CONSTANT, index)
        if result in outputs:
            program = self._module.add_program(_COPY)
            size = [prod(result.shape)]
            arguments = [constant, outputs[result]]
            self._steps.append(_Step(op.name, program, "copy_floats", arguments, size, ()))

    def _lower_custom(self, op: Op, layer: CustomLayer, outputs: Mapping[Tensor, Argument]) -> None:
        for tensor in op.outputs:
            self._places[tensor] = outputs.get(tensor) or self._in_ddr(_type(tensor).size_bytes)
        values = OpValues(op)
        try:
            global_size, local_size = evaluate_work_sizes(layer.work_sizes, op)
            bindings = _bindings(layer, op)
            arguments = [self._argument(b, op, layer, values) for b in bindings]
            self._check_cmx(arguments)
            prelude = write_prelude(layer, op, values, global_size, local_size, self._notes)
        except LiteRtError as error:
            where = ", ".join(dict.fromkeys((layer.file_name, f"op '{op.name}'")))
            raise LiteRtError(error.status, error.what, where, error.hint) from error
        program = self._module.program(layer, prelude)
        bound = [describe_binding(b, op) for b in bindings]
        self._steps.append(_Step(op.name, program, "", arguments, global_size, local_size, bound))

    def _argument(self, binding: Binding, op: Op, layer: CustomLayer, values: OpValues) -> _Place:
        if isinstance(binding, TensorBinding):
            return self._tensor_argument(binding, op)
        if isinstance(binding, ScalarBinding):
            scalar = pack_numbers(binding.element_type, values.resolve(binding.source))
            if len(scalar) * 8 != binding.element_type.bits:
                raise LiteRtError(Status.INVALID_ARGUMENT, "a scalar argument with several values")
            return Argument(ArgumentKind.SCALAR, scalar=scalar)
        if isinstance(binding, ConstantBinding):
            value = values.resolve(binding.source)
            index = self._module.value_constant(binding.element_type, value)
            return Argument(ArgumentKind.CONSTANT, index)
        if isinstance(binding, (DataBinding, ShapeBinding)):
            raise LiteRtError(Status.UNSUPPORTED, "an argument that is data or a shape")
        count = binding.size.evaluate(
            op_dims(op, layer.work_sizes.of),
            [tensor.shape if tensor else None for tensor in op.inputs],
            [tensor.shape for tensor in op.outputs],
        )
        size = count * _element_type(binding, op).bits // 8
        if isinstance(binding, InternalBinding):
            return self._in_ddr(size)
        return Argument(ArgumentKind.LOCAL, size_bytes=max(size, 1))

    def _tensor_argument(self, binding: TensorBinding, op: Op) -> _Place:
        tensors = op.outputs if binding.is_output else op.inputs
        tensor = tensors[binding.index] if binding.index < len(tensors) else None
        if tensor is None:
            kind = "outputs" if binding.is_output else "inputs"
            raise LiteRtError(
                Status.INVALID_ARGUMENT,
                f"an argument is {binding}, the op has {len(tensors)} {kind}",
            )
        if tensor not in self._places and tensor.is_constant:
            self._places[tensor] = Argument(
                ArgumentKind.CONSTANT, self._module.tensor_constant(tensor)
            )
        if tensor not in self._places:
            raise LiteRtError(Status.UNSUPPORTED, f"{binding} is written by nobody")
        place = self._places[tensor]
        if isinstance(place, _InDdr):  # it lives until here
            alive = self._ranges[place.index]
            self._ranges[place.index] = LiveRange(alive.size_bytes, alive.first, len(self._steps))
        return place

    def _check_cmx(self, arguments: Sequence[_Place]) -> None:
        size = sum(
            a.size_bytes
            for a in arguments
            if isinstance(a, Argument) and a.kind is ArgumentKind.LOCAL
        )
        if size > self._soc.cmx_size:
            raise LiteRtError(
                Status.UNSUPPORTED,
                f"{size} bytes of local memory, {self._soc.name} has {self._soc.cmx_size} of CMX",
            )

    def _in_ddr(self, size: int) -> _InDdr:
        """New memory for the step that is being made."""
        now = len(self._steps)
        self._ranges.append(LiveRange(max(size, 1), now, now))
        return _InDdr(len(self._ranges) - 1)

    def _task(self, step: _Step, offsets: Sequence[int]) -> KernelTask:
        arguments = [
            Argument(
                ArgumentKind.DDR,
                offset=offsets[a.index],
                size_bytes=self._ranges[a.index].size_bytes,
            )
            if isinstance(a, _InDdr)
            else a
            for a in step.arguments
        ]
        local_size = step.local_size or None
        return KernelTask(
            step.op_name, step.program, step.entry, arguments, step.global_size, local_size
        )


def _element_type(binding: LocalBinding | InternalBinding, op: Op) -> ElementType:
    """Of scratch memory: what the description says, else that of the first input."""
    if binding.element_type is not None:
        return binding.element_type
    if not op.inputs or op.inputs[0] is None:
        raise LiteRtError(
            Status.INVALID_ARGUMENT, "internal memory of input 0's type, and no input 0"
        )
    return op.inputs[0].element_type


def _bindings(layer: CustomLayer, op: Op) -> Sequence[Binding]:
    """The layer's arguments, or inputs and outputs in order; each output is among them."""
    if layer.arguments is None:
        inputs = [TensorBinding(False, i) for i in range(len(op.inputs))]
        return [*inputs, *(TensorBinding(True, i) for i in range(len(op.outputs)))]
    bound = {b.index for b in layer.arguments if isinstance(b, TensorBinding) and b.is_output}
    for index in range(len(op.outputs)):
        if index not in bound:
            raise LiteRtError(
                Status.INVALID_ARGUMENT,
                f"output {index} of the op is no argument of the kernel",
                hint="Bind each output.",
            )
    return layer.arguments


def _dequantization(stored: Tensor) -> Dequantization:
    if stored.element_type is ElementType.FLOAT16:
        return Dequantization()
    quantization = stored.quantization
    assert quantization is not None  # `select_ops` has seen to it
    scales = [float(s) for s in quantization.scale]
    zero_points = [int(z) for z in quantization.zero_point] or [0] * len(scales)
    dimension = quantization.quantized_dimension if len(scales) > 1 else 0
    return Dequantization(scales, zero_points, dimension)


def _type(tensor: Tensor) -> RankedTensorType:
    return RankedTensorType.of(tensor.element_type, tensor.shape)

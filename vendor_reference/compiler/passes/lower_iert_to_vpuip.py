"""`lower-iert-to-vpuip`: converts layers on buffers to tasks.

The work sizes of a task depend on the shapes of its buffers.

    func.call @Softsign(%in, %out) : (memref<4xf32>, memref<4xf32>) -> ()

    VPUIP.OCL @Softsign (%in) -> (%out) {global_size = array<i64: 4>, num_shaves = 4 : i64}

The kernel of a builtin op becomes an external function, like the kernel of a custom layer; equal kernels share one
function.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import singledispatchmethod
from itertools import islice
from math import prod

from xdsl.context import Context
from xdsl.dialects.builtin import (
    ArrayAttr,
    DenseArrayBase,
    ModuleOp,
    i64,
)
from xdsl.dialects.func import CallOp, FuncOp
from xdsl.ir import Attribute, Operation, SSAValue

from litert.core.counts import count_text
from litert.core.errors import LiteRtError
from litert.core.output_shape import SameShape
from litert.core.status import Status
from vendor_reference.compiler.ir.assembly import number
from vendor_reference.compiler.ir.attributes import read_task, soc_of
from vendor_reference.compiler.ir.buffer_groups import BufferGroups
from vendor_reference.compiler.ir.edits import replace_op
from vendor_reference.compiler.ir.kernel_attribute import (
    KERNEL,
    MAX_NUM_SHAVES,
    count_outputs,
    kernel_attributes,
    read_kernel,
    read_max_num_shaves,
)
from vendor_reference.compiler.ir.names import (
    SymbolNames,
    bodies,
    functions_of,
    keep_names,
    without_names,
)
from vendor_reference.compiler.ir.shape_attributes import (
    DYNAMIC_INPUTS,
    DYNAMIC_OUTPUTS,
    OUTPUT_SHAPES,
    found_by_kernel,
    output_shapes_attribute,
    read_ports,
)
from vendor_reference.compiler.layer_kernels import (
    at_layer,
    function_spec,
    layer_spec,
    op_shapes,
)
from vendor_reference.compiler.levels.iert import (
    BufferActualShapeOfOp,
    BufferConstantOp,
    BufferCustomBinaryLayerOp,
    BufferLayerOp,
    ViewOp,
)
from vendor_reference.compiler.levels.layer import (
    input_shapes_of,
    output_shapes_of,
)
from vendor_reference.compiler.levels.vpuip import (
    GLOBAL_SIZE,
    LOCAL_SIZE,
    NUM_SHAVES,
    CommandOp,
    CppOp,
    EvaluateShapeOp,
    OclOp,
    TaskActualShapeOfOp,
    TaskConstantOp,
    TaskOp,
    TaskViewOp,
)
from vendor_reference.compiler.pass_pipeline import CompilerPass
from vendor_reference.compiler.shape_functions import FORMULAS
from vendor_reference.compiler.work_items import evaluate_work_sizes, local_bytes
from vendor_reference.custom_layers.kernel_spec import (
    InternalArgument,
    KernelSpec,
    LocalArgument,
    ShapeArgument,
)
from vendor_reference.soc import SocModel


@dataclass(frozen=True)
class LowerIertToVpuip(CompilerPass):
    """Converts layers on buffers to NPU tasks, and computes the work sizes of the tasks."""

    name = "lower-iert-to-vpuip"
    AFTER = "place-parts"

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        lowering = _TaskLowering(op)
        lower = lowering.lower
        for _, block in bodies(op):
            for one in list(block.ops):
                lower(one)
        first = op.body.block.first_op
        assert first is not None or not lowering.new_functions
        if first is not None:
            op.body.block.insert_ops_before(lowering.new_functions, first)


PASS = LowerIertToVpuip

_TASKS: dict[str, type[TaskOp]] = {"OCL": OclOp, "CPP": CppOp}


@dataclass(frozen=True, slots=True)
class _Layer:
    """A layer's function and the facts about it; dynamic inputs and outputs are those with shape values.

    The layer's kernel finds the last `num_written` shapes of outputs.
    """

    symbol: str
    spec: KernelSpec
    task: type[TaskOp]
    num_outputs: int
    dynamic_inputs: Sequence[int]
    dynamic_outputs: Sequence[int]
    num_written: int = 0


class _TaskLowering:
    """The state that the functions of a module share."""

    def __init__(self, module: ModuleOp) -> None:
        self._soc = soc_of(module)
        self.new_functions: list[FuncOp] = []
        self._functions = functions_of(module)
        self._names = SymbolNames(self._functions)
        self._layers: dict[str, _Layer] = {}
        self._builtin: dict[object, _Layer] = {}
        self._attributes: dict[object, dict[str, Attribute]] = {}

    @singledispatchmethod
    def lower(self, op: Operation) -> None:
        """Replaces one kind of op by its lowered form; leaves other ops."""

    @lower.register(BufferActualShapeOfOp)
    def _actual_shape(self, op: BufferActualShapeOfOp) -> None:
        replace_op(op, TaskActualShapeOfOp(op.source, op.shape.type))

    @lower.register(BufferConstantOp)
    def _constant(self, op: BufferConstantOp) -> None:
        replace_op(op, TaskConstantOp(op.constant()))

    @lower.register(ViewOp)
    def _view(self, op: ViewOp) -> None:
        replace_op(op, TaskViewOp(op.source, op.result.type))

    @lower.register(CallOp)
    def _call(self, op: CallOp) -> None:
        function = self._functions.get(op.callee.root_reference.data)
        if function is not None and FORMULAS in function.attributes:
            replace_op(op, EvaluateShapeOp(op.callee, op.arguments))
            return
        layer = self._called(op)
        operands, arguments = list(op.arguments), layer.spec.arguments
        num_scratch = sum(isinstance(a, InternalArgument) for a in arguments)
        num_read, num_shapes = len(layer.dynamic_inputs), len(layer.dynamic_outputs)
        least = num_read + num_shapes + layer.num_outputs + num_scratch
        if op.results or len(operands) < least:
            raise LiteRtError(
                Status.INVALID_ARGUMENT,
                f"the call of function '{layer.symbol}' has {count_text(len(operands), 'buffer')} and "
                f"{count_text(len(op.results), 'result')}, but must have at least {count_text(least, 'buffer')}, "
                "and no results",
                hint="Run the pass lower-ie-to-iert before this pass.",
            )
        if not layer.num_outputs:
            self._shape_kernel(op, layer, operands)
            return
        # Shapes of outputs that are found before the layer come first, the others follow.
        num_written = layer.num_written
        counts = (
            len(operands) - least,
            num_read,
            num_shapes - num_written,
            layer.num_outputs,
            num_written,
        )
        rest = iter(operands)
        inputs, read, given, outputs, own = (list(islice(rest, count)) for count in counts)
        self._task(op, layer, BufferGroups(inputs, outputs, list(rest), read, [*given, *own]))

    def _shape_kernel(self, op: CallOp, layer: _Layer, operands: Sequence[SSAValue]) -> None:
        """Launches one work item, which uses only shapes."""
        num_read = sum(
            isinstance(a, ShapeArgument) and not a.is_output for a in layer.spec.arguments
        )
        attributes: dict[str, Attribute] = {
            GLOBAL_SIZE: DenseArrayBase.from_list(i64, [1]),
            NUM_SHAVES: number(1),
        }
        groups = BufferGroups([], [], [], operands[:num_read], operands[num_read:])
        replace_op(op, layer.task(layer.symbol, groups, attributes))

    def _called(self, op: CallOp) -> _Layer:
        symbol = op.callee.root_reference.data
        if symbol not in self._layers:
            function = self._functions.get(symbol)
            if function is None or not function.is_declaration:
                raise LiteRtError(
                    Status.INVALID_ARGUMENT,
                    f"the IR text calls function '{symbol}', which is not the function of a layer",
                    hint="The function of a layer has buffers as arguments, and no body.",
                )
            spec = function_spec(function)
            written = read_ports(function.attributes, DYNAMIC_OUTPUTS, 0)
            found = found_by_kernel(function.attributes)
            self._layers[symbol] = _Layer(
                symbol,
                spec,
                CommandOp if spec.commands else _TASKS[read_task(function)],
                count_outputs(function.attributes, spec),
                read_ports(function.attributes, DYNAMIC_INPUTS, 0),
                written,
                sum(port in found for port in written),
            )
        return self._layers[symbol]

    @lower.register(BufferLayerOp)
    def _builtin_layer(self, op: BufferLayerOp) -> None:
        inputs, outputs = op.inputs.types, op.outputs.types
        is_dynamic = bool(op.input_shapes or op.output_shapes)
        attributes = without_names(op)
        same = (type(op), inputs, outputs, attributes, is_dynamic)
        if same not in self._builtin:
            read, written = list(input_shapes_of(op)), list(output_shapes_of(op))
            spec = layer_spec(op.layer(), inputs, outputs, attributes, is_dynamic)
            symbol = self._names.new(op.name.removeprefix("IERT."))
            function = FuncOp.external(symbol, [*inputs, *outputs, *op.scratch.types], [])
            function.attributes.update(kernel_attributes(spec))
            if is_dynamic and not op.output_shapes:
                same_shapes = [SameShape(read[0])] * len(outputs)
                function.attributes[OUTPUT_SHAPES] = output_shapes_attribute(same_shapes)
            self.new_functions.append(function)
            self._builtin[same] = _Layer(symbol, spec, CommandOp, len(outputs), read, written)
        self._task(op, self._builtin[same], op.groups())

    @lower.register(BufferCustomBinaryLayerOp)
    def _custom_binary_layer(self, op: BufferCustomBinaryLayerOp) -> None:
        attributes = {n: a for n, a in op.attributes.items() if n != MAX_NUM_SHAVES}
        if KERNEL in attributes:
            spec = read_kernel(op.attributes)
            attributes |= _launch(spec, op.inputs.types, op.outputs.types, self._soc)
        else:  # nothing describes the layer: the driver decides the launch
            limit = read_max_num_shaves(op.attributes)
            attributes[NUM_SHAVES] = number(min(limit or self._soc.shaves, self._soc.shaves))
        task = _TASKS[op.task.data]
        assert op.code is not None
        replace_op(op, task(op.code, op.groups(), attributes))

    def _task(self, op: Operation, layer: _Layer, groups: BufferGroups) -> None:
        types = (tuple(v.type for v in groups.inputs), tuple(v.type for v in groups.outputs))
        same = (layer.symbol, types)
        attributes = self._attributes.get(same)
        if attributes is None:
            attributes = _launch(layer.spec, *types, self._soc)
            ports = {DYNAMIC_INPUTS: layer.dynamic_inputs, DYNAMIC_OUTPUTS: layer.dynamic_outputs}
            for name, dynamic in ports.items():
                if list(dynamic) != list(range(len(dynamic))):
                    attributes[name] = ArrayAttr([number(port) for port in dynamic])
            self._attributes[same] = attributes
        task = layer.task(layer.symbol, groups, attributes)
        keep_names(op, task)
        replace_op(op, task)


def _launch(
    spec: KernelSpec,
    inputs: Sequence[Attribute],
    outputs: Sequence[Attribute],
    soc: SocModel,
) -> dict[str, Attribute]:
    """Returns the work sizes and the number of shaves of a task as attributes.

    Commands and functions on the host have no such attributes.
    """
    if spec.cpu_layer is not None or spec.commands:
        return {}
    shapes = op_shapes(spec, inputs, outputs)
    try:
        global_size, local_size = evaluate_work_sizes(spec, shapes)
        local = [a for a in spec.arguments if isinstance(a, LocalArgument)]
        size = sum(max(local_bytes(a, spec, shapes), 1) for a in local)
        if size > soc.cmx_size:
            raise LiteRtError(
                Status.UNSUPPORTED,
                f"the kernel needs {size} bytes of __local memory, but {soc.name} has only {soc.cmx_size} bytes "
                "for it (CMX)",
            )
    except LiteRtError as error:
        raise at_layer(error, spec) from error
    groups = prod(global_size) // max(prod(local_size), 1)
    shaves = max(1, min(soc.shaves, spec.max_num_shaves or soc.shaves, groups))
    attributes: dict[str, Attribute] = {GLOBAL_SIZE: DenseArrayBase.from_list(i64, global_size)}
    if local_size:
        attributes[LOCAL_SIZE] = DenseArrayBase.from_list(i64, local_size)
    attributes[NUM_SHAVES] = number(shaves)
    return attributes

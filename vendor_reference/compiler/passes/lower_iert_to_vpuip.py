"""`lower-iert-to-vpuip`: layers on buffers become tasks, with work sizes for the shapes that their buffers have.

    func.call @Softsign(%in, %out) : (memref<4xf32>, memref<4xf32>) -> ()

    VPUIP.OCL @Softsign (%in) -> (%out) {global_size = array<i64: 4>, num_shaves = 4 : i64}

A builtin op's kernel becomes an external function like those of custom layers, one for each that is different.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import prod

from xdsl.context import Context
from xdsl.dialects.builtin import (
    ArrayAttr,
    DenseArrayBase,
    DictionaryAttr,
    ModuleOp,
    StringAttr,
    i64,
)
from xdsl.dialects.func import CallOp, FuncOp
from xdsl.ir import Attribute, Operation, SSAValue
from xdsl.passes import ModulePass

from litert.core.errors import LiteRtError
from litert.core.status import Status
from vendor_reference.compiler.iert.custom_binary_layer import BufferCustomBinaryLayerOp
from vendor_reference.compiler.iert.dialect import BufferConstantOp, ViewOp
from vendor_reference.compiler.iert.layer_op import BufferLayerOp
from vendor_reference.compiler.ir.assembly import number
from vendor_reference.compiler.ir.kernel_attribute import (
    KERNEL,
    MAX_NUM_SHAVES,
    kernel_attributes,
    read_kernel,
    read_max_num_shaves,
)
from vendor_reference.compiler.ir.rewriting import replace_op
from vendor_reference.compiler.ir.soc_attribute import soc_of
from vendor_reference.compiler.ir.symbols import SymbolNames
from vendor_reference.compiler.kernel_spec import (
    InternalArgument,
    KernelSpec,
    LocalArgument,
    TensorArgument,
)
from vendor_reference.compiler.layer_kernels import at_layer, function_spec, layer_spec, op_shapes
from vendor_reference.compiler.task_attribute import TASK, read_task
from vendor_reference.compiler.vpuip.dialect import TaskConstantOp, TaskViewOp
from vendor_reference.compiler.vpuip.task_op import (
    GLOBAL_SIZE,
    LOCAL_SIZE,
    NUM_SHAVES,
    CppOp,
    OclOp,
    TaskOp,
)
from vendor_reference.compiler.work_items import evaluate_work_sizes, memory_bytes
from vendor_reference.soc import SocModel


@dataclass(frozen=True)
class LowerIertToVpuip(ModulePass):
    """Layers on buffers become tasks of the NPU, with their work sizes."""

    name = "lower-iert-to-vpuip"

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        lowering = _ModuleLowering(op)
        for function in list(op.body.block.ops):
            if isinstance(function, FuncOp) and not function.is_declaration:
                for one in list(function.body.block.ops):
                    lowering.lower(one)
        first = op.body.block.first_op
        for function in lowering.new_functions:
            if first is None:
                op.body.block.add_op(function)
            else:
                op.body.block.insert_op_before(function, first)


PASS = LowerIertToVpuip

_TASKS: dict[str, type[TaskOp]] = {"OCL": OclOp, "CPP": CppOp}


@dataclass(frozen=True, slots=True)
class _Layer:
    """A layer's function and what is known of it: `num_outputs` is of its operands."""

    symbol: str
    spec: KernelSpec
    task: type[TaskOp]
    num_outputs: int
    num_scratch: int


class _ModuleLowering:
    """What the functions of a module share."""

    def __init__(self, module: ModuleOp) -> None:
        self._soc = soc_of(module)
        self.new_functions: list[FuncOp] = []
        functions = [f for f in module.body.block.ops if isinstance(f, FuncOp)]
        self._functions = {f.sym_name.data: f for f in functions}
        self._names = SymbolNames(self._functions)
        self._layers: dict[str, _Layer] = {}
        self._builtin: dict[object, _Layer] = {}
        self._attributes: dict[object, dict[str, Attribute]] = {}

    def lower(self, op: Operation) -> None:
        """Puts a task in the place of a layer; other ops stay."""
        if isinstance(op, CallOp):
            self._call(op)
        elif isinstance(op, BufferLayerOp):
            self._builtin_layer(op)
        elif isinstance(op, BufferCustomBinaryLayerOp):
            self._custom_binary_layer(op)
        elif isinstance(op, BufferConstantOp):
            replace_op(op, TaskConstantOp(op.constant()))
        elif isinstance(op, ViewOp):
            replace_op(op, TaskViewOp(op.source, op.result.type))

    def _call(self, op: CallOp) -> None:
        layer = self._called(op)
        operands = list(op.arguments)
        end = len(operands) - layer.num_scratch
        first = end - layer.num_outputs
        self._task(op, layer, operands[:first], operands[first:end], operands[end:], {})

    def _called(self, op: CallOp) -> _Layer:
        symbol = op.callee.root_reference.data
        if symbol not in self._layers:
            function = self._functions.get(symbol)
            if function is None or not function.is_declaration:
                raise LiteRtError(
                    Status.INVALID_ARGUMENT, f"a call of '{symbol}', which is no layer's function"
                )
            spec = function_spec(function)
            num_scratch = sum(isinstance(a, InternalArgument) for a in spec.arguments)
            task = _TASKS[read_task(function)]
            self._layers[symbol] = _Layer(
                symbol, spec, task, _num_outputs(function, spec), num_scratch
            )
        return self._layers[symbol]

    def _builtin_layer(self, op: BufferLayerOp) -> None:
        inputs, outputs = op.inputs.types, op.outputs.types
        same = (type(op), inputs, outputs, DictionaryAttr(op.attributes))
        if same not in self._builtin:
            spec = layer_spec(op.layer(), inputs, outputs, same[3])
            symbol = self._names.new(op.name.removeprefix("IERT."))
            function = FuncOp.external(symbol, [*inputs, *outputs, *op.scratch.types], [])
            function.attributes.update({TASK: StringAttr("OCL"), **kernel_attributes(spec)})
            self.new_functions.append(function)
            self._builtin[same] = _Layer(symbol, spec, OclOp, len(outputs), len(op.scratch))
        layer = self._builtin[same]
        self._task(op, layer, op.inputs, op.outputs, op.scratch, {})

    def _custom_binary_layer(self, op: BufferCustomBinaryLayerOp) -> None:
        attributes = {n: a for n, a in op.attributes.items() if n != MAX_NUM_SHAVES}
        if KERNEL in attributes:
            spec = read_kernel(op.attributes)
            attributes |= _launch(spec, op.inputs.types, op.outputs.types, self._soc)
        else:  # nobody has described it: the driver launches it
            limit = read_max_num_shaves(op.attributes)
            attributes[NUM_SHAVES] = number(min(limit or self._soc.shaves, self._soc.shaves))
        task = _TASKS[op.task.data]
        replace_op(op, task(op.code, op.inputs, op.outputs, attributes, op.scratch))

    def _task(
        self,
        op: Operation,
        layer: _Layer,
        inputs: Sequence[SSAValue],
        outputs: Sequence[SSAValue],
        scratch: Sequence[SSAValue],
        attributes: dict[str, Attribute],
    ) -> None:
        types = (tuple(v.type for v in inputs), tuple(v.type for v in outputs))
        same = (layer.symbol, types)
        if same not in self._attributes:
            self._attributes[same] = _launch(layer.spec, *types, self._soc)
        task = layer.task(
            layer.symbol, inputs, outputs, {**self._attributes[same], **attributes}, scratch
        )
        replace_op(op, task)


def _num_outputs(function: FuncOp, spec: KernelSpec) -> int:
    """How many of the buffers of a layer's function it writes to."""
    layouts = function.attributes.get("IE.output_layouts")
    if isinstance(layouts, ArrayAttr):
        return len(layouts.data)
    tensors = [a for a in spec.arguments if isinstance(a, TensorArgument)]
    return max((a.index for a in tensors if a.is_output), default=0) + 1


def _launch(
    spec: KernelSpec,
    inputs: Sequence[Attribute],
    outputs: Sequence[Attribute],
    soc: SocModel,
) -> dict[str, Attribute]:
    """Work sizes and shaves of a task, as attributes."""
    shapes = op_shapes(spec, inputs, outputs)
    try:
        global_size, local_size = evaluate_work_sizes(spec, shapes)
        local_bytes = sum(
            max(memory_bytes(a, spec, shapes), 1)
            for a in spec.arguments
            if isinstance(a, LocalArgument)
        )
        if local_bytes > soc.cmx_size:
            raise LiteRtError(
                Status.UNSUPPORTED,
                f"{local_bytes} bytes of local memory, {soc.name} has {soc.cmx_size} of CMX",
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

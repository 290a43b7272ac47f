"""`lower-ie-to-iert`: converts tensors to buffers.

Buffers are allocated before use, and deallocated after their last use.

    %1 = IE.Add(%0, %0) : tensor<4xf32>, tensor<4xf32> -> tensor<4xf32>

    %1 = memref.alloc() : memref<4xf32>
    IERT.Add(%0, %0, %1)
    memref.dealloc %0 : memref<4xf32>

A layer that requires strides reads and writes views of larger buffers. The pass copies the layer's input to such a
view:

    %1 = memref.alloc() : memref<40xf32>
    %2 = IERT.View %1 : memref<40xf32> -> memref<4x6xf32, strided<[10, 1]>>
    IERT.Copy(%0, %2)

The results of a function become its last arguments, which are buffers to which the function writes. The outputs of
a layer, and the scratch memory of its kernel, become arguments of the layer's function.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import singledispatchmethod
from operator import mul
from typing import cast

from xdsl.context import Context
from xdsl.dialects.builtin import (
    FunctionType,
    MemRefType,
    ModuleOp,
    SymbolRefAttr,
    TensorType,
)
from xdsl.dialects.func import CallOp, FuncOp, ReturnOp
from xdsl.ir import Attribute, Block, Operation, OpResult, Region, SSAValue

from litert.core.element_type import ElementType
from litert.core.errors import LiteRtError
from litert.core.status import Status
from vendor_reference.compiler.asked_strides import find_asked_strides, lies_so
from vendor_reference.compiler.ir.buffer_groups import BufferGroups
from vendor_reference.compiler.ir.edits import allocate, call, release, settle_called_types
from vendor_reference.compiler.ir.kernel_attribute import KERNEL, read_kernel
from vendor_reference.compiler.ir.names import (
    SymbolNames,
    at_function,
    bodies,
    functions_of,
    keep_names,
    without_names,
)
from vendor_reference.compiler.ir.types import (
    ShapeType,
    element_type_of,
    memref_of,
    memref_type,
    order_of,
    shape_of,
    strided_type,
)
from vendor_reference.compiler.layer_kernels import (
    check_static,
    function_spec,
    layer_spec,
    scratch_types,
)
from vendor_reference.compiler.layer_ports import LayerFinder
from vendor_reference.compiler.levels.ie import (
    ActualShapeOfOp,
    ConstantOp,
    CopyOp,
    CustomBinaryLayerOp,
    ReorderOp,
)
from vendor_reference.compiler.levels.iert import (
    BufferActualShapeOfOp,
    BufferConstantOp,
    BufferCustomBinaryLayerOp,
    ViewOp,
    counterpart,
)
from vendor_reference.compiler.levels.layer import LayerOp, SharesMemory, made_in
from vendor_reference.compiler.pass_pipeline import CompilerPass
from vendor_reference.compiler.shape_functions import (
    ShapeFunction,
    find_shape_ranks,
    make_shape_function,
)
from vendor_reference.compiler.tensor_requirements import NAMES


@dataclass(frozen=True)
class LowerIeToIert(CompilerPass):
    """Converts tensors to buffers; allocates each buffer before use, and deallocates it after its last use."""

    name = "lower-ie-to-iert"
    AFTER = "bound-shapes"

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        functions = functions_of(op)
        scratch = {
            name: _lower_external(function)
            for name, function in functions.items()
            if function.is_declaration and not _is_on_buffers(function)
        }
        lowering = _LayerFunctions(op, functions, scratch)
        for function, _ in bodies(op):
            if not _is_on_buffers(function):
                _FunctionLowering(lowering, function).lower()
        if lowering.has_shapes or lowering.has_views:
            settle_called_types(op)


PASS = LowerIeToIert

_MET = frozenset(NAMES) - {"memory_spaces"}
"""Requirements that are satisfied at level IE, and are removed from functions."""


def _is_on_buffers(function: FuncOp) -> bool:
    types = (*function.function_type.inputs.data, *function.function_type.outputs.data)
    return not any(isinstance(t, (TensorType, ShapeType)) for t in types) and not (
        function.is_declaration and function.function_type.outputs.data
    )


def _lower_external(function: FuncOp) -> Sequence[Attribute]:
    """Lowers a layer's function to buffers; returns the types of its scratch memory."""
    inputs = [t for t in function.function_type.inputs.data if isinstance(t, TensorType)]
    outputs = [t for t in function.function_type.outputs.data if isinstance(t, TensorType)]
    check_static([*inputs, *outputs], at_function(function))
    if not inputs and not outputs:
        return ()  # a function with only shapes: its calls determine its type
    scratch: Sequence[Attribute] = ()
    if KERNEL in function.attributes and outputs:
        scratch = scratch_types(function_spec(function), inputs, outputs)
    types = [*_buffers(inputs), *_buffers(outputs), *scratch]
    function.properties["function_type"] = FunctionType.from_lists(types, [])
    return scratch


class _LayerFunctions:
    """The state that the functions of a module share.

    Attributes:
      scratch: Scratch memory of layers' functions, by name.
      has_shapes: Whether there are shape values, which leave the types of functions that take them
        open.
      has_views: Whether layers use views, which have types of their own.
      finder: Finds the requirements of layers.
    """

    def __init__(
        self,
        module: ModuleOp,
        functions: Mapping[str, FuncOp],
        scratch: Mapping[str, Sequence[Attribute]],
    ) -> None:
        self.functions = functions
        self.scratch = scratch
        self.has_shapes = False
        self.has_views = False
        self.finder = LayerFinder(module)
        self._module = module
        self._names = SymbolNames(functions)
        self._copies: dict[int, str] = {}

    def shape_copy(self, rank: int) -> str:
        """Returns the name of the function that copies a shape."""
        if rank not in self._copies:
            self._copies[rank] = self._names.new(f"copy_of_{rank}")
            texts = tuple(f"INPUT0_SHAPE[{i}]" for i in range(rank))
            made = make_shape_function(self._copies[rank], ShapeFunction(texts, (None,)))
            first = self._module.body.block.first_op
            assert first is not None
            self._module.body.block.insert_op_before(made, first)
        return self._copies[rank]


class _FunctionLowering:
    """Lowers one function."""

    def __init__(self, module: _LayerFunctions, function: FuncOp) -> None:
        self._module = module
        self._function = function
        self._where = at_function(function)
        self._old = function.body.block
        self._ops: list[Operation] = []
        self._buffers: dict[SSAValue, SSAValue] = {}
        self._allocated: dict[
            SSAValue, SSAValue
        ] = {}  # buffers by the tensors that are made in them
        self._targets: dict[SSAValue, SSAValue] = {}  # tensors that are made in an output
        self._ranks = find_shape_ranks(module.functions, function, self._old)
        module.has_shapes |= bool(self._ranks)
        self._asked = find_asked_strides(module.finder, self._old, self._where)
        module.has_views |= bool(self._asked.ports)

    def lower(self) -> None:
        old = self._old
        returned = old.last_op
        assert isinstance(returned, ReturnOp)
        results = list(returned.arguments)
        check_static(
            [t for t in (*old.arg_types, *returned.arguments.types) if isinstance(t, TensorType)],
            self._where,
        )
        types = [*_buffers(old.arg_types), *map(self._buffer_type, results)]
        block = Block(arg_types=types)
        self._buffers.update(zip(old.args, block.args, strict=False))
        for argument, lowered in zip(old.args, block.args, strict=False):
            lowered.name_hint = argument.name_hint
        outputs = block.args[len(old.args) :]
        self._choose_targets(results, outputs)
        last_uses, lower = self._last_uses(old), self._lower
        for op in old.ops:
            if isinstance(op, ReturnOp):
                break
            lower(op)
            for tensor in last_uses.get(op, ()):
                buffer = self._allocated.get(tensor)
                if buffer is not None:
                    self._ops.append(release(buffer))
        self._hand_out(results, outputs)
        block.add_ops([*self._ops, ReturnOp()])
        self._replace(block)

    def _replace(self, block: Block) -> None:
        """Replaces the old block by the new one."""
        region = Region(block)
        function = self._function
        function.properties["function_type"] = FunctionType.from_lists(block.arg_types, [])
        for name in ("arg_attrs", "res_attrs"):
            function.properties.pop(name, None)
        old = function.body
        function.detach_region(old)
        old.drop_all_references()
        function.add_region(region)

    def _choose_targets(self, results: Sequence[SSAValue], outputs: Sequence[SSAValue]) -> None:
        """Lets layers write to the function's outputs directly, also through views."""
        for result, output in zip(results, outputs, strict=True):
            made = made_in(result)
            is_given = isinstance(made.owner, (Block, ConstantOp, ActualShapeOfOp))
            if not is_given and made not in self._targets:
                self._targets[made] = output
                output.name_hint = output.name_hint or result.name_hint

    def _last_uses(self, block: Block) -> dict[Operation, list[SSAValue]]:
        """Returns for each op the tensors that have no later use; a tensor without readers ends at once."""
        last: dict[SSAValue, Operation] = {}
        for op in block.ops:
            for value in (*op.results, *op.operands):
                made = made_in(value)
                if isinstance(made, OpResult):
                    last[made] = op
        ending: dict[Operation, list[SSAValue]] = {}
        for value, op in last.items():
            ending.setdefault(op, []).append(value)
        return ending

    @singledispatchmethod
    def _lower(self, op: Operation) -> None:
        """Lowers one kind of op."""
        raise LiteRtError(
            Status.UNSUPPORTED,
            f"the pass lower-ie-to-iert does not support op {op.name}",
            self._where,
        )

    @_lower.register(ActualShapeOfOp)
    def _actual_shape(self, op: ActualShapeOfOp) -> None:
        actual = BufferActualShapeOfOp(self._buffers[op.source], self._buffer_type(op.shape))
        self._ops.append(actual)
        self._set(op.shape, actual.shape)

    @_lower.register(ConstantOp)
    def _constant(self, op: ConstantOp) -> None:
        constant = BufferConstantOp(op.with_type(memref_of(_tensor(op.output))))
        self._ops.append(constant)
        self._set(op.output, constant.output)

    @_lower.register(CallOp)
    def _call(self, op: CallOp) -> None:
        symbol = op.callee.root_reference.data
        if symbol not in self._module.scratch:
            raise LiteRtError(
                Status.UNSUPPORTED,
                f"the IR text calls function '{symbol}', which is not the function of a layer",
                self._where,
                "The function of a layer has tensors as arguments, and no body.",
            )
        inputs = [self._buffers[value] for value in op.arguments]
        outputs = [self._allocate(value) for value in op.results]
        scratch = self._allocate_scratch(self._module.scratch[symbol])
        with self._strided(op, inputs, outputs):
            lowered = call(op.callee, [*inputs, *outputs, *scratch], [])
            self._ops.append(lowered)
        keep_names(op, lowered)
        self._release(scratch)

    @_lower.register(LayerOp)
    def _layer(self, op: LayerOp) -> None:
        if op.has_trait(SharesMemory):
            view = ViewOp(self._buffers[op.inputs[0]], memref_of(_tensor(op.outputs[0])))
            self._ops.append(view)
            self._set(op.outputs[0], view.result)
            return
        layer = type(op)
        inputs = [self._buffers[value] for value in op.inputs]
        outputs = [self._allocate(value) for value in op.outputs]
        read_shapes = [self._buffers[value] for value in op.input_shapes]
        shapes = [self._buffers[value] for value in op.output_shapes]
        shapes += [self._allocate(value) for value in op.result_shapes]
        types = (op.inputs.types, op.outputs.types)
        spec = layer_spec(layer, *types, without_names(op), bool(read_shapes or shapes))
        scratch = self._allocate_scratch(scratch_types(spec, *types))
        buffer_layer = counterpart(layer)
        groups = BufferGroups(inputs, outputs, scratch, read_shapes, shapes)
        self._ops.append(buffer_layer(groups, op.attributes))
        self._release(scratch)

    @_lower.register(CustomBinaryLayerOp)
    def _custom_binary_layer(self, op: CustomBinaryLayerOp) -> None:
        inputs = [self._buffers[value] for value in op.inputs]
        outputs = [self._allocate(value) for value in op.outputs]
        attributes = {n: a for n, a in op.attributes.items() if n not in _MET}
        types: Sequence[Attribute] = ()
        if KERNEL in attributes:
            types = scratch_types(read_kernel(attributes), op.inputs.types, op.outputs.types)
        scratch = self._allocate_scratch(types)
        code = self._buffers[op.code]
        with self._strided(op, inputs, outputs):
            groups = BufferGroups(inputs, outputs, scratch)
            self._ops.append(BufferCustomBinaryLayerOp(op.task.data, code, groups, attributes))
        self._release(scratch)

    @contextmanager
    def _strided(
        self, op: Operation, inputs: list[SSAValue], outputs: list[SSAValue]
    ) -> Iterator[None]:
        """Replaces a layer's buffers by views with the requested strides while the layer is made."""
        memory: list[SSAValue] = []
        written: list[tuple[SSAValue, SSAValue]] = []
        for port in self._asked.ports.get(op, ()):
            buffers = outputs if port.is_output else inputs
            buffer = buffers[port.index]
            if not lies_so(buffer.type, port.strides):
                made, view = self._view_of_new(buffer.type, port.strides)
                memory.append(made)
                buffers[port.index] = view
                if port.is_output:
                    written.append((view, buffer))
                else:
                    self._copy(buffer, view)
        yield
        for result, buffer in written:
            self._copy(result, buffer)
        self._release(memory)

    def _view_of_new(
        self, ir_type: Attribute, strides: tuple[int, ...]
    ) -> tuple[SSAValue, SSAValue]:
        """Allocates memory for whole rows, and returns the memory and a view of it with strides."""
        assert isinstance(ir_type, MemRefType)
        size = max(map(mul, strides, shape_of(ir_type)), default=1)
        memory = allocate(memref_type(element_type_of(ir_type), (size,)))
        view = ViewOp(memory.memref, strided_type(ir_type, strides, 0))
        self._ops += [memory, view]
        return memory.memref, view.result

    def _copy(self, source: SSAValue, target: SSAValue) -> None:
        is_alike = order_of(source.type) == order_of(target.type)
        copy = counterpart(CopyOp if is_alike else ReorderOp)
        self._ops.append(copy(BufferGroups([source], [target])))

    def _allocate(self, value: SSAValue) -> SSAValue:
        """Returns the buffer that a tensor is made in: new memory, or an output of the function."""
        ir_type = self._buffer_type(value)
        output = self._targets.get(value)
        if output is not None:
            if output.type != ir_type:
                view = ViewOp(output, ir_type)
                self._ops.append(view)
                output = view.result
            self._buffers[value] = output
            return output
        strides = self._asked.made_so.get(value)
        if strides is not None and not lies_so(ir_type, strides):
            self._allocated[value], strided = self._view_of_new(ir_type, strides)
            self._set(value, strided)
            return strided
        alloc = allocate(ir_type)
        self._ops.append(alloc)
        self._allocated[value] = alloc.memref
        self._set(value, alloc.memref)
        return alloc.memref

    def _buffer_type(self, value: SSAValue) -> Attribute:
        if value in self._ranks:
            return memref_type(ElementType.UINT32, (self._ranks[value],))
        return memref_of(_tensor(value))

    def _allocate_scratch(self, types: Sequence[Attribute]) -> list[SSAValue]:
        allocs = [allocate(ir_type) for ir_type in types]
        self._ops += allocs
        return [alloc.memref for alloc in allocs]

    def _release(self, scratch: Sequence[SSAValue]) -> None:
        self._ops += [release(buffer) for buffer in scratch]

    def _set(self, tensor: SSAValue, buffer: SSAValue) -> None:
        self._buffers[tensor] = buffer
        buffer.name_hint = tensor.name_hint

    def _hand_out(self, results: Sequence[SSAValue], outputs: Sequence[SSAValue]) -> None:
        """Copies results that no layer has written directly to the outputs.

        These are inputs, constants, and values that are returned twice.
        """
        for result, output in zip(results, outputs, strict=True):
            if self._targets.get(made_in(result)) is output:
                continue
            if result in self._ranks:
                copy_of = self._module.shape_copy(self._ranks[result])
                self._ops.append(call(SymbolRefAttr(copy_of), [self._buffers[result], output], []))
            else:
                copy = counterpart(CopyOp)(BufferGroups([self._buffers[result]], [output]))
                self._ops.append(copy)


def _tensor(value: SSAValue) -> TensorType[Attribute]:
    assert isinstance(value.type, TensorType)
    return cast("TensorType[Attribute]", value.type)


def _buffers(types: Sequence[Attribute]) -> list[Attribute]:
    return [memref_of(t) if isinstance(t, TensorType) else t for t in types]

"""`place-parts`: lets layers write their output directly into the result of a concatenation or padding.

    IERT.Sigmoid(%x, %0)                        %1 = memref.alloc() : memref<2x7xf32>
    %1 = memref.alloc() : memref<2x7xf32>       %0 = IERT.View %1 : ... -> memref<2x3xf32, strided<[7, 1]>>
    IERT.Concat(%0, %y, %1) {axis = 1 : i64}    IERT.Sigmoid(%x, %0)
    memref.dealloc %0 : memref<2x3xf32>         IERT.Concat(%0, %y, %1) {axis = 1 : i64, in_place = array<i64: 0>}

An operand of the concatenation or padding becomes a view of the result if the operand has memory of its own, and
all layers that use the operand support strides. The layers of the library support strides; custom layers support
strides if the attributes of their functions say so. A custom layer gets a separate function for each kind of view.
With run-time sizes, the offset and strides of the view must be the same in each run. Images meet this condition if
only the number of images is unknown.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise

from xdsl.context import Context
from xdsl.dialects.builtin import ModuleOp
from xdsl.dialects.func import CallOp, FuncOp
from xdsl.dialects.memref import AllocOp, DeallocOp
from xdsl.ir import Attribute, Block, Operation, SSAValue

from litert.core.errors import LiteRtError
from vendor_reference.compiler.ir.edits import remove_op, settle_called_types
from vendor_reference.compiler.ir.kernel_attribute import KERNEL, count_outputs
from vendor_reference.compiler.ir.names import bodies, functions_of, without_names
from vendor_reference.compiler.ir.shape_attributes import DYNAMIC_INPUTS, DYNAMIC_OUTPUTS
from vendor_reference.compiler.ir.types import (
    end_bytes_of,
    order_of,
    shape_of,
    strided_type,
    view_of,
)
from vendor_reference.compiler.kernel_tensor import asked_format, kernel_tensor
from vendor_reference.compiler.layer_kernels import (
    all_inputs,
    function_spec,
    layer_spec,
)
from vendor_reference.compiler.levels.ie import TransferOp
from vendor_reference.compiler.levels.iert import BufferLayerOp, ViewOp
from vendor_reference.compiler.library.library_op import IN_PLACE, LibraryOp, PlacedOp
from vendor_reference.compiler.library.traced_size import TracedSize, is_same
from vendor_reference.compiler.library.views import View
from vendor_reference.compiler.library_layers import LibraryLayer, layer_attributes, read_attributes
from vendor_reference.compiler.pass_pipeline import CompilerPass
from vendor_reference.compiler.tensor_requirements import read_requirements
from vendor_reference.custom_layers.kernel_spec import InternalArgument
from vendor_reference.custom_layers.layout import Format


@dataclass(frozen=True)
class PlaceParts(CompilerPass):
    """Lets layers write their output directly into the result of a concatenation or padding."""

    name = "place-parts"
    AFTER = "lower-ie-to-iert"

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        layers = StridedLayers(op)
        placements = [_BlockPlacement(block, layers) for _, block in bodies(op)]
        for placement in placements:
            placement.run()
        if any(placement.has_called for placement in placements):
            settle_called_types(op)


PASS = PlaceParts


class _BlockPlacement:
    """Walks over a function once, from its end, so that a part of a part is placed at once."""

    def __init__(self, block: Block, layers: StridedLayers) -> None:
        self.has_called = False  # whether calls have got views
        self._block = block
        self._layers = layers
        self._steps: dict[Operation, int] = {}

    def run(self) -> None:
        joining = [
            (op, rule)
            for op in self._block.ops
            if isinstance(op, BufferLayerOp) and (rule := _rule(op)) is not None
        ]
        if any(rule.has_parts for _, rule in joining):
            self._steps = {op: step for step, op in enumerate(self._block.ops)}
            for op, rule in reversed(joining):
                if rule.has_parts and IN_PLACE not in op.attributes:
                    self._place(op, rule)

    def _place(self, op: BufferLayerOp, rule: LibraryOp) -> None:
        result = op.outputs[0]
        if not isinstance(result.owner, (Block, AllocOp, ViewOp)):
            return
        call = _call(op)
        placed, rest = [], call.result.num_elements
        for index, part in enumerate(rule.parts(call)):
            value = op.inputs[index]
            if not isinstance(value.owner, AllocOp) or not _lies_alike(value, part):
                continue
            view = strided_type(value.owner.memref.type, part.strides, part.offset)
            is_inside = end_bytes_of(view) <= end_bytes_of(result.type)  # bounds may differ
            writer = self._find_writer(value, op, view) if is_inside else None
            if writer is not None:
                self._provide(result, writer)
                self._replace(value, result, view)
                placed.append(index)
                rest -= part.num_elements
        if placed:
            op.attributes.update(layer_attributes({IN_PLACE: tuple(placed)}))
            if is_same(rest, 0):
                remove_op(op)

    def _find_writer(
        self, value: SSAValue, joining: BufferLayerOp, view: Attribute
    ) -> Operation | None:
        """Returns the op that writes a buffer, if all ops on the buffer accept a view instead."""
        writers: list[Operation] = []
        for use in value.uses:
            op = use.operation
            if isinstance(op, DeallocOp):
                continue
            if op is joining and list(op.operands).count(value) > 1:
                return None
            if isinstance(op, CallOp) and self._layers.takes(op, use.index, view):
                writers += [op] if self._layers.writes(op, use.index) else []
            elif isinstance(op, BufferLayerOp) and _goes_by_strides(op, value, view):
                writers += [op] if value in op.outputs else []
            else:
                return None
        is_before = len(writers) == 1 and self._steps[writers[0]] < self._steps[joining]
        return writers[0] if is_before else None

    def _provide(self, result: SSAValue, writer: Operation) -> None:
        """Moves a buffer, and the buffer of which it is a view, before an op."""
        made = result.owner
        if isinstance(made, Block) or self._steps[made] < self._steps[writer]:
            return
        if isinstance(made, ViewOp):
            self._provide(made.source, writer)
        made.detach()  # type: ignore[no-untyped-call]
        self._block.insert_op_before(made, writer)
        self._steps[made] = self._steps[writer] - 1

    def _replace(self, value: SSAValue, result: SSAValue, view_type: Attribute) -> None:
        """Replaces a separate buffer by a view of the result."""
        alloc, made, first = value.owner, result.owner, self._block.first_op
        assert isinstance(alloc, AllocOp) and first is not None
        view = ViewOp(result, view_type)
        if isinstance(made, Block):
            self._block.insert_op_before(view, first)
            self._steps[view] = -1
        else:
            self._block.insert_op_after(view, made)
            self._steps[view] = self._steps[made]
        for use in list(value.uses):
            if isinstance(use.operation, DeallocOp):
                remove_op(use.operation)
            self.has_called |= isinstance(use.operation, CallOp)
        view.result.name_hint = value.name_hint
        value.replace_all_uses_with(view.result)
        remove_op(alloc)


def _rule(op: BufferLayerOp) -> LibraryOp | None:
    layer = op.layer()
    return layer.rule() if issubclass(layer, LibraryLayer) else None


def _call(op: BufferLayerOp) -> PlacedOp:
    """Returns a layer of the library on its buffers."""
    layer, inputs, outputs = op.layer(), op.inputs.types, op.outputs.types
    assert issubclass(layer, LibraryLayer)
    if op.input_shapes:
        return layer.dynamic_call(inputs, outputs, op.attributes)
    views = [view_of(t) for t in (*inputs, *outputs)]
    return PlacedOp.of(views, len(outputs), read_attributes(op.attributes))


def _goes_by_strides(op: BufferLayerOp, value: SSAValue, view: Attribute) -> bool:
    """Returns whether an op accepts a view instead of a value."""
    layer = op.layer()
    if value in op.scratch or not issubclass(layer, (LibraryLayer, TransferOp)):
        return False
    inputs, outputs = (
        tuple(view if v is value else v.type for v in values) for values in (op.inputs, op.outputs)
    )
    is_dynamic = bool(op.input_shapes or op.output_shapes)
    try:
        layer_spec(layer, inputs, outputs, without_names(op), is_dynamic)
    except LiteRtError:
        return False
    return True


def _lies_alike(value: SSAValue, part: View) -> bool:
    """Returns whether a part's elements have the buffer's order and distances in each run."""
    if any(isinstance(number, TracedSize) for number in (*part.strides, part.offset)):
        return False
    shape = shape_of(value.type)
    dims = [dim for dim in order_of(value.type) if shape[dim] != 1]
    return all(part.strides[slow] > part.strides[fast] for slow, fast in pairwise(dims))


_STRIDES = ("IE.input_strides", "IE.output_strides")


@dataclass(frozen=True, slots=True)
class _Operand:
    """An input or output of a layer, with the format that its kernel requires."""

    is_output: bool
    wanted: Format


class StridedLayers:
    """The layers of a module whose kernels support strided views; each function is read once."""

    def __init__(self, module: ModuleOp) -> None:
        self._functions = {
            name: function
            for name, function in functions_of(module).items()
            if function.is_declaration
        }
        self._operands: dict[tuple[str, int], list[_Operand | None]] = {}

    def takes(self, call: CallOp, place: int, view: Attribute) -> bool:
        """Returns whether the given view may replace an operand of a call.

        The function must allow views, and the kernel must support this view.
        """
        operand = self._find(call, place)
        if operand is None:
            return False
        try:
            order = kernel_tensor(view, operand.wanted).view.memory_order
        except LiteRtError:
            return False  # such a layout has no B, F, Y and X
        return operand.wanted is Format.ANY or order == operand.wanted.value

    def writes(self, call: CallOp, place: int) -> bool:
        """Returns whether an operand is an output that may be a view."""
        operand = self._find(call, place)
        return operand is not None and operand.is_output

    def _find(self, call: CallOp, place: int) -> _Operand | None:
        name, count = call.callee.root_reference.data, len(call.arguments)
        if (name, count) not in self._operands:
            function = self._functions.get(name)
            operands = [] if function is None else _read_operands(function, count)
            self._operands[name, count] = operands
        found = self._operands[name, count]
        return found[place] if place < len(found) else None


def _read_operands(function: FuncOp, count: int) -> list[_Operand | None]:
    """Returns a layer's inputs, then outputs; None for those that must be buffers of their own."""
    attributes = function.attributes
    is_dynamic = DYNAMIC_INPUTS in attributes or DYNAMIC_OUTPUTS in attributes
    if is_dynamic or KERNEL not in attributes or not any(name in attributes for name in _STRIDES):
        return []
    spec = function_spec(function)
    num_outputs = count_outputs(attributes, spec)
    num_scratch = sum(isinstance(a, InternalArgument) for a in spec.arguments)
    num_inputs = count - num_outputs - num_scratch
    if spec.cpu_layer is not None or num_inputs < 0:
        return []
    asked = read_requirements(attributes, num_inputs, num_outputs)
    inputs = enumerate(all_inputs(spec, asked.inputs))
    tensors = [(False, index, tensor) for index, tensor in inputs if tensor is not None]
    tensors += [(True, index, tensor) for index, tensor in enumerate(asked.outputs)]
    return [
        _Operand(is_output, asked_format(spec, is_output, index))
        if tensor.takes_view and (is_output or index not in spec.flat_inputs)
        else None
        for is_output, index, tensor in tensors
    ]

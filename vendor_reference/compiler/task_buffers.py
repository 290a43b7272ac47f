"""The buffers of a function of tasks: what the memory planner has to know of them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from xdsl.dialects.builtin import ModuleOp
from xdsl.dialects.func import FuncOp
from xdsl.dialects.memref import AllocOp
from xdsl.ir import Attribute, SSAValue

from vendor_reference.compiler.ir.kernel_attribute import KERNEL
from vendor_reference.compiler.ir.types import size_bytes_of
from vendor_reference.compiler.layer_kernels import TaskKernels, op_shapes
from vendor_reference.compiler.levels.vpuip import EvaluateShapeOp, TaskOp, TaskViewOp
from vendor_reference.compiler.memory_planner import LiveRange
from vendor_reference.compiler.memory_spaces import Demand, MemorySpace
from vendor_reference.compiler.tensor_requirements import read_requirements
from vendor_reference.compiler.work_items import memory_bytes
from vendor_reference.custom_layers.kernel_spec import KernelSpec, LocalArgument


@dataclass(frozen=True, slots=True)
class FunctionBuffers:
    """What a function allocates.

    Attributes:
      allocs: in the order of the function.
      demands: one for each of them; steps are the function's tasks.
      local_bytes: for each task what its work groups need of the scratchpad.
    """

    allocs: Sequence[AllocOp]
    demands: Sequence[Demand]
    local_bytes: Sequence[int]


def find_buffers(module: ModuleOp, function: FuncOp) -> FunctionBuffers:
    """Looks at a function whose layers are tasks."""
    allocs = [op for op in function.body.block.ops if isinstance(op, AllocOp)]
    demands, local_bytes = find_demands(module, function, [alloc.memref for alloc in allocs])
    return FunctionBuffers(allocs, demands, local_bytes)


def find_demands(
    module: ModuleOp, function: FuncOp, buffers: Sequence[SSAValue]
) -> tuple[Sequence[Demand], Sequence[int]]:
    """What a function's tasks ask of these of its buffers, and for each task its bytes of local memory."""
    walk = _Walk(module, buffers)
    for op in function.body.block.ops:
        if isinstance(op, TaskOp):
            walk.task(op)
        elif isinstance(op, TaskViewOp):
            walk.view(op)
        elif isinstance(op, EvaluateShapeOp):
            for value in op.shapes:
                walk.shape(value)
    return walk.demands(), walk.local_bytes


class _Walk:
    """Collects what is asked of buffers, task by task.

    Attributes:
      local_bytes: of each task.
    """

    def __init__(self, module: ModuleOp, buffers: Sequence[SSAValue]) -> None:
        self.local_bytes: list[int] = []
        self._sizes = [max(size_bytes_of(value.type), 1) for value in buffers]
        self._first = [-1] * len(buffers)
        self._last = [-1] * len(buffers)
        self._num_touched = [0] * len(buffers)
        self._in_place_of: dict[int, int] = {}
        self._in_ddr: set[int] = set()
        self._shapes: set[int] = set()
        self._index: dict[SSAValue, int] = {value: i for i, value in enumerate(buffers)}
        self._kernels = TaskKernels(module)
        self._functions = {
            f.sym_name.data: f for f in module.body.block.ops if isinstance(f, FuncOp)
        }
        self._local: dict[object, int] = {}

    def task(self, op: TaskOp) -> None:
        """A step: what it touches lives now."""
        step = len(self.local_bytes)
        for value in op.operands:
            index = self._index.get(value)
            if index is not None:
                if self._first[index] < 0:
                    self._first[index] = step
                self._last[index] = step
                self._num_touched[index] += 1
        for value in (*op.input_shapes, *op.output_shapes):
            self.shape(value)
        for value in self._wanted_in_ddr(op):
            if value in self._index:
                self._in_ddr.add(self._index[value])
        spec = self._kernels.find(op)
        in_place = self._in_place(op, spec)
        if in_place is not None:
            made, held = in_place
            # A part of a larger buffer is written over an operand, and others follow it.
            if self._first[made] == step and self._sizes[made] <= self._sizes[held]:
                self._in_place_of[made] = held
        self.local_bytes.append(self._local_bytes(op, spec))

    def view(self, op: TaskViewOp) -> None:
        """Another name of a buffer."""
        if op.source in self._index:
            self._index[op.result] = self._index[op.source]

    def shape(self, value: SSAValue) -> None:
        """A shape, whose numbers stay where they are: the device reads them when it needs to."""
        if value in self._index:
            self._shapes.add(self._index[value])

    def demands(self) -> list[Demand]:
        """Of each buffer, also of one that no task touches."""
        end = max(len(self.local_bytes) - 1, 0)
        demands = []
        for index, size in enumerate(self._sizes):
            is_shape = index in self._shapes
            first = 0 if is_shape else max(self._first[index], 0)
            last = end if is_shape else max(self._last[index], 0)
            alive = LiveRange(size, first, last, self._in_place_of.get(index))
            traffic = size * self._num_touched[index]
            demands.append(Demand(alive, traffic, is_shape or index in self._in_ddr))
        return demands

    def _in_place(self, op: TaskOp, spec: KernelSpec | None) -> tuple[int, int] | None:
        """Buffers of output 0 and input 0, where the kernel can write one over the other."""
        if spec is None or not spec.in_place or not op.inputs:
            return None
        held, *others = [self._index.get(value) for value in op.inputs]
        made = self._index.get(op.outputs[0])
        if made is None or held is None or held >= made or held in others:
            return None
        return made, held

    def _wanted_in_ddr(self, op: TaskOp) -> Sequence[SSAValue]:
        """The inputs and outputs that the layer wants in DDR."""
        attributes: Mapping[str, Attribute] = op.attributes
        prefix = ""
        if op.callee is not None:
            function = self._functions.get(op.callee.root_reference.data)
            attributes = function.attributes if function is not None else {}
            prefix = "IE."
        if f"{prefix}memory_spaces" not in attributes:
            return ()
        asked = read_requirements(attributes, len(op.inputs), len(op.outputs), prefix)
        tensors = zip((*op.inputs, *op.outputs), (*asked.inputs, *asked.outputs), strict=True)
        return [value for value, tensor in tensors if tensor.space is MemorySpace.DDR]

    def _local_bytes(self, op: TaskOp, spec: KernelSpec | None) -> int:
        local = [a for a in spec.arguments if isinstance(a, LocalArgument)] if spec else []
        if spec is None or not local:
            return 0
        same = (op.callee or op.attributes.get(KERNEL), op.inputs.types, op.outputs.types)
        if same not in self._local:
            shapes = op_shapes(spec, op.inputs.types, op.outputs.types)
            self._local[same] = sum(memory_bytes(a, spec, shapes) for a in local)
        return self._local[same]

"""The buffers of a function of tasks: what the memory planner has to know of them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from xdsl.dialects.builtin import ModuleOp
from xdsl.dialects.func import FuncOp
from xdsl.dialects.memref import AllocOp
from xdsl.ir import Attribute, SSAValue

from vendor_reference.compiler.ir.kernel_attribute import KERNEL
from vendor_reference.compiler.ir.types import size_bytes_of
from vendor_reference.compiler.kernel_spec import KernelSpec, LocalArgument
from vendor_reference.compiler.layer_kernels import TaskKernels, op_shapes
from vendor_reference.compiler.memory_planner import LiveRange
from vendor_reference.compiler.memory_spaces import Demand, MemorySpace
from vendor_reference.compiler.requirements import read_requirements
from vendor_reference.compiler.vpuip.dialect import EvaluateShapeOp, TaskViewOp
from vendor_reference.compiler.vpuip.task_op import TaskOp
from vendor_reference.compiler.work_items import memory_bytes


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
        if isinstance(op, TaskViewOp):
            walk.roots[op.result] = walk.roots.get(op.source, op.source)
        elif isinstance(op, EvaluateShapeOp):
            for value in op.shapes:
                walk.shape(value)
        elif isinstance(op, TaskOp):
            walk.task(op)
    end = max(len(walk.local_bytes) - 1, 0)
    for index in walk.shapes:  # the device reads them when it needs to
        demand = walk.demands[index]
        alive = replace(demand.alive, first=0, last=end)
        walk.demands[index] = replace(demand, alive=alive, is_ddr_only=True)
    return [_used(demand) for demand in walk.demands], walk.local_bytes


def _used(demand: Demand) -> Demand:
    """The demand, also of a buffer that no task touches."""
    if demand.alive.first >= 0:
        return demand
    return replace(demand, alive=replace(demand.alive, first=0, last=0))


class _Walk:
    """Collects demands, task by task."""

    def __init__(self, module: ModuleOp, buffers: Sequence[SSAValue]) -> None:
        sizes = [max(size_bytes_of(value.type), 1) for value in buffers]
        self.demands = [Demand(LiveRange(size, -1, -1), 0) for size in sizes]
        self.local_bytes: list[int] = []
        self.shapes: set[int] = set()
        self.roots: dict[SSAValue, SSAValue] = {}
        self._kernels = TaskKernels(module)
        self._functions = {
            f.sym_name.data: f for f in module.body.block.ops if isinstance(f, FuncOp)
        }
        self._index: dict[SSAValue, int] = {value: i for i, value in enumerate(buffers)}
        self._local: dict[object, int] = {}
        self._in_ddr: dict[str, Sequence[bool]] = {}

    def task(self, op: TaskOp) -> None:
        """A step: what it touches lives now."""
        step = len(self.local_bytes)
        spec = self._kernels.find(op)
        in_place = self._in_place(op, spec)
        in_ddr = self._ddr_only(op)
        for place, value in enumerate((*op.inputs, *op.outputs)):
            self._touch(value, step, place < len(in_ddr) and in_ddr[place])
        for value in op.scratch:
            self._touch(value, step, False)
        for value in (*op.input_shapes, *op.output_shapes):
            self.shape(value)
        if in_place is not None:
            made, held = in_place
            demand, dying = self.demands[made], self.demands[held].alive
            # A part of a larger buffer is written over an operand, and others follow it.
            is_smaller = demand.alive.size_bytes <= dying.size_bytes
            if demand.alive.first == step and is_smaller:
                alive = replace(demand.alive, in_place_of=held)
                self.demands[made] = replace(demand, alive=alive)
        self.local_bytes.append(self._local_bytes(op, spec))

    def shape(self, value: SSAValue) -> None:
        """A shape, whose numbers stay where they are."""
        index = self._find(value)
        if index is not None:
            self.shapes.add(index)

    def _touch(self, value: SSAValue, step: int, is_ddr_only: bool) -> None:
        index = self._find(value)
        if index is None:
            return
        demand = self.demands[index]
        alive = demand.alive
        first = step if alive.first < 0 else alive.first
        self.demands[index] = Demand(
            LiveRange(alive.size_bytes, first, step, alive.in_place_of),
            demand.traffic_bytes + alive.size_bytes,
            demand.is_ddr_only or is_ddr_only,
        )

    def _find(self, value: SSAValue) -> int | None:
        return self._index.get(self.roots.get(value, value))

    def _in_place(self, op: TaskOp, spec: KernelSpec | None) -> tuple[int, int] | None:
        """Buffers of output 0 and input 0, where the kernel can write one over the other."""
        if spec is None or not spec.in_place or not op.inputs:
            return None
        made, held = self._find(op.outputs[0]), self._find(op.inputs[0])
        others = [self._find(value) for value in op.inputs[1:]]
        if made is None or held is None or held >= made or held in others:
            return None
        return made, held

    def _ddr_only(self, op: TaskOp) -> Sequence[bool]:
        """For inputs, then outputs, whether the layer wants them in DDR."""
        name = op.callee.root_reference.data if op.callee else ""
        if not name:
            return _wants_ddr(op, op.attributes, "")
        if name not in self._in_ddr:
            function = self._functions.get(name)
            attributes = function.attributes if function is not None else {}
            self._in_ddr[name] = _wants_ddr(op, attributes, "IE.")
        return self._in_ddr[name]

    def _local_bytes(self, op: TaskOp, spec: KernelSpec | None) -> int:
        local = [a for a in spec.arguments if isinstance(a, LocalArgument)] if spec else []
        if spec is None or not local:
            return 0
        same = (op.callee or op.attributes.get(KERNEL), op.inputs.types, op.outputs.types)
        if same not in self._local:
            shapes = op_shapes(spec, op.inputs.types, op.outputs.types)
            self._local[same] = sum(memory_bytes(a, spec, shapes) for a in local)
        return self._local[same]


def _wants_ddr(op: TaskOp, attributes: Mapping[str, Attribute], prefix: str) -> Sequence[bool]:
    asked = read_requirements(attributes, len(op.inputs), len(op.outputs), prefix)
    return [space is MemorySpace.DDR for space in asked.memory_spaces]

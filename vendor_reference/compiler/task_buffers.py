"""Collects what the memory planner needs to know about the buffers of a VPUIP function."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from xdsl.dialects.builtin import ModuleOp
from xdsl.dialects.func import FuncOp
from xdsl.ir import Attribute, SSAValue

from vendor_reference.compiler.ir.kernel_attribute import KERNEL
from vendor_reference.compiler.ir.names import functions_of
from vendor_reference.compiler.ir.types import size_bytes_of
from vendor_reference.compiler.layer_kernels import TaskKernels, op_shapes
from vendor_reference.compiler.levels.vpuip import EvaluateShapeOp, TaskOp, TaskViewOp
from vendor_reference.compiler.memory_planner import LiveRange
from vendor_reference.compiler.memory_spaces import Demand, MemorySpace
from vendor_reference.compiler.tensor_requirements import read_requirements
from vendor_reference.compiler.work_items import local_bytes
from vendor_reference.custom_layers.kernel_spec import KernelSpec, LocalArgument


def find_demands(
    module: ModuleOp, function: FuncOp, buffers: Sequence[SSAValue]
) -> tuple[Sequence[Demand], Sequence[int]]:
    """Returns the demand for each buffer of a function, and the number of bytes of local memory of each task."""
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


@dataclass(slots=True, eq=False)
class _Buffer:
    """The use of a buffer by the tasks so far; `first` and `last` are tasks, -1 before the first use."""

    index: int
    size_bytes: int
    first: int = -1
    last: int = -1
    num_touched: int = 0
    in_place_of: int | None = None
    is_shape: bool = False
    is_in_ddr: bool = False


class _Walk:
    """Collects the demands for buffers, and bytes of local memory, task by task."""

    def __init__(self, module: ModuleOp, buffers: Sequence[SSAValue]) -> None:
        self.local_bytes: list[int] = []
        self._buffers = [
            _Buffer(index, max(size_bytes_of(value.type), 1)) for index, value in enumerate(buffers)
        ]
        self._found = dict(zip(buffers, self._buffers, strict=True))
        self._kernels = TaskKernels(module)
        self._functions = functions_of(module)
        self._local: dict[object, int] = {}

    def task(self, op: TaskOp) -> None:
        """Adds a step: the buffers that the task reads or writes are in use now."""
        step = len(self.local_bytes)
        for value in op.operands:
            if buffer := self._found.get(value):
                if buffer.first < 0:
                    buffer.first = step
                buffer.last = step
                buffer.num_touched += 1
        for value in (*op.input_shapes, *op.output_shapes):
            self.shape(value)
        for value in self._wanted_in_ddr(op):
            if buffer := self._found.get(value):
                buffer.is_in_ddr = True
        spec = self._kernels.find(op)
        if spec is not None and spec.in_place and op.inputs:
            self._write_in_place(op, step)
        self.local_bytes.append(self._local_bytes(op, spec))

    def view(self, op: TaskViewOp) -> None:
        """Adds another name of a buffer."""
        if op.source in self._found:
            self._found[op.result] = self._found[op.source]

    def shape(self, value: SSAValue) -> None:
        """Adds a shape, whose numbers stay in place: the device reads them when it needs them."""
        if buffer := self._found.get(value):
            buffer.is_shape = True

    def demands(self) -> list[Demand]:
        """Returns the demand for each buffer, also for buffers that no task touches."""
        end = max(len(self.local_bytes) - 1, 0)
        demands = []
        for buffer in self._buffers:
            first, last = (0, end) if buffer.is_shape else (buffer.first, buffer.last)
            alive = LiveRange(buffer.size_bytes, max(first, 0), max(last, 0), buffer.in_place_of)
            traffic = buffer.size_bytes * buffer.num_touched
            demands.append(Demand(alive, traffic, buffer.is_shape or buffer.is_in_ddr))
        return demands

    def _write_in_place(self, op: TaskOp, step: int) -> None:
        """Lets output 0 overwrite input 0, if nothing prevents it."""
        held, *others = [self._found.get(value) for value in op.inputs]
        made = self._found.get(op.outputs[0])
        if made is None or held is None or held.index >= made.index or held in others:
            return
        # A part of a larger buffer overwrites an operand, and other parts follow it.
        if made.first == step and made.size_bytes <= held.size_bytes:
            made.in_place_of = held.index

    def _wanted_in_ddr(self, op: TaskOp) -> Sequence[SSAValue]:
        """Returns the inputs and outputs that the layer wants in DDR."""
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
            self._local[same] = sum(local_bytes(a, spec, shapes) for a in local)
        return self._local[same]

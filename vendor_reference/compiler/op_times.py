"""Estimates the time of ops and NPU calls with a SoC model's cost model.

On the NPU, an element-wise op is fused into the op before it if no other op reads the result of the earlier op. A
fused op needs no command, and the tensor between the two ops is neither written nor read (see the passes
`fuse-layers` and `fuse-elementwise`). XNNPACK fuses activations into products in the same way.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from math import prod

from litert.model.expected_time import ExpectedTime
from litert.model.graph import Op, Subgraph, Tensor
from litert.model.op_cost import UNKNOWN_COST, find_cost
from vendor_reference.compiler.library.library_op import library_ops
from vendor_reference.compiler.unpacked_constants import unpacked_constant
from vendor_reference.cost_model import CostModel, Work, work_of

_JOINED = frozenset({Work.ELEMENTWISE, Work.EXPONENTIAL})
_JOINED_TO = _JOINED | {Work.PRODUCT, Work.DEPTHWISE}
_ACTIVATIONS = frozenset({"RELU", "RELU6", "RELU_N1_TO_1"})


@dataclass(frozen=True, slots=True)
class OpTime:
    """Expected times of an op, in whole nanoseconds, so that sums do not depend on the order of ops.

    Attributes:
      npu: Time of the op on the NPU as a separate command.
      joined: Time on the NPU if the op is fused into the op that makes `operand`; equal to `npu` if the op cannot
        be fused.
      cpu: Time of the op on the CPU.
      operand: Tensor that the op does not read from memory if it is fused; None if the op cannot be fused.
      is_known: Whether the cost model has a time for the op; otherwise all times are 0.
    """

    npu: int = 0
    joined: int = 0
    cpu: int = 0
    operand: Tensor | None = None
    is_known: bool = True


class OpTimes:
    """The expected times of a model's ops; the times of each op are computed once.

    Attributes:
      costs: Cost model of the SoC.
    """

    def __init__(
        self,
        costs: CostModel,
        bounds: Mapping[str, Sequence[int]],
        has_layer: Callable[[Op], bool],
    ) -> None:
        """Makes the object for a model; times are computed when they are needed.

        Args:
          costs: Cost model of the SoC.
          bounds: Largest shapes of tensors of dynamic shape, by name; the times are for these
            shapes.
          has_layer: Function that returns whether an op runs a kernel of the user, whose time is unknown.
        """
        self.costs = costs
        self._bounds = bounds
        self._has_layer = has_layer
        self._found: dict[Op, OpTime] = {}

    def find(self, op: Op) -> OpTime:
        """Returns the expected times of an op."""
        found = self._found.get(op)
        if found is None:
            found = self._found[op] = self._find(op)
        return found

    def transfer_ns(self, tensors: Iterable[Tensor]) -> int:
        """Returns the time to transfer tensors to or from the NPU, in nanoseconds."""
        return sum(round(self.costs.transfer_ns * self._size(tensor)) for tensor in tensors)

    def _find(self, op: Op) -> OpTime:
        if unpacked_constant(op) is not None:
            return OpTime()
        bounded = self._at_bounds(op)
        cost = UNKNOWN_COST if self._has_layer(op) else find_cost(bounded)
        if cost.bytes is None:
            return OpTime(is_known=False)
        work, operations = work_of(op.name), cost.arithmetic or 0
        npu, cpu = self.costs.npu[work], self.costs.cpu[work]
        num_rows = sum(prod(tensor.shape[:-1]) for tensor in bounded.outputs[:1])
        npu_ns = round(npu.op_ns(num_rows, operations, cost.bytes))
        cpu_ns = round(cpu.op_ns(num_rows, operations, cost.bytes))
        if op.name in library_ops() and library_ops()[op.name].is_view:
            return OpTime(cpu=cpu_ns)
        operand = _joined_operand(op) if work in _JOINED else None
        if operand is None:
            return OpTime(npu_ns, npu_ns, cpu_ns)
        spared = self._size(operand) + sum(map(self._size, op.outputs))
        joined = round(npu.inner_ns(operations, max(0, cost.bytes - spared)))
        return OpTime(npu_ns, joined, 0 if op.name in _ACTIVATIONS else cpu_ns, operand)

    def _at_bounds(self, op: Op) -> Op:
        """Returns an op whose tensors have their largest known shapes."""
        tensors = [*op.inputs, *op.outputs]
        if all(tensor is None or tensor.type.layout.is_static for tensor in tensors):
            return op
        inputs = [tensor and self._bounded(tensor) for tensor in op.inputs]
        return Op(op.code, inputs, [self._bounded(tensor) for tensor in op.outputs], op.options)

    def _bounded(self, tensor: Tensor) -> Tensor:
        """Returns a tensor with its largest shape, if there is one."""
        copy = tensor.clone()
        if tensor.name in self._bounds and not tensor.type.layout.is_static:
            copy.shape, copy.shape_signature = tuple(self._bounds[tensor.name]), None
        return copy

    def _size(self, tensor: Tensor) -> int:
        """Returns the bytes of a tensor at its largest shape; 0 if that is unknown."""
        kind = self._bounded(tensor).type
        return kind.size_bytes if kind.layout.is_static and kind.element_type.bits else 0


def expect_call(
    ops: Collection[Op],
    inputs: Iterable[Tensor],
    outputs: Collection[Tensor],
    times: OpTimes,
    cpu_ns: int,
) -> ExpectedTime:
    """Returns the expected time of an NPU call.

    Args:
      ops: Ops in the call.
      inputs: Tensors that are transferred to the NPU.
      outputs: Tensors that are transferred from the NPU.
      times: Expected times of the ops.
      cpu_ns: Time of the ops that stay on the CPU, in nanoseconds.
    """
    npu = cpu = num_unknown = 0
    for op in ops:
        time = times.find(op)
        operand = time.operand
        is_joined = operand is not None and operand.producer in ops and operand not in outputs
        npu += time.joined if is_joined else time.npu
        cpu += time.cpu
        num_unknown += not time.is_known
    transfers = times.transfer_ns(inputs) + times.transfer_ns(outputs)
    return ExpectedTime(npu, transfers, times.costs.start_ns(cpu_ns), cpu, num_unknown)


def expect_partition(partition: Subgraph, times: OpTimes, cpu_ns: int) -> ExpectedTime | None:
    """Returns the expected time of a partition, like `expect_call`; None if the time of an op is unknown."""
    expected = expect_call(set(partition.ops), partition.inputs, partition.outputs, times, cpu_ns)
    return None if expected.num_unknown == len(partition.ops) else expected


def _joined_operand(op: Op) -> Tensor | None:
    """Returns the operand whose producer can absorb an element-wise op."""
    for tensor in op.inputs:
        maker = tensor.producer if tensor is not None else None
        if (
            tensor is not None
            and maker is not None
            and not maker.is_custom
            and len(tensor.readers) == 1
            and work_of(maker.name) in _JOINED_TO
            and unpacked_constant(maker) is None
        ):
            return tensor
    return None

"""`--reference_ops=auto`: runs builtin ops on the NPU if this is expected to save time.

The expected times include calls and transfers.

The candidates are the partitions that would result if the NPU took all ops that the library supports. The
selection splits the execution order of each candidate into consecutive groups of ops, alternately for the NPU and
the CPU. One pass over the ops finds the split with the shortest expected time. Each group is consecutive, so no
NPU call becomes part of a cycle. The pass counts too many transfers if the ops of two branches alternate in the
execution order. Therefore, the selection compares the split with two alternatives: the whole candidate on the NPU,
and only the user's own layers on the NPU. Finally, each connected group of ops that would stay on the CPU moves to
the NPU if a call for this group alone is expected to save time.

The time of the selection is proportional to the number of ops; the result depends only on the model and the cost
model.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from itertools import pairwise
from math import inf

from compiler_plugin.dependencies import find_dependencies
from compiler_plugin.partition import find_partitions
from litert.core.errors import LiteRtError
from litert.model.expected_time import ExpectedTime
from litert.model.graph import Op, Subgraph, Tensor
from vendor_reference.compiler.op_times import OpTimes, expect_call
from vendor_reference.compiler.unpacked_constants import unpacked_constant


def find_losses(
    subgraph: Subgraph, taken: Collection[Op], by_layer: Collection[Op], times: OpTimes
) -> dict[Op, str]:
    """Returns the ops that the NPU supports but that should stay on the CPU, each with the reason.

    Args:
      subgraph: Subgraph that is partitioned.
      taken: Ops that the NPU supports, including the ops with a custom layer.
      by_layer: Ops with a kernel of the user, which always run on the NPU.
      times: Expected times of the ops.
    """
    try:
        dependencies = find_dependencies(subgraph, taken)
    except LiteRtError:  # the host reports this case, and makes no partitions
        return {}
    choice = _Choice(subgraph, dependencies, taken, by_layer, times)
    chosen = choice.find()
    cpu_ns = choice.cpu_ns(chosen)
    left = [p for p in choice.candidates if p not in chosen]
    return {
        subgraph.ops[position]: _reason(choice.expect(call, cpu_ns), len(call))
        for call in choice.calls(left)
        for position in call
    }


class _Choice:
    """Chooses which ops of a subgraph run on the NPU.

    Attributes:
      candidates: Positions of the ops that the NPU supports, ascending.
    """

    def __init__(
        self,
        subgraph: Subgraph,
        dependencies: Sequence[Sequence[int]],
        taken: Collection[Op],
        by_layer: Collection[Op],
        times: OpTimes,
    ) -> None:
        self._ops = subgraph.ops
        self._dependencies = dependencies
        self._outputs = frozenset(subgraph.outputs)
        self._by_layer = by_layer
        self._times = times
        self.candidates = [p for p, op in enumerate(subgraph.ops) if op in taken]
        self._all_cpu_ns = sum(times.find(op).cpu for op in subgraph.ops)

    def find(self) -> set[int]:
        """Returns the positions of the ops that run on the NPU."""
        parts = self.calls(self.candidates)
        layers = {p for p in self.candidates if self._ops[p] in self._by_layer}
        runs = {p for part in parts for p in self._find_runs(part)}
        rivals = [runs, layers, set(self.candidates)]
        best = max([self._mix(parts, rivals), *rivals], key=self._gain)
        cpu_ns = self.cpu_ns(best)
        left = self.calls([p for p in self.candidates if p not in best])
        gaining = [call for call in left if self._gain_ns(self.expect(call, cpu_ns)) > 0]
        more = best.union(*gaining)
        return max([best, more], key=self._gain)

    def calls(self, positions: Collection[int]) -> list[list[int]]:
        """Returns the calls that the host makes from ops."""
        return find_partitions(self._dependencies, dict.fromkeys(positions, 0))

    def cpu_ns(self, positions: Collection[int]) -> int:
        """Returns the time on the CPU if the ops at the given positions run on the NPU."""
        return self._all_cpu_ns - sum(self._times.find(self._ops[p]).cpu for p in positions)

    def expect(self, call: Sequence[int], cpu_ns: int) -> ExpectedTime:
        """Returns the expected time of a call in a run with this CPU time."""
        ops = {self._ops[position]: None for position in call}
        read = (t for op in ops for t in _operands(op))
        inputs = dict.fromkeys(t for t in read if t.producer is None or t.producer not in ops)
        outputs = {t: None for op in ops for t in op.outputs if self._is_read_outside(t, ops)}
        return expect_call(ops.keys(), inputs, outputs.keys(), self._times, cpu_ns)

    def _mix(self, parts: Sequence[Sequence[int]], rivals: Sequence[Collection[int]]) -> set[int]:
        """Returns, for each candidate, the positions of the alternative that saves the most time."""
        part_of = {p: number for number, part in enumerate(parts) for p in part}
        gains = [self._gains(rival, part_of) for rival in rivals]
        mixed: set[int] = set()
        for number, part in enumerate(parts):
            by_rival = [gain.get(number, 0.0) for gain in gains]
            best = rivals[by_rival.index(max(by_rival))]
            mixed.update(p for p in part if p in best)
        return mixed

    def _gains(self, positions: Collection[int], part_of: Mapping[int, int]) -> dict[int, float]:
        """Returns the time that calls save compared to the CPU, by the candidate of each call's first op."""
        gains: dict[int, float] = {}
        cpu_ns = self.cpu_ns(positions)
        for call in self.calls(positions):
            part = part_of[call[0]]
            gains[part] = gains.get(part, 0) + self._gain_ns(self.expect(call, cpu_ns))
        return gains

    def _gain(self, positions: Collection[int]) -> float:
        cpu_ns = self.cpu_ns(positions)
        return sum(self._gain_ns(self.expect(call, cpu_ns)) for call in self.calls(positions))

    def _gain_ns(self, time: ExpectedTime) -> float:
        """Returns the time that a call saves compared to the CPU, minus a safety margin."""
        return time.cpu_ns - time.npu_ns - self._times.costs.caution * time.ops_ns

    def _is_read_outside(self, tensor: Tensor, ops: Collection[Op]) -> bool:
        return tensor in self._outputs or any(reader not in ops for reader in tensor.readers)

    def _find_runs(self, part: Sequence[int]) -> Iterator[int]:
        """Yields the positions of ops for the NPU, from the split with the shortest expected time."""
        inside = {self._ops[p] for p in part}
        crossing = self._crossing_ns(part, inside)
        call_ns = self._times.costs.start_ns(self._all_cpu_ns)
        npu, cpu = float(call_ns), 0.0  # cost of the ops up to here, by the side of the last op
        factor = 1 + self._times.costs.caution
        came_from: list[
            tuple[bool, bool]
        ] = []  # for each side: whether the op before is on the NPU
        for index, position in enumerate(part):
            op, time = self._ops[position], self._times.find(self._ops[position])
            change = crossing[index]
            is_joined = time.operand is not None and time.operand.producer in inside
            stay = npu + factor * (time.joined if is_joined else time.npu)
            enter = cpu + factor * time.npu + change + (call_ns if index else inf)
            remain, leave = cpu, npu + change
            came_from.append((stay <= enter, leave < remain))
            npu = min(stay, enter) + self._border_ns(op, inside)
            cpu = inf if op in self._by_layer else min(remain, leave) + time.cpu
        on_npu = npu <= cpu
        for position, (if_npu, if_cpu) in zip(reversed(part), reversed(came_from), strict=True):
            if on_npu:
                yield position
            on_npu = if_npu if on_npu else if_cpu

    def _crossing_ns(self, part: Sequence[int], inside: Collection[Op]) -> list[int]:
        """Returns the time to transfer tensors across a split before each op of a candidate."""
        place = {self._ops[position]: index for index, position in enumerate(part)}
        changes = [0] * (len(part) + 1)
        for op, index in place.items():
            for tensor in op.outputs:
                last = max((place[r] for r in tensor.readers if r in inside), default=index)
                if last > index:
                    size = self._times.transfer_ns([tensor])
                    changes[index + 1] += size
                    changes[last + 1] -= size
        found = [changes[0]]
        for _, change in pairwise(changes[:-1]):
            found.append(found[-1] + change)
        return found

    def _border_ns(self, op: Op, inside: Collection[Op]) -> float:
        """Returns the time of transfers between an op and the outside of its candidate."""
        read = [t for t in _operands(op) if t.producer is None or t.producer not in inside]
        written = [t for t in op.outputs if self._is_read_outside(t, inside)]
        return self._times.transfer_ns([*read, *written])


def _operands(op: Op) -> list[Tensor]:
    """Returns the inputs that are neither constants nor unpacked from constants."""
    return [
        tensor
        for tensor in op.inputs
        if tensor is not None
        and not tensor.is_constant
        and (tensor.producer is None or unpacked_constant(tensor.producer) is None)
    ]


def _reason(time: ExpectedTime, num_ops: int) -> str:
    where = "a call of its own" if num_ops == 1 else f"a call of {num_ops} ops"
    return (
        f"no clear gain is expected on the NPU: {time.npu_ns / 1e3:.1f} us on the NPU, as {where}; "
        f"{time.cpu_ns / 1e3:.1f} us on the CPU"
    )

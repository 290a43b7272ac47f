"""Where each op of a model runs, on the NPU or the CPU, with the op's types and cost."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass, field

from compiler_plugin.plan import SubgraphPlan
from compiler_plugin.report import OpReport
from litert.analysis.op_costs import ModelCosts
from litert.core.element_type import ElementType
from litert.model.composite import COMPOSITE_OP
from litert.model.graph import Model, Op, Tensor
from litert.model.op_cost import NO_COST, OpCost

_INDICES = frozenset({ElementType.INT32, ElementType.INT64})


@dataclass(frozen=True, slots=True)
class OpCoverage:
    """Where one op of a model runs, with its types and cost.

    Attributes:
      subgraph, index: Place of the op in the model's file. A part of a split composite has the composite's place.
        The index is -1 if a transformation created the op.
      name: Custom code of the custom op, or name of the builtin op.
      composite: Name of the composite that the op is or belongs to, such as `odml.rms_norm`; "" for other ops.
      output: Name of the op's first output.
      types: Element types of the op's data inputs and outputs, for example `int8`, `float32, int8`, or
        `float32 to int8`.
      call: Name of the NPU call that contains the op; "" if the op is on the CPU.
      reason: Reason why the op stays on the CPU; "" if the op is on the NPU.
      macs: Number of multiply-accumulates; None if unknown.
      operations: Number of other arithmetic operations; None if unknown.
      bytes: Total size of inputs, constants and outputs, each counted once; None if unknown.
    """

    subgraph: int
    index: int
    name: str
    composite: str
    output: str
    types: str
    call: str
    reason: str
    macs: int | None
    operations: int | None
    bytes: int | None

    @property
    def cost(self) -> OpCost:
        """Its cost."""
        return OpCost(self.macs, self.operations, self.bytes)

    @property
    def kind(self) -> str:
        """Name of the op's computation: the composite's name, or the op's name."""
        return self.composite if self.name == COMPOSITE_OP and self.composite else self.name


@dataclass(slots=True, eq=False)
class SourcePlaces:
    """Finds the places (subgraph and index) that ops had in a model's file, even after the model was changed."""

    _by_op: dict[Op, tuple[int, int]] = field(default_factory=dict)
    _by_output: dict[tuple[int, str, str], tuple[int, int]] = field(default_factory=dict)

    def read(self, model: Model) -> None:
        """Records the ops of a model before the model is changed."""
        for number, subgraph in enumerate(model.subgraphs):
            for index, op in enumerate(subgraph.ops):
                self._by_op[op] = number, index
                self._by_output[number, op.name, _output_name(op)] = number, index

    def find(self, subgraph: int, op: Op) -> tuple[int, int]:
        """Returns the place in the file of an op that is now in a subgraph; its index is -1 for a new op.

        If a vendor's transformations have replaced an op by a copy, the copy is matched by the name of its output.
        """
        place = self._by_op.get(op)
        return place or self._by_output.get((subgraph, op.name, _output_name(op)), (subgraph, -1))


def list_ops(
    plans: Sequence[SubgraphPlan],
    reports: Sequence[OpReport],
    places: SourcePlaces,
    costs: ModelCosts,
) -> Iterator[OpCoverage]:
    """Returns the ops of a model, in the order of `reports`, which are the reports of the partition plans."""
    by_index = {plan.index: plan for plan in plans}
    composites = {
        plan.index: {op: fate for fate in reversed(plan.composites) for op in fate.ops}
        for plan in plans
    }
    for report in reports:
        plan = by_index[report.subgraph]
        op = plan.subgraph.ops[report.index]
        fate = composites[plan.index].get(report.index)
        subgraph, index = places.find(plan.index, fate.op if fate else op)
        # Composites count for the ops of their decompositions.
        cost = NO_COST if plan.is_decomposition else costs.find(op)
        yield OpCoverage(
            subgraph,
            index,
            op.name,
            fate.name if fate else "",
            _output_name(op),
            describe_types(op),
            report.call,
            report.reason,
            cost.macs,
            cost.operations,
            cost.bytes,
        )


def describe_types(op: Op) -> str:
    """Returns the element types of an op's data; constant biases, shapes, axes and indices are ignored."""
    given = [tensor for tensor in op.inputs if tensor is not None]
    data = [t for t in given if not (t.is_constant and t.element_type in _INDICES)]
    inputs, outputs = _type_names(data or given), _type_names(op.outputs)
    if set(outputs) <= set(inputs):
        return ", ".join(inputs)
    return " to ".join(", ".join(names) for names in (inputs, outputs) if names)


def _type_names(tensors: Collection[Tensor]) -> list[str]:
    return list(dict.fromkeys(tensor.element_type.name.lower() for tensor in tensors))


def _output_name(op: Op) -> str:
    return op.outputs[0].name if op.outputs else ""

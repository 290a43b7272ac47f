"""Where each op of a model goes, with its types and its cost."""

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
    """Where one op goes.

    Attributes:
      subgraph, index: of the op in the model's file; of its composite, for a part of one that is taken apart; the
        index is -1 for an op that a transformation has made.
      name: custom code, or the builtin operator's name.
      composite: what the composite computes that the op is, or is a part of: `odml.rms_norm`; "" for other ops.
      output: name of its first output.
      types: of its data: `int8`, `float32, int8`, `float32 to int8`.
      call: the NPU call that it is in; "" on the CPU.
      reason: why it stays on the CPU; "" on the NPU.
      macs: multiply-accumulates; None where they are unknown.
      operations: other arithmetic; None where it is unknown.
      bytes: of inputs, constants and outputs, each once; None where they are unknown.
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
        """What it computes: its name, or its composite's."""
        return self.composite if self.name == COMPOSITE_OP and self.composite else self.name


@dataclass(slots=True, eq=False)
class SourcePlaces:
    """Where ops stand in a model's file: subgraph and index, also once the model has been changed."""

    _by_op: dict[Op, tuple[int, int]] = field(default_factory=dict)
    _by_output: dict[tuple[int, str, str], tuple[int, int]] = field(default_factory=dict)

    def read(self, model: Model) -> None:
        """Remembers the ops of a model as it is in its file."""
        for number, subgraph in enumerate(model.subgraphs):
            for index, op in enumerate(subgraph.ops):
                self._by_op[op] = number, index
                self._by_output[number, op.name, _output_name(op)] = number, index

    def find(self, subgraph: int, op: Op) -> tuple[int, int]:
        """The place of an op that stands in a subgraph now; its index is -1 where the file does not have it.

        A vendor's transformations may have put a copy in the place of each op: that goes by its output's name.
        """
        place = self._by_op.get(op)
        return place or self._by_output.get((subgraph, op.name, _output_name(op)), (subgraph, -1))


def list_ops(
    plans: Sequence[SubgraphPlan],
    reports: Sequence[OpReport],
    places: SourcePlaces,
    costs: ModelCosts,
) -> Iterator[OpCoverage]:
    """The ops of a model in the order of `reports`, which are those of its plans."""
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
        # The ops of a decomposition are counted in the composites that stand for them.
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
    """The element types of an op's data: without constants that are biases, shapes, axes or indices."""
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

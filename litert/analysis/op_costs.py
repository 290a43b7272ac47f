"""Arithmetic and memory traffic of a model's ops, computed from op descriptions or from the user's formulas."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from litert.core.errors import LiteRtError
from litert.core.formula import Formula
from litert.core.kernel_dims import kernel_dims
from litert.model.composite import read_composite
from litert.model.graph import Model, Op, Subgraph, Tensor
from litert.model.op_cost import NO_COST, UNKNOWN_COST, OpCost, find_cost

_MOST_OPERATIONS = 2**62


@dataclass(frozen=True, slots=True)
class CostOptions:
    """Cost formulas and shapes from the user, for ops whose costs are not known otherwise.

    Attributes:
      formulas: Formulas for the number of operations of an op, by op name. A formula may use the dimensions B, F,
        Y and X of output 0.
      shapes: Shapes of inputs that have a dynamic shape, by input name.
    """

    formulas: Mapping[str, Formula] = field(default_factory=dict)
    shapes: Mapping[str, Sequence[int]] = field(default_factory=dict)


class ModelCosts:
    """Computes the costs of one model's ops. A composite costs as much as its decomposition."""

    def __init__(self, model: Model, formulas: Mapping[str, Formula]) -> None:
        self._model = model
        self._formulas = formulas
        self._bodies: dict[int, OpCost] = {}

    def find(self, op: Op) -> OpCost:
        """Returns the arithmetic and memory traffic of an op.

        Raises:
          LiteRtError: INVALID_ARGUMENT, if a formula cannot be computed for the op.
        """
        if formula := self._formulas.get(op.name):
            return _apply(formula, op)
        composite = read_composite(op)
        return self._find_body(composite.decomposition) if composite else find_cost(op)

    def _find_body(self, index: int) -> OpCost:
        if not 0 <= index < len(self._model.subgraphs):
            return UNKNOWN_COST
        if index not in self._bodies:
            self._bodies[index] = (
                UNKNOWN_COST  # meanwhile: a decomposition may contain its own composite
            )
            self._bodies[index] = sum(map(self.find, self._model.subgraphs[index].ops), NO_COST)
        return self._bodies[index]


def _apply(formula: Formula, op: Op) -> OpCost:
    """Computes an op's cost by a formula; the arithmetic stays unknown if shapes are dynamic."""
    cost = find_cost(op)
    tensors = [tensor for tensor in (*op.inputs, *op.outputs) if tensor is not None]
    if not op.outputs or not all(tensor.type.layout.is_static for tensor in tensors):
        return OpCost(None, None, cost.bytes)
    inputs = [tensor.shape if tensor else None for tensor in op.inputs]
    outputs = [tensor.shape for tensor in op.outputs]
    dims = kernel_dims(outputs[0])
    return OpCost(0, formula.evaluate(dims, inputs, outputs, _MOST_OPERATIONS), cost.bytes)


def set_shapes(model: Model, shapes: Mapping[str, Sequence[int]]) -> list[str]:
    """Sets the shapes of a model's inputs, and uses stock LiteRT to infer the shapes of other tensors.

    Returns:
      Sentences about shapes that could not be set or inferred. Shapes stay unknown after ops for which stock
      LiteRT cannot infer shapes, such as custom ops.
    """
    problems: list[str] = []
    inputs = [(subgraph, tensor) for subgraph in model.subgraphs for tensor in subgraph.inputs]
    found = {tensor.name for _, tensor in inputs}
    problems += [
        f"--shape: the model has no input '{name}'" for name in shapes if name not in found
    ]
    for subgraph in dict.fromkeys(subgraph for subgraph, _ in inputs):
        named = {t: shapes[t.name] for t in subgraph.inputs if t.name in shapes}
        wrong = [t for t, shape in named.items() if not _can_be(t, shape)]
        problems += [
            f"--shape: input '{t.name}' is {t.type}, and cannot have shape "
            f"{'x'.join(map(str, shapes[t.name]))}"
            for t in wrong
        ]
        if named and not wrong:
            try:
                _set_shapes(model, subgraph, named)
            except LiteRtError as error:
                problems.append(f"with --shape: {error}")
    return problems


def _can_be(tensor: Tensor, shape: Sequence[int]) -> bool:
    known = tensor.type.shape
    return len(known) == len(shape) and all(k in (-1, s) for k, s in zip(known, shape, strict=True))


def _set_shapes(model: Model, subgraph: Subgraph, shapes: Mapping[Tensor, Sequence[int]]) -> None:
    # Imported here, since most models have no dynamic shapes.
    from compiler_plugin.transformations.graph import Graph
    from compiler_plugin.transformations.partial_inference import PartialInference

    inference = PartialInference(subgraph)
    graph = Graph(model, subgraph, inference)
    for node in graph.parameters:
        port = node.out_port(0)
        if port.tensor in shapes:
            port.data.set_shape(shapes[port.tensor])
    graph.infer()

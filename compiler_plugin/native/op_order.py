"""Ops in an order in which they can run, otherwise as they were."""

from __future__ import annotations

from collections.abc import Sequence

from compiler_plugin.execution_order import find_execution_order
from litert.core.errors import LiteRtError
from litert.core.status import Status
from litert.model.graph import Op


def order_ops(ops: Sequence[Op]) -> list[Op]:
    """Moves an op that another needs before it; all others stay in their order.

    Raises:
      LiteRtError: INVALID_GRAPH_INVARIANT, for ops that wait for each other.
    """
    position = {op: index for index, op in enumerate(ops)}
    dependencies = [
        [
            position[tensor.producer]
            for tensor in op.inputs
            if tensor is not None and tensor.producer in position
        ]
        for op in ops
    ]
    if all(before < index for index, some in enumerate(dependencies) for before in some):
        return list(ops)
    ordered = [ops[index] for index in find_execution_order(dependencies, ())]
    place = {op: index for index, op in enumerate(ordered)}
    for op in ordered:
        for tensor in op.inputs:
            producer = None if tensor is None else tensor.producer
            if producer in place and place[producer] >= place[op]:
                raise LiteRtError(
                    Status.INVALID_GRAPH_INVARIANT, f"{op.name} waits for what waits for it"
                )
    return ordered

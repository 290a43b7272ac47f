"""Checks the consistency of a graph after each transformation that has changed the graph.

Ports and connections refuse invalid edits immediately. This module checks the graph as a whole, and also finds
errors in direct changes of the model's objects.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from math import prod

from compiler_plugin.transform_options import Phase
from compiler_plugin.transformations.graph import Graph
from compiler_plugin.transformations.stock_inference import is_self_contained, lacks_input
from litert.core.counts import count_text
from litert.core.element_type import ElementType
from litert.core.errors import LiteRtError
from litert.core.status import Status
from litert.model.graph import Op, Tensor


def check_graph(graph: Graph) -> None:
    """Checks a whole graph, and sorts its ops into execution order.

    Raises:
      LiteRtError: INVALID_GRAPH_INVARIANT, for the first problem that is found. These problems concern ops: ops
        form a cycle; an edit has left an input without a source; two ops write the same tensor; an op writes a
        constant or model input; a tensor is read but never written. These problems concern tensors: another
        subgraph owns the tensor; the data do not fit the constant's shape; the type is unknown, or the shape of a
        new custom op's output is unknown; an input, output or signature refers to a missing tensor.
    """
    graph.sort_ops()
    own = set(graph.subgraph.tensors)
    _check_touched(graph)
    written = _check_outputs(graph, own)
    sources = _check_inputs(graph, own, written)
    _check_ends(graph, own, written)
    for tensor in sources:
        _check_data(graph, tensor)


def _check_touched(graph: Graph) -> None:
    """Checks that edits leave no op without an input; in later phases, inference finds this error."""
    for node in graph.touched:
        op = node.model_op
        if op is not None and is_self_contained(op) and lacks_input(op):
            index = op.inputs.index(None)
            raise _problem(
                f"input {index} of {node} is not connected",
                graph,
                f"Connect the input: node.in_port({index}).connect(port).",
            )


def _check_outputs(graph: Graph, own: set[Tensor]) -> dict[Tensor, Op]:
    """Checks the output tensors of all ops; returns the writer of each tensor."""
    written: dict[Tensor, Op] = {}
    inputs = set(graph.subgraph.inputs)
    is_typed = graph.stage is not Phase.FRONT
    for op in graph.subgraph.ops:
        for index, tensor in enumerate(op.outputs):
            if tensor in written or tensor.producer is not op:
                other = written.get(tensor, tensor.producer)
                raise _problem(
                    f"two ops write {_name(tensor)}: {_ops(other, op)}",
                    graph,
                    "Give each op an output tensor of its own.",
                )
            if tensor not in own:
                raise _foreign(tensor, f"{_ops(op)} writes", graph)
            if tensor in inputs or tensor.is_constant:
                what = "an input of the model" if tensor in inputs else "a constant"
                raise _problem(
                    f"{_ops(op)} writes {_name(tensor)}, which is {what}",
                    graph,
                    "Give the op an output tensor of its own.",
                )
            if is_typed and tensor.element_type is ElementType.NONE:
                raise _problem(
                    f"the type of {_name(tensor)}, which {_ops(op)} writes, is not known",
                    graph,
                    f"Set the type of the op's output: node.out_port({index}).set_data_type(...).",
                )
            if is_typed and op.is_custom and not graph.has_rank(tensor):
                raise _problem(
                    f"the shape of {_name(tensor)}, which {_ops(op)} writes, is not known",
                    graph,
                    "Define the function infer in the op's class. Alternatively, set the shape in the "
                    f"transformation that creates the op: node.out_port({index}).data.set_shape(...).",
                )
            written[tensor] = op
    return written


def _check_inputs(graph: Graph, own: set[Tensor], written: dict[Tensor, Op]) -> dict[Tensor, None]:
    """Checks the input tensors of all ops; returns the tensors that no op writes."""
    sources: dict[Tensor, None] = {}
    for op in graph.subgraph.ops:
        for index, tensor in enumerate(op.inputs):
            if tensor is None or tensor in written or tensor in sources:
                continue
            if tensor not in own:
                raise _foreign(tensor, f"{_ops(op)} reads", graph)
            if not graph.has_source(tensor):
                raise _problem(
                    f"{_ops(op)} reads {_name(tensor)}, but no op writes this tensor",
                    graph,
                    f"Connect the op's input to another source: node.in_port({index}).connect(port).",
                )
            sources[tensor] = None
        for kept in op.intermediates:
            if kept is not None and kept not in own:
                raise _foreign(kept, f"{_ops(op)} has the intermediate", graph)
    return sources


def _check_ends(graph: Graph, own: set[Tensor], written: dict[Tensor, Op]) -> None:
    for what, tensors in _ends(graph):
        for tensor in tensors:
            if tensor not in own:
                raise _foreign(tensor, f"{what} contain", graph)
    for result in graph.results:
        named = result.tensor
        assert named is not None
        if named not in written and not graph.has_source(named):
            raise _problem(
                f"an output of the model is {_name(named)}, but no op writes this tensor",
                graph,
                "Connect the output to another source: node.in_port(0).connect(port), where `node` is one of "
                "graph.results.",
            )


def _ends(graph: Graph) -> Iterator[tuple[str, Iterable[Tensor]]]:
    yield "the inputs", graph.subgraph.inputs
    yield "the outputs", graph.subgraph.outputs
    for signature in graph.model.signatures:
        if signature.subgraph is graph.subgraph:
            yield f"the inputs of signature '{signature.key}'", (t for _, t in signature.inputs)
            yield f"the outputs of signature '{signature.key}'", (t for _, t in signature.outputs)


def _check_data(graph: Graph, tensor: Tensor) -> None:
    blob, bits = tensor.buffer.blob, tensor.element_type.bits
    if blob is None or not blob.size or not bits or tensor.sparsity is not None:
        return
    wanted = (prod(tensor.shape) * bits + 7) // 8
    if blob.size != wanted:
        raise _problem(
            f"constant {_name(tensor)} has {count_text(blob.size, 'byte')} of data, but its type {tensor.type} "
            f"requires {count_text(wanted, 'byte')}",
            graph,
            "Change the constant's data, type or shape so that these agree.",
        )


def _problem(what: str, graph: Graph, hint: str = "") -> LiteRtError:
    return LiteRtError(Status.INVALID_GRAPH_INVARIANT, what, describe_subgraph(graph), hint)


def describe_subgraph(graph: Graph) -> str:
    """Returns the name of a graph's subgraph for the field `where` of errors."""
    return f"subgraph '{graph.subgraph.name}'"


def _foreign(tensor: Tensor, who: str, graph: Graph) -> LiteRtError:
    return _problem(
        f"{who} {_name(tensor)}, which does not belong to the subgraph",
        graph,
        "Use only tensors that belong to the same subgraph and were not removed.",
    )


def _name(tensor: Tensor) -> str:
    return f"tensor '{tensor.name}'"


def _ops(*ops: Op | None) -> str:
    names = [f"{op.name} '{op.outputs[0].name if op.outputs else ''}'" for op in ops if op]
    return " and ".join(names)

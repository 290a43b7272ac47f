"""Changes the shapes (`--input_shape`) and the layout (`--data_layout`) of a model's inputs and outputs."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from compiler_plugin.transformations.graph import Graph
from compiler_plugin.transformations.layout_change.image_layout import (
    LayoutChange,
    Permutation,
    inverse,
)
from compiler_plugin.transformations.layout_change.permuted_constants import permute_type
from compiler_plugin.transformations.node import Node
from litert.core.errors import LiteRtError
from litert.core.status import Status
from litert.model.builtin_options import get_builtin_option, option_names


def set_input_shapes(graphs: Sequence[Graph], shapes: Mapping[str, Sequence[int]]) -> None:
    """Sets new shapes for inputs of a model; the tensors that depend on these inputs must then be inferred again.

    Args:
      graphs: Graphs of all subgraphs of the model.
      shapes: New shape for each input, by the name of the tensor or the name in a signature; -1 for a dimension
        that is known only at run time.

    Raises:
      LiteRtError: NOT_FOUND, if the model has no input with a given name.
    """
    inputs = [pair for graph in _find_entries(graphs) for pair in _find_inputs(graph)]
    for name, shape in shapes.items():
        found = [node for known, node in inputs if known == name]
        if not found:
            known = ", ".join(dict.fromkeys(f"{n} ({_text(node)})" for n, node in inputs))
            raise LiteRtError(
                Status.NOT_FOUND,
                f"no input of the model is named '{name}'",
                "--input_shape",
                f"The model has these inputs: {known or 'none'}.",
            )
        for node in found:
            node.out_port(0).data.set_shape(shape)


def make_channels_first(graphs: Sequence[Graph]) -> bool:
    """Changes the inputs and outputs of a model to NCHW if they have four or five dimensions.

    The ops of the model do not change, because a TRANSPOSE is added after each input and before each output. Other
    transformations remove pairs of TRANSPOSE ops that cancel each other.

    Returns:
      Whether any input or output was changed.

    Raises:
      LiteRtError: UNSUPPORTED, if an op of the model calls a subgraph whose inputs or outputs would change.
    """
    count = 0
    for graph in _find_entries(graphs):
        ends = [(end, _channels_first(end)) for end in (*graph.parameters, *graph.results)]
        images = [(end, permutation) for end, permutation in ends if permutation]
        if images:
            _check_not_called(graph)
        for end, permutation in images:
            count += 1
            if end.is_result:
                _permute_result(graph, end, permutation)
            else:
                _permute_parameter(graph, end, permutation)
    return bool(count)


def _permute_parameter(graph: Graph, parameter: Node, permutation: Permutation) -> None:
    name, tensor = f"{parameter.name}/nhwc", parameter.out_port(0).tensor
    back = graph.create_op("TRANSPOSE", [parameter, list(inverse(permutation))], name=name)
    parameter.out_port(0).get_connection().insert_node(back)
    permute_type(tensor, permutation)
    graph.touch(back)


def _permute_result(graph: Graph, result: Node, permutation: Permutation) -> None:
    source = result.in_port(0).get_source()
    name = f"{result.name}/nchw"
    made = graph.create_op("TRANSPOSE", [source, list(permutation)], name=name)
    result.in_port(0).connect(made.out_port(0))


def _channels_first(end: Node) -> Permutation | None:
    """Returns the permutation of an input or result; None if it does not have the rank of an image."""
    tensor = end.tensor
    return None if tensor is None else LayoutChange("NCHW").image(len(tensor.shape))


def _find_entries(graphs: Sequence[Graph]) -> Iterable[Graph]:
    """Returns the subgraphs that an application can run: the first subgraph, and subgraphs of signatures."""
    named = {signature.subgraph for signature in graphs[0].model.signatures}
    return [graph for index, graph in enumerate(graphs) if not index or graph.subgraph in named]


def _find_inputs(graph: Graph) -> Iterable[tuple[str, Node]]:
    """Returns pairs of a name and an input; an input has the name of its tensor, and names in signatures."""
    names: dict[tuple[str, Node], None] = {}
    for node in graph.parameters:
        names[node.name, node] = None
        for signature in graph.model.signatures:
            if signature.subgraph is graph.subgraph:
                names.update({(n, node): None for n, t in signature.inputs if t is node.tensor})
    return names


def _check_not_called(graph: Graph) -> None:
    model = graph.model
    for op in model.ops():
        for name in () if op.is_custom else option_names(op):
            if not name.endswith("subgraph_index"):
                continue
            index = get_builtin_option(op, name)
            if index >= 0 and model.subgraphs[index] is graph.subgraph:
                raise LiteRtError(
                    Status.UNSUPPORTED,
                    f"the inputs and outputs of subgraph {index} cannot change to the layout NCHW, because "
                    f"an op {op.name} calls this subgraph",
                    "--data_layout=NCHW",
                    "Omit the flag to keep the layout NHWC.",
                )


def _text(node: Node) -> str:
    shape = node.out_port(0).data.get_shape()
    return "x".join(map(str, shape)) if shape else "a scalar"

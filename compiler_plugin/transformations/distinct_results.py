"""The results of a model after edits: each a tensor of its own, under its public name.

An edit may leave one tensor as two results, or an input as one. Stock's Interpreter runs both; stock's
CompiledModel (ai_edge_litert 2.1) fills one of the buffers that it was given for such a tensor, and leaves the
others as they were. So an op that changes nothing comes between. What a file has like that stays as it is.
"""

from __future__ import annotations

from compiler_plugin.transformations.graph import Graph
from compiler_plugin.transformations.node import Node
from compiler_plugin.transformations.ports import OutPort
from litert.core.element_type import ElementType
from litert.model.graph import Tensor


def settle_results(graph: Graph) -> None:
    """Separates results that an edit has made one, and gives all their names."""
    if _is_entry(graph):
        _separate(graph)
    _settle_names(graph)


def _is_entry(graph: Graph) -> bool:
    """Whether the results go to the caller of a model, or of a partition: control flow copies what it is given."""
    return graph.model.subgraphs[0] is graph.subgraph or any(
        signature.subgraph is graph.subgraph for signature in graph.model.signatures
    )


def _separate(graph: Graph) -> None:
    owners: dict[Tensor, Node] = {}
    for result in sorted(
        graph.results, key=graph.outputs.has_moved
    ):  # those that stayed own theirs
        source = result.in_port(0).get_source()
        assert source is not None
        owner = owners.setdefault(source.tensor, result)
        if not graph.outputs.has_moved(result) or (
            owner is not result and graph.outputs.were_one(result, owner)
        ):
            continue
        if source.node.is_const:
            if owner is not result or source.tensor.readers:
                _clone_constant(graph, result, source.tensor)
        elif owner is not result or not source.node.is_op:
            _insert_identity(graph, result, source)


def _clone_constant(graph: Graph, result: Node, tensor: Tensor) -> None:
    """Gives a result a constant of its own, with the same data."""
    clone = tensor.clone()
    clone.name = graph.unique_name(result.result_name)
    graph.subgraph.tensors.append(clone)
    graph.outputs.set_result(result, clone)


def _insert_identity(graph: Graph, result: Node, source: OutPort) -> None:
    """Puts a RESHAPE to the same shape before a result; if the model is resized, to the shape that it has then."""
    if source.tensor.element_type in (ElementType.RESOURCE, ElementType.VARIANT):
        return  # a handle: nothing copies it
    shape = source.data.get_shape()
    name = result.result_name
    is_final = graph.static_shape or graph.layout == "NCHW"  # which only a partition is in
    if shape is not None and -1 not in shape and is_final:
        wanted = graph.create_const(list(shape), f"{name}/shape", "int32")
    else:
        wanted = graph.create_op("SHAPE", [source], {"out_type": "INT32"}, name=f"{name}/shape")
        wanted.out_port(0).set_data_type(ElementType.INT32)
        wanted.out_port(0).data.set_shape((-1 if shape is None else len(shape),))
    copy = graph.create_op("RESHAPE", [source, wanted], name=name)
    copy.out_port(0).set_data_type(source.tensor.element_type)
    copy.out_port(0).quantization = source.quantization
    if shape is not None:
        copy.out_port(0).data.set_shape(shape)
        copy.out_port(0).tensor.shape = source.tensor.shape
    graph.outputs.set_result(result, copy.out_port(0).tensor)


def _settle_names(graph: Graph) -> None:
    """Gives results their public names; another tensor that has such a name gets a new one."""
    owned: dict[Tensor, str] = {}
    public = set(graph.subgraph.inputs)
    for result in graph.results:
        assert result.tensor is not None
        public.add(result.tensor)
        if result.tensor not in graph.subgraph.inputs:
            owned.setdefault(result.tensor, result.result_name)
    renamed = {tensor: name for tensor, name in owned.items() if tensor.name != name}
    if not renamed:
        return
    taken = set(renamed.values())
    for tensor in graph.subgraph.tensors:
        if tensor.name in taken and tensor not in public:
            graph.rename(tensor, graph.unique_name(f"{tensor.name}/replaced"))
    for tensor, name in renamed.items():
        graph.rename(tensor, name)

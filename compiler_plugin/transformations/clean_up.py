"""Completes the model after all transformations have run.

Transformations edit the model in place, so that few steps remain. The attributes of custom ops are written as
their options. Each result of the model becomes a separate tensor with its public name. Ops are sorted into
execution order, and metadata that refer to ops are updated to the new positions. Constants with equal data share
one buffer. Unused objects are removed, even if the input file contained them.
"""

from __future__ import annotations

import os
from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from typing import TypeAlias

from compiler_plugin.leftovers import drop_buffers, drop_operator_codes, find_dead_tensors
from compiler_plugin.transform_options import Phase
from compiler_plugin.transformations.custom_ops import write_attributes, write_options
from compiler_plugin.transformations.graph import Graph
from compiler_plugin.transformations.graph_check import check_graph
from compiler_plugin.transformations.node import Node, OutPort
from litert.core.element_type import ElementType
from litert.model.atomic_file import make_folder
from litert.model.graph import Buffer, Subgraph, Tensor
from litert.model.positions import read_control_dependencies, set_control_dependencies
from litert.model.writer import write_model

_Kind: TypeAlias = tuple[Buffer, ElementType, tuple[int, ...], tuple[int, ...] | None]


def emit(graph: Graph) -> None:
    """Completes one subgraph after its transformations; `tidy` then completes the whole model.

    Raises:
      LiteRtError: If an op has no type, or attributes cannot be written; also the errors of `check_graph`.
    """
    assert graph.stage is not Phase.FRONT
    for node in graph.known_nodes:
        write_attributes(node)
        if graph.ops is not None:
            graph.ops.remember(node)
    if graph.edit_count:
        if _is_entry(graph):
            _separate(graph)
        _settle_names(graph)
        graph.infer()
        check_graph(graph)
        _write_control_dependencies(graph)


def tidy(graphs: Sequence[Graph]) -> None:
    """Lets equal constants share a buffer, and removes unused objects; this function must be called last.

    Args:
      graphs: Graphs of all subgraphs of one model, each after a call of `emit`.
    """
    changed = [graph for graph in graphs if graph.edit_count]
    if changed:
        seen = (buffer for graph in changed for buffer in graph.seen_data)
        share_data(changed[0].model.subgraphs, seen)
    for graph in changed:
        _merge_added(graph)
    for graph in graphs:
        dead = find_dead_tensors(graph.model, graph.subgraph, graph.subgraph.tensors)
        if dead:
            graph.subgraph.remove_tensors(dead)
    if graphs:
        model = graphs[0].model
        drop_buffers(model, model.buffers)
        drop_operator_codes(model, model.operator_codes)


def share_data(subgraphs: Iterable[Subgraph], buffers: Iterable[Buffer]) -> None:
    """Lets constants with equal data share one buffer, in all given subgraphs."""
    tensors: dict[Buffer, list[Tensor]] = defaultdict(list)
    for subgraph in subgraphs:
        for tensor in subgraph.tensors:
            tensors[tensor.buffer].append(tensor)
    by_size: dict[int, list[Buffer]] = defaultdict(list)
    for buffer in dict.fromkeys(buffers):
        if buffer.blob is not None and buffer.blob.size and buffer in tensors:
            by_size[buffer.blob.size].append(buffer)
    for same_size in by_size.values():
        if len(same_size) > 1:
            first: dict[bytes, Buffer] = {}
            for buffer in same_size:
                kept = first.setdefault(_digest(buffer), buffer)
                if kept is not buffer:
                    for tensor in tensors[buffer]:
                        tensor.buffer = kept


def _write_control_dependencies(graph: Graph) -> None:
    """Updates the positions of ops in the metadata of the model."""
    model = graph.model
    every = read_control_dependencies(model)
    index = next((i for i, known in enumerate(model.subgraphs) if known is graph.subgraph), None)
    if index is None or not every[index]:
        return
    place = {op: position for position, op in enumerate(graph.subgraph.ops)}
    edges = sorted({(place[a], place[b]) for a, b in graph.control_edges})
    if edges != sorted(every[index]):
        every[index] = edges
        set_control_dependencies(model, every)


def dump_model(graphs: Sequence[Graph], path: str) -> None:
    """Writes a snapshot of a model to a file; the graphs can still be edited afterwards.

    Element types that are unknown in the front phase are written as VARIANT. The folder is created if it is
    missing, but its parent must exist.
    """
    make_folder(os.path.dirname(path))
    with ExitStack() as stack:
        for graph in graphs:
            stack.enter_context(_writable(graph))
        write_model(graphs[0].model, path)


@contextmanager
def _writable(graph: Graph) -> Iterator[None]:
    """Within the context, the subgraph has no unused tensors, and each tensor has a type."""
    for node in graph.known_nodes:
        write_options(node)
    graph.sort_ops()
    _write_control_dependencies(graph)
    tensors = graph.subgraph.tensors
    dead = find_dead_tensors(graph.model, graph.subgraph, tensors)
    written = [tensor for tensor in tensors if tensor not in dead]
    untyped = [tensor for tensor in written if tensor.element_type is ElementType.NONE]
    for tensor in untyped:
        tensor.element_type = ElementType.VARIANT
    graph.subgraph.tensors = written
    try:
        yield
    finally:
        graph.subgraph.tensors = tensors
        for tensor in untyped:
            tensor.element_type = ElementType.NONE


def _is_entry(graph: Graph) -> bool:
    """Whether an application or a vendor reads the results; control flow ops copy them."""
    return graph.model.subgraphs[0] is graph.subgraph or any(
        signature.subgraph is graph.subgraph for signature in graph.model.signatures
    )


def _separate(graph: Graph) -> None:
    """Gives each result its own tensor again if an edit has made two results the same tensor."""
    owners: dict[Tensor, Node] = {}
    for result in sorted(graph.results, key=_has_moved):  # unchanged results first
        source = result.in_port(0).get_source()
        assert source is not None
        owner = owners.setdefault(source.tensor, result)
        if not _has_moved(result) or (
            owner is not result and result.first_tensor is owner.first_tensor
        ):
            continue
        if source.node.is_const:
            if owner is not result or source.tensor.readers:
                clone = source.tensor.clone()
                clone.name = graph.unique_name(result.result_name)
                graph.subgraph.tensors.append(clone)
                graph.set_result(result, clone)
        elif owner is not result or not source.node.is_op:
            _insert_identity(graph, result, source)


def _has_moved(result: Node) -> bool:
    """Whether the tensor of a result differs from the tensor in the file."""
    return result.tensor is not result.first_tensor


def _insert_identity(graph: Graph, result: Node, source: OutPort) -> None:
    """Inserts a RESHAPE before a result, which keeps the shape even if the model is resized."""
    if source.tensor.element_type in (ElementType.RESOURCE, ElementType.VARIANT):
        return  # a RESHAPE cannot copy a resource handle
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
    graph.set_result(result, copy.out_port(0).tensor)


def _settle_names(graph: Graph) -> None:
    """Gives results their public names, and renames other tensors that have these names."""
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


def _digest(buffer: Buffer) -> bytes:
    from hashlib import sha256  # here, since it loads OpenSSL

    assert buffer.blob is not None
    return sha256(buffer.blob.view).digest()


def _merge_added(graph: Graph) -> None:
    """Lets ops that read equal constants read the same constant, if all these constants were added."""
    results = {result.tensor for result in graph.results}
    first: dict[_Kind, list[Tensor]] = defaultdict(list)
    for tensor in graph.made_constants:
        if not tensor.readers or tensor in results or not tensor.is_constant:
            continue
        kind = (tensor.buffer, tensor.element_type, tensor.shape, tensor.shape_signature)
        same = first[kind]
        kept = next((t for t in same if t.quantization == tensor.quantization), None)
        if kept is None:
            same.append(tensor)
            continue
        for port in graph.find_readers(tensor):
            graph.set_input(port.node, port.index, kept)

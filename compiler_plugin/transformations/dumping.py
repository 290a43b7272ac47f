"""Writes a model as it stands between two transformations, for people to look at (`--dump_model_after`)."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager

from compiler_plugin.leftovers import find_dead_tensors
from compiler_plugin.transformations.emission import write_control_dependencies
from compiler_plugin.transformations.graph import Graph
from compiler_plugin.transformations.op_attributes import write_options
from litert.core.element_type import ElementType
from litert.core.errors import LiteRtError
from litert.core.status import Status
from litert.model.writer import write_model


def dump_model(graphs: Sequence[Graph], path: str) -> None:
    """Writes a model that is not done yet.

    Args:
      graphs: of all its subgraphs; they can be changed further. Types that the front phase does not know are
        VARIANT in the file.
      path: of the file, whose folder is made if it is not there.

    Raises:
      LiteRtError: FILE_IO; and that of a graph that cannot be written.
    """
    folder = os.path.dirname(path)
    try:
        os.makedirs(folder, exist_ok=True)
    except OSError as error:
        reason = (error.strerror or str(error)).lower()
        raise LiteRtError(Status.FILE_IO, f"cannot write: {reason}", folder) from error
    with ExitStack() as stack:
        for graph in graphs:
            stack.enter_context(_writable(graph))
        write_model(graphs[0].model, path)


@contextmanager
def _writable(graph: Graph) -> Iterator[None]:
    """For as long as it takes: no tensor that nothing has, and a type for each."""
    for node in graph.known_nodes:
        write_options(node)
    graph.topological_sort()
    write_control_dependencies(graph)
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

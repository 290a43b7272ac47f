"""A model as graphs for a while: for scripts, for tests of transformations, and to look around."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager

from compiler_plugin.transform_options import Phase
from compiler_plugin.transformations.clean_up import emit, tidy
from compiler_plugin.transformations.custom_ops import OpLibrary
from compiler_plugin.transformations.extension_folders import load_extensions
from compiler_plugin.transformations.graph import Graph
from compiler_plugin.transformations.partial_inference import PartialInference
from litert.model.graph import Model


@contextmanager
def edit_model(
    model: Model, extensions: Sequence[str] = (), stage: Phase = Phase.MIDDLE
) -> Iterator[list[Graph]]:
    """The subgraphs of a model as graphs; when the block ends the model is well-formed again.

        with read_model("model.tflite") as model:
            with edit_model(model) as (graph,):
                for node in graph.get_op_nodes(op="LEAKY_RELU"):
                    node.alpha = 0.1
            write_model(model, "changed.tflite")

    Args:
      model: is changed. After an error it is not to be used.
      extensions: folders whose ops and extractors are known; their transformations do not run by themselves.
      stage: the phase that the graphs are in within the block.

    Raises:
      LiteRtError: of folders that cannot be loaded; when the block ends, that of a graph that is not whole.
    """
    found = load_extensions(extensions)
    ops = OpLibrary(found.ops, found.extractors)
    with ops.in_use():
        graphs = [
            Graph(model, subgraph, PartialInference(subgraph), ops=ops, stage=stage)
            for subgraph in model.subgraphs
        ]
        yield graphs
        for graph in graphs:
            graph.stage = Phase.MIDDLE
            if graph.edit_count:
                graph.clean_up()
                graph.infer()
            emit(graph)
        tidy(graphs)

"""Opens a model as graphs, so that scripts and tests of transformations can edit it."""

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
    """Opens the subgraphs of a model as graphs.

    At the end of the `with` block, unused ops are removed from each edited graph, shapes are inferred, and the
    graph is checked. Example:

    ```py
    with read_model("model.tflite") as model:
        with edit_model(model) as (graph,):
            for node in graph.get_op_nodes(op="LEAKY_RELU"):
                node.alpha = 0.1
        write_model(model, "changed.tflite")
    ```

    Args:
      model: Model to edit. After an error, the model must not be used.
      extensions: Folders with the user's ops and transformations, as for the flag `--extensions`. The graphs use
        the ops and extractors in these folders; an extractor reads an op's options. No transformations run.
      stage: Phase whose rules apply to the graphs inside the block; in `Phase.FRONT`, for example, shapes are not
        inferred.

    Yields:
      A graph for each subgraph of the model, in the model's order.

    Raises:
      LiteRtError: If an extension folder cannot be loaded; at the end of the block, if a graph is not valid.
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

"""The results of a graph: its outputs, and what signatures name beside them, with the names that callers know."""

from __future__ import annotations

from typing import TYPE_CHECKING

from compiler_plugin.transformations.node import RESULT, Node
from litert.model.graph import Tensor

if TYPE_CHECKING:
    from compiler_plugin.transformations.graph import Graph


class GraphResults:
    """The nodes of a graph's results, by what they read.

    Attributes:
      nodes: of outputs in their order, then of what only signatures name.
    """

    def __init__(self, graph: Graph) -> None:
        self._graph = graph
        self.nodes = _find_results(graph)
        self._first_sources = {result: result.tensor for result in self.nodes}
        self._by_tensor: dict[Tensor, list[Node]] = {}
        for result in self.nodes:
            assert result.tensor is not None
            self._by_tensor.setdefault(result.tensor, []).append(result)

    def find(self, tensor: Tensor) -> list[Node]:
        """The results that a tensor is."""
        return self._by_tensor.get(tensor, [])

    @property
    def tensors(self) -> list[Tensor]:
        """What is a result, or was one."""
        return list(self._by_tensor)

    def set_result(self, result: Node, tensor: Tensor) -> None:
        """Makes a result of the model another tensor, in outputs and signatures."""
        old = result.tensor
        assert old is not None
        if old is tensor:
            return
        graph = self._graph
        self._by_tensor[old].remove(result)
        result.tensor = tensor
        self._by_tensor.setdefault(tensor, []).append(result)
        if result.result_index >= 0:
            graph.subgraph.outputs[result.result_index] = tensor
        for signature, index in result.result_signatures:
            signature.outputs[index] = (signature.outputs[index][0], tensor)
        if self.name_result(result) and old.name == tensor.name and not graph.is_input(old):
            old.name = graph.unique_name(f"{old.name}/replaced")
        graph.note_lost_reader(old)
        graph.edit_count += 1

    def has_moved(self, result: Node) -> bool:
        """Whether a result of the model is another tensor than in the file."""
        return result.tensor is not self._first_sources[result]

    def were_one(self, result: Node, other: Node) -> bool:
        """Whether two results are one tensor in the file."""
        return self._first_sources[result] is self._first_sources[other]

    def name_result(self, result: Node) -> bool:
        """Gives a result's tensor the result's name, where no other has a right to its present one."""
        tensor = result.tensor
        assert tensor is not None
        if not self._graph.has_op(tensor.producer) or len(self._by_tensor[tensor]) > 1:
            return tensor.name == result.result_name
        self._graph.rename(tensor, result.result_name)
        return True


def _find_results(graph: Graph) -> list[Node]:
    """A node for each output, with the signatures' outputs that are the same; then what only signatures name."""
    results: list[Node] = []

    def add(tensor: Tensor, index: int) -> Node:
        result = Node(graph, f"result_{len(results)}", RESULT, None, tensor)
        result.result_index = index
        results.append(result)
        return result

    for index, tensor in enumerate(graph.subgraph.outputs):
        add(tensor, index)
    for signature in graph.model.signatures:
        if signature.subgraph is not graph.subgraph:
            continue
        free: dict[Tensor, list[Node]] = {}
        for result in results:
            assert result.tensor is not None
            free.setdefault(result.tensor, []).append(result)
        for index, (_, tensor) in enumerate(signature.outputs):
            same = free.get(tensor)
            result = same.pop(0) if same else add(tensor, -1)
            result.result_signatures.append((signature, index))
    return results

"""The graph of a comparison's source model, and two kinds of copies of the model: exposed and cut copies.

An exposed copy has intermediate tensors as additional outputs. In a cut copy, tensors with known values are graph
inputs instead of results of earlier ops. If all values are known, each op is independent of the other ops.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence

from compiler_plugin.effects import has_state
from litert.analysis.comparison import SourceOp
from litert.core.element_type import ElementType
from litert.core.errors import LiteRtError
from litert.core.status import Status
from litert.model.graph import Model, Op, Signature, Subgraph, Tensor
from litert.model.reader import read_model
from litert.model.table import AbsentList
from litert.model.writer import write_model

_WITHOUT_NUMBERS = {
    ElementType.NONE, ElementType.STRING, ElementType.RESOURCE, ElementType.VARIANT
}  # fmt: skip


class SourceGraph:
    """The subgraph of a signature. Tensors and ops are identified by their places in the subgraph.

    Attributes:
      path: Path of the model file.
      key: Key of the signature.
      subgraph_index: Index of the subgraph in the model.
      inputs, outputs: Tensors by their names in the signature.
      varying: Tensors that are not computed from constants alone.
      volatile: Tensors that may differ between runs on the same inputs: results of ops with state, and all tensors
        computed from these results.
      results: Tensors that ops compute and that contain numbers, in execution order.
    """

    def __init__(self, path: str, key: str = "") -> None:
        """Reads a model and selects a signature.

        Raises:
          LiteRtError: NOT_FOUND, if the model does not have the signature; another status, if the file is invalid.
        """
        self.path = path
        with read_model(path) as self.model:
            entry = find_entry(self.model, key, path)
        self.key = entry.key
        self.subgraph: Subgraph = entry.subgraph
        self.subgraph_index = self.model.subgraphs.index(self.subgraph)
        self.places = {tensor: place for place, tensor in enumerate(self.subgraph.tensors)}
        self.op_places = {op: place for place, op in enumerate(self.subgraph.ops)}
        self.inputs = {name: self.places[tensor] for name, tensor in entry.inputs}
        self.outputs = {name: self.places[tensor] for name, tensor in entry.outputs}
        self.results = self._find_results()
        self._op_numbers: Sequence[int] | None = None

    def tensor(self, place: int) -> Tensor:
        """Returns the tensor at a place."""
        return self.subgraph.tensors[place]

    def producer(self, place: int) -> Op:
        """Returns the op that computes a tensor in `results`."""
        op = self.subgraph.tensors[place].producer
        assert op is not None
        return op

    def op_number(self, place: int) -> int:
        """Returns the index that the op at a place has in the user's model."""
        return place if self._op_numbers is None else self._op_numbers[place]

    def source_op(self, place: int) -> SourceOp:
        """Returns a description of the op at a place, for the report."""
        name = self.subgraph.ops[place].name
        return SourceOp(self.subgraph_index, self.op_number(place), name)

    def without(self, names: Collection[str], target: str) -> SourceGraph:
        """Returns a copy of the graph that lacks the ops with the given names; their results become inputs."""
        with read_model(self.path) as model:
            subgraph = model.subgraphs[self.subgraph_index]
            gone = [op for op in subgraph.ops if op.name in names]
            results = [tensor for op in gone for tensor in op.outputs]
            for op in gone:
                op.release()
            numbers = [place for place, op in enumerate(subgraph.ops) if op not in gone]
            subgraph.ops = [subgraph.ops[place] for place in numbers]
            subgraph.inputs += results
            entry = find_entry(model, self.key, self.path)
            inputs = [*entry.inputs, *((f"result_{i}", t) for i, t in enumerate(results))]
            outputs = [(name, t) for name, t in entry.outputs if t not in results]
            subgraph.outputs = [tensor for tensor in subgraph.outputs if tensor not in results]
            model.signatures = [Signature(self.key, subgraph, inputs, outputs)]
            write_model(model, target)
        copy = SourceGraph(target, self.key)
        copy._op_numbers = numbers
        return copy

    def read_by(self, places: Collection[int]) -> set[int]:
        """For the ops that compute the given tensors, returns those inputs that are computed, too."""
        ops = {self.producer(place) for place in places}
        read = {self.places[tensor] for op in ops for tensor in op.inputs if tensor is not None}
        return read & set(self.results)

    def region(self, place: int, known: Collection[int]) -> list[int]:
        """Returns the places of the ops that compute a tensor from known tensors, in execution order."""
        ops: set[int] = set()
        waiting = [self.producer(place)]
        while waiting:
            op = waiting.pop()
            if self.op_places[op] in ops:
                continue
            ops.add(self.op_places[op])
            for tensor in op.inputs:
                if tensor and tensor.producer and self.places[tensor] not in known:
                    waiting.append(tensor.producer)
        return sorted(ops)

    def _find_results(self) -> Sequence[int]:
        varying = self.varying = set(self.inputs.values())
        volatile = self.volatile = set[int]()
        results: list[int] = []
        for op in self.subgraph.ops:
            read = [self.places[tensor] for tensor in op.inputs if tensor is not None]
            if read and not has_state(op) and varying.isdisjoint(read):
                continue
            made = [self.places[tensor] for tensor in op.outputs]
            varying.update(made)
            if has_state(op) or not volatile.isdisjoint(read):
                volatile.update(made)
            results += [
                self.places[tensor]
                for tensor in op.outputs
                if tensor.element_type not in _WITHOUT_NUMBERS
            ]
        return results


def find_entry(model: Model, key: str, where: str) -> Signature:
    """Finds a model's signature by its key; the key "" stands for the first signature.

    Raises:
      LiteRtError: NOT_FOUND.
    """
    entries = model.entries(key)
    for entry in entries:
        if key in ("", entry.key):
            return entry
    names = ", ".join(f"'{entry.key}'" for entry in entries) or "none"
    what = f"no signature '{key}'" if entries else "the model has no op to run"
    raise LiteRtError(Status.NOT_FOUND, what, where, f"Signatures: {names}.")


def exposed_name(place: int) -> str:
    """Returns the name that a tensor has as an output of an exposed copy."""
    return f"tensor_{place}"


def write_exposed(source: SourceGraph, places: Iterable[int], target: str) -> None:
    """Writes a copy of the model in which the given tensors are additional outputs.

    The copy has one signature, with the key and inputs of the original signature; the outputs get their names from
    `exposed_name`.
    """
    with read_model(source.path) as model:
        subgraph = model.subgraphs[source.subgraph_index]
        tensors = [subgraph.tensors[place] for place in places]
        subgraph.outputs += [tensor for tensor in tensors if tensor not in subgraph.outputs]
        inputs = [(name, subgraph.tensors[place]) for name, place in source.inputs.items()]
        names = {tensor: exposed_name(place) for place, tensor in enumerate(subgraph.tensors)}
        outputs = [(names[tensor], tensor) for tensor in subgraph.outputs]
        model.signatures = [Signature(source.key, subgraph, inputs, outputs)]
        write_model(model, target)


class CutGraph:
    """A cut copy of a model, in which known tensors are inputs of the graph.

    Attributes:
      inputs: Inputs of the copy. Each key is the place that a known tensor or an original input has in the
        original model.
      ops: Places that the copy's ops have in the original model, in order.
    """

    def __init__(
        self, source: SourceGraph, known: Collection[int], wanted: Sequence[int], target: str
    ) -> None:
        """Writes a cut copy with the ops that compute the wanted tensors from known tensors."""
        with read_model(source.path) as model:
            subgraph = model.subgraphs[source.subgraph_index]
            self.ops = sorted({op for place in wanted for op in source.region(place, known)})
            self._keep_ops(subgraph)
            self.inputs = self._cut(subgraph, {*known, *source.inputs.values()})
            subgraph.inputs = [subgraph.tensors[place] for place in self.inputs.values()]
            subgraph.outputs = [subgraph.tensors[place] for place in wanted]
            model.signatures = AbsentList()
            write_model(model, target)

    def _keep_ops(self, subgraph: Subgraph) -> None:
        kept = [subgraph.ops[place] for place in self.ops]
        for op in set(subgraph.ops) - set(kept):
            op.release()
        subgraph.ops = kept

    def _cut(self, subgraph: Subgraph, known: Collection[int]) -> dict[int, int]:
        inputs: dict[int, int] = {}
        for place in sorted(known):
            tensor = subgraph.tensors[place]
            readers = list(tensor.readers)
            if not readers:
                continue
            inputs[place] = place
            if tensor.producer is None:
                continue
            copy = tensor.clone()
            inputs[place] = len(subgraph.tensors)
            subgraph.tensors.append(copy)
            for op in readers:
                for index, read in enumerate(op.inputs):
                    if read is tensor:
                        op.set_input(index, copy)
        return inputs

"""A signature of a model, as a comparison sees it; and copies of the model that show more, or are cut.

A copy that is exposed has inner tensors as further outputs. In a copy that is cut, ops read tensors whose values
are known from inputs of the graph, and no longer from the ops before them: where all are known, each op is by
itself.
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
    """A signature's subgraph. Tensors and ops go by their places in it.

    Attributes:
      path: of the file.
      key: of the signature.
      subgraph_index: of its subgraph in the model.
      inputs, outputs: tensors by the names of the signature.
      varying: what constants alone do not determine.
      volatile: what may differ between runs on the same inputs: results of ops with state, and what follows them.
      results: of these, what ops compute, in execution order, but for what has no numbers.
    """

    def __init__(self, path: str, key: str = "") -> None:
        """Reads a model.

        Raises:
          LiteRtError: NOT_FOUND, for a signature that the model has not; what reading raises.
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
        """The tensor at a place."""
        return self.subgraph.tensors[place]

    def producer(self, place: int) -> Op:
        """The op that computes a tensor of `results`."""
        op = self.subgraph.tensors[place].producer
        assert op is not None
        return op

    def op_number(self, place: int) -> int:
        """The index of an op in the model that the user has, by its place here."""
        return place if self._op_numbers is None else self._op_numbers[place]

    def source_op(self, place: int) -> SourceOp:
        """An op as reports have it, by its place here."""
        name = self.subgraph.ops[place].name
        return SourceOp(self.subgraph_index, self.op_number(place), name)

    def without(self, names: Collection[str], target: str) -> SourceGraph:
        """A copy without the ops of some names, whose results are inputs."""
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
        """Results that the ops read that compute these."""
        ops = {self.producer(place) for place in places}
        read = {self.places[tensor] for op in ops for tensor in op.inputs if tensor is not None}
        return read & set(self.results)

    def region(self, place: int, known: Collection[int]) -> list[int]:
        """The places of the ops that compute a tensor from known ones and inputs, in execution order."""
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
    """A model's signature; the first for "".

    Raises:
      LiteRtError: NOT_FOUND.
    """
    entries = model.entries(key)
    for entry in entries:
        if key in ("", entry.key):
            return entry
    names = ", ".join(f"'{entry.key}'" for entry in entries) or "none"
    what = f"no signature '{key}'" if entries else "the model has nothing to run"
    raise LiteRtError(Status.NOT_FOUND, what, where, f"Signatures: {names}.")


def exposed_name(place: int) -> str:
    """The output of an exposed copy that a tensor is."""
    return f"tensor_{place}"


def write_exposed(source: SourceGraph, places: Iterable[int], target: str) -> None:
    """Writes a copy in which these tensors are outputs, beside those that are.

    Its one signature has the key and the inputs of the original, and outputs by `exposed_name`.
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
    """A copy in which known tensors are inputs of the graph.

    Attributes:
      inputs: the places of known tensors, and of inputs of the original, and where each is given in the copy.
      ops: places in the original of the ops that are left, in order.
    """

    def __init__(
        self, source: SourceGraph, known: Collection[int], wanted: Sequence[int], target: str
    ) -> None:
        """Writes a copy of what computes the wanted tensors from known ones."""
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

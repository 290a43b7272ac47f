"""Creates runners for a model's signatures: finds the interpreter's subgraphs and tensors for their names."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from dispatch.device import Kind
from litert.core.errors import LiteRtError
from litert.core.status import Status
from litert.model.graph import Model, Subgraph, Tensor
from litert.runtime.interpreter import GraphInterpreter
from litert.runtime.npu_kernel import NpuKernel
from litert.runtime.planned_subgraph import PlannedSubgraph
from litert.runtime.signature import PLACEHOLDER_SIGNATURE, SignatureRunner, SignatureTensor
from litert.runtime.subgraph import InterpreterSubgraph


def match_subgraphs(
    subgraphs: Sequence[Subgraph], shown: Sequence[InterpreterSubgraph]
) -> dict[int, InterpreterSubgraph]:
    """Matches the model's subgraphs with the interpreter's subgraphs, which lack validation subgraphs."""
    found = {}
    rest = list(shown)
    for index, subgraph in enumerate(subgraphs):
        if rest and _is_same(subgraph, rest[0]):
            found[index] = rest.pop(0)
    if rest:
        raise LiteRtError(
            Status.UNSUPPORTED_RUNTIME_VERSION,
            f"the interpreter's subgraphs have {[s.num_tensors for s in shown]} tensors, but "
            f"the model's subgraphs have {[len(s.tensors) for s in subgraphs]}",
        )
    return found


def make_signatures(
    model: Model,
    interpreter: GraphInterpreter,
    found: Mapping[int, InterpreterSubgraph],
    kernels: Mapping[int, Sequence[NpuKernel]],
) -> list[SignatureRunner]:
    """Creates a runner for each signature.

    Signatures with the same subgraph share the subgraph's memory plan. The memory of the subgraphs is not planned
    yet.

    Args:
      model: Model that was read from the file.
      interpreter: Interpreter that opened the same file.
      found: The interpreter's subgraphs, by the index of the subgraph in the file.
      kernels: NPU calls of each subgraph, by the address of the subgraph's `TfLiteContext`.
    """
    planned: dict[int, PlannedSubgraph] = {}
    runners = []
    for entry in model.entries(PLACEHOLDER_SIGNATURE):
        index = next(i for i, s in enumerate(model.subgraphs) if s is entry.subgraph)
        if index not in planned:
            tensors = found[index]
            planned[index] = PlannedSubgraph(
                index, interpreter, tensors, kernels.get(tensors.context, [])
            )
        places = {id(tensor): i for i, tensor in enumerate(entry.subgraph.tensors)}
        inputs = _arguments("input", entry.inputs, entry.subgraph.inputs, places)
        outputs = _arguments("output", entry.outputs, entry.subgraph.outputs, places)
        runners.append(SignatureRunner(entry.key, planned[index], inputs, outputs))
    for index, tensors in found.items():
        tensors.is_called = index not in planned
    return runners


def _arguments(
    kind: Kind,
    named: Sequence[tuple[str, Tensor]],
    order: Sequence[Tensor],
    places: Mapping[int, int],
) -> list[SignatureTensor]:
    """Returns a signature's inputs or outputs, in the subgraph's order, as in stock LiteRT."""
    ranks: dict[int, int] = {}
    for rank, tensor in enumerate(order):
        ranks.setdefault(id(tensor), rank)
    ordered = sorted(named, key=lambda item: ranks.get(id(item[1]), len(ranks)))
    return [SignatureTensor(kind, name, places[id(tensor)]) for name, tensor in ordered]


def _is_same(subgraph: Subgraph, shown: InterpreterSubgraph) -> bool:
    if len(subgraph.tensors) > shown.num_tensors:
        return False
    # In the interpreter, a name ends at the first NUL.
    names = (tensor.name.partition("\0")[0] for tensor in subgraph.tensors)
    return all(name == shown.tensor_name(index) for index, name in enumerate(names))

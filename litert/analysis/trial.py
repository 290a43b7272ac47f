"""Trials, which run the compared model in a way that makes tensors of the source model visible."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol, TypeVar

from litert.analysis.reference_run import ReferenceOptions, ReferenceRun
from litert.analysis.source_graph import SourceGraph, exposed_name, find_entry
from litert.analysis.stock_run import Array
from litert.compiled_model import CompiledModel
from litert.core.environment_options import EnvironmentOptions
from litert.core.errors import LiteRtError
from litert.core.status import Status
from litert.environment import Environment
from litert.model.dispatch_op import is_dispatch_op, read_dispatch_options
from litert.model.graph import Op, Signature, Tensor
from litert.model.reader import read_model
from litert.model.writer import write_model
from litert.options import Options

_Value = TypeVar("_Value")


@dataclass(frozen=True, slots=True)
class ShownTensor:
    """A tensor of the source model that a run makes visible.

    Attributes:
      place: Place of the tensor in the source model.
      call: Name of the NPU call that computes the tensor; "" if the CPU computes it.
    """

    place: int
    call: str = ""


class Trial(Protocol):
    """A model that can be run, and that makes tensors of the source model visible."""

    @property
    def shown(self) -> Sequence[ShownTensor]:
        """Tensors that a run makes visible, in the source's execution order."""

    def run(self, inputs: Mapping[str, Array]) -> dict[int, Array]:
        """Runs the model on named inputs; returns the visible tensors by their place in the source model."""

    def close(self) -> None:
        """Releases it."""


class NpuTrial:
    """A compiled file that is run in this project's runtime."""

    def __init__(
        self,
        path: str,
        source: SourceGraph,
        shown: Sequence[ShownTensor],
        options: Options,
        environment: EnvironmentOptions,
    ) -> None:
        """Loads a file whose outputs have their names from `exposed_name`."""
        self.shown = shown
        self._key = source.key
        self._model = CompiledModel.from_file(
            path, environment=Environment.create(options=environment), options=options
        )

    def run(self, inputs: Mapping[str, Array]) -> dict[int, Array]:
        outputs = self._model.run(inputs, self._key)
        return {shown.place: outputs[exposed_name(shown.place)] for shown in self.shown}

    def close(self) -> None:
        self._model.close()


class StockTrial:
    """A model that is made from the source model, and runs on the CPU with the kernels of the reference."""

    def __init__(
        self,
        model: SourceGraph,
        places: Mapping[int, int],
        options: ReferenceOptions,
        folder: str,
    ) -> None:
        """Loads a model; `places` maps the model's tensors to places in the source model."""
        self._model, self._places = model, places
        order = [place for place in model.results if place in places]
        self._run = ReferenceRun(model, (), order, options, folder)
        unknown = self._run.find_unknown(model.inputs.values(), ())
        self.shown = [
            ShownTensor(places[p]) for p in order if self._run.is_computed(p) and p not in unknown
        ]

    def run(self, inputs: Mapping[str, Array]) -> dict[int, Array]:
        given = {self._model.inputs[name]: array for name, array in inputs.items()}
        return {self._places[p]: array for p, array in self._run.run(given, {}).items()}

    def close(self) -> None:
        pass


def expose_calls(compiled: str, source: SourceGraph, target: str) -> list[ShownTensor]:
    """Writes a copy of a compiled file in which tensors of the source model are additional outputs.

    The NPU calls stay unchanged.

    The additional outputs are tensors that are outside NPU calls, and whose names are unique in both files.
    """
    with read_model(compiled) as model:
        entry = find_entry(model, source.key, compiled)
        _check_inputs(source, entry, compiled)
        subgraph = entry.subgraph
        results = [tensor for op in subgraph.ops for tensor in op.outputs]
        found = match_tensors(source, results, dict(entry.outputs))
        subgraph.outputs += [t for t in found.values() if t not in subgraph.outputs]
        outputs = [(exposed_name(place), tensor) for place, tensor in found.items()]
        rest = [t for t in subgraph.outputs if t not in found.values()]
        outputs += [(f"output_{index}", tensor) for index, tensor in enumerate(rest)]
        model.signatures = [Signature(source.key, subgraph, entry.inputs, outputs)]
        write_model(model, target)
    return find_shown(target, source)


def _check_inputs(source: SourceGraph, entry: Signature, path: str) -> None:
    """Raises if a file was made from another model."""
    ours = {name: source.tensor(place).type for name, place in source.inputs.items()}
    theirs = {name: tensor.type for name, tensor in entry.inputs}
    if ours != theirs:
        texts = [
            ", ".join(f"'{name}' of {of}" for name, of in found.items()) for found in (theirs, ours)
        ]
        raise LiteRtError(
            Status.INVALID_ARGUMENT,
            f"the file was not made from the reference: the file's inputs are {texts[0]}, but "
            f"the reference's inputs are {texts[1]}",
            path,
            "With --reference, give the model from which the file was made.",
        )


def match_tensors(
    source: SourceGraph, tensors: Iterable[Tensor], outputs: Mapping[str, Tensor]
) -> dict[int, Tensor]:
    """Maps places in the source model to the matching tensors of another model.

    Tensors match if they have the same name, or if they are the same output of the signature. A name counts only
    if it is unique in both models.
    """
    theirs = find_unique((source.tensor(place).name, place) for place in source.results)
    ours = find_unique((tensor.name, tensor) for tensor in tensors)
    found = {theirs[name]: tensor for name, tensor in ours.items() if name in theirs}
    by_output = {
        source.outputs[name]: tensor
        for name, tensor in outputs.items()
        if source.outputs.get(name) in source.results
    }
    return found | by_output


def match_models(source: SourceGraph, model: SourceGraph) -> dict[int, int]:
    """Maps the place of each result that two models have in common to the result's place in the source model."""
    tensors = [model.tensor(place) for place in model.results]
    outputs = {name: model.tensor(place) for name, place in model.outputs.items()}
    matched = match_tensors(source, tensors, outputs)
    return {model.places[tensor]: place for place, tensor in matched.items()}


def find_shown(path: str, source: SourceGraph) -> list[ShownTensor]:
    """Returns the tensors that an exposed compiled file makes visible."""
    with read_model(path) as model:
        by_name = dict(find_entry(model, source.key, path).outputs)
        return [
            ShownTensor(place, call_of(by_name[exposed_name(place)].producer))
            for place in source.results
            if exposed_name(place) in by_name
        ]


def call_of(op: Op | None) -> str:
    """Returns the name of the NPU call that an op stands for; "" for any other op."""
    if op is None or not is_dispatch_op(op):
        return ""
    return read_dispatch_options(op.custom_options.view if op.custom_options else b"").name


def find_unique(named: Iterable[tuple[str, _Value]]) -> dict[str, _Value]:
    """Returns a dictionary of values by name; names that occur more than once are left out."""
    pairs = list(named)
    counts = Counter(name for name, _ in pairs)
    return {name: value for name, value in pairs if name and counts[name] == 1}

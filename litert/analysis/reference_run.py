"""Computes tensors of a model with stock LiteRT's kernels, from the graph's inputs or from known tensors.

If stock LiteRT's reference kernels do not support an op, the user's function or XNNPACK computes the op. If an op
cannot be computed at all, its results are taken from the compared run, so that later ops still have a reference.
"""

from __future__ import annotations

import os
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import count
from typing import Protocol

import numpy as np

from compiler_plugin.effects import has_state
from compiler_plugin.transformations.stock_inference import run as run_alone
from litert.analysis.reference_function import Function, Functions, call_function
from litert.analysis.source_graph import CutGraph, SourceGraph
from litert.analysis.stock_run import Array, RefusedOpError, StockRun
from litert.core.errors import LiteRtError
from litert.model.graph import Op, Tensor
from litert.model.sparsity import dense_data
from litert.model.tensor_data import decode_constant

XNNPACK = "xnnpack"
_READ_BLOCKS = frozenset({"DEQUANTIZE", "EMBEDDING_LOOKUP"})
"""Builtin ops whose plain C++ kernels support one scale per block."""

_numbers = count()


@dataclass(frozen=True, slots=True)
class ReferenceOptions:
    """Options for computing the reference.

    Attributes:
      kernels: Kernels of stock LiteRT, one of `KERNELS`.
      num_threads: Number of CPU threads.
      functions: Functions of the user that compute custom ops.
    """

    kernels: str = "reference"
    num_threads: int = 1
    functions: Functions = field(default_factory=dict)


class ReferenceRun:
    """Computes wanted tensors from known tensors.

    Attributes:
      left_out: Ops that cannot be computed, by place, with the reason.
      by_others: Ops that are not computed by stock LiteRT's reference kernels, by place, with the name of the code
        that computes them.
    """

    def __init__(
        self,
        source: SourceGraph,
        known: Collection[int],
        wanted: Sequence[int],
        options: ReferenceOptions,
        folder: str,
    ) -> None:
        """Writes the models of the reference, and loads them.

        Args:
          source: the model.
          known: Places of the tensors whose values are given to each run.
          wanted: Places of the tensors to compute.
          options: Options for the computation.
          folder: Folder for temporary model files.

        Raises:
          LiteRtError: UNSUPPORTED, if stock LiteRT refuses the model, and LiteRT's message contains no op.
        """
        self._source, self._options, self._folder = source, options, folder
        self._known, self._wanted = frozenset(known), wanted
        self.left_out: dict[int, str] = {}
        self.by_others: dict[int, str] = {}
        self._stand_ins: dict[int, _StandIn | None] = {}
        for place, op in enumerate(source.subgraph.ops):
            if op.name in options.functions:
                self._replace(place, "")
            elif has_state(op):
                reason = f"the result of op '{op.name}' depends on more than the op's inputs"
                self._leave_out(place, reason)
            elif options.kernels != XNNPACK and _is_for_xnnpack_alone(op):
                self._replace(place, "the op's reference kernel does not support scales per block")
        while True:
            try:
                self._part = self._load()
                break
            except RefusedOpError as error:
                self._replace(error.node, error.reason)
        self._levels = self._find_levels()

    def run(self, values: Mapping[int, Array], actual: Mapping[int, Array]) -> dict[int, Array]:
        """Computes the wanted tensors.

        Args:
          values: Values of the graph's inputs and of known tensors, by place.
          actual: Tensors of the compared run, which replace tensors that cannot be computed.

        Returns:
          The computed tensors, by place in the model. If a tensor depends on a value that is missing in `actual`,
          the result does not include the tensor.
        """
        given = dict(values)
        results: dict[int, Array] = {}
        unknown = self.find_unknown(values, actual)
        for ops in self._levels:
            known_ops = [op for op in ops if unknown.keys().isdisjoint(self._written(op))]
            if any(place not in given for op in known_ops for place in self._read(op)):
                results |= self._run_part(given)
            for op in known_ops:
                computed = self._compute(op, {**results, **given}, actual)
                results |= computed
                given = {**computed, **given}
        results |= self._run_part(given)
        wanted = [place for place in self._wanted if place not in unknown]
        return {place: results[place] for place in wanted if place in results}

    def find_unknown(self, values: Collection[int], actual: Collection[int]) -> Mapping[int, int]:
        """Finds tensors that cannot be computed from known tensors, each with the op that cannot be computed."""
        unknown: dict[int, int] = {}
        if not self.left_out:
            return unknown
        for place, op in enumerate(self._source.subgraph.ops):
            written = self._written(place)
            if place in self.left_out:
                unknown |= {t: place for t in written if t not in values and t not in actual}
            else:
                read = (self._source.places[tensor] for tensor in op.inputs if tensor is not None)
                hidden = [tensor for tensor in read if tensor in unknown and tensor not in values]
                if hidden:
                    unknown |= dict.fromkeys(written, unknown[hidden[0]])
        return unknown

    def is_computed(self, place: int) -> bool:
        """Returns whether a wanted tensor is computed rather than taken from the compared run."""
        return self._source.op_places[self._source.producer(place)] not in self.left_out

    def _run_part(self, given: Mapping[int, Array]) -> dict[int, Array]:
        return {} if self._part is None else self._part.run(self._source, given)

    def _leave_out(self, place: int, reason: str) -> None:
        self.left_out[place] = reason
        self._stand_ins[place] = None

    def _replace(self, place: int, reason: str) -> None:
        """Lets the user's function or XNNPACK compute an op."""
        op = self._source.subgraph.ops[place]
        function = self._options.functions.get(op.name)
        if function is not None:
            self.by_others[place] = "a given reference function"
            self._stand_ins[place] = _FunctionRun(op, function)
            return
        if self._options.kernels != XNNPACK and (op.is_custom or _is_for_xnnpack_alone(op)):
            try:
                self._stand_ins[place] = self._load_cut(
                    self._read(place), self._written(place), XNNPACK
                )
                self.by_others[place] = "XNNPACK"
                return
            except LiteRtError as error:
                reason = error.what
        self._leave_out(
            place,
            f"stock LiteRT has no kernel for op '{op.name}'"
            if "unresolved custom op" in reason
            else f"stock LiteRT cannot run op '{op.name}': {reason}",
        )

    def _load(self) -> _Part | None:
        """Makes the graph without the ops that others compute; None if no op is left."""
        replaced = {tensor for op in self._stand_ins for tensor in self._written(op)}
        needed = {tensor for op in self._stand_ins for tensor in self._read(op)}
        known = self._known | replaced | set(self._source.inputs.values())
        wanted = [place for place in self._wanted if place not in replaced]
        wanted += sorted(needed - known - set(wanted))
        return self._load_cut(known, wanted, self._options.kernels) if wanted else None

    def _load_cut(self, known: Collection[int], wanted: Sequence[int], kernels: str) -> _Part:
        source = self._source
        path = os.path.join(self._folder, f"reference_{next(_numbers)}.tflite")
        graph = CutGraph(source, known, wanted, path)
        threads, count = self._options.num_threads, len(graph.ops)
        try:
            run = StockRun(path, source.subgraph_index, kernels, threads, count)
        except RefusedOpError as error:
            raise RefusedOpError(graph.ops[error.node], error.reason, source.path) from error
        finally:
            os.unlink(path)
        return _Part(graph, run, wanted)

    def _find_levels(self) -> list[list[int]]:
        """Sorts the ops that others compute into levels; an op reads nothing of its own or a later level."""
        source = self._source
        found: dict[int, int] = {}
        heights: dict[Tensor, int] = {}
        for place, op in enumerate(source.subgraph.ops):
            read = [t for t in op.inputs if t is not None and source.places[t] not in self._known]
            height = max((heights.get(tensor, 0) for tensor in read), default=0)
            if place in self._stand_ins:
                found[place] = height
                height += 1
            heights.update(dict.fromkeys(op.outputs, height))
        levels: list[list[int]] = [[] for _ in range(max(found.values(), default=-1) + 1)]
        for place, height in found.items():
            levels[height].append(place)
        return levels

    def _read(self, op: int) -> list[int]:
        """Lists the inputs of an op that vary between runs."""
        tensors = self._source.subgraph.ops[op].inputs
        places = [self._source.places[tensor] for tensor in tensors if tensor is not None]
        return [place for place in places if place in self._source.varying]

    def _written(self, op: int) -> list[int]:
        return [self._source.places[tensor] for tensor in self._source.subgraph.ops[op].outputs]

    def _compute(
        self, op: int, values: Mapping[int, Array], actual: Mapping[int, Array]
    ) -> dict[int, Array]:
        stand_in = self._stand_ins[op]
        if stand_in is None:
            return {place: actual[place] for place in self._written(op) if place in actual}
        return stand_in.run(self._source, values)


class _StandIn(Protocol):
    def run(self, source: SourceGraph, values: Mapping[int, Array]) -> dict[int, Array]:
        """Computes results by place from values by place."""


@dataclass(frozen=True, slots=True)
class _Part:
    """A part of the model in stock's interpreter."""

    graph: CutGraph
    stock: StockRun
    wanted: Sequence[int]

    def run(self, source: SourceGraph, values: Mapping[int, Array]) -> dict[int, Array]:
        given = {
            copy: values[place] if place in values else _stand_in_value(source.tensor(place))
            for place, copy in self.graph.inputs.items()
        }
        self.stock.run(given)
        return {place: self.stock.value(place) for place in self.wanted}


@dataclass(frozen=True, slots=True)
class _FunctionRun:
    """A custom op that the user's function computes."""

    op: Op
    function: Function

    def run(self, source: SourceGraph, values: Mapping[int, Array]) -> dict[int, Array]:
        inputs = [None if t is None else _value(source, t, values) for t in self.op.inputs]
        outputs = call_function(self.function, self.op, inputs)
        places = [source.places[tensor] for tensor in self.op.outputs]
        return dict(zip(places, outputs, strict=True))


def _value(source: SourceGraph, tensor: Tensor, values: Mapping[int, Array]) -> Array:
    place = source.places[tensor]
    return values[place] if place in values else constant_value(source, tensor)


def constant_value(source: SourceGraph, tensor: Tensor) -> Array:
    """Returns the value of a tensor that is constant, or is computed only from constants."""
    if tensor.producer is None:
        return decode_constant(tensor.element_type, tensor.shape, dense_data(tensor))
    ops = [source.subgraph.ops[index] for index in source.region(source.places[tensor], ())]
    return run_alone(ops, lambda _: None, [tensor])[0]


def _is_for_xnnpack_alone(op: Op) -> bool:
    """Whether stock LiteRT's reference kernel mistakes scales per block for scales per channel, out of bounds."""
    quantizations = [tensor.quantization for tensor in op.inputs if tensor is not None]
    has_blocks = any(q is not None and q.blockwise is not None for q in quantizations)
    return has_blocks and op.name not in _READ_BLOCKS


def _stand_in_value(tensor: Tensor) -> Array:
    """Makes a placeholder for a graph input whose value is not known yet and does not matter."""
    return np.zeros(tensor.shape, tensor.element_type.numpy_dtype)

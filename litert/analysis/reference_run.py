"""The reference: tensors of a model, computed from the graph's inputs or from known tensors, by stock's kernels.

An op that these kernels lack is computed by the user's function, or by XNNPACK where it has the op. Where nothing
computes an op, its results are taken from the run that is compared, so that the ops behind it still have a
reference.
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
"""Builtin ops whose plain kernels know that numbers can have a scale for each block."""

_numbers = count()


@dataclass(frozen=True, slots=True)
class ReferenceOptions:
    """What computes a reference.

    Attributes:
      kernels: of stock LiteRT, one of `KERNELS`.
      num_threads: of the CPU.
      functions: of the user, for custom ops.
    """

    kernels: str = "reference"
    num_threads: int = 1
    functions: Functions = field(default_factory=dict)


class ReferenceRun:
    """Computes wanted tensors from known ones.

    Attributes:
      left_out: ops that nothing computes, by their places, with the reason.
      by_others: ops that something else than these kernels computes, with its name.
    """

    def __init__(
        self,
        source: SourceGraph,
        known: Collection[int],
        wanted: Sequence[int],
        options: ReferenceOptions,
        folder: str,
    ) -> None:
        """Makes the models, and loads them.

        Args:
          source: the model.
          known: places of tensors that a run will be given.
          wanted: places of tensors that ops compute.
          options: what computes them.
          folder: where models are written that are gone once they are loaded.

        Raises:
          LiteRtError: UNSUPPORTED, where stock refuses the model and names no op of it.
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
                self._leave_out(place, "its result depends on more than its inputs")
            elif options.kernels != XNNPACK and _is_for_xnnpack_alone(op):
                self._replace(place, "its plain kernel reads no scales of blocks")
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
          values: of the graph's inputs and of known tensors, by place.
          actual: of the run that is compared; it stands for what is left out.

        Returns:
          What could be computed, by place. Tensors are missing that `actual` would have had to stand for.
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
        """Tensors that a run with these places cannot compute, also given ones; with the op that is left out."""
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
        """Whether a wanted tensor is computed, and not taken from the run that is compared."""
        return self._source.op_places[self._source.producer(place)] not in self.left_out

    def _run_part(self, given: Mapping[int, Array]) -> dict[int, Array]:
        return {} if self._part is None else self._part.run(self._source, given)

    def _leave_out(self, place: int, reason: str) -> None:
        self.left_out[place] = reason
        self._stand_ins[place] = None

    def _replace(self, place: int, reason: str) -> None:
        """Lets something else than the kernels compute an op."""
        op = self._source.subgraph.ops[place]
        function = self._options.functions.get(op.name)
        if function is not None:
            self.by_others[place] = "its reference function"
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
            "stock LiteRT has no kernel for it"
            if "unresolved custom op" in reason
            else f"stock LiteRT does not run it: {reason}",
        )

    def _load(self) -> _Part | None:
        """The graph without the ops that others compute; None where nothing is left."""
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
        """The ops that others compute, such that each reads nothing of its own level or of a later one."""
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
        """What an op reads that is not the same in all runs."""
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
        """Results by their places, from values by theirs."""


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
    """A custom op, computed by the user's function."""

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
    """The value of a tensor that is constant, or that constants alone determine."""
    if tensor.producer is None:
        return decode_constant(tensor.element_type, tensor.shape, dense_data(tensor))
    ops = [source.subgraph.ops[index] for index in source.region(source.places[tensor], ())]
    return run_alone(ops, lambda _: None, [tensor])[0]


def _is_for_xnnpack_alone(op: Op) -> bool:
    """Whether stock's plain kernel takes scales of blocks for such of channels, and reads what is not there."""
    quantizations = [tensor.quantization for tensor in op.inputs if tensor is not None]
    has_blocks = any(q is not None and q.blockwise is not None for q in quantizations)
    return has_blocks and op.name not in _READ_BLOCKS


def _stand_in_value(tensor: Tensor) -> Array:
    """What an input of a graph has while nobody knows its value yet, and nothing that counts depends on it."""
    return np.zeros(tensor.shape, tensor.element_type.numpy_dtype)

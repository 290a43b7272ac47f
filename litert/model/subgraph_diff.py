"""Compares two subgraphs op by op; the added, removed and changed parts become objects."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import zip_longest
from typing import Any

from litert.core.plain_report import PlainReport
from litert.model.blob import Blob
from litert.model.custom_options import find_flexbuffer_options
from litert.model.dump import (
    attribute,
    constant_text,
    data_text,
    options_text,
    quote,
    table_attributes,
    tensor_type_text,
)
from litert.model.graph import Op, Subgraph, Tensor
from litert.model.op_matching import OpMatching
from litert.model.table import Table

_CHUNK = 1 << 20


@dataclass(frozen=True, slots=True)
class Change:
    """A difference between two models: a property with different values.

    Attributes:
      what: Name of the changed property, for example `fused_activation_function`, `input 1` or `metadata "x"`.
      before, after: Values of the property, printed as in a dump of the model; "" if the property is absent.
    """

    what: str
    before: str
    after: str


@dataclass(frozen=True, slots=True)
class OpPlace:
    """An op in one of the two models.

    Attributes:
      index: Position of the op in its subgraph.
      name: Custom code, or name of the builtin operator.
      outputs: Names of the tensors that the op writes.
    """

    index: int
    name: str
    outputs: Sequence[str]


@dataclass(frozen=True, slots=True)
class OpChange:
    """An op that is in both models, but differs.

    Attributes:
      before: The op in the first model.
      after: The op in the second model.
      changes: Differences between the op's two versions.
    """

    before: OpPlace
    after: OpPlace
    changes: Sequence[Change]


@dataclass(frozen=True, slots=True)
class SubgraphDiff:
    """The comparison of a subgraph in one model with its counterpart in the other model.

    Attributes:
      before, after: Index of the subgraph in each model; -1 if the model lacks the subgraph.
      name: Name of the subgraph.
      num_ops_before, num_ops_after: Number of the subgraph's ops in each model.
      removed, added, changed: Ops that differ between the models, in execution order.
      num_moved: Least number of ops that must be moved to restore the first model's order.
      changes: Differences between the subgraphs' names, inputs, outputs and unused tensors.
    """

    before: int
    after: int
    name: str
    num_ops_before: int
    num_ops_after: int
    removed: Sequence[OpPlace] = ()
    added: Sequence[OpPlace] = ()
    changed: Sequence[OpChange] = ()
    num_moved: int = 0
    changes: Sequence[Change] = ()

    @property
    def is_same(self) -> bool:
        there = self.before >= 0 and self.after >= 0
        return there and not (
            self.removed or self.added or self.changed or self.num_moved or self.changes
        )


@dataclass(frozen=True, slots=True)
class ModelDiff(PlainReport):
    """The comparison of two models.

    Attributes:
      subgraphs: Comparisons of all subgraphs, including equal subgraphs.
      changes: Differences between the models' signatures, metadata, byte code and other parts outside of
        subgraphs.
      data_before, data_after: Total size of all buffers in each model, in bytes.
    """

    answers = ("is_same",)

    subgraphs: Sequence[SubgraphDiff]
    changes: Sequence[Change]
    data_before: int
    data_after: int

    @property
    def is_same(self) -> bool:
        """Whether the models are equal."""
        return not self.changes and all(subgraph.is_same for subgraph in self.subgraphs)


class DataComparison:
    """Compares constant data; caches results, so that each pair is compared once."""

    def __init__(self) -> None:
        self._known: dict[tuple[Blob, Blob], bool] = {}

    def is_same(self, before: Blob | None, after: Blob | None) -> bool:
        size = before.size if before else 0
        if before is after or size != (after.size if after else 0):
            return before is after
        if before is None or after is None:
            return True
        if (before, after) not in self._known:
            self._known[before, after] = all(
                bytes(before.view[start : start + _CHUNK])
                == bytes(after.view[start : start + _CHUNK])
                for start in range(0, size, _CHUNK)
            )
        return self._known[before, after]


def value_changes(
    what: str, before: Any, after: Any, text: Callable[[Any], str] = attribute
) -> Iterator[Change]:
    """Yields the difference between two values of the property `what`, if the values differ."""
    if before != after:
        yield Change(what, *("" if value is None else text(value) for value in (before, after)))


def mapping_changes(
    before: Mapping[str, Any], after: Mapping[str, Any], text: Callable[[Any], str] = attribute
) -> Iterator[Change]:
    """Yields a difference for each name that is in only one of two maps, or has another value in each map."""
    for name in dict.fromkeys([*before, *after]):
        if name not in before or name not in after or before[name] != after[name]:
            texts = (text(some[name]) if name in some else "" for some in (before, after))
            yield Change(name, *texts)


def attribute_changes(before: Any, after: Any, *names: str) -> Iterator[Change]:
    """Yields the differences between the attributes `names` of two objects."""
    for name in names:
        yield from value_changes(name, getattr(before, name), getattr(after, name))


def count_changes(what: str, before: Iterable[str], after: Iterable[str]) -> Iterator[Change]:
    """Yields a difference for each item that occurs less often or more often in `after` than in `before`."""
    old, new = Counter(before), Counter(after)
    yield from (Change(what, text, "") for text in old - new)
    yield from (Change(what, "", text) for text in new - old)


class SubgraphComparison:
    """Compares two subgraphs."""

    def __init__(
        self,
        before: Subgraph,
        after: Subgraph,
        data: DataComparison,
        calls: Mapping[Op, Sequence[str]],
    ) -> None:
        self.matching = OpMatching(before, after)
        self._before = before
        self._after = after
        self._data = data
        self._calls = calls
        self._places = {op: i for some in (before, after) for i, op in enumerate(some.ops)}
        self._constants_seen: set[tuple[Tensor, Tensor]] = set()

    def diff(self, before_index: int, after_index: int) -> SubgraphDiff:
        before, after, known = self._before, self._after, self.matching.ops
        kept = set(known.values())
        changed = []
        for op in after.ops:
            if op in known and (changes := list(self._op_changes(known[op], op))):
                changed.append(OpChange(self._place(known[op]), self._place(op), changes))
        return SubgraphDiff(
            before_index,
            after_index,
            after.name,
            len(before.ops),
            len(after.ops),
            [self._place(op) for op in before.ops if op not in kept],
            [self._place(op) for op in after.ops if op not in known],
            changed,
            self.matching.count_moved(),
            list(self._subgraph_changes()),
        )

    def _place(self, op: Op) -> OpPlace:
        return OpPlace(self._places[op], op.name, [tensor.name for tensor in op.outputs])

    def _op_changes(self, before: Op, after: Op) -> Iterator[Change]:
        yield from attribute_changes(before.code, after.code, "version")
        yield from _table_changes("options", before.options, after.options)
        yield from _table_changes("options", before.options_2, after.options_2)
        yield from self._custom_option_changes(before, after)
        yield from attribute_changes(
            before, after,
            "custom_options_format", "mutating_variable_inputs", "debug_metadata_index",
        )  # fmt: skip
        for what, old_tensors, new_tensors in (
            ("input", before.inputs, after.inputs),
            ("intermediate", before.intermediates, after.intermediates),
        ):
            for index, (old, new) in enumerate(zip_longest(old_tensors, new_tensors)):
                yield from self._input_changes(f"{what} {index}", old, new)
            yield from value_changes(f"number of {what}s", len(old_tensors), len(new_tensors))
        for index, (written, writes) in enumerate(zip(before.outputs, after.outputs, strict=False)):
            yield from _tensor_changes(f"output {index}", written, writes)
        yield from value_changes("number of outputs", len(before.outputs), len(after.outputs))

    def _custom_option_changes(self, before: Op, after: Op) -> Iterator[Change]:
        if before in self._calls and after in self._calls:
            for what, old, new in zip(
                ("byte_code", "function"), self._calls[before], self._calls[after], strict=True
            ):
                yield from value_changes(what, old, new, str)
            return
        old_blob, new_blob = before.custom_options, after.custom_options
        if self._data.is_same(old_blob, new_blob):
            return
        old_values = find_flexbuffer_options(old_blob.view) if old_blob else None
        new_values = find_flexbuffer_options(new_blob.view) if new_blob else None
        if isinstance(old_values, Mapping) and isinstance(new_values, Mapping):
            yield from mapping_changes(old_values, new_values)
            if old_values != new_values:
                return
            # The values are equal, but compared as bytes they differ.
            yield from value_changes(
                "custom_options", old_blob, new_blob, lambda b: data_text(b.view, 0)
            )
            return
        yield from value_changes(
            "custom_options", old_blob, new_blob, lambda b: options_text(b.view)
        )

    def _input_changes(
        self, what: str, before: Tensor | None, after: Tensor | None
    ) -> Iterator[Change]:
        if before is None or after is None:
            yield from value_changes(what, before, after, self._text)
            return
        if before.is_constant != after.is_constant or not (
            before.is_constant or self.matching.is_same(before, after)
        ):
            yield Change(what, self._text(before), self._text(after))
        elif before.producer is None and after.producer is None:
            yield from self._once(before, after, what)

    def _once(self, before: Tensor, after: Tensor, what: str) -> Iterator[Change]:
        """Yields the differences of a tensor that no op writes, only for the first op that reads the tensor."""
        if (before, after) in self._constants_seen:
            return
        self._constants_seen.add((before, after))
        yield from _tensor_changes(what, before, after)
        if not self._data.is_same(before.buffer.blob, after.buffer.blob):
            yield Change(f"{what} data", constant_text(before), constant_text(after))
        old, new = before.blockwise, after.blockwise
        if old is not None and new is not None:
            for name in ("scales", "zero_points"):
                some = getattr(old, name), getattr(new, name)
                if isinstance(some[0], Tensor) and isinstance(some[1], Tensor):
                    yield from self._once(*some, f"{what} {name}")

    def _text(self, tensor: Tensor) -> str:
        """Identifies a tensor by its name and its producer, because names are not always unique."""
        name = quote(tensor.name)
        if tensor.is_constant:
            return f"{name} {constant_text(tensor)}"
        place = self._places.get(tensor.producer) if tensor.producer else None
        return name if place is None else f"{name} of op {place}"

    def _subgraph_changes(self) -> Iterator[Change]:
        before, after = self._before, self._after
        yield from attribute_changes(before, after, "name", "debug_metadata_index")
        is_same = self.matching.is_same
        for what, old, new in (
            ("inputs", before.inputs, after.inputs),
            ("outputs", before.outputs, after.outputs),
        ):
            if len(old) != len(new) or not all(map(is_same, old, new)):
                names = (", ".join(quote(tensor.name) for tensor in some) for some in (old, new))
                yield Change(what, *names)
        sources: Sequence[tuple[str, Iterable[tuple[Tensor | None, Tensor]]]] = (
            ("input", [(self.matching.tensors.get(tensor), tensor) for tensor in after.inputs]),
            ("output", zip(before.outputs, after.outputs, strict=False)),
        )
        for what, pairs in sources:
            for number, (was, now) in enumerate(pairs):
                if was is not None and was.producer is None and now.producer is None:
                    yield from self._once(was, now, f"{what} {number}")
        unused = [[quote(t.name) for t in _unused_tensors(some)] for some in (before, after)]
        yield from count_changes("unused tensor", *unused)


def _table_changes(what: str, before: Table | None, after: Table | None) -> Iterator[Change]:
    if before is None or after is None or before.type_name != after.type_name:
        yield from value_changes(
            what, before, after, lambda table: f"{table.type_name} {attribute(table)}"
        )
    elif before is not after and before != after:
        old, new = (
            dict(text.split(" = ", 1) for text in table_attributes(table))
            for table in (before, after)
        )
        yield from mapping_changes(old, new, str)


def _tensor_changes(what: str, before: Tensor, after: Tensor) -> Iterator[Change]:
    """Yields the differences between two versions of a tensor, except for their data."""
    yield from value_changes(f"{what} name", before.name, after.name)
    is_same_type = (
        before.element_type is after.element_type
        and before.shape == after.shape
        and (before.shape_signature or before.shape) == (after.shape_signature or after.shape)
        and before.sparsity == after.sparsity
        and before.variant_tensors == after.variant_tensors
        and before.blockwise is after.blockwise is None
        and before.quantization == after.quantization
    )
    if (
        not is_same_type
    ):  # if a scale is not a number, or tensors hold the scales, the text contains their names
        types = tensor_type_text(before), tensor_type_text(after)
        yield from value_changes(f"{what} type", *types, str)
    yield from value_changes(f"{what} is_variable", before.is_variable, after.is_variable)


def _unused_tensors(subgraph: Subgraph) -> Iterator[Tensor]:
    """Returns tensors that no op, input, output or block-wise quantization uses."""
    used = {*subgraph.inputs, *subgraph.outputs}
    for op in subgraph.ops:
        used.update(tensor for tensor in op.intermediates if tensor is not None)
    for tensor in subgraph.tensors:
        if tensor.blockwise is not None:
            scales = (tensor.blockwise.scales, tensor.blockwise.zero_points)
            used.update(named for named in scales if isinstance(named, Tensor))
    return (t for t in subgraph.tensors if not t.producer and not t.readers and t not in used)

"""Differences between two models, as values: ops that came, went and changed, and all else that a file says."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from litert.model.blob import Blob

_CHUNK = 1 << 20


@dataclass(frozen=True, slots=True)
class Change:
    """One thing that is not as it was.

    Attributes:
      what: `fused_activation_function`, `input 1`, `metadata "x"`.
      before, after: as in a dump; "" is nothing.
    """

    what: str
    before: str
    after: str


@dataclass(frozen=True, slots=True)
class OpPlace:
    """An op in one of the two models.

    Attributes:
      index: its position in the subgraph.
      name: custom code, or the builtin operator's name.
      outputs: names of the tensors that it writes.
    """

    index: int
    name: str
    outputs: Sequence[str]


@dataclass(frozen=True, slots=True)
class OpChange:
    """An op that is in both models, and not the same."""

    before: OpPlace
    after: OpPlace
    changes: Sequence[Change]


@dataclass(frozen=True, slots=True)
class SubgraphDiff:
    """A subgraph beside its counterpart.

    Attributes:
      before, after: its index in each model; -1 where it is not.
      name: of the subgraph.
      num_ops_before, num_ops_after: how many ops it has.
      removed, added, changed: its ops, in their order.
      num_moved: how many ops run earlier or later among those that are in both.
      changes: of its name, inputs, outputs, and of tensors that nothing uses.
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
class ModelDiff:
    """Two models beside each other.

    Attributes:
      subgraphs: all of them; most are the same.
      changes: of signatures, metadata, byte code and what else belongs to no subgraph.
      data_before, data_after: bytes of all buffers.
    """

    subgraphs: Sequence[SubgraphDiff]
    changes: Sequence[Change]
    data_before: int
    data_after: int

    @property
    def is_same(self) -> bool:
        return not self.changes and all(subgraph.is_same for subgraph in self.subgraphs)


class DataComparison:
    """Compares data, each two once."""

    def __init__(self) -> None:
        self._known: dict[tuple[Blob, Blob], bool] = {}

    def is_same(self, before: Blob | None, after: Blob | None) -> bool:
        if before is None or after is None:
            return before is after or not (
                before.size if before else 0 or after.size if after else 0
            )
        if before is after or before.size != after.size:
            return before is after
        known = self._known.get((before, after))
        if known is None:
            known = self._known[before, after] = all(
                bytes(before.view[start : start + _CHUNK])
                == bytes(after.view[start : start + _CHUNK])
                for start in range(0, before.size, _CHUNK)
            )
        return known


def value_changes(
    what: str, before: Any, after: Any, text: Callable[[Any], str]
) -> Iterator[Change]:
    """The change of one value, if it is one; None is nothing."""
    if before != after:
        yield Change(what, *("" if value is None else text(value) for value in (before, after)))


def mapping_changes(
    before: Mapping[str, Any], after: Mapping[str, Any], text: Callable[[Any], str], where: str = ""
) -> Iterator[Change]:
    """The changes of values by name; `where` is put before the names."""
    for name in dict.fromkeys([*before, *after]):
        if name not in before or name not in after or before[name] != after[name]:
            texts = [text(some[name]) if name in some else "" for some in (before, after)]
            yield Change(f"{where}{name}", texts[0], texts[1])

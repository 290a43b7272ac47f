"""Finds the ops that are the same in two versions of a subgraph, for a comparison of two versions of a model.

A file does not record where its ops come from, so this module matches ops in several steps. The first step matches
the ops of both versions in order until two ops differ. The next steps match ops of the same kind that write
tensors with the same names, ops that read the same matched tensors, and ops whose results are read by the same
matched ops. The last step matches the remaining ops between two matched ops by kind and order, if their names or
their inputs agree. Each step of the matching takes linear time.
"""

from __future__ import annotations

from bisect import bisect_left
from collections import Counter, defaultdict, deque
from collections.abc import Callable, Container, Hashable, Iterator, Mapping, Sequence

from litert.model.graph import Op, Subgraph, Tensor


class OpMatching:
    """The ops of a subgraph `after` a change, matched with the ops `before` the change.

    Attributes:
      ops: Maps each matched op after the change to the same op before the change.
      tensors: Maps tensors after the change to the same tensors before the change. The tensors are results of
        matched ops, inputs of the subgraph, and tensors that no op writes.
    """

    def __init__(self, before: Subgraph, after: Subgraph) -> None:
        self._before = before
        self._after = after
        self.ops: dict[Op, Op] = {}
        self.tensors: dict[Tensor, Tensor] = {}
        self._taken: set[Op] = set()
        self._named_before = _unique_names(before)
        self._named_after = _unique_names(after)
        self._match_inputs()
        self._match_from_the_start()
        self._match_by_names()
        self._match_by_inputs(None)
        self._match_by_inputs(1)
        self._match_by_readers()
        self._match_in_gaps()
        self._match_sources()

    def is_same(self, before: Tensor, after: Tensor) -> bool:
        """Returns whether two tensors are known to be the same tensor, because of their positions or names."""
        return self.tensors.get(after) is before or self._namesake(after) is before

    def count_moved(self) -> int:
        """Returns the least number of ops that must be moved to restore the order before the change."""
        place = {op: index for index, op in enumerate(self._before.ops)}
        places = [place[self.ops[op]] for op in self._after.ops if op in self.ops]
        ends: list[int] = []  # for each length, the smallest end of an ascending sequence
        for number in places:
            length = bisect_left(ends, number)
            ends[length : length + 1] = [number]
        return len(places) - len(ends)

    def _match_inputs(self) -> None:
        before, after = self._before.inputs, self._after.inputs
        names = [tensor.name for tensor in before]
        if len(set(names)) == len(names) and {t.name for t in after} == set(names):
            by_name = {tensor.name: tensor for tensor in before}
            self.tensors.update((tensor, by_name[tensor.name]) for tensor in after)
        else:
            self.tensors.update(zip(after, before, strict=False))

    def _match_from_the_start(self) -> None:
        first_uses: tuple[dict[Tensor, int], dict[Tensor, int]] = ({}, {})
        for before, after in zip(self._before.ops, self._after.ops, strict=False):
            if _shape(before, first_uses[0]) != _shape(after, first_uses[1]):
                return
            self._pair(before, after)

    def _match_by_names(self) -> None:
        known = {key: op for key, op in _unique_keys(self._before.ops, self._taken) if key[1]}
        for key, op in _unique_keys(self._after.ops, self.ops):
            if key in known:
                self._pair(known[key], op)

    def _match_by_inputs(self, most: int | None) -> None:
        candidates: dict[Hashable, deque[Op]] = defaultdict(deque)
        for op in self._before.ops:
            if op not in self._taken:
                candidates[_key(op, lambda tensor: tensor, most)].append(op)
        if not candidates:
            return
        for op in self._after.ops:
            if op in self.ops:
                continue
            for known in (self._namesake, self.tensors.get):
                key = _key(op, known, most)
                found = candidates.get(key) if key is not None else None
                while found and found[0] in self._taken:
                    found.popleft()
                if found:
                    self._pair(found.popleft(), op)
                    break

    def _match_by_readers(self) -> None:
        """Matches tensors that are the same input of the same op, or the same output of the subgraph."""
        for before, after in zip(self._before.outputs, self._after.outputs, strict=False):
            self._pair_producers(before, after)
        for op in reversed(self._after.ops):
            if op in self.ops:
                for before_input, after_input in zip(self.ops[op].inputs, op.inputs, strict=False):
                    self._pair_producers(before_input, after_input)

    def _pair_producers(self, before: Tensor | None, after: Tensor | None) -> None:
        if before is None or after is None or before.producer is None or after.producer is None:
            return
        old, new = before.producer, after.producer
        if (
            old not in self._taken
            and new not in self.ops
            and old.name == new.name
            and len(old.outputs) == len(new.outputs)
            and old.outputs.index(before) == new.outputs.index(after)
        ):
            self._pair(old, new)

    def _match_in_gaps(self) -> None:
        place = {op: index for index, op in enumerate(self._before.ops)}
        waiting: dict[str, deque[Op]] = defaultdict(deque)
        start = 0  # index in `before` of the op after the last known op
        for gap, anchor in self._gaps():
            end = place[self.ops[anchor]] if anchor else len(self._before.ops)
            if end < start:  # the anchor has moved
                continue
            if gap:
                waiting.clear()
                for op in self._before.ops[start:end]:
                    if op not in self._taken:
                        waiting[op.name].append(op)
                for op in gap:
                    candidates = waiting[op.name]
                    if candidates and self._may_be(candidates[0], op):
                        self._pair(candidates.popleft(), op)
            start = end + 1

    def _may_be(self, before: Op, after: Op) -> bool:
        """Returns whether two ops may be matched only by their order.

        Two ops must not be matched if their results have different names and they share no input.
        """
        names = [op.outputs[0].name if op.outputs else "" for op in (before, after)]
        if "" in names or names[0] == names[1]:
            return True
        read = [tensor for tensor in before.inputs if tensor is not None]
        return any(
            tensor is not None and self.is_same(old, tensor)
            for tensor in after.inputs
            for old in read
        )

    def _gaps(self) -> Iterator[tuple[list[Op], Op | None]]:
        """Yields sequences of unmatched ops after the change, each with the matched op after the sequence."""
        gap: list[Op] = []
        for op in self._after.ops:
            if op in self.ops:
                yield gap, op
                gap = []
            else:
                gap.append(op)
        yield gap, None

    def _match_sources(self) -> None:
        """Matches tensors that no op writes, by the positions at which matched ops read these tensors.

        Tensors that no op reads are matched by name and order.
        """
        pairs = list(zip(self._before.outputs, self._after.outputs, strict=False))
        for op, old in self.ops.items():
            for before, after in zip(old.inputs, op.inputs, strict=False):
                if before is not None and after is not None:
                    pairs.append((before, after))
        for before, after in pairs:
            if _source_kind(before) and _source_kind(before) == _source_kind(after):
                self.tensors.setdefault(after, before)
        paired = set(self.tensors.values())
        left: dict[Hashable, deque[Tensor]] = defaultdict(deque)
        for tensor in self._before.tensors:
            if tensor not in paired and _source_kind(tensor):
                left[tensor.name, _source_kind(tensor)].append(tensor)
        for tensor in self._after.tensors:
            found = left.get((tensor.name, _source_kind(tensor)))
            if found and tensor not in self.tensors:
                self.tensors[tensor] = found.popleft()

    def _pair(self, before: Op, after: Op) -> None:
        self.ops[after] = before
        self._taken.add(before)
        self.tensors.update(zip(after.outputs, before.outputs, strict=False))

    def _namesake(self, after: Tensor) -> Tensor | None:
        if self._named_after.get(after.name) is not after:
            return None
        return self._named_before.get(after.name)


def _unique_names(subgraph: Subgraph) -> Mapping[str, Tensor]:
    counts = Counter(tensor.name for tensor in subgraph.tensors)
    return {t.name: t for t in subgraph.tensors if t.name and counts[t.name] == 1}


def _shape(op: Op, first_uses: dict[Tensor, int]) -> tuple[Hashable, ...]:
    """Returns an op's kind, and its tensors numbered in the order of their first uses.

    Two ops are equal if all ops before them are equal.
    """
    numbers = [
        -1 if tensor is None else first_uses.setdefault(tensor, len(first_uses))
        for tensor in (*op.inputs, *op.outputs)
    ]
    return (op.name, len(op.outputs), *numbers, *(tensor.name for tensor in op.outputs))


def _unique_keys(ops: Sequence[Op], without: Container[Op]) -> Iterator[tuple[tuple[str, str], Op]]:
    """Maps an op's kind and the name of its first result to the op, if no other op has the same kind and name."""
    rest = [op for op in ops if op not in without]
    keys = [(op.name, op.outputs[0].name if op.outputs else "") for op in rest]
    counts = Counter(keys)
    return ((key, op) for key, op in zip(keys, rest, strict=True) if counts[key] == 1)


def _key(op: Op, known: Callable[[Tensor], Hashable], most: int | None) -> Hashable:
    """Returns an op's kind and its first `most` inputs (None for all) that are not constant."""
    read = [tensor for tensor in op.inputs if tensor is not None and not tensor.is_constant]
    inputs = [known(tensor) for tensor in read[:most]]
    return None if None in inputs or not inputs else (op.name, *inputs)


def _source_kind(tensor: Tensor) -> str:
    """Returns the kind of a tensor that no op writes; "" for a tensor that an op writes."""
    if tensor.producer is not None:
        return ""
    return "constant" if tensor.is_constant else "value"

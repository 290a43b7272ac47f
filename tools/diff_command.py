"""`litert-npu diff`: shows which ops of a model were added, removed or changed."""

from __future__ import annotations

import sys
from collections.abc import Iterator, Sequence

from litert.core.counts import count_text
from litert.model.diff import diff_models
from litert.model.dump import quote
from litert.model.reader import read_model
from litert.model.subgraph_diff import Change, ModelDiff, OpPlace, SubgraphDiff

from .command import Command
from .command_line import REPORT, FlagValues
from .console import counts_text, json_text, name_text, print_text, size_text


def _lines(diff: ModelDiff) -> Iterator[str]:
    if diff.is_same:
        yield "No difference"
        return
    if diff.data_before != diff.data_after:
        yield f"Data: {size_text(diff.data_before)} -> {size_text(diff.data_after)}"
    for subgraph in diff.subgraphs:
        if not subgraph.is_same:
            yield from _subgraph_lines(subgraph)
    yield from _change_lines(diff.changes, "")


def _subgraph_lines(diff: SubgraphDiff) -> Iterator[str]:
    index = diff.before if diff.after < 0 else diff.after
    title = f"Subgraph {index} {quote(diff.name)}"
    if diff.after < 0 or diff.before < 0:
        verb, count = (
            ("gone", diff.num_ops_before) if diff.after < 0 else ("new", diff.num_ops_after)
        )
        yield f"{title}: {verb}, with {count_text(count, 'op')}"
        return
    was = f" (was {diff.before})" if diff.before != diff.after else ""
    yield f"{title}{was}: {diff.num_ops_before} -> {count_text(diff.num_ops_after, 'op')}"
    for verb, sign, places in (("gone", "-", diff.removed), ("new", "+", diff.added)):
        if places:
            yield f"  {verb}: {counts_text(place.name for place in places)}"
            yield from (f"    {sign} {_place_text(place)}" for place in places)
    if diff.changed:
        yield f"  changed: {counts_text(change.after.name for change in diff.changed)}"
        for change in diff.changed:
            before, after = change.before, change.after
            moved = f" (was {before.index})" if before.index != after.index else ""
            yield f"    ~ {_place_text(after)}{moved}"
            yield from _change_lines(change.changes, "        ")
    if diff.num_moved:
        yield f"  moved, otherwise unchanged: {count_text(diff.num_moved, 'op')}"
    yield from _change_lines(diff.changes, "  ")


def _place_text(place: OpPlace) -> str:
    names = "".join(f" {quote(name)}" for name in place.outputs)
    return f"{place.index} {name_text(place.name)}{names}"


def _change_lines(changes: Sequence[Change], indent: str) -> Iterator[str]:
    for change in changes:
        before, after = change.before or "none", change.after or "none"
        yield f"{indent}{name_text(change.what)}: {before} -> {after}"


def _run(flags: FlagValues, arguments: Sequence[str]) -> int:
    first, second = arguments
    with read_model(first) as before, read_model(second) as after:
        diff = diff_models(before, after)
    text = json_text(diff.to_values()) if flags.report == "json" else "\n".join(_lines(diff))
    print_text(text, sys.stdout)
    return 0 if diff.is_same else 1


COMMAND = Command(
    "BEFORE AFTER\nCompares two models. The command shows ops that were added or removed, and "
    "ops with changes in options, inputs, types, quantization, or digests of constants. The "
    "command also shows differences in signatures, metadata and byte code. The exit status is "
    "0 if the models are equal, 1 if the "
    "models differ, and 2 after an error.",
    (REPORT,),
    _run,
    num_arguments=2,
)

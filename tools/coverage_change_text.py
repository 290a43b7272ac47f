"""Text about the differences between a coverage report and an earlier coverage report."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from litert.analysis.coverage_change import CoverageChange, ModelChange, OpMove
from litert.core.counts import count_text

from .console import counts_text, name_text

_MOST_NAMED = 10


def change_lines(change: CoverageChange) -> Iterator[str]:
    """Yields lines about the differences of each model."""
    versions = [f"litert-npu {change.sdk_version}"]
    if change.plugin_sdk_version:
        versions.insert(0, f"compiler {change.plugin_sdk_version}")
    vendor = f"{change.soc_manufacturer} {change.soc_model}, {', '.join(versions)}"
    yield f"Compared with {name_text(change.path)} ({name_text(vendor)}):"
    for model in change.models:
        if not model.is_same:
            yield from _model_lines(model)
    as_before = sum(model.is_same for model in change.models)
    yield f"  {count_text(as_before, 'model')} as before"
    for what, paths in (
        ("missing in the earlier report", change.new),
        ("only in the earlier report", change.missing),
    ):
        if paths:
            named = ", ".join(map(name_text, paths[:_MOST_NAMED]))
            more = f" and {len(paths) - _MOST_NAMED} more" if len(paths) > _MOST_NAMED else ""
            yield f"  {count_text(len(paths), 'model')} {what}: {named}{more}"


def _model_lines(model: ModelChange) -> Iterator[str]:
    path = name_text(model.path)
    if model.problem or model.had_problem or model.has_problem:
        yield f"  {path}: {change_text(model)}"
        return
    calls = f"{model.num_calls_before} -> {count_text(model.num_calls, 'call')}"
    yield f"  {path}: {change_text(model)}, {calls}"
    if model.left:
        yield "    left the NPU:"
        yield from _left_lines(model.left)
    if model.came:
        yield f"    moved to the NPU: {counts_text(op.name for op in model.came)}"
    for split in model.splits:
        yield f"    ops of call {name_text(split.call)} are now in {len(split.calls)} calls"


def change_text(model: ModelChange) -> str:
    """Returns a text that says whether a model has become worse, or why it cannot be compared."""
    if model.problem:
        return f"not compared: {model.problem}"
    if not (model.had_problem or model.has_problem):
        return "as before" if model.is_same else "worse" if model.is_worse else "not worse"
    if not model.had_problem:
        return "worse: the model has a problem now"
    if model.has_problem:
        return "the model has a problem, as before"
    return "the model had a problem before"


def _left_lines(moves: Sequence[OpMove]) -> Iterator[str]:
    """Yields a line for each name and reason, with the place of the first op."""
    by_reason: dict[tuple[str, str], list[OpMove]] = {}
    for move in moves:
        by_reason.setdefault((move.name, move.reason), []).append(move)
    for (name, reason), ops in by_reason.items():
        first = "the first is " if len(ops) > 1 else ""
        place = f"op {ops[0].index} of subgraph {ops[0].subgraph}" if ops[0].index >= 0 else "new"
        output = f", '{name_text(ops[0].output)}'" if ops[0].output else ""
        yield f"      {len(ops)} {name_text(name)} ({first}{place}{output}): {name_text(reason)}"

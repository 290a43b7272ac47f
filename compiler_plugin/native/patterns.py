"""Runs a native plugin's transformations: C functions that inspect one op and edit the graph with a builder.

As in stock LiteRT, each subgraph is scanned from its first op, and the pattern with the highest benefit is tried
first. After a match, the edits are applied and the scan starts again. If a C function returns any status except
Ok, the pattern does not match.
"""

from __future__ import annotations

import logging
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from compiler_plugin.native.compiler_context import CompilerContext
from compiler_plugin.native.graph_builder import GraphBuilder
from compiler_plugin.native.plugin_library import PluginLibrary
from litert.abi.definitions import ffi
from litert.core.counts import count_text
from litert.core.errors import LiteRtError
from litert.core.status import Status
from litert.host.serving import native_call
from litert.model.graph import Model, Op, Subgraph

MAX_MATCHES = 100
"""Largest number of matches in a subgraph, as in stock LiteRT, because a pattern may match its own result."""

_logger = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Pattern:
    """A transformation of a native plugin.

    Attributes:
      name: Name of the transformation in the report.
      benefit: Priority; transformations with a higher benefit are tried first.
      function: The C function, a `LiteRtPatternFn`.
    """

    name: str
    benefit: int
    function: Any


def read_patterns(library: PluginLibrary, plugin: Any) -> Sequence[Pattern]:
    """Returns the transformations of a plugin, sorted from the highest to the lowest benefit."""
    array, count = ffi.new("LiteRtTransformation**"), ffi.new("LiteRtParamIndex*")
    library.call("LiteRtCompilerPluginRegisterAllTransformations", plugin, array, count)
    patterns: list[Pattern] = []
    for index in range(count[0]):
        if not array[0] or not array[0][index].pattern or not array[0][index].name:
            part = "name" if array[0] and array[0][index].pattern else "function"
            total = count_text(count[0], "transformation")
            what = f"transformation {index} of the plugin's {total} has no {part}"
            raise library.error(what, Status.INVALID_TRANSFORMATION)
        entry = array[0][index]
        name = library.text(entry.name, f"the name of transformation {index} is")
        patterns.append(Pattern(name, entry.benefit, entry.pattern))
    return sorted(patterns, key=lambda pattern: -pattern.benefit)


def apply_patterns(
    context: CompilerContext, patterns: Sequence[Pattern], model: Model, where: str
) -> dict[str, int]:
    """Applies patterns until no pattern matches any more; returns the number of matches by pattern name.

    Raises:
      LiteRtError: INVALID_GRAPH_INVARIANT, if an edit breaks the graph; the model must then no longer be used.
    """
    matches: Counter[str] = Counter()
    for index, subgraph in enumerate(model.subgraphs if patterns else ()):
        for _ in range(MAX_MATCHES):
            name = _match_one(context, patterns, model, subgraph, where)
            if not name:
                break
            matches[name] += 1
        else:
            _logger.warning(
                "%s: the plugin's transformations of subgraph %d were stopped after %d matches, the "
                "largest allowed number",
                where,
                index,
                MAX_MATCHES,
            )
    return matches


def _match_one(
    context: CompilerContext,
    patterns: Sequence[Pattern],
    model: Model,
    subgraph: Subgraph,
    where: str,
) -> str:
    """Applies the first match, and returns the name of its pattern; "" if nothing matches."""
    pairs = ((op, pattern) for op in subgraph.ops for pattern in patterns)
    while True:
        builder = GraphBuilder(model, subgraph)
        with context.showing(subgraph):
            found = _ask_each(context, pairs, builder, where)
        if found is None:
            return ""
        op, pattern, is_match = found
        if is_match:
            _apply(builder, pattern, op, where)
            return pattern.name


def _ask_each(
    context: CompilerContext,
    pairs: Iterator[tuple[Op, Pattern]],
    builder: GraphBuilder,
    where: str,
) -> tuple[Op, Pattern, bool] | None:
    """Runs patterns until one matches or has recorded edits; None if no pattern does.

    All patterns run on handles that are created once, because creating handles is slower than running a pattern.
    """
    for op, pattern in pairs:
        with native_call(f"transformation '{pattern.name}'"):
            status = pattern.function(
                context.table,
                ffi.cast("LiteRtBuilder", context.handles.of(builder)),
                ffi.cast("LiteRtOp", context.handles.of(op)),
            )
        if status not in (Status.OK, Status.PATTERN_NO_MATCH):
            _logger.debug(
                "%s: transformation %s: status %d at %s", where, pattern.name, status, op.name
            )
        if status == Status.OK or builder.is_used:
            return op, pattern, status == Status.OK
    return None


def _apply(builder: GraphBuilder, pattern: Pattern, op: Op, where: str) -> None:
    try:
        builder.apply()
    except LiteRtError as error:
        place = f"{where}, transformation '{pattern.name}' at op {op.name}"
        raise LiteRtError(error.status, error.what, place, error.hint) from error

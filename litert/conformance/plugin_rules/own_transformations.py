"""Checks a plugin's own transformations, without applying their changes."""

from __future__ import annotations

from typing import Any

from compiler_plugin.native.graph_builder import GraphBuilder
from litert.abi.definitions import ffi
from litert.conformance.checks import BrokenRuleError, Check, Rules, Stage, UnseenError
from litert.conformance.plugin_subject import Plugin, PluginSubject, text_of
from litert.conformance.vendor_calls import expect_status
from litert.core.status import Status
from litert.model.graph import Model, Op, Subgraph

_REGISTER = "LiteRtCompilerPluginRegisterAllTransformations"
_NAME_BYTES = 123
_MANY = 10_000


def _none(subject: PluginSubject) -> None:
    with subject.plugin() as plugin:
        array, number = _read(plugin)
        if number >= _MANY:
            raise BrokenRuleError(
                f"the plugin returns {number} as the number of patterns, or does not set the number"
            )
        if number and not array:
            raise BrokenRuleError(f"the plugin returns {number} patterns, but their array is NULL")


def _lifetime(subject: PluginSubject) -> None:
    with subject.plugin() as plugin:
        array, number = _some(plugin)
        plugin.soc_models()
        for index in range(number):
            text_of(array[index].name, f"the name of pattern {index}", _NAME_BYTES)
            if not array[index].pattern:
                raise BrokenRuleError(f"pattern {index} is NULL")


def _pattern(subject: PluginSubject) -> None:
    with subject.plugin() as plugin:
        array, number = _some(plugin)
        for named in subject.each_model():
            for subgraph in named.model.subgraphs:
                for index in range(number):
                    for op in subgraph.ops:
                        _ask(subject, array[index], named.model, subgraph, op)


def _ask(subject: PluginSubject, entry: Any, model: Model, subgraph: Subgraph, op: Op) -> None:
    """Calls the function of a pattern for an op."""
    name = ffi.string(entry.name).decode()
    builder = GraphBuilder(model, subgraph)
    with subject.host.call() as handle_of:
        handle_of("LiteRtSubgraph", subgraph)
        status = subject.vendor.trace.call(
            f"pattern '{name}'",
            entry.pattern,
            subject.host.table,
            handle_of("LiteRtBuilder", builder),
            handle_of("LiteRtOp", op),
        )
    expect_status(f"pattern '{name}' at {op.name}", status, Status.OK, Status.PATTERN_NO_MATCH)
    if status and builder.is_used:
        raise BrokenRuleError(f"pattern '{name}' does not match {op.name}, but changes the graph")


def _some(plugin: Plugin) -> tuple[Any, int]:
    array, number = _read(plugin)
    if not number:
        raise UnseenError("the plugin has no transformations")
    return array, number


def _read(plugin: Plugin) -> tuple[Any, int]:
    array, number = ffi.new("LiteRtTransformation**"), ffi.new("LiteRtParamIndex*", _MANY)
    plugin.functions.succeed(_REGISTER, plugin.handle, array, number)
    return array[0], int(number[0])


_BASE = ("plugin.symbols", "create.ok", "create.again")
_READ = (*_BASE, "transformations.none")

RULES = Rules(
    Stage.TRANSFORMATIONS,
    (
        Check("transformations.none", _none, needs=_BASE),
        Check("transformations.lifetime", _lifetime, needs=_READ),
        Check("transformations.pattern", _pattern, needs=(*_READ, "transformations.lifetime")),
    ),
)

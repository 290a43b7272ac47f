"""Tests the rule `compile.shared_weights`: byte code must not store the same weights twice."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import pytest

from compiler_plugin.native.export import export_plugin
from compiler_plugin.plugin import CallInfo, CompiledResult
from litert.conformance.checks import PLUGIN_RULES, Outcome, find_checks, run_checks, select
from litert.conformance.plugin_host import PluginHost
from litert.conformance.plugin_subject import PluginSubject
from litert.conformance.vendor_calls import CallTrace, VendorFunctions
from litert.host.extensions import load_file
from litert.model.blob import Blob
from litert.model.graph import Subgraph

ONCE = Path(__file__).parents[1] / "compiler_plugin" / "once" / "LiteRtCompilerPluginOnce.py"


def all_data(partition: Subgraph) -> bytes:
    return b"".join(bytes(tensor.data) for tensor in partition.tensors if tensor.is_constant)


def module_each(soc_model: str, partitions: Sequence[Subgraph]) -> CompiledResult:
    modules = [Blob(b"code" + all_data(partition)) for partition in partitions]
    return CompiledResult(modules, [CallInfo(f"f{i}", i) for i in range(len(modules))])


def one_module(soc_model: str, partitions: Sequence[Subgraph]) -> CompiledResult:
    module = Blob(b"code" + b"".join(map(all_data, partitions)))
    return CompiledResult([module], [CallInfo(f"f{i}") for i in range(len(partitions))])


def no_weights(soc_model: str, partitions: Sequence[Subgraph]) -> CompiledResult:
    return CompiledResult([Blob(b"code")], [CallInfo(f"f{i}") for i in range(len(partitions))])


@pytest.mark.parametrize(
    ("compile_", "outcome", "text"),
    [
        (None, Outcome.PASSED, ""),
        (
            module_each,
            Outcome.FAILED,
            "MUL of large weights: two partitions with the same weights make 262,152 bytes of byte code, "
            "two partitions with different weights 262,152, and one partition 131,076",
        ),
        (one_module, Outcome.FAILED, "make 262,148 bytes"),
        (
            no_weights,
            Outcome.UNSEEN,
            "the byte code of no op grows with its weights, or no weights have 64 KiB",
        ),
    ],
    ids=["once", "in a module each", "in one module", "nowhere"],
)
def test_weights_of_two_partitions_are_counted(
    compile_: object, outcome: Outcome, text: str
) -> None:
    factory = type(load_file(str(ONCE), "PLUGIN"))()
    create = factory.create

    def create_other(*options: object) -> object:
        plugin = create(*options)
        if compile_ is not None:
            plugin.compile = compile_
        return plugin

    factory.create = create_other
    functions = VendorFunctions(export_plugin(factory), CallTrace(""), factory)
    subject = PluginSubject(lambda: functions, PluginHost(), [])
    (check,) = [c for c in find_checks(PLUGIN_RULES) if c.rule == "compile.shared_weights"]
    (_, answer) = run_checks([check], subject, {})
    assert answer["outcome"] == outcome.value and text in answer["text"], answer
    assert set(check.needs) <= {c.rule for c in select(find_checks(PLUGIN_RULES), [check.rule])}

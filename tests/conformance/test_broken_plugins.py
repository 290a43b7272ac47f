"""Tests that the checks find each rule of `compiler_plugin.h` that the broken plugin breaks, and no other."""

from __future__ import annotations

import shutil
from dataclasses import asdict
from pathlib import Path
from typing import Any

import pytest

from litert.conformance.checks import PLUGIN_RULES, Outcome, find_checks, run_checks
from litert.conformance.children import CheckOptions, check_end, run_in_children
from litert.conformance.models import custom_op_models, default_models
from litert.conformance.plugin_host import PluginHost
from litert.conformance.plugin_subject import PluginSubject, load_functions
from litert.conformance.vendor_calls import CallTrace
from tests.conformance.broken_libraries import PLUGIN, rules_of

CRASHES = {
    "create.again": "crashed (SIGSEGV",
    "create.context": "crashed (SIGSEGV",
    "create.no_options": "crashed (SIGSEGV",
    "create.slot_failure": "crashed (SIGSEGV",
    "destroy.null": "crashed (SIGSEGV",
    "exit": "ended with status 3, in LiteRtCompilerPluginCompile",
    "hang": "did not finish within 5 s, and was stopped, in LiteRtCompilerPluginCompile",
    "partition.reads_only": "crashed (SIGSEGV",
    "plugin.null_arguments": "crashed (SIGSEGV",
    "result.destroy_null": "crashed (SIGSEGV",
}
"""How the process of the check ends for each of these faults."""

FOUND_BY = {"exit": "compile.ok", "hang": "compile.ok"}
SURVIVED = [rule for rule in rules_of("plugin.c") if rule not in {*CRASHES, "plugin.ends"}]


def failures(library: Path) -> list[tuple[str, str]]:
    """Runs the checks in this process; returns the broken rules and what each finding says."""
    trace = CallTrace("")
    subject = PluginSubject(
        lambda: load_functions(str(library), trace),
        PluginHost(),
        [*custom_op_models(["Gain"]), *default_models()[:5]],
    )
    return [
        (answer["rule"], answer["text"])
        for answer in run_checks(find_checks(PLUGIN_RULES), subject, {})
        if answer.get("outcome") == Outcome.FAILED
    ]


def test_the_plugin_that_breaks_nothing_passes(broken_vendor: Path) -> None:
    assert failures(broken_vendor / PLUGIN) == []


def test_a_partition_is_found_before_a_plugin_is_made_to_compile_it(broken_vendor: Path) -> None:
    """Two plugins at once are a rule of their own, so the plugin that selects the partition is destroyed first.

    A child process that continues after a crash has no partition yet.
    """
    functions = load_functions(str(broken_vendor / PLUGIN), CallTrace(""))
    subject = PluginSubject(lambda: functions, PluginHost(), custom_op_models(["Gain"]))
    life: list[str] = []

    class Noting(CallTrace):
        def call(self, name: str, *arguments: Any) -> Any:
            life.extend([name] if name.endswith("CompilerPlugin") else [])
            return super().call(name, *arguments)

    functions.trace = Noting("")
    create, destroy = "LiteRtCreateCompilerPlugin", "LiteRtDestroyCompilerPlugin"
    with subject.compiled():
        assert life == [create, destroy, create]


@pytest.mark.parametrize("rule", SURVIVED)
def test_a_broken_rule_is_found(
    broken_vendor: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, rule: str
) -> None:
    monkeypatch.setenv("BROKEN_RULE", rule)
    library = shutil.copy(broken_vendor / PLUGIN, tmp_path)  # has its own global variables
    found = failures(Path(library))
    assert {name for name, _ in found} == {rule}


def argument(broken_vendor: Path, rule: str) -> dict[str, Any]:
    options = CheckOptions(rules=[rule])
    return {**asdict(options), "origin": str(broken_vendor / PLUGIN), "manufacturer": "Broken"}


@pytest.mark.parametrize("rule", CRASHES)
def test_a_crash_a_hang_and_an_exit_are_findings(
    broken_vendor: Path, monkeypatch: pytest.MonkeyPatch, rule: str
) -> None:
    monkeypatch.setenv("BROKEN_RULE", rule)
    findings = run_in_children(
        "litert.conformance.checking:check_plugin",
        argument(broken_vendor, FOUND_BY.get(rule, rule)),
        timeout_s=5 if rule == "hang" else 60,
        subject="the plugin",
    )
    broken = [finding for finding in findings if finding.outcome is Outcome.FAILED]
    assert {finding.rule for finding in broken} == {FOUND_BY.get(rule, rule)}
    assert broken[0].text.startswith(CRASHES[rule])


def test_a_crash_at_the_process_s_end_is_a_finding(
    broken_vendor: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    target = "litert.conformance.checking:check_plugin"
    asked = argument(broken_vendor, "compile.ok")
    found = {}
    for broken in ("", "plugin.ends", "create.again"):
        monkeypatch.setenv("BROKEN_RULE", broken)
        found[broken] = check_end("plugin.ends", target, asked, timeout_s=60, subject="the plugin")
    assert found[""].outcome is Outcome.PASSED
    assert found["create.again"].outcome is Outcome.UNSEEN  # the process crashes before its end
    assert found["plugin.ends"].outcome is Outcome.FAILED
    assert found["plugin.ends"].text.startswith("at its end, the process crashed (SIGSEGV")

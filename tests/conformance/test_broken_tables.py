"""Tests that the checks find each rule of `dispatch.h` that the broken library breaks, and report no other."""

from __future__ import annotations

import shutil
from dataclasses import asdict
from pathlib import Path
from typing import Any

import pytest

from litert.conformance.case_files import write_cases
from litert.conformance.checking import check_dispatch
from litert.conformance.checks import Outcome
from litert.conformance.children import CheckOptions, check_end, run_in_children
from litert.conformance.expected import add_expected
from litert.conformance.models import custom_op_models, default_models
from litert.conformance.plugin_host import PluginHost
from litert.conformance.plugin_subject import PluginSubject, load_functions
from litert.conformance.vendor_calls import CallTrace
from tests.conformance.broken_libraries import DISPATCH, PLUGIN, rules_of

CRASHES = {
    "api.null": "crashed (SIGSEGV",
    "buffers.size": "crashed (SIG",
    "dispatch.null_arguments": "crashed (SIGSEGV",
    "initialize.no_options": "crashed (SIGSEGV",
    "invoke.missing": "crashed (SIGSEGV",
}
"""How the process of the check ends for each of these faults."""

FOUND_BY = {
    "invocation.aligned": "invocation.byte_code",
    "invocation.offset": "invocation.byte_code",
    "invoke.detached": "invoke.missing",
    "taps.model": "taps.types",
    "register_asset.early": "register_asset.many",
    "register_asset.first": "register_asset.again",
}
SURVIVED = [rule for rule in rules_of("dispatch.c") if rule not in {*CRASHES, "dispatch.ends"}]


@pytest.fixture(scope="session")
def argument(broken_vendor: Path, tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    """The checks' argument, with byte code from the broken vendor's plugin, which breaks no rule here."""
    trace = CallTrace("")
    subject = PluginSubject(
        lambda: load_functions(str(broken_vendor / PLUGIN), trace),
        PluginHost(),
        [*custom_op_models(["Gain"]), *default_models()[:5]],
    )
    cases = [c for c in write_cases(subject, str(tmp_path_factory.mktemp("cases"))) if "model" in c]
    for case in cases:
        add_expected(case, {})
    assert [case["name"] for case in cases] == ["Gain", "MUL", "MUL, one input"]
    return {
        **asdict(CheckOptions(assets=[("Gain", str(broken_vendor / "gain.txt"))])),
        "origin": str(broken_vendor / DISPATCH),
        "manufacturer": "Broken",
        "cases": cases,
        "stopped": "",
        "trace": "",
        "done": {},
    }


def failures(argument: dict[str, Any], **others: object) -> list[tuple[str, str]]:
    """Runs the checks in this process; returns the broken rules and what each finding says."""
    return [
        (answer["rule"], answer["text"])
        for answer in check_dispatch({**argument, **others})
        if answer.get("outcome") == Outcome.FAILED
    ]


def test_the_table_that_breaks_nothing_passes(argument: dict[str, Any]) -> None:
    assert failures(argument) == []


@pytest.mark.parametrize("rule", SURVIVED)
def test_a_broken_rule_is_found(
    argument: dict[str, Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch, rule: str
) -> None:
    monkeypatch.setenv("BROKEN_RULE", rule)
    library = shutil.copy(argument["origin"], tmp_path)  # has its own global variables
    found = failures(argument, origin=str(library))
    assert {name for name, _ in found} == {FOUND_BY.get(rule, rule)}


def test_how_far_floats_may_be_away_is_the_users_to_say(
    argument: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("BROKEN_RULE", "invoke.values")  # the outputs are half as large again
    ((_, text),) = failures(argument, rules=["invoke.values"])
    assert text.startswith("output 0: element ")
    assert text.endswith(" on the CPU: 0.5 of the magnitude away, where 0.01 may be")
    assert failures(argument, rules=["invoke.values"], tolerance=0.51) == []


@pytest.mark.parametrize("rule", CRASHES)
def test_a_crash_is_a_finding(
    argument: dict[str, Any], monkeypatch: pytest.MonkeyPatch, rule: str
) -> None:
    monkeypatch.setenv("BROKEN_RULE", rule)
    findings = run_in_children(
        "litert.conformance.checking:check_dispatch",
        {**argument, "rules": [rule]},
        timeout_s=60,
        subject="the library",
    )
    broken = [finding for finding in findings if finding.outcome is Outcome.FAILED]
    assert {finding.rule for finding in broken} == {rule}
    assert broken[0].text.startswith(CRASHES[rule])


def test_another_exit_status_is_a_finding(
    argument: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("BROKEN_RULE", "dispatch.ends")
    target = "litert.conformance.checking:check_dispatch"
    asked = {**argument, "rules": ["dispatch.runs"]}
    found = check_end("dispatch.ends", target, asked, timeout_s=60, subject="the library")
    assert (found.outcome, found.text) == (
        Outcome.FAILED,
        "at its end, the process ended with status 7",
    )


@pytest.mark.parametrize(
    ("table", "rule"),
    [
        ("TABLE", ""),
        ("NOTHING_WRITTEN", "invoke.written"),
        ("ONE_SCRATCH", "invoke.threads"),
        ("OWN_MEMORY", ""),
        ("ASYNCHRONOUS", ""),
        ("EARLY_EVENT", "async.events"),
    ],
    ids=lambda value: value,
)
def test_a_rule_that_a_table_in_python_breaks_is_found(
    argument: dict[str, Any], table: str, rule: str
) -> None:
    cases = [case for case in argument["cases"] if case["name"] != "Gain"]
    origin = f"tests.broken_vendors.python_tables:{table}"
    found = failures(argument, cases=cases, assets=[], origin=origin)
    assert {name for name, _ in found} == ({rule} if rule else set())


def test_a_finding_has_the_words_of_a_vendor_in_python(argument: dict[str, Any]) -> None:
    origin = "tests.broken_vendors.python_tables:ASLEEP"
    cases = [case for case in argument["cases"] if case["name"] != "Gain"]
    found = failures(argument, cases=cases, assets=[], origin=origin, rules=["dispatch.runs"])
    assert [name for name, _ in found] == ["dispatch.runs"]
    assert "invoke returns TIMEOUT_EXPIRED: Broken, invoke: " in found[0][1]
    assert "the NPU sleeps" in found[0][1]


@pytest.mark.parametrize(
    ("table", "rule", "text"),
    [
        (
            "SHARED_MEMORY",
            "memory.lock",
            "memory has lost bytes that the host wrote during an earlier lock",
        ),
        ("FORGETFUL_MEMORY", "memory.lock", "memory has lost bytes that the host wrote"),
        ("MEMORY_OF_THE_DEVICE", "memory.ends", "destroy_func returns RUNTIME_FAILURE"),
    ],
    ids=lambda value: value,
)
def test_memory_of_a_table_s_own_that_breaks_a_rule_is_found(
    argument: dict[str, Any], table: str, rule: str, text: str
) -> None:
    cases = [case for case in argument["cases"] if case["name"] != "Gain"]
    origin = f"tests.broken_vendors.python_tables:{table}"
    found = failures(argument, cases=cases, assets=[], origin=origin, rules=[rule])
    assert [name for name, _ in found] == [rule] and text in found[0][1]

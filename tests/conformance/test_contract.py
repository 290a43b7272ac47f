"""Tests that the checks and the contract in the headers have the same rules."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest
from litert_npu_tools.vendor.check_report import (
    NOT_CHECKABLE,
    CheckedLibrary,
    ConformanceReport,
    with_recommendations,
)
from litert_npu_tools.vendor.conformance import END_RULES

from litert.abi.headers import read_contract
from litert.conformance import plugin_rules
from litert.conformance.checks import (
    DISPATCH_RULES,
    PLUGIN_RULES,
    BrokenRuleError,
    Check,
    find_checks,
    load_rules,
    read_finding,
    read_rules,
    run_checks,
    select,
)

PLUGIN_CHECKS, DISPATCH_CHECKS = find_checks(PLUGIN_RULES), find_checks(DISPATCH_RULES)


def test_each_rule_is_checked_or_said_not_to_be() -> None:
    checked = {check.rule for check in (*PLUGIN_CHECKS, *DISPATCH_CHECKS)} | {*END_RULES}
    assert checked | NOT_CHECKABLE.keys() == read_contract().keys() == read_rules().keys()
    assert not checked & NOT_CHECKABLE.keys() and all(NOT_CHECKABLE.values())


_NEW_RULE = '''
"""Checks of plugins that take their time."""
from litert.conformance.checks import BrokenRuleError, Check, Rules, Stage

def _quick(subject):
    raise BrokenRuleError(f"it takes {subject} s")

RULES = Rules(
    Stage.VARIATIONS,
    [Check("create.quick", _quick)],
    {"create.quick": "Recommended: a plugin is made within a second."},
)
'''


def test_a_new_rule_is_one_new_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    before = find_checks(PLUGIN_RULES)
    (tmp_path / "speed.py").write_text(_NEW_RULE)
    monkeypatch.setattr(plugin_rules, "__path__", [*plugin_rules.__path__, str(tmp_path)])
    load_rules.cache_clear()
    try:
        checks, contract = find_checks(PLUGIN_RULES), read_rules()
    finally:
        load_rules.cache_clear()
        sys.modules.pop(f"{PLUGIN_RULES}.speed", None)
    (new,) = [check for check in checks if check.key == "create.quick"]
    assert [check for check in checks if check is not new] == before
    assert checks[checks.index(new) + 1].rule == "plugin.null_arguments"  # new runs in its stage
    (_, answer) = run_checks(select(checks, ["create.quick"]), 7, {})
    findings = with_recommendations([read_finding(answer)], contract, strict=False)
    part = CheckedLibrary("compiler plugin", "there", findings)
    assert ConformanceReport("Slow", [part], contract).to_text().splitlines()[:4] == [
        "Slow, compiler plugin: there",
        "  note    create.quick",
        "          litert.conformance.plugin_rules: Recommended: a plugin is made within a second.",
        "          - it takes 7 s",
    ]


def test_no_two_checks_have_one_key_and_all_need_earlier_ones() -> None:
    for checks in (PLUGIN_CHECKS, DISPATCH_CHECKS):
        before: set[str] = set()
        for check in checks:
            assert check.key not in before and set(check.needs) <= before, check.key
            before |= {check.key, check.rule}


def test_a_rule_brings_what_it_needs() -> None:
    keys = [check.key for check in select(DISPATCH_CHECKS, ["ids.text"])]
    assert keys == ["api.loads", "api.interface", "initialize.no_options", "ids.text"]
    assert select(DISPATCH_CHECKS, ()) == list(DISPATCH_CHECKS)


def test_what_a_broken_rule_makes_meaningless_is_not_looked_at() -> None:
    def fail(subject: None) -> None:
        raise BrokenRuleError("it did")

    def never(subject: None) -> None:
        raise AssertionError("it was run")

    checks = [
        Check("a.first", fail),
        Check("b.second", never, needs=("a.first",)),
        Check("c.third", never, needs=("b.second",)),
    ]
    texts = {answer.get("rule"): answer.get("text") for answer in run_checks(checks, None, {})}
    reason = "needs a.first, which is broken"
    assert texts == {None: None, "a.first": "it did", "b.second": reason, "c.third": reason}
    # A process that starts after a crash skips the check, too.
    done = {"a.first": "failed", "b.second": "unseen"}
    (_, last) = run_checks(checks, None, done)
    assert last["text"] == reason
    (_, last) = run_checks(checks[:1], None, {}, "3 checks hung")
    assert (last["outcome"], last["text"]) == ("unseen", "3 checks hung")

"""The checks and the contract in the headers are about the same rules."""

from __future__ import annotations

from litert_npu_tools.vendor.check_report import NOT_CHECKABLE
from litert_npu_tools.vendor.conformance import END_RULES

from compiler_plugin.conformance.checks import CHECKS as PLUGIN_CHECKS
from dispatch.conformance.checks import CHECKS as DISPATCH_CHECKS
from litert.abi.conformance.checks import BrokenRuleError, Check, run_checks, select
from litert.abi.headers import read_contract


def test_each_rule_is_checked_or_said_not_to_be() -> None:
    checked = {check.rule for check in (*PLUGIN_CHECKS, *DISPATCH_CHECKS)} | {*END_RULES}
    assert checked | NOT_CHECKABLE.keys() == read_contract().keys()
    assert not checked & NOT_CHECKABLE.keys() and all(NOT_CHECKABLE.values())


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
    # In a process that begins after a crash, too.
    done = {"a.first": "failed", "b.second": "unseen"}
    (_, last) = run_checks(checks, None, done)
    assert last["text"] == reason
    (_, last) = run_checks(checks[:1], None, {}, "3 checks hung")
    assert (last["outcome"], last["text"]) == ("unseen", "3 checks hung")

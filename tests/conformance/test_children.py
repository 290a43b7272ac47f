"""Tests checks in child processes: if a process crashes between two checks, only one finding is affected."""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator, Mapping

from litert.conformance.checks import Check, Outcome, run_checks
from litert.conformance.children import mark_begins, run_in_children


def crash_between(argument: Mapping[str, dict[str, str]]) -> Iterator[Mapping[str, str]]:
    """Runs three checks; after the second, the process crashes."""
    checks: list[Check[None]] = [
        Check(f"a.{name}", lambda subject: None) for name in ("first", "second", "third")
    ]
    for answer in mark_begins(run_checks(checks, None, argument["done"])):
        yield answer
        if answer.get("rule") == "a.second":
            os.kill(os.getpid(), signal.SIGSEGV)


def test_a_process_that_ends_between_two_checks_leaves_the_report_whole() -> None:
    target = f"{__name__}:crash_between"
    findings = run_in_children(target, {}, timeout_s=20, subject="the library")
    assert [(f.rule, f.outcome) for f in findings] == [
        ("a.first", Outcome.PASSED),
        ("a.second", Outcome.FAILED),
        ("a.third", Outcome.PASSED),
    ]
    assert findings[1].text.startswith("crashed (SIGSEGV")
    assert findings[1].text.endswith(", after the check had ended")

"""Runs checks in child processes: one that crashes, hangs or exits is a finding, and the next run in another."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Mapping
from dataclasses import replace

from litert.abi.conformance.call_trace import read_trace
from litert.abi.conformance.check_prints import CheckPrints
from litert.abi.conformance.checks import Finding, Outcome
from litert.core.errors import LiteRtError
from litert.core.status import Status
from litert.host.child import call_in_child

_MAX_HANGS = 3
_STOPPED = f"{_MAX_HANGS} checks hung"


def run_in_children(
    target: str, argument: Mapping[str, object], *, timeout_s: float, subject: str
) -> list[Finding]:
    """Runs all checks of a target.

    Args:
      target: a generator function, `package.module:function`, that yields what
        `litert.abi.conformance.checks.run_checks` does; its argument has `done`, `stopped` and
        `trace` besides.
      argument: as JSON has it.
      timeout_s: for each check.
      subject: whose checks they are, for messages.

    Returns:
      A finding for each check; after a few that hang, no other is run.

    Raises:
      LiteRtError: what keeps a child from beginning at all.
    """
    findings: list[Finding] = []
    hangs = 0
    with tempfile.TemporaryDirectory() as folder:
        trace = os.path.join(folder, "trace")
        while True:
            begun, prints = "", CheckPrints()
            before = len(findings)
            done = {finding.key: finding.outcome.value for finding in findings}
            child = call_in_child(
                target,
                {
                    **argument,
                    "done": done,
                    "trace": trace,
                    "stopped": _STOPPED if hangs == _MAX_HANGS else "",
                },
                timeout_s=timeout_s,
                subject=subject,
                hear=prints.add,
                is_for_each=True,
            )
            try:
                for answer in child:
                    assert isinstance(answer, dict)
                    begun = answer.get("begin", "")
                    if not begun:
                        findings.append(_finding(answer))
                return _with_prints(findings, before, prints)
            except LiteRtError as error:
                if not begun or error.status is Status.UNKNOWN:  # a defect of the checks themselves
                    raise
                rule, _, case = begun.partition(" (")
                text = error.what.removeprefix(subject).strip()
                function = read_trace(trace)
                if function and not case.startswith(function):
                    text += f", in {function}"
                findings.append(Finding(rule, case.removesuffix(")"), Outcome.FAILED, text))
                hangs += error.status is Status.TIMEOUT_EXPIRED
                findings = _with_prints(findings, before, prints)


def check_end(
    rule: str, target: str, argument: Mapping[str, object], *, timeout_s: float, subject: str
) -> Finding:
    """Looks at the end of a process that has used the vendor and released all.

    Args:
      rule: that the finding is of.
      target: as for `run_in_children`.
      argument: whose `rules` are what the process does.
      timeout_s: for each check, and for the end.
      subject: as for `run_in_children`.
    """
    is_doing, prints = False, CheckPrints()
    last = ""
    try:
        for answer in call_in_child(
            target,
            {**argument, "done": {}, "trace": "", "stopped": ""},
            timeout_s=timeout_s,
            subject=subject,
            hear=prints.add,
            is_for_each=True,
            must_end_well=True,
        ):
            assert isinstance(answer, dict)
            is_doing = "begin" in answer
            last = answer.get("begin", last)
            if answer.get("outcome") == Outcome.FAILED:
                return Finding(rule, "", Outcome.UNSEEN, f"needs {answer['rule']}, which is broken")
    except LiteRtError as error:
        if is_doing:
            return Finding(rule, "", Outcome.UNSEEN, "the process does not come to its end")
        text = error.what.removeprefix(subject).strip()
        text = f"at its end, the process {text}"
        return Finding(rule, "", Outcome.FAILED, text, prints.of(last))
    return Finding(rule, "", Outcome.PASSED)


def _with_prints(findings: list[Finding], first: int, prints: CheckPrints) -> list[Finding]:
    """The findings, from the first of the process that printed on with what it printed in those that failed."""
    said = [
        replace(found, printed=prints.of(found.key)) if found.outcome is Outcome.FAILED else found
        for found in findings[first:]
    ]
    return [*findings[:first], *said]


def _finding(answer: Mapping[str, str]) -> Finding:
    return Finding(answer["rule"], answer["case"], Outcome(answer["outcome"]), answer["text"])
